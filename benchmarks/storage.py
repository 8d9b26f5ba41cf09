"""Lines about the log on disk: compaction, recovery after a kill, writes while the disk is busy, many partitions."""

import os
import random
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from benchmarks.brokers import Broker
from benchmarks.latency import CONNECTIONS, RECORDS_PER_SECOND, Schedule, percentile, run_schedule
from benchmarks.life import ANSWER_TIMEOUT_SECONDS, PARTITIONS_PER_TOPIC, SETTLE_SECONDS, await_write
from benchmarks.measuring import CALM, MORE_TRIES, STOLEN, Arena, Metric, Target, record
from benchmarks.process_stats import Stolen, cpu_seconds, memory
from benchmarks.raw_clients import LARGE_BATCH_BYTES, MEGABYTE, fill
from benchmarks.topics import create_topic, scratch_topic
from highwater.model.errors import ErrorCode
from highwater.protocol.messages.fetch import FetchResponse
from highwater.protocol.messages.produce import ProduceResponse
from highwater.protocol.records.batch import iter_batches
from highwater.protocol.records.compression import Codec
from highwater.protocol.records.record import Record, build_batch
from highwater.storage.checkpoints import CLEANED_OFFSETS
from highwater.testing.requests import fetch_request, produce_request
from highwater.testing.wire import ConnectionClosed, WireClient

COMPACTED_BYTES: Final = 400_000_000
SEGMENT_BYTES: Final = 50_000_000
KEYS: Final = 200_000
RECORDS_PER_BATCH: Final = 120
VALUE_BYTES: Final = 100
RECOVERED_BYTES: Final = 2_000_000_000
RECOVERED_PARTITIONS: Final = 4
COLD_BYTES: Final = 1_000_000_000
COLD_FETCH_BYTES: Final = 1 << 20
RECEIVE_BYTES: Final = 32 * 1024
FORGET_AT_ONCE_BYTES: Final = 1 << 20
MANY_PARTITIONS: Final = 10_000
IDLE_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.02
_RECORD_OVERHEAD_BYTES: Final = 18
"""Of a record beside its value: key, lengths and deltas."""
_SOON: Final = {"log.cleaner.backoff.ms": "50"}
"""On both sides: otherwise it is mostly the wait for the next look that is measured."""


def own(arena: Arena, running: Broker, purpose: str, settings: Mapping[str, str] | None = None) -> Broker:
    """Return another broker of the same kind, with a data dir of its own."""
    return type(running)(arena.directory / f"{purpose}-{running.name.replace(' ', '-')}", settings or {})


# Compaction -----------------------------------------------------------------------------------------------------------


