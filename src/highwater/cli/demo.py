"""`highwater demo`: a broker, a producer and a consumer at work, and proof that nothing was lost."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.live import Live

from highwater.cli.cluster import Cluster
from highwater.cli.demo_cluster import show_cluster
from highwater.cli.demo_load import PARTITIONS, TOPIC, Load
from highwater.cli.demo_pipeline import show_pipeline
from highwater.cli.demo_screen import Screen
from highwater.cli.failures import CommandFailed
from highwater.cli.output import console, counted
from highwater.cli.positions import lookup
from highwater.testing.broker import BrokerFailed, BrokerProcess
from highwater.testing.process import resident_bytes

FRAME_SECONDS: Final = 0.1
PLAIN_LINE_SECONDS: Final = 2.0
THIRD_JOINS_AFTER: Final = 0.4
"""Of the whole time."""


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("demo")(demo)


def demo(
    *,
    seconds: Annotated[float, typer.Option("--seconds", min=1, max=3600, help="How long records are written.")] = 15.0,
    pipeline: Annotated[
        bool, typer.Option("--pipeline/--no-pipeline", help="Then also data pipelines on Spark, for twice as long.")
    ] = True,
    cluster: Annotated[
        bool, typer.Option("--cluster/--no-cluster", help="Then also three brokers, one of which is killed.")
    ] = True,
) -> None:
    """Start a broker, write and read, run pipelines, kill brokers and a driver, and check that nothing was lost."""
    try:
        _demo(seconds, with_pipeline=pipeline, with_cluster=cluster)
    except BrokerFailed as failure:
        raise CommandFailed(f"the demo's broker failed: {' '.join(str(failure).split())}") from None


def _demo(seconds: float, *, with_pipeline: bool, with_cluster: bool) -> None:
    out = console()
    started = time.perf_counter()
    with BrokerProcess() as broker:
        took_ms = (time.perf_counter() - started) * 1000
        out.print(f"[green]✓[/] broker ready at {broker.bootstrap_servers} in {took_ms:.0f} ms, {_memory(broker.pid)}")
        cluster = Cluster(broker.bootstrap_servers)
        _create_topic(cluster)
        out.print(f"[green]✓[/] topic {TOPIC} made, {PARTITIONS} partitions")
        load = Load(cluster)
        headline = f"[bold]Highwater[/] at {broker.bootstrap_servers}: page views come in waves, a group reads them"
        _run(load, Screen(load, headline, seconds, lambda: _memory(broker.pid)), seconds)
        out.print(f"[green]✓[/] {load.written.total:,} records written and acknowledged by acks=all")
        _check(cluster, load)
        readers = counted(len(load.members), "reader")
        out.print(f"[green]✓[/] {load.read.total:,} records read by {readers}: each one once, in order, byte for byte")
        if with_pipeline:
            show_pipeline(out, broker.bootstrap_servers, 2 * seconds)
        out.print(f"[green]✓[/] the broker now uses {_memory(broker.pid)}")
    if with_cluster:
        show_cluster(out, seconds / 2, with_pipeline=with_pipeline)
    out.print("\nNow yours: [bold]highwater serve[/] runs a broker on port 9092; any Kafka client will do.")


def _create_topic(cluster: Cluster) -> None:
    from confluent_kafka.admin import NewTopic

    cluster.admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(10)


def _run(load: Load, screen: Screen, seconds: float) -> None:
    """Write for a while, with two readers from the start and a third that joins them."""
    load.start_writing()
    load.add_member()
    load.add_member()
    terminal = sys.stdout.isatty()
    live = (
        Live(screen, console=console(), refresh_per_second=1 / FRAME_SECONDS) if terminal else contextlib.nullcontext()
    )
    with live:
        _watch(screen, seconds * THIRD_JOINS_AFTER, plain=not terminal)
        load.add_member()
        _watch(screen, seconds * (1 - THIRD_JOINS_AFTER), plain=not terminal)
        load.finish()


def _watch(screen: Screen, seconds: float, *, plain: bool = False) -> None:
    deadline = time.monotonic() + seconds
    next_line = time.monotonic() + PLAIN_LINE_SECONDS
    while (now := time.monotonic()) < deadline:
        screen.sample()
        if plain and now >= next_line:
            next_line += PLAIN_LINE_SECONDS
            print(screen.plain_line(), flush=True)
        time.sleep(FRAME_SECONDS)


def _check(cluster: Cluster, load: Load) -> None:
    """Fail unless what was read is exactly what was written, and the log holds exactly that."""
    from confluent_kafka.admin import OffsetSpec

    if load.failures.count:
        raise CommandFailed(f"{counted(load.failures.count, 'failure')}, the first: {load.failures.first}")
    if load.read.total != load.written.total:
        raise CommandFailed(f"{load.written.total:,} records were written but {load.read.total:,} were read")
    if (load.read.counts, load.read.checksums) != (load.written.counts, load.written.checksums):
        raise CommandFailed("what was read differs from what was written")
    ends = lookup(cluster, TOPIC, range(PARTITIONS), OffsetSpec.latest())
    if sum(ends.values()) != load.written.total:
        raise CommandFailed(f"the log holds {sum(ends.values()):,} records, {load.written.total:,} were written")


def _memory(pid: int) -> str:
    """Return the memory that a process holds, for people; where there is no /proc, nobody is told."""
    return f"{resident_bytes(pid) / 1e6:.0f} MB of memory" if Path("/proc").exists() else "memory unknown"
