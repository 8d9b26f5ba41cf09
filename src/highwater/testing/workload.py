"""Real clients at work while a cluster is broken: writers and a reader that tell a history what they did and saw."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

from highwater.testing.idempotent_promises import TELLS_OF_EPOCHS, IdempotentPromises
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until
from highwater_history.checks import check
from highwater_history.history import ALL, Drain, History, Place, Poll, Send

if TYPE_CHECKING:
    from types import TracebackType

    from confluent_kafka import KafkaError, Message

    from highwater_history.violation import Violation

READER: Final = "reader"
_WRITERS: Final = 2
_PAUSE_SECONDS: Final = 0.002
_PRODUCER: Final = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 2,
    "message.timeout.ms": 300_000,
    "socket.timeout.ms": 3_000,
    "reconnect.backoff.max.ms": 500,
    **TELLS_OF_EPOCHS,
}


class Workload:
    """Two idempotent writers with acks=all and a reader that follows them, on all partitions of one topic."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int) -> None:
        self._servers = bootstrap_servers
        self._places = [Place(topic, index) for index in range(partitions)]
        self.history = History()
        self._acknowledged: Counter[str] = Counter()
        self._seen: defaultdict[Place, set[int]] = defaultdict(set)
        self.failures: list[str] = []
        """What clients were told that they should not have been."""
        self.begun_anew: list[str] = []
        """What clients said when they gave up a producer epoch of their own accord."""
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(f"writer-{n}",)) for n in range(_WRITERS)]
        self._reading = threading.Thread(target=self._read)
        self._stop_reading = threading.Event()

    def __enter__(self) -> Self:
        for thread in (*self._threads, self._reading):
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._stop_reading.set()
        for thread in (*self._threads, self._reading):
            thread.join()

    @property
    def acknowledged(self) -> int:
        """How many writes were promised so far."""
        return self._acknowledged.total()

    def go_on(self, count: int = 100) -> None:
        """Return when more writes are acknowledged: the cluster takes them."""
        enough = self.acknowledged + count
        wait_until(lambda: self.acknowledged >= enough, f"{count} more acknowledged writes")

    def finish(self) -> list[Violation]:
        """Stop writing, let the reader have everything, and return what is wrong with the history."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        drains = self._drain()
        wait_until(lambda: self._has_read(drains) or bool(self.failures), "the reader has everything")
        self._stop_reading.set()
        self._reading.join()
        for drain in drains:
            self.history.add(drain)
        return check(self.history)

    def _has_read(self, drains: list[Drain]) -> bool:
        return all({offset for offset, _ in drain.records} <= self._seen[drain.place] for drain in drains)

    def _drain(self) -> list[Drain]:
        """Return what every partition holds; nothing here is transactional, so all of it is committed."""
        drains: list[Drain] = []
        consumer = self._consumer()
        try:
            for place in self._places:
                end = _end(consumer, place)
                consumer.assign([TopicPartition(*place, OFFSET_BEGINNING)])
                deadline = time.monotonic() + PATIENCE_SECONDS
                records: list[tuple[int, str]] = []
                while (records[-1][0] if records else -1) < end - 1:
                    assert time.monotonic() < deadline, f"{place} ends at {records[-1:]} of {end}"
                    records += [_record(message) for message in consumer.consume(500, 0.1) if message.error() is None]
                drains.append(Drain(time.monotonic(), place, records, records, end, stable_end=end))
        finally:
            consumer.close()
        return drains

    def _consumer(self) -> Consumer:
        settings = {
            "bootstrap.servers": self._servers,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "socket.timeout.ms": 3_000,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
        return Consumer(settings)

    # Threads --------------------------------------------------------------------------------------------------------

    def _write(self, writer: str) -> None:
        promises = IdempotentPromises(writer)
        producer = Producer({**_PRODUCER, "bootstrap.servers": self._servers}, logger=promises)

        def delivered(send: Send, error: KafkaError | None, message: Message) -> None:
            promises.has_ended(send)
            if error is not None:
                self.failures.append(f"{writer}: {error}")
                return
            send.outcome, send.offset, send.done_at = "ok", _record(message)[0], time.monotonic()
            self._acknowledged[writer] += 1

        number = 0
        while not self._stop.is_set():
            place, value = self._places[number % len(self._places)], f"{writer}:{number}"
            send = Send(writer, time.monotonic(), place, value, acks=ALL, is_idempotent=True)
            try:
                producer.produce(
                    place.topic, value.encode(), partition=place.partition, on_delivery=partial(delivered, send)
                )
            except BufferError:  # nothing is acknowledged for long: write no more until something is
                producer.poll(_PAUSE_SECONDS)
                continue
            promises.has_begun(send)
            self.history.add(send)
            number += 1
            producer.poll(0)
            time.sleep(_PAUSE_SECONDS)
        if producer.flush(PATIENCE_SECONDS):
            self.failures.append(f"{writer}: {len(producer)} writes have no outcome")
        self.failures += promises.broken_by_brokers
        self.begun_anew += promises.broken_by_itself

    def _read(self) -> None:
        consumer = self._consumer()
        consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in self._places])
        while not self._stop_reading.is_set():
            came: defaultdict[Place, list[tuple[int, str]]] = defaultdict(list)
            for message in consumer.consume(500, 0.1):
                error, topic, index = message.error(), message.topic(), message.partition()
                if error is None and topic is not None and index is not None:
                    came[Place(topic, index)].append(_record(message))
                elif error is not None and not error.retriable():
                    self.failures.append(f"{READER}: {error}")
            for place, records in came.items():
                self.history.add(Poll(READER, time.monotonic(), place, records[0][0], records, high_watermark=-1))
                self._seen[place] |= {offset for offset, _ in records}
        consumer.close()


def _end(consumer: Consumer, place: Place) -> int:
    """Return where a partition ends; asked again while its leader changes."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(*place), timeout=PATIENCE_SECONDS)[1])
        except KafkaException:  # librdkafka does not say of a leader that has moved that one may ask again
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_SECONDS)


def _record(message: Message) -> tuple[int, str]:
    offset, value = message.offset(), message.value()
    assert offset is not None
    assert value is not None
    return offset, value.decode()
