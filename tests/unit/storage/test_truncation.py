"""Truncation: a follower's log becomes a prefix of what it was, and nothing of the rest is remembered."""

from dataclasses import replace
from pathlib import Path

import pytest

from highwater.model.errors import StorageError
from highwater.storage.log_config import LogConfig
from highwater.testing.faulty_files import FaultyFiles, Killed
from highwater.testing.log_bench import NOW_MS, LogBench, a_batch

SIZE = len(a_batch(b"v", b"v", producer_id=1))
CONFIG = LogConfig(segment_bytes=3 * SIZE, index_interval_bytes=0)


@pytest.fixture
def twenty(tmp_path: Path) -> LogBench:
    """Twenty records, two in a batch, three batches in a segment, an epoch every four records."""
    bench, _ = a_faulty_twenty(tmp_path / "t-0")
    return bench


def a_faulty_twenty(folder: Path) -> tuple[LogBench, FaultyFiles]:
    """The same, and the switches of its disk."""
    disk = FaultyFiles()
    bench = LogBench(folder, CONFIG, disk)
    for sequence in range(0, 20, 2):
        batch = a_batch(b"v", b"v", producer_id=1, sequence=sequence, timestamps=[NOW_MS + sequence] * 2)
        bench.append(batch, leader_epoch=sequence // 4)
    return bench, disk


@pytest.mark.parametrize("reopened", [False, True])
@pytest.mark.parametrize("offset", range(22))
def test_a_truncated_log_is_as_if_the_rest_had_never_been_written(
    twenty: LogBench, tmp_path: Path, offset: int, *, reopened: bool
) -> None:
    end = min(20, offset // 2 * 2)
    never = LogBench(tmp_path / "never-0", CONFIG)
    for sequence in range(0, end, 2):
        batch = a_batch(b"v", b"v", producer_id=1, sequence=sequence, timestamps=[NOW_MS + sequence] * 2)
        never.append(batch, leader_epoch=sequence // 4)
    twenty.log.truncate_to(offset, now_ms=NOW_MS)
    if reopened:
        twenty.open(clean=False)
        assert twenty.log.report.notes == []
    assert twenty.log.log_end_offset == end
    assert twenty.records() == never.records()
    assert list(twenty.log.producers) == list(never.log.producers)
    assert twenty.log.leader_epochs.entries == never.log.leader_epochs.entries
    assert twenty.log.offset_for_timestamp(NOW_MS + 3) == never.log.offset_for_timestamp(NOW_MS + 3)
    assert twenty.log.offset_of_max_timestamp() == never.log.offset_of_max_timestamp()
    assert twenty.append(a_batch(b"w", producer_id=1, sequence=end), leader_epoch=9).base_offset == end
    assert twenty.values()[-1:] == [b"w"]


def test_what_was_staged_is_forgotten(twenty: LogBench) -> None:
    twenty.log.stage(memoryview(a_batch(b"x")), leader_epoch=5, now_ms=NOW_MS)
    twenty.log.truncate_to(10, now_ms=NOW_MS)
    twenty.log.write_staged()
    assert twenty.log.log_end_offset == 10


def test_the_recovery_point_moves_back_with_the_end(twenty: LogBench) -> None:
    twenty.log.flush()
    assert twenty.log.recovery_point == 20
    twenty.log.truncate_to(10, now_ms=NOW_MS)
    assert twenty.log.recovery_point == 10


def test_truncation_below_the_first_segment_begins_anew(twenty: LogBench) -> None:
    twenty.log.config = replace(CONFIG, retention_bytes=3 * SIZE)
    twenty.log.apply_retention(NOW_MS, high_watermark=20)
    assert twenty.log.log_start_offset > 4
    twenty.log.truncate_to(4, now_ms=NOW_MS)
    assert (twenty.log.log_start_offset, twenty.log.log_end_offset) == (4, 4)
    assert twenty.records() == []
    assert len(twenty.log.producers) == 0


def test_a_log_can_begin_anew_at_any_offset(twenty: LogBench) -> None:
    twenty.log.restart_at(1000, now_ms=NOW_MS)
    assert (twenty.log.log_start_offset, twenty.log.log_end_offset) == (1000, 1000)
    assert twenty.log.leader_epochs.entries == ()
    twenty.open(clean=False)
    assert (twenty.log.log_start_offset, twenty.log.log_end_offset) == (1000, 1000)
    assert twenty.append_values(b"v").base_offset == 1000


@pytest.mark.parametrize("offset", [20, 30])
def test_a_full_disk_keeps_a_log_from_beginning_anew_and_it_keeps_what_it_has(tmp_path: Path, offset: int) -> None:
    """Found by the simulator, seed 14598: the old segments went before the new one was there.

    The next start found none, began at 0, and its broker led from there what was committed up to 33.
    """
    bench, disk = a_faulty_twenty(tmp_path / "full-0")
    records = bench.records()
    disk.is_full = True
    with pytest.raises(StorageError):
        bench.log.restart_at(offset, now_ms=NOW_MS)
    disk.is_full = False
    bench.open(clean=False)
    assert bench.records() == records
    assert bench.log.log_end_offset == 20


@pytest.mark.parametrize("offset", [20, 30])
def test_a_log_that_begins_anew_never_forgets_where_it_was(tmp_path: Path, offset: int) -> None:
    """Whenever it is killed on the way, it ends where it did, or begins where it was to begin."""
    bench, disk = a_faulty_twenty(tmp_path / "counting-0")
    before = disk.steps
    bench.log.restart_at(offset, now_ms=NOW_MS)
    steps = disk.steps - before
    assert steps > 8
    for step in range(1, steps + 1):
        bench, disk = a_faulty_twenty(tmp_path / f"{step}-0")
        disk.kill_at = disk.steps + step
        with pytest.raises(Killed):
            bench.log.restart_at(offset, now_ms=NOW_MS)
        disk.kill_at = None
        bench.open(clean=False)
        log = bench.log
        assert (log.log_start_offset, log.log_end_offset) == (offset, offset) or log.log_end_offset == 20
        assert [record.offset for record in bench.records()] == list(range(log.log_start_offset, log.log_end_offset))
        assert bench.append_values(b"v").base_offset == log.log_end_offset - 1


def test_a_log_that_begins_below_its_first_segment_is_empty_or_what_it_was(tmp_path: Path) -> None:
    """What a leader has lost is cut off; killed on the way, no part in the middle is missing."""

    def a_late_log(name: str) -> tuple[LogBench, FaultyFiles]:
        bench, disk = a_faulty_twenty(tmp_path / name)
        bench.log.config = replace(CONFIG, retention_bytes=3 * SIZE)
        for segment in bench.log.apply_retention(NOW_MS, high_watermark=20):
            segment.remove()
        return bench, disk

    bench, disk = a_late_log("counting-0")
    before = disk.steps
    bench.log.truncate_to(4, now_ms=NOW_MS)
    for step in range(1, disk.steps - before + 1):
        bench, disk = a_late_log(f"{step}-0")
        start = bench.log.log_start_offset
        disk.kill_at = disk.steps + step
        with pytest.raises(Killed):
            bench.log.truncate_to(4, now_ms=NOW_MS)
        disk.kill_at = None
        bench.open(clean=False)
        assert bench.log.log_start_offset in {4, start}
        offsets = [record.offset for record in bench.records()]
        assert offsets == list(range(bench.log.log_start_offset, bench.log.log_end_offset))


def test_a_region_of_what_was_cut_reads_short(twenty: LogBench) -> None:
    region = twenty.log.read(0, max_bytes=10_000, up_to=6)
    assert region is not None
    twenty.log.truncate_to(2, now_ms=NOW_MS)
    assert len(region.read()) == SIZE < len(region)
