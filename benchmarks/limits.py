"""What clients reach with a broker that does next to nothing: the loop in C of `raw_limit.c`, against ours.

No broker with one loop gets further with these clients on these processors; what a target asks beyond it, it asks of
the clients.
"""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.brokers import Broker
from benchmarks.measuring import Arena, Metric, Target
from benchmarks.raw_clients import (
    CPU_PER_MEGABYTE,
    LARGE_BATCH_BYTES,
    MANY_CONNECTIONS,
    RATE,
    produce_load,
    run,
)
from benchmarks.real_clients import (
    JAVA_LARGE,
    JAVA_SMALL,
    PARTITIONS,
    RECORDS_PER_SECOND,
    JavaLoad,
    producer_performance,
)
from benchmarks.storage import own
from benchmarks.topics import scratch_topic

SOURCE: Final = Path(__file__).with_name("raw_limit.c")


class RawLimit(Broker):
    """The loop in C, as if it were a broker; with another broker behind it that knows about topics, if given."""

    name = "bare loop"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.behind: Broker | None = None

    def command(self) -> list[str]:
        """Return the command that runs it, compiled anew."""
        binary = self.directory / "raw_limit"
        subprocess.run(["cc", "-O2", "-o", binary, SOURCE], check=True)
        behind = [] if self.behind is None else [str(self.behind.port)]
        return [str(binary), str(self.port), str(self.directory / "file"), *behind]


def raw_limit(arena: Arena) -> list[Metric]:
    """16 KB batches, each answered by 40 bytes."""
    metrics = [Metric(CPU_PER_MEGABYTE, "ms", Target(at_most=2.5)), Metric(RATE, "/s", Target())]

    def measure(broker: Broker) -> Mapping[str, float]:
        if isinstance(broker, RawLimit):
            kind, topic = "raw", "raw"
            return run(
                produce_load(arena, broker.bootstrap, topic, LARGE_BATCH_BYTES, MANY_CONNECTIONS, 5, kind), broker
            )
        with scratch_topic(broker, MANY_CONNECTIONS) as topic:
            return run(produce_load(arena, broker.bootstrap, topic, LARGE_BATCH_BYTES, MANY_CONNECTIONS, 5), broker)

    if not has_compiler(arena):
        return []
    with arena.theirs.paused(), RawLimit(arena.directory / "raw") as limit:
        return replace(arena, theirs=limit).alternate_alone(metrics, measure)


def java_limit(arena: Arena, load: JavaLoad) -> list[Metric]:
    """Kafka's ProducerPerformance, with every default of the Java producer."""
    metrics = [Metric(RECORDS_PER_SECOND, "/s", Target())]

    def measure(broker: Broker) -> Mapping[str, float]:
        with scratch_topic(broker, PARTITIONS) as topic:
            return producer_performance(broker.bootstrap, topic, arena.effort.scaled(load.records), load.record_bytes)

    if not has_compiler(arena):
        return []
    with arena.theirs.paused(), speaking_limit(arena) as limit:
        return replace(arena, theirs=limit).alternate_alone(metrics, measure)


@contextmanager
def speaking_limit(arena: Arena) -> Iterator[RawLimit]:
    """Run the loop with a broker of ours behind it, which tells clients that the loop is where they should write."""
    limit = RawLimit(arena.directory / "speaking")
    limit.behind = own(arena, arena.ours, "behind", {"advertised.listeners": f"PLAINTEXT://{limit.bootstrap}"})
    with limit.behind, limit:
        yield limit


def java_limit_small(arena: Arena) -> list[Metric]:
    """Records of 100 bytes."""
    return java_limit(arena, JAVA_SMALL)


def java_limit_large(arena: Arena) -> list[Metric]:
    """Records of 1,000 bytes."""
    return java_limit(arena, JAVA_LARGE)


def has_compiler(arena: Arena) -> bool:
    """Return whether there is a C compiler, or say that there is none."""
    found = shutil.which("cc") is not None
    if not found:
        arena.say("    skipped: there is no C compiler")
    return found
