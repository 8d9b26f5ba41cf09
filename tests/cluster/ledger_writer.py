"""A producer that writes one transaction after another, over several partitions and a group's offsets."""

import threading
from collections.abc import Callable
from functools import partial

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from highwater.testing.waiting import PATIENCE_SECONDS, wait_until

PARTITIONS = 3


def until_done(step: Callable[[float], None]) -> None:
    """Take a step as often as librdkafka says that it may be taken again."""
    while True:
        try:
            step(PATIENCE_SECONDS)
        except KafkaException as failure:
            if not failure.args[0].retriable():
                raise
        else:
            return


class Writer:
    """Writes one number to every partition and commits it as an offset, in one transaction after another."""

    def __init__(
        self, make: Callable[[str], Producer], consumer: Consumer, topic: str, transactional_id: str = "ledger"
    ) -> None:
        self._make = partial(make, transactional_id)
        self._consumer = consumer
        self._topic = topic
        self.committed: list[int] = []
        self.unknown: set[int] = set()
        self.failure: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            producer = self._make()
            number = 0
            while not self._stop.is_set():
                try:
                    self._transaction(producer, number)
                except KafkaException as failure:
                    error: KafkaError = failure.args[0]
                    if error.fatal():
                        self.unknown.add(number)
                        producer = self._make()
                    else:
                        assert error.txn_requires_abort(), error
                        until_done(producer.abort_transaction)
                number += 1
        except BaseException as failure:  # noqa: BLE001 - the test's own thread raises it
            self.failure = failure

    def _transaction(self, producer: Producer, number: int) -> None:
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(self._topic, str(number).encode(), partition=partition)
        offsets = [TopicPartition(self._topic, 0, number + 1)]
        metadata = self._consumer.consumer_group_metadata()
        until_done(lambda patience: producer.send_offsets_to_transaction(offsets, metadata, patience))
        if number % 4 == 3:
            until_done(producer.abort_transaction)
        else:
            until_done(producer.commit_transaction)
            self.committed.append(number)

    def go_on(self, count: int = 10) -> None:
        """Wait until more is committed."""
        enough = len(self.committed) + count
        wait_until(lambda: self.failure is not None or len(self.committed) >= enough, "more is committed")
        self.check()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self.check()

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure
