"""The p99 of an acknowledged write at a fixed rate, from the moment it was due: waiting in line counts.

A process of its own (`python -m benchmarks.latency`) sends one record at a time on schedule over a few connections,
whether or not earlier ones have been answered, so that a broker's stall is seen by every record that it delays.
"""

import json
import select
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from benchmarks.brokers import ROOT, Broker
from benchmarks.frames import Exchange, batch_of, produce_exchange
from benchmarks.measuring import STOLEN, Arena, Metric, Target
from benchmarks.process_stats import Stolen
from benchmarks.topics import scratch_topic

RECORDS_PER_SECOND: Final = 5_000
RECORD_BYTES: Final = 200
CONNECTIONS: Final = 4
STALL_SECONDS: Final = 30.0
RECEIVE_BYTES: Final = 65_536


class Stalled(Exception):
    """The broker stopped answering, or answered something else."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How many records to send, and how fast."""

    bootstrap: str
    topic: str
    records: int
    records_per_second: int = RECORDS_PER_SECOND
    acks: int = 1
    leaders: tuple[str, ...] = ()  # of a cluster: where each connection goes, instead of `bootstrap`


class Sender:
    """One connection: when each record was due, until its answer comes."""

    def __init__(self, bootstrap: str, exchange: Exchange) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), STALL_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._exchange = exchange
        self._due: deque[float] = deque()
        self._carry = b""

    def send(self, due: float) -> None:
        """Send a record that was due at that time."""
        self._due.append(due)
        self.socket.sendall(self._exchange.request)

    def receive(self, latencies: list[float]) -> None:
        """Take the answers that have come."""
        received = self.socket.recv(RECEIVE_BYTES)
        now = time.perf_counter()
        self._carry += received
        size, error_at = self._exchange.answer_bytes, self._exchange.error_at
        while len(self._carry) >= size:
            if self._carry[error_at : error_at + 2] != b"\0\0":
                raise Stalled(f"an error: {self._carry[:size]!r}")
            latencies.append(now - self._due.popleft())
            self._carry = self._carry[size:]
        if not received:
            raise Stalled("the broker closed the connection")


def drive(schedule: Schedule) -> list[float]:
    """Send every record at its time and return how long each took, in seconds."""
    batch = batch_of(RECORD_BYTES)
    senders = [
        Sender(address, produce_exchange(schedule.topic, number, batch, schedule.acks))
        for number, address in enumerate(schedule.leaders or [schedule.bootstrap] * CONNECTIONS)
    ]
    by_socket = {sender.socket: sender for sender in senders}
    latencies: list[float] = []
    started = time.perf_counter()
    sent = 0
    while len(latencies) < schedule.records:
        now = time.perf_counter()
        while sent < schedule.records and (due := started + sent / schedule.records_per_second) <= now:
            senders[sent % len(senders)].send(due)
            sent += 1
        next_due = started + sent / schedule.records_per_second if sent < schedule.records else now + STALL_SECONDS
        ready, _, _ = select.select(by_socket, [], [], max(0.0, next_due - time.perf_counter()))
        for each in ready:
            by_socket[each].receive(latencies)
        if not ready and sent == schedule.records:
            raise Stalled("the broker answers nothing")
    for sender in senders:
        sender.socket.close()
    return latencies


def percentile(values: list[float], percent: float) -> float:
    """Return the value below which `percent` of them lie."""
    return sorted(values)[min(len(values) - 1, int(len(values) * percent / 100))]


def fixed_rate(arena: Arena) -> list[Metric]:
    """5,000 records a second, one record a request."""
    metrics = [
        Metric("p50", "ms", Target()),
        Metric("p99", "ms", Target(at_most=1.0)),
        Metric("p99.9", "ms", Target()),
    ]

    def measure(broker: Broker) -> Mapping[str, float]:
        with scratch_topic(broker, CONNECTIONS) as topic:
            records = int(RECORDS_PER_SECOND * (arena.effort.seconds + arena.effort.warm_up_seconds))
            stolen = Stolen()
            latencies = run_schedule(Schedule(broker.bootstrap, topic, records))
            share = stolen.share()
        settled = latencies[int(RECORDS_PER_SECOND * arena.effort.warm_up_seconds) :]
        return {STOLEN: share} | {metric.name: percentile(settled, float(metric.name[1:])) * 1e3 for metric in metrics}

    return arena.alternate_alone(metrics, measure)


def run_schedule(schedule: Schedule) -> list[float]:
    """Run a schedule in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.latency"],
        input=json.dumps(asdict(schedule)),
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        check=True,
    )
    latencies: list[float] = json.loads(done.stdout)
    return latencies


if __name__ == "__main__":
    print(json.dumps(drive(Schedule(**json.loads(sys.stdin.read())))))
