"""What one turn of a connection costs without a network: `python -m benchmarks.turns [--profile CASE]`.

For those who work on the hot path. The least of many repetitions is shown beside the median: on a shared machine it
is the one that can be compared from run to run.
"""

import argparse
import asyncio
import cProfile
import gc
import pstats
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvloop

from benchmarks.frames import batch_of, fetch_exchange, produce_exchange
from highwater.app.node import Node
from highwater.broker.broker import Broker
from highwater.config.broker_config import BrokerConfig
from highwater.server.connection import Connection
from highwater.server.server import Server
from highwater.storage.files import File

TOPIC: Final = "turns"
REPETITIONS: Final = 3_000
SMALL_BYTES, LARGE_BYTES = 200, 16_384
MANY_SMALL: Final = 20_000
MAX_FRAME_BYTES: Final = 100 << 20


@dataclass(frozen=True, slots=True)
class Case:
    """What arrives in one turn."""

    name: str
    requests: Sequence[bytes]


class LoopbackPeer:
    """A transport that delivers the same bytes in every turn, and takes everything."""

    peer = "127.0.0.1:1"

    def __init__(self, incoming: bytes) -> None:
        self._incoming = incoming
        self.on_readable: Callable[[], None] | None = None
        self.received_bytes = 0

    def receive_into(self, buffer: memoryview) -> int:
        """Deliver the turn's bytes."""
        buffer[: len(self._incoming)] = self._incoming
        return len(self._incoming)

    def send(self, data: bytes | bytearray | memoryview, *, more: bool) -> int:
        """Take all of an answer."""
        del more
        self.received_bytes += len(data)
        return len(data)

    def send_file(self, file: File, position: int, length: int) -> int:
        """Take all of a file range, without reading it."""
        del file, position
        self.received_bytes += length
        return length

    def is_dead(self) -> bool:
        """Return whether the peer is known to be gone."""
        return False

    def watch_readable(self, callback: Callable[[], None] | None) -> None:
        """Remember whom to call."""
        self.on_readable = callback

    def watch_writable(self, callback: Callable[[], None] | None) -> None:
        """There is always room."""

    def close(self) -> None:
        """Fail: no case of ours should end a connection."""
        raise AssertionError("the broker closed the connection")


def cases() -> list[Case]:
    """Return what is measured; fetches read what the produce cases have appended."""
    small = produce_exchange(TOPIC, 0, batch_of(SMALL_BYTES), acks=1).request
    large = produce_exchange(TOPIC, 0, batch_of(LARGE_BYTES), acks=1).request
    small_fetch = fetch_exchange(TOPIC, 0, offset=107, max_bytes=1).request
    large_fetch = fetch_exchange(TOPIC, 0, offset=MANY_SMALL, max_bytes=1 << 20).request
    return [
        Case("produce-200", [small]),
        Case("produce-200-x5", [small] * 5),
        Case("produce-200-x50", [small] * 50),
        Case("produce-16k", [large]),
        Case("produce-16k-x5", [large] * 5),
        Case("fetch-200", [small_fetch]),
        Case("fetch-200-x2", [small_fetch] * 2),
        Case("fetch-1m", [large_fetch]),
    ]


class Bench:
    """A node in this process, and connections to it that have no socket."""

    def __init__(self, loop: asyncio.AbstractEventLoop, server: Server, broker: Broker) -> None:
        self._loop = loop
        self._server = server
        self._broker = broker

    def turn_of(self, case: Case) -> Callable[[], None]:
        """Return a function that runs one turn of a case."""
        peer = LoopbackPeer(b"".join(case.requests))
        Connection(
            peer,
            broker=self._broker,
            loop=self._loop,
            shared_buffer=self._server._shared_buffer,  # noqa: SLF001 - a look inside is what this is for
            max_frame_bytes=MAX_FRAME_BYTES,
            listener_name="PLAINTEXT",
            metrics=self._server.connections.metrics,
            on_close=lambda _: None,
        )
        assert peer.on_readable is not None
        return peer.on_readable

    def measure(self, case: Case) -> str:
        """Return a case's cost for each request, in words."""
        turn = self.turn_of(case)
        costs: list[int] = []
        for _ in range(max(1, REPETITIONS // len(case.requests))):
            started = time.perf_counter_ns()
            turn()
            costs.append(time.perf_counter_ns() - started)
        scale = 1e3 * len(case.requests)
        return f"{case.name:<16} {min(costs) / scale:7.2f} {statistics.median(costs) / scale:7.2f}"

    def profile(self, case: Case) -> None:
        """Print where the time of a case goes; the profiler itself makes calls look dearer than they are."""
        turn = self.turn_of(case)
        profiler = cProfile.Profile()
        profiler.enable()
        for _ in range(REPETITIONS):
            turn()
        profiler.disable()
        pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


async def run(profiled: str | None) -> None:
    """Start a node, and measure or profile."""
    loop = asyncio.get_running_loop()
    with tempfile.TemporaryDirectory(prefix="turns-") as directory:
        settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(Path(directory) / "data")}
        node = Node(loop, BrokerConfig.load(None, settings))
        await node.start()
        try:
            server = node._server  # noqa: SLF001 - as above
            broker = server._listeners[0]._broker  # noqa: SLF001 - as above
            assert broker is not None
            await broker.topic_admin.create_automatically(TOPIC)
            bench = Bench(loop, server, broker)
            gc.freeze()
            listed = {case.name: case for case in cases()}
            for _ in range(MANY_SMALL // 50):
                bench.turn_of(listed["produce-200-x50"])()
            for _ in range(100):
                bench.turn_of(listed["produce-16k"])()
            if profiled is not None:
                bench.profile(listed[profiled])
                return
            print(f"{'µs per request':<16} {'least':>7} {'median':>7}")
            for case in listed.values():
                print(bench.measure(case))
        finally:
            await node.stop()


def main(arguments: Sequence[str]) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.turns", description=__doc__)
    names = [case.name for case in cases()]
    parser.add_argument("--profile", metavar="CASE", choices=names, help=f"profile one of: {', '.join(names)}")
    uvloop.run(run(parser.parse_args(arguments).profile))


if __name__ == "__main__":
    main(sys.argv[1:])