def compaction(arena: Arena, codec: Codec = Codec.NONE) -> list[Metric]:
    """The same keyed records on both sides, 200,000 keys; from the moment compaction is asked for until it is done.

    Megabytes are those of the segments: compressed records are more for each of them.
    """
    metrics = [
        Metric("compacted", "MB/s", Target(at_least=1.0)),
        Metric("records", "/s", Target(at_least=1.0)),
    ]
    batches = keyed_batches(arena.effort.scaled(COMPACTED_BYTES), codec)

    def measure(running: Broker) -> Mapping[str, float]:
        with own(arena, running, "compaction", _SOON) as broker:
            admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 5})
            config = {"segment.bytes": str(min(SEGMENT_BYTES, arena.effort.scaled(COMPACTED_BYTES) // 4))}
            admin.create_topics([NewTopic("keyed", 1, 1, config=config)])["keyed"].result(ANSWER_TIMEOUT_SECONDS)
            await_topic(broker, "keyed")
            append(broker, "keyed", batches)
            sealed = last_segment(broker, "keyed-0")
            started = time.perf_counter()
            alter(admin, "keyed", {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
            until(lambda: cleaned_to(broker, "keyed") >= sealed, "compaction")
            seconds = time.perf_counter() - started
        megabytes = sum(map(len, batches)) * sealed / (len(batches) * RECORDS_PER_BATCH) / MEGABYTE
        return {"compacted": megabytes / seconds, "records": sealed / seconds}

    return arena.alternate(metrics, measure)


def compaction_lz4(arena: Arena) -> list[Metric]:
    """The same with lz4."""
    return compaction(arena, Codec.LZ4)


def compaction_zstd(arena: Arena) -> list[Metric]:
    """The same with zstd."""
    return compaction(arena, Codec.ZSTD)


def keyed_batches(total_bytes: int, codec: Codec = Codec.NONE) -> list[bytes]:
    """Return batches as a producer of changes sends them; the seed is the same for both brokers.

    `total_bytes` are those of the records before they are compressed, to about a half.
    """
    chance = random.Random(7)
    filler = bytes(VALUE_BYTES // 2)
    now_ms = int(time.time() * 1000)
    batches: list[bytes] = []
    size = 0
    while size < total_bytes:
        records = [
            Record(number, now_ms, b"key-%06d" % chance.randrange(KEYS), chance.randbytes(VALUE_BYTES // 2) + filler)
            for number in range(RECORDS_PER_BATCH)
        ]
        batches.append(bytes(build_batch(records, codec=codec)))
        size += RECORDS_PER_BATCH * (VALUE_BYTES + _RECORD_OVERHEAD_BYTES)
    return batches


def append(broker: Broker, topic: str, batches: list[bytes]) -> None:
    """Append batches to a topic's first partition, a few at a time on their way."""
    with WireClient(broker.bootstrap) as client:
        waiting: list[int] = []
        for batch in batches:
            waiting.append(client.send(produce_request(topic, bytearray(batch)), 8))
            if len(waiting) == 5:
                take_receipt(client, waiting.pop(0))
        for correlation_id in waiting:
            take_receipt(client, correlation_id)


def take_receipt(client: WireClient, correlation_id: int) -> None:
    """Take the answer to a Produce, which must be a good one."""
    receipt = client.receive(ProduceResponse, 8, correlation_id).responses[0].partition_responses[0]
    assert receipt.error_code == ErrorCode.NONE, receipt


def await_topic(broker: Broker, topic: str) -> None:
    """Return when a topic can be read."""

    def can_be_read() -> bool:
        with WireClient(broker.bootstrap) as client:
            answer = client.call(fetch_request(topic, 0, max_wait_ms=0), FetchResponse, 11)
        return answer.responses[0].partitions[0].error_code == ErrorCode.NONE

    until(can_be_read, f"{topic} can be read")


def alter(admin: AdminClient, topic: str, configs: Mapping[str, str]) -> None:
    """Change settings of a topic."""
    entries = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in configs.items()]
    change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    for future in admin.incremental_alter_configs([change]).values():
        future.result(ANSWER_TIMEOUT_SECONDS)


def last_segment(broker: Broker, partition: str) -> int:
    """Return the base offset of a log's active segment: all before it can be compacted."""
    return max(int(path.stem) for path in (broker.directory / "data" / partition).glob("*.log"))


def cleaned_to(broker: Broker, topic: str) -> int:
    """Return how far a topic's first partition is compacted, by the checkpoint file, alike on both sides."""
    try:
        lines = (broker.directory / "data" / CLEANED_OFFSETS).read_text().splitlines()[2:]
    except FileNotFoundError:
        return 0
    return next((int(line.split()[2]) for line in lines if line.split()[:2] == [topic, "0"]), 0)


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition, a few hundredths of a second at a time."""
    deadline = time.monotonic() + ANSWER_TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"{what} took too long"
        time.sleep(_PAUSE_SECONDS)


# Recovery -------------------------------------------------------------------------------------------------------------


def recovery(arena: Arena) -> list[Metric]:
    """From the start of a killed broker to its first acknowledged write, and what the check adds for each gigabyte."""
    metrics = [
        Metric("first write after a kill", "s", Target(at_most=1.0)),
        Metric("more than after a clean stop, per GB", "s", Target(at_most=1.0)),
    ]
    total_bytes = arena.effort.scaled(RECOVERED_BYTES)
    batches = total_bytes // RECOVERED_PARTITIONS // LARGE_BATCH_BYTES
    for running in arena.brokers:
        with own(arena, running, "recovery") as broker:
            create_topic(broker, "first", RECOVERED_PARTITIONS)
            for number in range(arena.effort.rounds + 1):
                fill(broker, "first", RECOVERED_PARTITIONS, LARGE_BATCH_BYTES, batches if not number else 1)
                broker.kill()
                after_kill = seconds_to_first_write(broker)
                broker.stop()
                after_stop = seconds_to_first_write(broker)
                each = (after_kill - after_stop) / (total_bytes / 1e9)
                arena.say(
                    f"    round {number}  {broker.name:<13} {after_kill:.2f} s, {after_stop:.2f} s after a clean stop"
                )
                if number:
                    figures = {metrics[0].name: after_kill, metrics[1].name: max(each, 0.001)}
                    record(metrics, figures, are_ours=running is arena.ours)
    return metrics


def seconds_to_first_write(broker: Broker) -> float:
    """Start a broker and write to it."""
    started = time.perf_counter()
    broker.launch()
    await_write(broker, RECOVERED_PARTITIONS)
    return time.perf_counter() - started


# Writes while the disk is busy ----------------------------------------------------------------------------------------


def busy_latency(arena: Arena) -> list[Metric]:
    """5,000 records a second, alone, and while a compaction and a reader of cold data are at work."""
    metrics = [
        Metric("p99 alone", "ms", Target(at_most=1.0)),
        Metric("p99 busy", "ms", Target(at_most=1.0)),
        Metric("busy / alone", "", Target(ours_at_most=2)),
    ]
    batches = keyed_batches(arena.effort.scaled(COMPACTED_BYTES))

    def measure(running: Broker) -> Mapping[str, float]:
        with arena.ours.paused(), arena.theirs.paused(), own(arena, running, "busy", _SOON) as broker:
            admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 5})
            config = {"segment.bytes": str(min(SEGMENT_BYTES, arena.effort.scaled(COMPACTED_BYTES) // 4))}
            admin.create_topics([NewTopic("keyed", 1, 1, config=config)])["keyed"].result(ANSWER_TIMEOUT_SECONDS)
            await_topic(broker, "keyed")
            append(broker, "keyed", batches)
            create_topic(broker, "cold", 1)
            fill(broker, "cold", 1, LARGE_BATCH_BYTES, arena.effort.scaled(COLD_BYTES) // LARGE_BATCH_BYTES)
            for topic in ("cold", "keyed"):
                make_cold(broker.directory / "data" / f"{topic}-0")  # or else its writing out is measured
            alone, stolen_alone = p99_alone(arena, broker)
            alter(admin, "keyed", {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
            reader = ColdReader(broker)
            try:
                busy, stolen_busy = p99(arena, broker)
            finally:
                reader.stop()
        stolen = max(stolen_alone, stolen_busy)
        return {"p99 alone": alone, "p99 busy": busy, "busy / alone": busy / alone, STOLEN: stolen}

    return arena.alternate(metrics, measure)


def p99(arena: Arena, broker: Broker) -> tuple[float, float]:
    """Return the p99 of acknowledged writes at a fixed rate in milliseconds, and what was taken away meanwhile."""
    with scratch_topic(broker, CONNECTIONS) as topic:
        records = int(RECORDS_PER_SECOND * (arena.effort.seconds + arena.effort.warm_up_seconds))
        stolen = Stolen()
        latencies = run_schedule(Schedule(broker.bootstrap, topic, records))
        share = stolen.share()
    return percentile(latencies[int(RECORDS_PER_SECOND * arena.effort.warm_up_seconds) :], 99) * 1e3, share


def make_cold(folder: Path) -> None:
    """Write out the segments in a folder, and have the page cache forget them."""
    subprocess.run(["sync", "-f", str(folder)], check=True)
    forget_pages(folder)


def p99_alone(arena: Arena, broker: Broker) -> tuple[float, float]:
    """Return the same once the machine below is done with a disk that has said that it is, which may take seconds."""
    for _ in range(MORE_TRIES):
        figure, stolen = p99(arena, broker)
        if stolen <= CALM:
            break
    return figure, stolen


def forget_pages(folder: Path) -> None:
    """Have the page cache forget segments that are on the disk already: nobody has to wait for that."""
    for path in folder.glob("*.log"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            # Bit by bit: all at once kept a processor from the brokers for 28 ms, as the kernel does not stop halfway.
            for start in range(0, path.stat().st_size, FORGET_AT_ONCE_BYTES):
                os.posix_fadvise(descriptor, start, FORGET_AT_ONCE_BYTES, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


class OneRoomClient(WireClient):
    """Receives every answer into the same memory: new memory for each kept the broker from a processor for 60 µs."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._room = memoryview(bytearray(2 * COLD_FETCH_BYTES))

    def _receive(self, size: int) -> memoryview:
        received = self._room[:size]
        count = 0
        while count < size:
            step = self.socket.recv_into(received[count : count + RECEIVE_BYTES])
            if step == 0:
                raise ConnectionClosed
            count += step
        return received


class ColdReader:
    """Reads the cold topic from its beginning, over and over, as a consumer that catches up does."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        # The reader's own computing is not to be measured: it leaves the processors to the brokers and to the writer.
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        with OneRoomClient(self._broker.bootstrap) as client:
            offset = 0
            while not self._stop.is_set():
                request = fetch_request("cold", offset, max_bytes=COLD_FETCH_BYTES, max_wait_ms=0)
                answer = client.call(request, FetchResponse, 11)
                view = answer.responses[0].partitions[0].records
                assert isinstance(view, memoryview)
                before = offset
                for _, header in iter_batches(view):
                    offset = header.next_offset
                    os.sched_yield()
                if offset == before:
                    offset = 0
                    forget_pages(self._broker.directory / "data" / "cold-0")


# Many partitions ------------------------------------------------------------------------------------------------------


def many_partitions(arena: Arena) -> list[Metric]:
    """10,000 partitions on one broker: stop, start to the first write, memory and processor time while nobody asks."""
    metrics = [
        Metric("stop", "s", Target(at_most=1.0)),
        Metric("start to first write", "s", Target(at_most=1.0)),
        Metric("RSS", "MB", Target(at_most=1.0)),
        Metric("idle CPU", "%", Target(at_most=1.0)),
    ]
    topics = arena.effort.scaled(MANY_PARTITIONS) // PARTITIONS_PER_TOPIC or 1
    for running in arena.brokers:
        with own(arena, running, "many") as broker:
            create_topic(broker, "first", PARTITIONS_PER_TOPIC)
            for number in range(topics - 1):
                create_topic(broker, f"idle-{number}", PARTITIONS_PER_TOPIC)
            for number in range(arena.effort.rounds):
                started = time.perf_counter()
                broker.stop()
                stopped = time.perf_counter()
                broker.launch()
                await_write(broker, PARTITIONS_PER_TOPIC)
                figures = {"stop": stopped - started, "start to first write": time.perf_counter() - stopped}
                time.sleep(SETTLE_SECONDS)
                figures["RSS"] = memory(broker.pid).rss_bytes / MEGABYTE
                before = cpu_seconds(broker.pid)
                time.sleep(IDLE_SECONDS)
                figures["idle CPU"] = (cpu_seconds(broker.pid) - before) / IDLE_SECONDS * 100
                shown = ", ".join(f"{metric.name} {figures[metric.name]:,.3g} {metric.unit}" for metric in metrics)
                arena.say(f"    round {number + 1}  {broker.name:<13} {shown}")
                record(metrics, figures, are_ours=running is arena.ours)
    return metrics
