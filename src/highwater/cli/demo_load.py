"""The demo's traffic: page views written in waves and read as they come, each side keeping a record of what it saw."""

from __future__ import annotations

import json
import math
import threading
import time
import zlib
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, Producer

TOPIC: Final = "page-views"
PARTITIONS: Final = 4
PAGES: Final = ("/", "/search", "/basket", "/checkout", "/orders", "/help", "/account", "/blog")
USERS: Final = 5_000
CALM_PER_SECOND: Final = 4_000
BUSY_PER_SECOND: Final = 40_000
WAVE_SECONDS: Final = 6.0
TICK_SECONDS: Final = 0.02
DRAIN_SECONDS: Final = 20.0


@dataclass(slots=True)
class Ledger:
    """What one side saw: how many records, and for each partition a checksum over their bytes, in their order."""

    total: int = 0
    size_bytes: int = 0
    counts: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    checksums: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, record: Message) -> None:
        """Take the next record of its partition."""
        partition, value = record.partition() or 0, record.value() or b""
        self.total += 1
        self.size_bytes += len(value)
        self.counts[partition] += 1
        self.checksums[partition] = zlib.crc32(value, self.checksums[partition])


class Load:
    """A producer and a consumer, each in a thread of its own, until told to stop."""

    def __init__(self, producer: Producer, consumer: Consumer) -> None:
        self.written = Ledger()
        self.read = Ledger()
        self.failures = 0
        self.first_failure = ""
        self._producer = producer
        self._consumer = consumer
        self._no_more_writes = threading.Event()
        self._no_more_reads = threading.Event()
        self._writer = threading.Thread(target=self._write, name="writer", daemon=True)
        self._reader = threading.Thread(target=self._read, name="reader", daemon=True)

    def start(self) -> None:
        """Begin to write and to read."""
        self._reader.start()
        self._writer.start()

    def stop_writing(self) -> None:
        """Write no more; return when the broker has answered for everything that was sent."""
        self._no_more_writes.set()
        self._writer.join(DRAIN_SECONDS)

    def finish(self) -> None:
        """Let the reader catch up, within reason, and stop it."""
        deadline = time.monotonic() + DRAIN_SECONDS
        while self.read.total < self.written.total and time.monotonic() < deadline:
            time.sleep(TICK_SECONDS)
        self._no_more_reads.set()
        self._reader.join(DRAIN_SECONDS)

    def _write(self) -> None:
        started = last = time.monotonic()
        sent, due = 0, 0.0
        while not self._no_more_writes.is_set():
            now = time.monotonic()
            due += wave(now - started) * (now - last)
            last = now
            while sent < due:
                self._send(sent)
                sent += 1
            self._producer.poll(TICK_SECONDS)
        unsent = self._producer.flush(DRAIN_SECONDS)
        if unsent:
            self._failed(f"{unsent:,} records were never acknowledged")

    def _send(self, number: int) -> None:
        user = f"user-{number * 7919 % USERS}"
        view = {"view": number, "user": user, "page": PAGES[number % len(PAGES)], "at_ms": int(time.time() * 1000)}
        try:
            self._producer.produce(TOPIC, json.dumps(view), user, on_delivery=self._delivered)
        except BufferError:
            self._producer.poll(TICK_SECONDS)  # a wave that is too high for this machine loses its top

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.written.add(message)
        else:
            self._failed(str(error.str()))

    def _failed(self, reason: str) -> None:
        self.failures += 1
        self.first_failure = self.first_failure or reason

    def _read(self) -> None:
        while not self._no_more_reads.is_set():
            first = self._consumer.poll(TICK_SECONDS)
            if first is None:
                continue
            for message in (first, *self._consumer.consume(5_000, 0)):
                if (error := message.error()) is None:
                    self.read.add(message)
                else:
                    self._failed(str(error.str()))


def wave(elapsed: float) -> float:
    """Return records a second: from calm to busy and back, every few seconds."""
    swing = (1 - math.cos(2 * math.pi * elapsed / WAVE_SECONDS)) / 2
    return CALM_PER_SECOND + (BUSY_PER_SECOND - CALM_PER_SECOND) * swing
