"""A process that is killed between any two steps: the next start finds a prefix, and everything acknowledged."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from highwater.storage.log_config import LogConfig
from highwater.testing.faulty_files import FaultyFiles, Killed
from highwater.testing.log_bench import NOW_MS, LogBench, a_batch

SIZE = len(a_batch(b"v", producer_id=1))
CONFIG = LogConfig(segment_bytes=3 * SIZE, index_interval_bytes=0)

Script = Callable[[LogBench, list[int]], None]


def append(bench: LogBench, written: list[int]) -> None:
    """Append, rolling on the way; `written` learns how many records were acknowledged."""
    for sequence in range(bench.log.log_end_offset, bench.log.log_end_offset + 4):
        bench.append(a_batch(b"v", producer_id=1, sequence=sequence), leader_epoch=sequence // 4)
        written.append(sequence)


def close_and_open(bench: LogBench, written: list[int]) -> None:
    bench.log.close()
    bench.open()
    append(bench, written)


def crash_and_open(bench: LogBench, written: list[int]) -> None:
    """Killed again while it recovers."""
    path = bench.log.segments.active.path
    path.write_bytes(path.read_bytes() + b"torn")
    bench.open(clean=False)
    append(bench, written)


def truncate(bench: LogBench, written: list[int]) -> None:
    del written[3:]
    bench.log.truncate_to(3, now_ms=NOW_MS)
    append(bench, written)


def retain(bench: LogBench, written: list[int]) -> None:
    bench.log.config = replace(CONFIG, retention_bytes=3 * SIZE)
    for segment in bench.log.apply_retention(NOW_MS, high_watermark=bench.log.log_end_offset):
        segment.remove()
    append(bench, written)


@pytest.mark.parametrize("script", [append, close_and_open, crash_and_open, truncate, retain])
def test_whenever_it_is_killed_what_was_acknowledged_is_there(tmp_path: Path, script: Script) -> None:
    def a_bench(name: str) -> tuple[LogBench, FaultyFiles, list[int]]:
        disk = FaultyFiles()
        bench = LogBench(tmp_path / name, CONFIG, disk)
        written: list[int] = []
        append(bench, written)
        append(bench, written)
        return bench, disk, written

    bench, disk, written = a_bench("counting-0")
    before = disk.steps
    script(bench, written)
    steps = disk.steps - before
    assert steps > 8
    for step in range(1, steps + 1):
        bench, disk, written = a_bench(f"{step}-0")
        disk.kill_at = disk.steps + step
        with pytest.raises(Killed):
            script(bench, written)
        disk.kill_at = None
        bench.open(clean=False)
        offsets = [record.offset for record in bench.records()]
        assert offsets == list(range(bench.log.log_start_offset, bench.log.log_end_offset))
        assert bench.log.log_end_offset > max(written)
        (state,) = bench.log.producers
        assert state.last_sequence == bench.log.log_end_offset - 1
        assert not list(bench.folder.glob("*.tmp"))
        assert not list(bench.folder.glob("*.deleted"))
        append(bench, written)
