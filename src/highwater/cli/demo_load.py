"""The demo's traffic: page views written in waves, and read by a group whose members come one by one."""

from __future__ import annotations

import json
import math
import threading
import time
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

    from highwater.cli.cluster import Cluster

TOPIC: Final = "visits"
GROUP: Final = "page-counters"
PARTITIONS: Final = 6
PAGES: Final = ("/", "/search", "/basket", "/checkout", "/orders", "/help", "/account", "/blog")
USERS: Final = 5_000
CALM_PER_SECOND: Final = 4_000
BUSY_PER_SECOND: Final = 40_000
WAVE_SECONDS: Final = 6.0
TICK_SECONDS: Final = 0.02
PATIENCE_SECONDS: Final = 20.0

PRODUCER_SETTINGS: Final[dict[str, Any]] = {"acks": "all", "linger.ms": 5}
MEMBER_SETTINGS: Final[dict[str, Any]] = {
    "group.id": GROUP,
    "auto.offset.reset": "earliest",
    "partition.assignment.strategy": "cooperative-sticky",
    "heartbeat.interval.ms": 300,  # members hear soon of those who join
    "fetch.wait.max.ms": 100,
}


class Ledger:
    """What one side saw of each partition: how many records, and a checksum over their bytes, in their order.

    Several threads may write to it, but only one at a time to a partition.
    """

    def __init__(self) -> None:
        self.counts = [0] * PARTITIONS
        self.sizes_bytes = [0] * PARTITIONS
        self.checksums = [0] * PARTITIONS

    def add(self, record: Message) -> None:
        """Take the next record of its partition."""
        partition, value = record.partition() or 0, record.value() or b""
        self.counts[partition] += 1
        self.sizes_bytes[partition] += len(value)
        self.checksums[partition] = zlib.crc32(value, self.checksums[partition])

    @property
    def total(self) -> int:
        """All records."""
        return sum(self.counts)

    @property
    def size_bytes(self) -> int:
        """All bytes of values."""
        return sum(self.sizes_bytes)


@dataclass(slots=True)
class Failures:
    """What went wrong: how often, and the first time in words."""

    count: int = 0
    first: str = ""

    def add(self, reason: str) -> None:
        """Note one more."""
        self.count += 1
        self.first = self.first or reason


class Writer:
    """Writes page views in a thread of its own until told to stop."""

    def __init__(self, producer: Producer, ledger: Ledger, failures: Failures) -> None:
        self._producer = producer
        self._ledger = ledger
        self._failures = failures
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write no more; return when the broker has answered for everything that was sent."""
        self._stopping.set()
        self._thread.join(PATIENCE_SECONDS)

    def _run(self) -> None:
        started = last = time.monotonic()
        sent, due = 0, 0.0
        while not self._stopping.is_set():
            now = time.monotonic()
            due += wave(now - started) * (now - last)
            last = now
            while sent < due:
                self._send(sent)
                sent += 1
            self._producer.poll(TICK_SECONDS)
        if unsent := self._producer.flush(PATIENCE_SECONDS):
            self._failures.add(f"{unsent:,} records were never acknowledged")

    def _send(self, number: int) -> None:
        user = f"user-{number * 7919 % USERS}"
        view = {"view": number, "user": user, "page": PAGES[number % len(PAGES)], "at_ms": int(time.time() * 1000)}
        try:
            self._producer.produce(TOPIC, json.dumps(view), user, on_delivery=self._delivered)
        except BufferError:
            self._producer.poll(TICK_SECONDS)  # a wave that is too high for this machine loses its top

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._ledger.add(message)
        else:
            self._failures.add(str(error.str()))


class Member:
    """Reads its share of the topic in a thread of its own, and hands partitions over without a gap or a repetition."""

    def __init__(self, name: str, cluster: Cluster, ledger: Ledger, failures: Failures) -> None:
        self.name = name
        self.partitions: set[int] = set()
        self._consumer = cluster.consumer({**MEMBER_SETTINGS, "client.id": name})
        self._ledger = ledger
        self._failures = failures
        self._stopping = threading.Event()
        self._consumer.subscribe([TOPIC], on_assign=self._on_assign, on_revoke=self._on_revoke)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Leave the group."""
        self._stopping.set()
        self._thread.join(PATIENCE_SECONDS)

    def _run(self) -> None:
        while not self._stopping.is_set():
            message = self._consumer.poll(TICK_SECONDS)
            if message is None:
                continue
            if (error := message.error()) is None:
                self._ledger.add(message)
            else:
                self._failures.add(str(error.str()))
        self._consumer.close()

    def _on_assign(self, _: Consumer, gained: list[TopicPartition]) -> None:
        self.partitions |= {place.partition for place in gained}

    def _on_revoke(self, consumer: Consumer, lost: list[TopicPartition]) -> None:
        """Commit how far we are before another member may begin there."""
        if not self._stopping.is_set():  # at the end, the screen goes on to show who read what
            self.partitions -= {place.partition for place in lost}
        read = [place for place in consumer.position(lost) if place.offset >= 0]
        if read:
            consumer.commit(offsets=read, asynchronous=False)


@dataclass(slots=True)
class Load:
    """Everything that is under way."""

    cluster: Cluster
    written: Ledger = field(default_factory=Ledger)
    read: Ledger = field(default_factory=Ledger)
    failures: Failures = field(default_factory=Failures)
    members: list[Member] = field(default_factory=list)
    _writer: Writer | None = None

    def start_writing(self) -> None:
        """Begin to write."""
        self._writer = Writer(self.cluster.producer(PRODUCER_SETTINGS), self.written, self.failures)

    def add_member(self) -> None:
        """Let one more member join the group."""
        self.members.append(Member(f"reader-{len(self.members) + 1}", self.cluster, self.read, self.failures))

    def owner_of(self, partition: int) -> str | None:
        """Return who reads a partition now."""
        return next((member.name for member in self.members if partition in member.partitions), None)

    def finish(self) -> None:
        """Stop writing, let the readers catch up, within reason, and stop them."""
        if self._writer is not None:
            self._writer.stop()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.read.total < self.written.total and time.monotonic() < deadline:
            time.sleep(TICK_SECONDS)
        for member in self.members:
            member.stop()


def wave(elapsed: float) -> float:
    """Return records a second: from calm to busy and back, every few seconds."""
    swing = (1 - math.cos(2 * math.pi * elapsed / WAVE_SECONDS)) / 2
    return CALM_PER_SECOND + (BUSY_PER_SECOND - CALM_PER_SECOND) * swing
