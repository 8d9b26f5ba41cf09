"""Compare Highwater with Apache Kafka: `python -m benchmarks [--quick] [--only LINE ...]`.

Writes `.bench/results.json` and `.bench/results.md`.
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from benchmarks import (
    activity,
    by_time,
    exactly_once,
    groups,
    latency,
    life,
    limits,
    outages,
    raw_clients,
    real_clients,
    replicated,
    report,
    spark,
    storage,
    transactions,
)
from benchmarks.awake import processors_awake
from benchmarks.backed import memory_backed
from benchmarks.brokers import ROOT, ApacheKafka, Broker, Highwater
from benchmarks.clusters import ApacheKafkaCluster, HighwaterCluster
from benchmarks.measuring import Arena, ArenaT, ClusterArena, Effort, Line, Metric
from benchmarks.raw_clients import LARGE_BATCH_BYTES, MANY_CONNECTIONS, SMALL_BATCH_BYTES, fill
from benchmarks.topics import scratch_topic

LINES: Final = (
    Line("produce-large", "produce, raw, 16 KB batches", raw_clients.produce_large),
    Line("produce-small", "produce, raw, 200-byte batches", raw_clients.produce_small),
    Line("produce-one", "produce, raw, 200-byte batches, one at a time", raw_clients.produce_one_by_one),
    Line("consume-large", "consume, raw, 1 MB fetches", raw_clients.consume_large),
    Line("consume-small", "consume, raw, small fetches", raw_clients.consume_small),
    Line("raw-limit", "produce, raw, 16 KB batches", limits.raw_limit, rival="a bare loop in C"),
    Line("offsets-by-time", "offset of a timestamp inside lz4 batches, raw", by_time.offsets_by_time),
    Line("latency", "acknowledged write at 5,000 records/s", latency.fixed_rate),
    Line("java-produce-100", "produce, Java client, 100 B records", real_clients.produce_java_small),
    Line("java-produce-1000", "produce, Java client, 1 KB records", real_clients.produce_java_large),
    Line("java-limit-100", "produce, Java client, 100 B records", limits.java_limit_small, rival="a bare loop in C"),
    Line("java-limit-1000", "produce, Java client, 1 KB records", limits.java_limit_large, rival="a bare loop in C"),
    Line("java-consume", "consume, Java client, 1 KB records", real_clients.consume_java),
    Line("librdkafka-produce", "produce, librdkafka, 1 KB records", real_clients.produce_librdkafka),
    Line("librdkafka-consume", "consume, librdkafka, 1 KB records", real_clients.consume_librdkafka),
    Line("commit-one", "offset commits of one group, raw, one at a time", groups.commits_of_one_group),
    Line("commit-many", "offset commits of 100 groups, raw, one at a time each", groups.commits_of_many_groups),
    Line("rebalance-1", "rebalance of a group of 1 member, raw", groups.rebalance_of_one),
    Line("rebalance-50", "rebalance of a group of 50 members, raw", groups.rebalance_of_fifty),
    Line("rebalance-500", "rebalance of a group of 500 members, raw", groups.rebalance_of_five_hundred),
    Line("memory-members", "memory of an idle member and its connection", groups.memory_of_idle_members),
    Line("txn-one", "transactions of one partition, raw, one at a time", transactions.one_partition),
    Line("txn-ten", "transactions of ten partitions, raw, one at a time", transactions.ten_partitions),
    Line("txn-many", "transactions of 16 producers, raw, one at a time each", transactions.many_producers),
    Line("txn-rate", "transactions of ten partitions, raw, 200 a second of 16 producers", transactions.fixed_rate),
    Line("txn-java", "produce, Java client, 1 KB records, a transaction every 100 ms", transactions.throughput_java),
    Line("spark-sink", "Spark's sink, 100 B records", spark.sink),
    Line("spark-source", "Spark's source, 100 B records", spark.source),
    Line("spark-exactly-once", "micro-batches to a topic, exactly once", exactly_once.sinks, rival="Spark's own sink"),
    Line("spark-latency", "activity pipeline at 5,000 events/s, event to count", activity.latency),
    Line("memory", "memory of a fresh broker", life.memory_idle_and_loaded),
    Line("memory-partitions", "memory of an idle partition", life.memory_of_idle_partitions),
    Line("start-empty", "start to first acknowledged write, empty", life.first_write_empty),
    Line("start-full", "start to first acknowledged write, 1,000 partitions", life.first_write_full),
    Line("compaction", "compaction of 400 MB of keyed records", storage.compaction),
    Line("compaction-lz4", "compaction of 400 MB of keyed records in lz4 batches", storage.compaction_lz4),
    Line("compaction-zstd", "compaction of 400 MB of keyed records in zstd batches", storage.compaction_zstd),
    Line("recovery", "recovery of 2 GB after kill -9, 16 KB batches", storage.recovery),
    Line("busy-latency", "acknowledged write beside a compaction and a cold reader", storage.busy_latency),
    Line("many-partitions", "10,000 partitions on one broker", storage.many_partitions),
)
CLUSTER_LINES: Final = (*replicated.LINES, *outages.LINES)
FULL: Final = Effort(rounds=5, seconds=5.0, warm_up_seconds=1.0, scale=1.0)
QUICK: Final = Effort(rounds=2, seconds=1.0, warm_up_seconds=0.5, scale=0.1)
Results = dict[str, tuple[Line[Any], list[Metric]]]
OUTPUT: Final = ROOT / ".bench"
WARM_UP_REQUESTS: Final = 40_000
"""Per size, over all connections: the JVM compiles what it has seen run tens of thousands of times."""


def main(arguments: Sequence[str]) -> int:
    """Run the lines that were asked for."""
    options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that the brokers are stopped too
    effort = replace(QUICK if options.quick else FULL, **given(rounds=options.rounds, seconds=options.seconds))
    results: Results = {}

    def is_asked_for(line: Line[Any]) -> bool:
        return not options.only or line.name in options.only

    OUTPUT.mkdir(exist_ok=True)
    say("touching the memory that is free")
    with processors_awake(), memory_backed(), tempfile.TemporaryDirectory(prefix="data-", dir=OUTPUT) as scratch:
        if lines := [line for line in LINES if is_asked_for(line)]:
            run_on_brokers(lines, effort, Path(scratch), results)
        if cluster_lines := [line for line in CLUSTER_LINES if is_asked_for(line)]:
            run_on_clusters(cluster_lines, effort, Path(scratch), results)
    table = report.as_markdown(results, effort)
    (OUTPUT / "results.md").write_text(table, encoding="utf-8")
    if options.publish:
        report.publish(table, ROOT / "docs" / "benchmarks.md")
    say(f"\n{table}")
    return 0


def run_on_brokers(lines: Sequence[Line[Arena]], effort: Effort, directory: Path, results: Results) -> None:
    """Run lines of single brokers."""
    with Highwater(directory / "ours") as ours, ApacheKafka(directory / "theirs") as theirs:
        arena = Arena(ours, theirs, effort, directory, say)
        say("warming up")
        for broker in arena.brokers:
            warm_up(broker, effort)
        run(lines, arena, results)


def run_on_clusters(lines: Sequence[Line[ClusterArena]], effort: Effort, directory: Path, results: Results) -> None:
    """Run lines of three brokers."""
    with HighwaterCluster(directory / "ours") as ours, ApacheKafkaCluster(directory / "theirs") as theirs:
        arena = ClusterArena(ours, theirs, effort, directory, say)
        say("warming up clusters")
        for cluster in arena.both:
            replicated.warm_up(cluster, effort)
        run(lines, arena, results)


def run(lines: Sequence[Line[ArenaT]], arena: ArenaT, results: Results) -> None:
    """Run one line after the other, and keep what is there so far."""
    for line in lines:
        say(f"{line.title} ({line.name})")
        results[line.name] = (line, line.run(arena))
        (OUTPUT / "results.json").write_text(report.as_json(results, arena.effort), encoding="utf-8")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a minute or two: shows that it runs, proves nothing")
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="LINE",
        choices=[line.name for line in (*LINES, *CLUSTER_LINES)],
        help="run only these lines",
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds that count, of each line and each broker")
    parser.add_argument("--seconds", type=float, metavar="S", help="how long a round of a raw line takes")
    parser.add_argument("--publish", action="store_true", help="put the table into docs/benchmarks.md")
    return parser.parse_args(arguments)


def given(**options: float | None) -> dict[str, Any]:
    """Return the options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def warm_up(broker: Broker, effort: Effort) -> None:
    """Send enough of each size that a JVM has compiled its way through."""
    for batch_bytes in (SMALL_BATCH_BYTES, LARGE_BATCH_BYTES):
        with scratch_topic(broker, MANY_CONNECTIONS) as topic:
            fill(broker, topic, MANY_CONNECTIONS, batch_bytes, effort.scaled(WARM_UP_REQUESTS) // MANY_CONNECTIONS)


def say(text: str) -> None:
    """Tell the person who waits."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
