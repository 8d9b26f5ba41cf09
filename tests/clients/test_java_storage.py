"""Apache Kafka reads our files: segments, both indexes, the transaction index, producer snapshots."""

from collections.abc import Callable
from pathlib import Path

import pytest

from highwater.protocol.records.compression import Codec
from highwater.storage.log_config import LogConfig
from highwater.testing.log_bench import NOW_MS, LogBench, a_batch

Java = Callable[..., str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log of several segments with every codec, an idempotent producer, and transactions that end either way."""
    bench = LogBench(tmp_path / "topic-0", LogConfig(segment_bytes=65_000))
    for number in range(1000):
        times = [NOW_MS + number - number % 7, NOW_MS + number]
        bench.append(a_batch(b"a" * 90, b"b", timestamps=times, codec=Codec(number % 5)), leader_epoch=number // 400)
        batch = a_batch(b"c" * 30, timestamps=times[1:], producer_id=7, sequence=number)
        bench.append(batch, leader_epoch=number // 400)
        batch = a_batch(b"d", timestamps=times[1:], producer_id=8, sequence=number, transactional=True)
        bench.append(batch, leader_epoch=number // 400)
        if number % 10 == 9:
            bench.end_transaction(8, commit=number % 20 == 9, coordinator_epoch=3, leader_epoch=number // 400)
    assert len(bench.log.segments) > 4
    bench.log.close()
    return bench.folder


def test_kafkas_dump_tool_finds_nothing_wrong(java: Java, folder: Path) -> None:
    def dump(suffixes: tuple[str, ...], *options: str) -> list[str]:
        files = ",".join(str(path) for path in sorted(folder.iterdir()) if path.name.endswith(suffixes))
        return java("kafka.tools.DumpLogSegments", "--files", files, *options).splitlines()

    indexes = (".index", ".timeindex")
    count = sum(path.name.endswith(indexes) for path in folder.iterdir())
    passed = [line for line in dump(indexes, "--index-sanity-check") if line.endswith("passed sanity check.")]
    assert len(passed) == count
    verified = dump(indexes, "--verify-index-only")
    assert [line for line in verified if line and not line.startswith(("Dumping", "SLF4J"))] == []

    batches = [line for line in dump((".log",)) if line.startswith("baseOffset:")]
    assert len(batches) == 3100
    assert all("isvalid: true" in line for line in batches)

    aborted = [line for line in dump((".txnindex",)) if line.startswith("version:")]
    assert len(aborted) == 50
    assert aborted[0] == "version: 0 producerId: 8 firstOffset: 44 lastOffset: 81 lastStableOffset: 82"

    producers = [line for line in dump(("4100.snapshot",)) if line.startswith("producerId:")]
    assert "producerId: 7 producerEpoch: 0" in producers[0]
    assert "lastSequence: 999 lastOffset: 4097" in producers[0]
    assert "coordinatorEpoch: 3 currentTxnFirstOffset: OptionalLong.empty" in producers[1]
