"""Reading a topic until its end, up to a number of records, or for ever: what `consume` and `perf consume` share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

from highwater.cli.failures import LOST, CommandFailed, meaning
from highwater.cli.output import say
from highwater.cli.positions import Position, offsets_at, spans

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

    from highwater.cli.cluster import Cluster

POLL_SECONDS: Final = 0.2
COMMITTED_TIMEOUT_SECONDS: Final = 10


class Reader:
    """A consumer that knows when it is done. Close it, or use it in a `with` block."""

    def __init__(self, cluster: Cluster, settings: Mapping[str, Any], *, follow: bool, limit: int | None) -> None:
        self._cluster = cluster
        self._settings = {"enable.partition.eof": True, "error_cb": self._on_client_error, **settings}
        self._follow = follow
        self._left = limit
        self._connection_lost = False
        self._unfinished: set[int] | None = None  # partitions not read to the end yet; None: not known yet
        self._consumer: Consumer

    def assign(self, topic: str, partitions: list[int], start: Position) -> Self:
        """Read given partitions from a position; nothing is committed."""
        from confluent_kafka import TopicPartition

        held = spans(self._cluster, topic, partitions)
        begin = offsets_at(self._cluster, start, topic, held)
        self._unfinished = {partition for partition in partitions if begin[partition] < held[partition].latest}
        self._consumer = self._cluster.consumer(self._settings)
        self._consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in begin.items()])
        return self

    def join(self, topic: str, group: str, start: Position) -> Self:
        """Read as a member of a group; `start` is for partitions where the group has no offset yet."""
        fresh = offsets_at(self._cluster, start, topic, spans(self._cluster, topic, self._cluster.partitions_of(topic)))

        def on_assign(consumer: Consumer, assigned: list[TopicPartition]) -> None:
            places = consumer.committed(assigned, timeout=COMMITTED_TIMEOUT_SECONDS)
            for place in places:
                if place.offset < 0:
                    place.offset = fresh.get(place.partition, 0)
            consumer.assign(places)
            self._unfinished = {place.partition for place in places}

        options = {"group.id": group, "enable.auto.commit": True, "auto.offset.reset": "earliest"}
        self._consumer = self._cluster.consumer({**options, **self._settings})
        self._consumer.subscribe([topic], on_assign=on_assign)
        return self

    def batches(self, at_most: int) -> Iterator[list[Message]]:
        """Yield what arrives, an empty list when nothing did, until there is nothing more to do."""
        while not self._is_done():
            arrived = self._arrived(at_most if self._left is None else min(at_most, self._left))
            batch = [message for message in arrived if message.error() is None or not self._is_handled(message)]
            if self._left is not None:
                self._left -= len(batch)
            yield batch
            if self._connection_lost and not self._follow:
                raise CommandFailed(LOST)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()  # leaves the group, if any, with what was read committed

    def _arrived(self, at_most: int) -> list[Message]:
        """Wait for one record, then take those that came with it: `consume` alone would wait for all of `at_most`."""
        first = self._consumer.poll(POLL_SECONDS)
        if first is None:
            return []
        return [first, *(self._consumer.consume(at_most - 1, 0) if at_most > 1 else ())]

    def _is_done(self) -> bool:
        return self._left == 0 or (not self._follow and self._unfinished == set())

    def _is_handled(self, message: Message) -> bool:
        error = message.error()
        assert error is not None
        if error.name() != "_PARTITION_EOF":
            raise CommandFailed(meaning(error))
        if self._unfinished is not None:
            self._unfinished.discard(message.partition() or 0)
        return True

    def _on_client_error(self, error: KafkaError) -> None:
        if error.name() == "_ALL_BROKERS_DOWN" and not self._connection_lost:
            self._connection_lost = True
            if self._follow:
                say("the connection to the broker was lost; waiting for it to come back (Ctrl-C ends)")
