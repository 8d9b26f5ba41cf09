"""Compaction is interrupted at any step: the next start finds every key with its newest value, and no leftovers."""

import errno
from pathlib import Path

import pytest

from highwater.model.errors import StorageError
from highwater.storage.log_config import LogConfig
from highwater.testing.faulty_files import FaultyFiles, Killed
from highwater.testing.log_bench import LogBench, a_batch

CONFIG = LogConfig(compact=True, delete=False, segment_bytes=400, index_interval_bytes=0)
NEWEST = {b"k%d" % key: b"%d" % number for number in range(18) for key in [number % 4]}


def a_dirty_bench(folder: Path) -> tuple[LogBench, FaultyFiles]:
    """A log of many segments, one round after a first one: some are joined and small, some are not."""
    disk = FaultyFiles()
    bench = LogBench(folder, CONFIG, disk)
    for number in range(18):
        bench.append(a_batch(b"%d" % number, keys=[b"k%d" % (number % 4)], producer_id=3, sequence=number))
        if number == 11:
            bench.compact()
    return bench, disk


def check(bench: LogBench) -> None:
    records = bench.records()
    assert {record.key: record.value for record in records} == NEWEST
    offsets = [record.offset for record in records]
    assert offsets == sorted(set(offsets))
    assert bench.log.log_end_offset == 18
    (state,) = bench.log.producers
    assert state.last_sequence == 17
    names = {path.name for path in bench.folder.iterdir()}
    assert not {name for name in names if name.endswith((".swap", ".deleted", ".tmp"))}
    assert ".compaction" not in names
    bench.compact()
    assert {record.key: record.value for record in bench.records()} == NEWEST


def step_count(folder: Path) -> int:
    bench, disk = a_dirty_bench(folder)
    before = disk.steps
    bench.compact()
    steps = disk.steps - before
    assert steps > 25
    check(bench)
    return steps


@pytest.mark.parametrize("killed_again_at", [None, 2])
def test_a_kill_at_any_step_loses_nothing(tmp_path: Path, killed_again_at: int | None) -> None:
    """Also when the start that finishes an interrupted swap is killed itself."""
    for step in range(1, step_count(tmp_path / "counting-0") + 1, 1 if killed_again_at is None else 3):
        bench, disk = a_dirty_bench(tmp_path / f"{step}-0")
        disk.kill_at = disk.steps + step
        with pytest.raises(Killed):
            bench.compact()
        if killed_again_at is not None:
            disk.kill_at = disk.steps + killed_again_at
            with pytest.raises(Killed):
                bench.open(clean=False)
        disk.kill_at = None
        bench.open(clean=False)
        check(bench)


def test_a_disk_error_at_any_step_loses_nothing(tmp_path: Path) -> None:
    for step in range(1, step_count(tmp_path / "counting-0") + 1):
        bench, disk = a_dirty_bench(tmp_path / f"{step}-0")
        disk.fail_at, disk.error_number = disk.steps + step, errno.EIO
        with pytest.raises((StorageError, OSError)):
            bench.compact()
        bench.open(clean=False)
        check(bench)
