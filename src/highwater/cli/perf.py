"""`highwater perf`: how fast can a client write to a topic, and read it?"""

from __future__ import annotations

import random
import string
import time
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from highwater.cli.failures import CommandFailed, meaning
from highwater.cli.figures import MIB, latency_summary, short_count
from highwater.cli.options import AsJson, ClientSettings, ClusterOption, TopicArgument, key_values
from highwater.cli.output import console, show_json
from highwater.cli.positions import StartOption
from highwater.cli.produce import Acks, AcksOption, Compression, CompressionOption
from highwater.cli.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import KafkaError, Message, Producer

perf = typer.Typer(no_args_is_help=True, help="Measure how fast a client can write to a topic, and read it.")

PAYLOADS: Final = 512
CHUNK: Final = 1000
READ_BATCH: Final = 10_000
FLUSH_SECONDS: Final = 60.0


def register(app: typer.Typer) -> None:
    """Add the commands to the app."""
    app.add_typer(perf, name="perf")


@perf.command("produce")
def perf_produce(
    topic: TopicArgument,
    *,
    cluster: ClusterOption,
    records: Annotated[int, typer.Option("--records", "-n", min=1, help="How many records to write.")] = 1_000_000,
    size: Annotated[int, typer.Option("--size", "-s", min=1, help="Bytes of each value.")] = 100,
    rate: Annotated[
        int | None, typer.Option("--rate", min=1, help="Records a second; as fast as possible if not given.")
    ] = None,
    acks: AcksOption = Acks.ALL,
    compression: CompressionOption = Compression.NONE,
    settings: ClientSettings = None,
    as_json: AsJson = False,
) -> None:
    """Write records of random text and measure throughput and the time until each is acknowledged."""
    cluster.topic(topic)
    client = {
        "acks": acks.value,
        "compression.type": compression.value,
        "enable.idempotence": acks is Acks.ALL,
        **key_values(settings, option="--setting"),
    }
    producer = cluster.producer(client)
    deliveries = Deliveries()
    payloads = _payloads(size)
    started = time.perf_counter()
    with Meter("writing", records) as meter:
        for count in _paced(producer, records, rate):
            _send_chunk(producer, topic, payloads, count, deliveries)
            meter.show(deliveries.count)
        deadline = time.perf_counter() + FLUSH_SECONDS
        while producer.flush(0.1) and time.perf_counter() < deadline:
            meter.show(deliveries.count)
        meter.show(deliveries.count)
    elapsed = time.perf_counter() - started
    if deliveries.error is not None or deliveries.count < records:
        reason = meaning(deliveries.error) if deliveries.error else "the broker did not answer in time"
        raise CommandFailed(f"{records - deliveries.count:,} of {records:,} records were not written: {reason}")
    figures = _throughput(records, records * size, elapsed)
    _report(figures | {"latency_ms": latency_summary(deliveries.latencies_ms)}, as_json=as_json)


@perf.command("consume")
def perf_consume(
    topic: TopicArgument,
    *,
    cluster: ClusterOption,
    records: Annotated[
        int | None, typer.Option("--records", "-n", min=1, help="Stop after so many; else at the end.")
    ] = None,
    start: StartOption,
    settings: ClientSettings = None,
    as_json: AsJson = False,
) -> None:
    """Read a topic as fast as possible, up to its end, and measure throughput."""
    # With its default, librdkafka stops fetching for up to a second whenever 100,000 records wait to be taken.
    client = {"queued.min.messages": 1_000_000, **key_values(settings, option="--setting")}
    reader = Reader(cluster, client, follow=False, limit=records)
    started = time.perf_counter()
    first_ms: float | None = None
    count = size_bytes = 0
    with reader.assign(topic, cluster.partitions_of(topic), start), Meter("reading", records) as meter:
        for batch in reader.batches(READ_BATCH):
            if batch and first_ms is None:
                first_ms = (time.perf_counter() - started) * 1000
            count += len(batch)
            size_bytes += sum(len(message) for message in batch)
            meter.show(count)
        elapsed = time.perf_counter() - started
    if not count:
        raise CommandFailed(f"topic {topic!r} holds nothing to read there; `highwater perf produce {topic}` fills it")
    _report(_throughput(count, size_bytes, elapsed) | {"first_record_ms": round(first_ms or 0, 3)}, as_json=as_json)


@dataclass(slots=True)
class Deliveries:
    """What the broker has acknowledged, and how long each record took."""

    count: int = 0
    latencies_ms: array[float] = field(default_factory=lambda: array("d"))
    error: KafkaError | None = None

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        """Take one answer."""
        if error is not None:
            self.error = self.error or error
            return
        self.count += 1
        self.latencies_ms.append((message.latency() or 0.0) * 1000)


class Meter:
    """A progress bar with the rate so far, on stderr so that results can be piped."""

    def __init__(self, what: str, total: int | None) -> None:
        out = console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[figures]}"))
        self._progress = Progress(
            *columns, TimeElapsedColumn(), console=out, transient=True, disable=not out.is_terminal
        )
        self._task = self._progress.add_task(what, total=total, figures="")
        self._started = time.perf_counter()

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, count: int) -> None:
        """Show how far we are."""
        rate = count / max(time.perf_counter() - self._started, 1e-9)
        self._progress.update(self._task, completed=count, figures=f"{count:,}  {short_count(rate)}/s")


def _payloads(size: int) -> list[bytes]:
    """Return values that compress about as well as text; always the same, so that runs can be compared."""
    source = random.Random(size)  # noqa: S311 - not a secret
    letters = string.ascii_letters + string.digits + " " * 8
    return ["".join(source.choices(letters, k=size)).encode() for _ in range(PAYLOADS)]


def _paced(producer: Producer, records: int, rate: int | None) -> Iterator[int]:
    """Yield how many records are due, again and again, and take the broker's answers while none is."""
    started = time.perf_counter()
    chunk = CHUNK if rate is None else max(1, min(CHUNK, rate // 1000))
    for sent in range(0, records, chunk):
        while rate is not None and (early := started + sent / rate - time.perf_counter()) > 0:
            producer.poll(early)
        yield min(chunk, records - sent)


def _send_chunk(producer: Producer, topic: str, payloads: list[bytes], count: int, deliveries: Deliveries) -> None:
    for index in range(count):
        while True:
            try:
                producer.produce(topic, payloads[index % PAYLOADS], on_delivery=deliveries.delivered)
            except BufferError:  # librdkafka's queue is full: wait until the broker has taken some of it
                producer.poll(0.05)
            else:
                break
        if deliveries.error is not None:
            raise CommandFailed(meaning(deliveries.error))
    producer.poll(0)


def _throughput(records: int, size_bytes: int, elapsed: float) -> dict[str, Any]:
    return {
        "records": records,
        "seconds": round(elapsed, 3),
        "records_per_second": round(records / elapsed, 1),
        "mib_per_second": round(size_bytes / elapsed / MIB, 3),
    }


def _report(figures: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        show_json(figures)
        return
    out = console()
    out.print(
        f"[bold]{figures['records']:,}[/] records in [bold]{figures['seconds']:.2f}[/] s: "
        f"[bold]{figures['records_per_second']:,.0f}[/] records/s, [bold]{figures['mib_per_second']:.1f}[/] MiB/s"
    )
    if "first_record_ms" in figures:
        out.print(f"first record after {figures['first_record_ms']:.0f} ms")
    if latency := figures.get("latency_ms"):
        out.print("latency ms: " + "  ".join(f"{name} {value:.1f}" for name, value in latency.items()))
