"""The raw generator: the same pre-built requests over a few connections, each with several in flight.

It runs in a process of its own (`python -m benchmarks.generator`), is told what to do by one line of JSON on stdin, and
says on stdout when the measured time begins and what it counted when that ends. It looks at every answer's length and
error code, and at nothing else, so that the broker is the bottleneck.
"""

import json
import select
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

from benchmarks.brokers import ROOT
from benchmarks.frames import (
    LENGTH_BYTES,
    Exchange,
    batch_of,
    commit_exchange,
    fetch_exchange,
    offset_by_time_exchange,
    produce_exchange,
)

RECEIVE_BYTES: Final = 1 << 20
SEND_AHEAD_BYTES: Final = 1 << 20
STALL_SECONDS: Final = 30.0
RAW_ANSWER_BYTES: Final = 40


class GeneratorFailed(Exception):
    """The broker refused, closed or stalled: a fast refusal is not a fast broker."""


@dataclass(frozen=True, slots=True)
class Load:
    """What to send, how widely and for how long."""

    bootstrap: str
    topic: str
    kind: str  # "produce", "fetch", "offset by time", "commit" or "raw" (a produce that is answered by 40 bytes)
    batch_bytes: int
    connections: int
    in_flight: int
    warm_up_seconds: float
    seconds: float
    acks: int = 1
    fetch_bytes: int = 1 << 20
    offsets: tuple[int, ...] = (0,)  # of a fetch: read in turn
    timestamps: tuple[int, ...] = ()  # of an offset by time: looked up in turn
    at_least_requests: int = 0  # go on until every connection has had as many answers
    leaders: tuple[str, ...] = ()  # of a cluster: where each connection goes, instead of `bootstrap`


@dataclass(frozen=True, slots=True)
class Count:
    """What happened in the measured time."""

    requests: int
    payload_bytes: int
    seconds: float


class Connection(ABC):
    """One connection that keeps `in_flight` requests out; subclasses count the answers."""

    def __init__(self, bootstrap: str, in_flight: int) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), STALL_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.in_flight = in_flight
        self.answered = 0
        self.payload_bytes = 0

    @abstractmethod
    def start(self) -> None:
        """Send the first requests."""

    @abstractmethod
    def on_readable(self, buffer: memoryview) -> None:
        """Count what came and send as many requests again."""

    @abstractmethod
    def on_writable(self) -> bool:
        """Send what is left over; return whether more is waiting."""

    def receive(self, buffer: memoryview) -> int:
        """Receive what is there, or fail if the broker has gone."""
        try:
            size = self.socket.recv_into(buffer)
        except BlockingIOError:
            return 0
        if not size:
            raise GeneratorFailed("the broker closed the connection")
        return size


