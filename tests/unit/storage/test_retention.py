"""Retention and DeleteRecords: what goes at the start of a log, and when."""

from dataclasses import replace
from pathlib import Path

import pytest

from highwater.storage.errors import OffsetOutOfRange
from highwater.storage.log_config import LogConfig
from highwater.testing.log_bench import NOW_MS, LogBench, a_batch

SIZE = len(a_batch(b"v"))
CONFIG = LogConfig(segment_bytes=2 * SIZE, retention_ms=-1)


@pytest.fixture
def ten(tmp_path: Path) -> LogBench:
    """Ten records, two in a segment, one millisecond apart."""
    bench = LogBench(tmp_path / "t-0", CONFIG)
    for number in range(10):
        bench.append(a_batch(b"v", timestamps=[NOW_MS + number]), leader_epoch=number // 3)
    return bench


def retain(bench: LogBench, now_ms: int = NOW_MS, high_watermark: int = 10) -> int:
    return len(bench.log.apply_retention(now_ms, high_watermark=high_watermark))


def test_nothing_goes_without_a_limit(ten: LogBench) -> None:
    assert retain(ten, NOW_MS + 10**12) == 0
    assert ten.log.log_start_offset == 0


def test_segments_go_by_their_largest_timestamp(ten: LogBench) -> None:
    ten.log.config = replace(CONFIG, retention_ms=100)
    assert retain(ten, NOW_MS + 101) == 0
    assert retain(ten, NOW_MS + 104) == 2
    assert ten.log.log_start_offset == 4
    assert [record.offset for record in ten.records()] == list(range(4, 10))


def test_a_young_record_keeps_its_segment_and_all_after_it(tmp_path: Path) -> None:
    bench = LogBench(tmp_path / "t-0", replace(CONFIG, retention_ms=100))
    for timestamp in (0, 5000, 1, 2, 3, 4):
        bench.append(a_batch(b"v", timestamps=[timestamp]))
    assert retain(bench, 1000, high_watermark=6) == 0


def test_an_active_segment_of_which_all_has_expired_is_replaced(ten: LogBench) -> None:
    ten.log.config = replace(CONFIG, retention_ms=100)
    assert retain(ten, NOW_MS + 1000) == 5
    assert (ten.log.log_start_offset, ten.log.log_end_offset) == (10, 10)
    assert [segment.base_offset for segment in ten.log.segments] == [10]
    assert ten.append_values(b"v").base_offset == 10
    assert retain(ten, NOW_MS + 1000) == 0


def test_an_empty_active_segment_stays(bench: LogBench) -> None:
    bench.log.config = replace(CONFIG, retention_ms=0, retention_bytes=0)
    assert retain(bench, NOW_MS + 10**12, high_watermark=0) == 0


def test_records_without_a_timestamp_are_as_old_as_their_file(bench: LogBench) -> None:
    bench.log.config = replace(CONFIG, retention_ms=100)
    bench.append(a_batch(b"v", timestamps=[-1]))
    assert retain(bench, NOW_MS + 100, high_watermark=1) == 0
    assert retain(bench, NOW_MS + 101, high_watermark=1) == 1


def test_segments_go_while_the_log_stays_as_large_as_retention_bytes(ten: LogBench) -> None:
    ten.log.config = replace(CONFIG, retention_bytes=5 * SIZE)
    assert retain(ten) == 2
    assert ten.log.size_bytes == 6 * SIZE
    assert retain(ten) == 0
    ten.log.config = replace(CONFIG, retention_bytes=0)
    assert retain(ten) == 3


def test_nothing_at_or_above_the_high_watermark_goes(ten: LogBench) -> None:
    ten.log.config = replace(CONFIG, retention_ms=0)
    assert retain(ten, NOW_MS + 1000, high_watermark=5) == 2
    assert ten.log.log_start_offset == 4


def test_a_compacted_log_keeps_what_is_old_but_not_what_was_deleted(ten: LogBench) -> None:
    ten.log.config = replace(CONFIG, delete=False, compact=True, retention_ms=0, retention_bytes=0)
    assert retain(ten, NOW_MS + 1000) == 0
    ten.log.delete_records_before(5)
    assert retain(ten, NOW_MS + 1000) == 2


def test_deleted_records_cannot_be_read_and_their_segments_go(ten: LogBench) -> None:
    ten.log.delete_records_before(5)
    assert [record.offset for record in ten.records()] == [5, 6, 7, 8, 9]
    with pytest.raises(OffsetOutOfRange):
        ten.log.read(4, max_bytes=1000, up_to=10)
    assert retain(ten) == 2
    assert [segment.base_offset for segment in ten.log.segments] == [4, 6, 8]
    ten.open(clean=False, log_start_offset=5)
    assert [record.offset for record in ten.records()] == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("offset", [-1, 4, 11])
def test_records_cannot_be_deleted_outside_of_the_log(ten: LogBench, offset: int) -> None:
    ten.log.delete_records_before(5)
    with pytest.raises(OffsetOutOfRange):
        ten.log.delete_records_before(offset)
    assert ten.log.log_start_offset == 5


def test_all_records_can_be_deleted(ten: LogBench) -> None:
    ten.log.delete_records_before(10)
    assert ten.records() == []
    assert retain(ten) == 4
    assert ten.append_values(b"v").base_offset == 10


def test_leader_epochs_begin_where_the_segments_begin(ten: LogBench) -> None:
    """A crash may put the start of the log back; what is there again must not be without epochs."""
    everything = [(0, 0), (1, 3), (2, 6), (3, 9)]
    assert list(ten.log.leader_epochs.entries) == everything
    ten.log.delete_records_before(7)
    assert list(ten.log.leader_epochs.entries) == everything
    ten.open(clean=False)
    assert ten.log.log_start_offset == 0
    assert list(ten.log.leader_epochs.entries) == everything
    ten.log.delete_records_before(7)
    assert retain(ten) == 3
    assert list(ten.log.leader_epochs.entries) == [(2, 6), (3, 9)]


def test_files_are_renamed_first_and_removed_by_the_caller(ten: LogBench) -> None:
    ten.log.config = replace(CONFIG, retention_bytes=6 * SIZE)
    removed = ten.log.apply_retention(NOW_MS, high_watermark=10)
    assert {path.name[:20] for path in ten.folder.glob("*.deleted")} == {f"{base:020d}" for base in (0, 2)}
    assert not (ten.folder / f"{0:020d}.log").exists()
    for segment in removed:
        segment.remove()
    assert list(ten.folder.glob("*.deleted")) == []
    assert list(ten.folder.glob(f"{0:020d}*")) == []


def test_what_was_renamed_before_a_crash_is_removed_at_the_next_start(ten: LogBench) -> None:
    ten.log.config = replace(CONFIG, retention_bytes=6 * SIZE)
    assert retain(ten) == 2
    ten.open(clean=False)
    assert list(ten.folder.glob("*.deleted")) == []
    assert ten.log.log_start_offset == 4


def test_producers_are_known_although_their_records_are_gone(tmp_path: Path) -> None:
    bench = LogBench(tmp_path / "t-0", replace(CONFIG, retention_bytes=0))
    for sequence in range(6):
        bench.append(a_batch(b"v", producer_id=3, sequence=sequence))
    retain(bench, high_watermark=6)
    bench.open(clean=False)
    (state,) = bench.log.producers
    assert state.last_sequence == 5
    assert len(list(bench.folder.glob("*.snapshot"))) == 1
