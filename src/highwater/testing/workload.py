"""Real clients at work while a cluster is broken: writers and a reader that tell a history what they did and saw."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

from highwater.testing.history import History
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from types import TracebackType

    from confluent_kafka import KafkaError, Message

    from highwater.testing.history import Anomaly, Partition

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
    "log_level": 0,
}


class Workload:
    """Two idempotent writers with acks=all and a reader that follows them, on all partitions of one topic."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int) -> None:
        self._servers = bootstrap_servers
        self._partitions: list[Partition] = [(topic, index) for index in range(partitions)]
        self.history = History()
        self.failures: list[str] = []
        """What clients were told that they should not have been."""
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

    def go_on(self, count: int = 100) -> None:
        """Return when more writes are acknowledged: the cluster takes them."""
        enough = self.history.acknowledged_count + count
        wait_until(lambda: self.history.acknowledged_count >= enough, f"{count} more acknowledged writes")

    def finish(self) -> list[Anomaly]:
        """Stop writing, let the reader have everything, and return what is wrong with the history."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        logs = self.read_all()
        wait_until(lambda: self.history.unseen(READER, logs) == 0 or bool(self.failures), "the reader has everything")
        self._stop_reading.set()
        self._reading.join()
        return self.history.anomalies(logs)

    def read_all(self) -> dict[Partition, dict[int, bytes]]:
        """Return what every partition holds, by offset."""
        logs: dict[Partition, dict[int, bytes]] = {partition: {} for partition in self._partitions}
        consumer = self._consumer()
        try:
            for partition, log in logs.items():
                end = _end(consumer, partition)
                consumer.assign([TopicPartition(*partition, OFFSET_BEGINNING)])
                deadline = time.monotonic() + PATIENCE_SECONDS
                while max(log, default=-1) < end - 1:
                    assert time.monotonic() < deadline, f"{partition} ends at {max(log, default=-1)} of {end}"
                    log.update(_place(message) for message in consumer.consume(500, 0.1) if message.error() is None)
        finally:
            consumer.close()
        return logs

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
        producer = Producer({**_PRODUCER, "bootstrap.servers": self._servers})

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.failures.append(f"{writer}: {error}")
                return
            topic, index = message.topic(), message.partition()
            assert topic is not None
            assert index is not None
            offset, value = _place(message)
            self.history.acknowledged((topic, index), value, offset)

        number = 0
        while not self._stop.is_set():
            partition, value = self._partitions[number % len(self._partitions)], f"{writer}:{number}".encode()
            try:
                producer.produce(partition[0], value, partition=partition[1], on_delivery=delivered)
            except BufferError:  # nothing is acknowledged for long: write no more until something is
                producer.poll(_PAUSE_SECONDS)
                continue
            self.history.sent(writer, partition, value)
            number += 1
            producer.poll(0)
            time.sleep(_PAUSE_SECONDS)
        if producer.flush(PATIENCE_SECONDS):
            self.failures.append(f"{writer}: {len(producer)} writes have no outcome")

    def _read(self) -> None:
        consumer = self._consumer()
        consumer.assign([TopicPartition(*partition, OFFSET_BEGINNING) for partition in self._partitions])
        while not self._stop_reading.is_set():
            for message in consumer.consume(500, 0.1):
                error, topic, index = message.error(), message.topic(), message.partition()
                if error is None and topic is not None and index is not None:
                    self.history.polled(READER, (topic, index), *_place(message))
                elif error is not None and not error.retriable():
                    self.failures.append(f"{READER}: {error}")
        consumer.close()


def _end(consumer: Consumer, partition: Partition) -> int:
    """Return where a partition ends; asked again while its leader changes."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(*partition), timeout=PATIENCE_SECONDS)[1])
        except KafkaException as failure:
            if not failure.args[0].retriable() or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_SECONDS)


def _place(message: Message) -> tuple[int, bytes]:
    offset, value = message.offset(), message.value()
    assert offset is not None
    assert value is not None
    return offset, value