class UniformConnection(Connection):
    """Sends requests of one size in turn: all answers look the same but for their offsets."""

    def __init__(self, bootstrap: str, in_flight: int, exchanges: Sequence[Exchange], payload_bytes: int) -> None:
        super().__init__(bootstrap, in_flight)
        self._exchange = exchanges[0]
        self._payload_bytes = payload_bytes
        cycle = b"".join(exchange.request for exchange in exchanges)
        self._cycle_bytes = len(cycle)
        self._requests = memoryview(cycle * (SEND_AHEAD_BYTES // len(cycle) + 2))
        self._phase = 0
        self._unsent = 0
        self._carry = b""

    def start(self) -> None:
        """Send the first requests."""
        self._unsent = self.in_flight * len(self._exchange.request)
        self.on_writable()

    def on_readable(self, buffer: memoryview) -> None:
        """Count what came and send as many requests again."""
        data = self._carry + bytes(buffer[: self.receive(buffer)])
        answer_bytes = self._exchange.answer_bytes
        count = len(data) // answer_bytes
        whole = count * answer_bytes
        self._check(data[:whole], count)
        self._carry = data[whole:]
        self.answered += count
        self.payload_bytes += count * self._payload_bytes
        self._unsent += count * len(self._exchange.request)
        self.on_writable()

    def on_writable(self) -> bool:
        """Send what is left over; return whether more is waiting."""
        while self._unsent:
            chunk = min(self._unsent, SEND_AHEAD_BYTES)
            try:
                sent = self.socket.send(self._requests[self._phase : self._phase + chunk])
            except BlockingIOError:
                return True
            self._unsent -= sent
            self._phase = (self._phase + sent) % self._cycle_bytes
        return False

    def _check(self, answers: bytes, count: int) -> None:
        """Compare the length and the error code of all answers at once, by slices with a stride."""
        stride = self._exchange.answer_bytes
        expected_length = (stride - LENGTH_BYTES).to_bytes(LENGTH_BYTES, "big")
        for position, byte in enumerate(expected_length):
            if answers[position::stride].count(byte) != count:
                raise GeneratorFailed(f"an answer of another length: {answers[:200]!r}")
        for position in (self._exchange.error_at, self._exchange.error_at + 1):
            if answers[position::stride].count(0) != count:
                raise GeneratorFailed(f"an error code: {answers[:stride]!r}")


class FetchConnection(Connection):
    """Asks for one range after the other; the records are received and dropped."""

    def __init__(self, bootstrap: str, in_flight: int, exchanges: Sequence[Exchange]) -> None:
        super().__init__(bootstrap, in_flight)
        self._exchanges = exchanges
        self._next = 0
        self._unsent = b""
        self._head = b""
        self._rest_bytes = 0

    def start(self) -> None:
        """Send the first requests."""
        for _ in range(self.in_flight):
            self._queue_request()
        self.on_writable()

    def on_readable(self, buffer: memoryview) -> None:
        """Count what came and send as many requests again."""
        data = buffer[: self.receive(buffer)]
        head_bytes = self._exchanges[0].answer_bytes
        while len(data):
            if self._rest_bytes:
                skipped = min(self._rest_bytes, len(data))
                self._rest_bytes -= skipped
                data = data[skipped:]
            else:
                missing = head_bytes - len(self._head)
                self._head += bytes(data[:missing])
                data = data[missing:]
                if len(self._head) < head_bytes:
                    break
                self._rest_bytes = self._check_head()
                self._head = b""
            if not self._rest_bytes and not self._head:
                self.answered += 1
                self._queue_request()
        self.on_writable()

    def on_writable(self) -> bool:
        """Send what is left over; return whether more is waiting."""
        while self._unsent:
            try:
                sent = self.socket.send(self._unsent)
            except BlockingIOError:
                return True
            self._unsent = self._unsent[sent:]
        return False

    def _queue_request(self) -> None:
        self._unsent += self._exchanges[self._next].request
        self._next = (self._next + 1) % len(self._exchanges)

    def _check_head(self) -> int:
        exchange = self._exchanges[0]
        records_bytes = int.from_bytes(self._head[:LENGTH_BYTES], "big") + LENGTH_BYTES - exchange.answer_bytes
        if self._head[exchange.error_at : exchange.error_at + 2] != b"\0\0" or records_bytes <= 0:
            raise GeneratorFailed(f"an error or nothing to read: {self._head!r}")
        self.payload_bytes += records_bytes
        return records_bytes


def connections_of(load: Load) -> list[Connection]:
    """Open the connections of a load; producers and readers have a partition each."""
    return [connection_of(load, number) for number in range(load.connections)]


def connection_of(load: Load, number: int) -> Connection:
    """Open one connection of a load."""
    address = load.leaders[number] if load.leaders else load.bootstrap
    match load.kind:
        case "fetch":
            exchanges = [fetch_exchange(load.topic, number, offset, load.fetch_bytes) for offset in load.offsets]
            return FetchConnection(address, load.in_flight, exchanges)
        case "commit":
            exchange = commit_exchange(load.topic, f"{load.topic}-group-{number}")
            return UniformConnection(address, load.in_flight, [exchange], payload_bytes=1)
        case "offset by time":
            exchanges = [offset_by_time_exchange(load.topic, 0, timestamp) for timestamp in load.timestamps]
            return UniformConnection(address, load.in_flight, exchanges, payload_bytes=1)
        case _:
            batch = batch_of(load.batch_bytes)
            exchange = produce_exchange(load.topic, number, batch, load.acks)
            if load.kind == "raw":
                exchange = replace(exchange, answer_bytes=RAW_ANSWER_BYTES, error_at=LENGTH_BYTES)
            return UniformConnection(address, load.in_flight, [exchange], len(batch))


def drive(load: Load, on_start: Callable[[], None]) -> Count:
    """Run a load: first the warm-up, then `on_start`, then the time that counts."""
    connections = connections_of(load)
    poll = select.epoll()
    by_descriptor = {connection.socket.fileno(): connection for connection in connections}
    for descriptor, connection in by_descriptor.items():
        poll.register(descriptor, select.EPOLLIN)
        connection.start()
    buffer = memoryview(bytearray(RECEIVE_BYTES))

    def run_until(deadline: float, requests: int = 0) -> None:
        while time.perf_counter() < deadline or (
            requests and min(connection.answered for connection in connections) < requests
        ):
            ready = poll.poll(STALL_SECONDS)
            if not ready:
                raise GeneratorFailed("the broker answers nothing")
            for descriptor, events in ready:
                connection = by_descriptor[descriptor]
                if events & select.EPOLLIN:
                    connection.on_readable(buffer)
                more = connection.on_writable()
                poll.modify(descriptor, select.EPOLLIN | (select.EPOLLOUT if more else 0))

    run_until(time.perf_counter() + load.warm_up_seconds)
    on_start()
    before = _totals(connections)
    started = time.perf_counter()
    run_until(started + load.seconds, load.at_least_requests)
    seconds = time.perf_counter() - started
    after = _totals(connections)
    for connection in connections:
        connection.socket.close()
    return Count(requests=after[0] - before[0], payload_bytes=after[1] - before[1], seconds=seconds)


def _totals(connections: Sequence[Connection]) -> tuple[int, int]:
    return (
        sum(connection.answered for connection in connections),
        sum(connection.payload_bytes for connection in connections),
    )


def run_load(load: Load, on_start: Callable[[], None]) -> Count:
    """Run a load in a process of its own and return what it counted."""
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.generator"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(asdict(load)) + "\n")
        process.stdin.close()
        if process.stdout.readline().strip() == "started":
            on_start()
        answer = process.stdout.readline()
    if process.returncode:
        raise GeneratorFailed(f"the generator ended with {process.returncode}, see above")
    return Count(**json.loads(answer))


def main() -> None:
    """Do what stdin says."""
    load = Load(**json.loads(sys.stdin.readline()))
    count = drive(load, on_start=lambda: print("started", flush=True))
    print(json.dumps(asdict(count)), flush=True)


if __name__ == "__main__":
    main()
