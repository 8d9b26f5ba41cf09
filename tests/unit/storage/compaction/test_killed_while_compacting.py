"""Compaction is interrupted at any step: the next start finds every key with its newest value, and no leftovers."""

import errno
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random

import pytest

from highwater.model.errors import StorageError
from highwater.storage.files import Files
from highwater.storage.log_config import LogConfig
from highwater.testing.faulty_files import FaultyFiles, Killed
from highwater.testing.log_bench import LogBench, a_batch
from highwater_sim.disk import SimDisk

CONFIG = LogConfig(compact=True, delete=False, segment_bytes=400, segment_index_bytes=1200, index_interval_bytes=0)
NEWEST = {b"k%d" % key: b"%d" % number for number in range(18) for key in [number % 4]}
POWER_CUTS_PER_STEP = 5


def a_dirty_bench(folder: Path, disk: Files) -> LogBench:
    """A log of many segments, one round after a first one: some are joined and small, some are not."""
    bench = LogBench(folder, CONFIG, disk)
    for number in range(18):
        bench.append(a_batch(b"%d" % number, keys=[b"k%d" % (number % 4)], producer_id=3, sequence=number))
        if number == 11:
            bench.compact()
    return bench


def check(bench: LogBench) -> None:
    records = bench.records()
    assert {record.key: record.value for record in records} == NEWEST
    offsets = [record.offset for record in records]
    assert offsets == sorted(set(offsets))
    assert bench.log.log_end_offset == 18
    (state,) = bench.log.producers
    assert state.last_sequence == 17
    names = {entry.name for entry in bench.files.list(bench.folder)}
    assert not {name for name in names if name.endswith((".swap", ".deleted", ".tmp"))}
    assert ".compaction" not in names
    bench.compact()
    assert {record.key: record.value for record in bench.records()} == NEWEST


def step_count(folder: Path) -> int:
    disk = FaultyFiles()
    bench = a_dirty_bench(folder, disk)
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
        disk = FaultyFiles()
        bench = a_dirty_bench(tmp_path / f"{step}-0", disk)
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
        disk = FaultyFiles()
        bench = a_dirty_bench(tmp_path / f"{step}-0", disk)
        disk.fail_at, disk.error_number = disk.steps + step, errno.EIO
        with pytest.raises((StorageError, OSError)):
            bench.compact()
        bench.open(clean=False)
        check(bench)


def dying_after(steps: int) -> Callable[[], None]:
    """Return what a simulated disk asks before every change: it ends the process at the step after these."""
    done = count(1)

    def step() -> None:
        if next(done) > steps:
            raise Killed

    return step


def cut_off_after(steps: int, *, seed: int) -> bool:
    """Compact on a disk that forgets what was not synced, cut its power, and check; False when it got through."""
    disk = SimDisk(Random(seed), lambda: 0)
    disk.make_folder(Path("/data/topic-0"))
    bench = a_dirty_bench(Path("/data/topic-0"), disk)
    bench.log.flush()
    disk.sync_all(Path("/data"))
    disk.before_change = dying_after(steps)
    try:
        bench.compact()
    except Killed:
        was_cut_off = True
    else:
        was_cut_off = False
    disk.before_change = lambda: None
    disk.lose_power()
    bench.open(clean=False)
    check(bench)
    return was_cut_off


def test_a_power_cut_at_any_step_loses_nothing() -> None:
    """Of the renames that were not synced, any first few may have happened; of unsynced bytes, any part."""
    steps = 0
    while all([cut_off_after(steps, seed=seed) for seed in range(POWER_CUTS_PER_STEP)]):  # noqa: C419 - all seeds run
        steps += 1
    assert steps > 25
