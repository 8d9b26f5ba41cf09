"""Reading: where a reader starts, where it ends, and how much it gets."""

import os
from pathlib import Path

import pytest

from highwater.model.errors import ErrorCode
from highwater.protocol.records.batch import iter_batches
from highwater.protocol.records.record import Record, build_batch
from highwater.storage.batch_scan import LOOKUP_CHUNK_BYTES
from highwater.storage.errors import OffsetOutOfRange
from highwater.storage.log_config import LogConfig
from highwater.testing.log_bench import NOW_MS, LogBench

SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=200)


def offsets_of(data: bytes) -> list[int]:
    return [header.base_offset for _, header in iter_batches(data)]


def a_log_of_three_offsets_a_batch(bench: LogBench, batches: int) -> None:
    bench.config = bench.log.config = SMALL
    for number in range(batches):
        bench.append_values(b"%d" % (3 * number), b"%d" % (3 * number + 1), b"%d" % (3 * number + 2))


def test_a_read_inside_a_batch_returns_the_whole_batch(bench: LogBench) -> None:
    a_log_of_three_offsets_a_batch(bench, 40)
    for offset in range(120):
        region = bench.log.read(offset, max_bytes=1, up_to=120)
        assert region is not None
        assert offsets_of(region.read()) == [offset // 3 * 3]


def test_a_read_ends_before_the_first_batch_that_reaches_up_to(bench: LogBench) -> None:
    a_log_of_three_offsets_a_batch(bench, 5)
    for up_to in range(16):
        region = bench.log.read(0, max_bytes=10_000, up_to=up_to)
        found = offsets_of(region.read()) if region is not None else []
        assert found == [offset for offset in (0, 3, 6, 9, 12) if offset + 3 <= up_to]


def test_a_read_at_or_above_up_to_finds_nothing_yet(bench: LogBench) -> None:
    a_log_of_three_offsets_a_batch(bench, 2)
    assert bench.log.read(3, max_bytes=1000, up_to=3) is None
    assert bench.log.read(6, max_bytes=1000, up_to=3) is None
    assert bench.log.read(6, max_bytes=1000, up_to=6) is None


@pytest.mark.parametrize("offset", [-1, 2, 7, 2**40])
def test_a_read_outside_of_the_log_is_out_of_range(bench: LogBench, offset: int) -> None:
    a_log_of_three_offsets_a_batch(bench, 2)
    bench.log.delete_records_before(3)
    with pytest.raises(OffsetOutOfRange, match="which runs from 3 to 6") as refused:
        bench.log.read(offset, max_bytes=1000, up_to=6)
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_max_bytes_may_cut_the_last_batch_short_but_never_the_first(bench: LogBench) -> None:
    a_log_of_three_offsets_a_batch(bench, 3)
    whole = bench.log.read(0, max_bytes=10_000, up_to=9)
    assert whole is not None
    assert len(whole) < 500
    first = next(header.size for _, header in iter_batches(whole.read()))
    for max_bytes in range(len(whole) + 10):
        region = bench.log.read(0, max_bytes=max_bytes, up_to=9)
        assert region is not None
        assert len(region) == min(len(whole), max(first, max_bytes))
        refusable = bench.log.read(0, max_bytes=max_bytes, up_to=9, at_least_one=False)
        assert (refusable is not None) == (max_bytes >= first)


def test_a_reader_gets_through_all_segments(bench: LogBench) -> None:
    a_log_of_three_offsets_a_batch(bench, 100)
    assert len(bench.log.segments) >= 5
    assert bench.values() == [b"%d" % number for number in range(300)]
    assert bench.values(150) == [b"%d" % number for number in range(150, 300)]
    assert bench.values(150, up_to=201) == [b"%d" % number for number in range(150, 201)]


def test_a_read_in_a_gap_that_compaction_left_goes_on_behind_it(bench: LogBench) -> None:
    bench.log.config = LogConfig(segment_bytes=200)
    for base_offset in (10, 20, 30):
        batch = build_batch([Record(base_offset, NOW_MS, None, bytes(100))], base_offset=base_offset)
        bench.log.append_as_follower(memoryview(batch), now_ms=NOW_MS)
    assert len(bench.log.segments) == 3
    for offset, expected in ((0, 10), (10, 10), (11, 20), (19, 20), (21, 30), (30, 30)):
        region = bench.log.read(offset, max_bytes=1, up_to=31)
        assert region is not None
        assert offsets_of(region.read()) == [expected]
    assert bench.log.read(11, max_bytes=1, up_to=20) is None


def test_what_was_read_on_the_way_to_a_batch_is_not_read_again(bench: LogBench) -> None:
    bench.append_values(*(b"%d" % number for number in range(3)))
    bench.append_values(bytes(2 * LOOKUP_CHUNK_BYTES))
    bench.append_values(b"the end")
    small = bench.log.read(0, max_bytes=1, up_to=5)
    large = bench.log.read(3, max_bytes=1, up_to=5)
    assert small is not None
    assert large is not None
    first = small.read()
    assert offsets_of(first) == [0]
    os.truncate(bench.log.segments.active.path, 0)
    assert small.read_without_waiting() == first
    assert large.read_without_waiting() is None


def test_a_region_is_readable_after_its_segment_is_gone(bench: LogBench) -> None:
    a_log_of_three_offsets_a_batch(bench, 40)
    region = bench.log.read(0, max_bytes=150, up_to=120)
    assert region is not None
    before = region.read()
    for segment in bench.log.apply_retention(NOW_MS + 10**12, high_watermark=120):
        segment.remove()
    assert bench.log.log_start_offset == 120
    assert [path.name for path in bench.folder.glob("*.deleted")] == []
    assert region.read() == before


def test_a_damaged_offset_index_is_built_again_when_a_read_notices(bench: LogBench) -> None:
    a_log_of_three_offsets_a_batch(bench, 100)
    bench.log.close()
    for path in sorted(bench.folder.glob("*.index")):
        path.write_bytes(bytes(len(path.read_bytes())))
    bench.open()
    assert bench.values() == [b"%d" % number for number in range(300)]


def test_an_idle_log_holds_no_file_open(tmp_path: Path) -> None:
    """Ten thousand partitions must not cost ten thousand descriptors and maps."""
    bench = LogBench(tmp_path / "t-0", SMALL)
    a_log_of_three_offsets_a_batch(bench, 100)
    bench.log.close()
    bench.open()
    assert bench.log.log_end_offset == 300
    open_files = [link.resolve() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert [path for path in open_files if path.is_relative_to(bench.folder)] == []
    assert str(bench.folder) not in Path("/proc/self/maps").read_text()
