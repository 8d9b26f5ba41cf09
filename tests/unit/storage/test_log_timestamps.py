"""Offsets by timestamp."""

from pathlib import Path

import pytest

from highwater.protocol.records.compression import Codec
from highwater.storage.log_config import LogConfig
from highwater.testing.log_bench import LogBench, a_batch

TIMES = [
    [100, 100, 200],
    [150],
    [300, 250, 400, 400],
    [90, 90],
    [400],
    [500, 450, 600],
    [599, 601, 601],
    [20],
]
FLAT = [time for batch in TIMES for time in batch]


@pytest.fixture(params=[Codec.NONE, Codec.ZSTD])
def timed(request: pytest.FixtureRequest, tmp_path: Path) -> LogBench:
    """A log whose timestamps go back and forth, in many segments, with an index entry for every batch."""
    bench = LogBench(tmp_path / "t-0", LogConfig(segment_bytes=250, index_interval_bytes=0))
    for times in TIMES:
        bench.append(a_batch(*[b"v"] * len(times), timestamps=times, codec=request.param), leader_epoch=4)
    assert len(bench.log.segments) > 2
    return bench


@pytest.mark.parametrize("log_start_offset", [0, 2, 3, 9, 16])
@pytest.mark.parametrize("reopened", [False, True])
def test_the_first_record_that_is_not_older_is_found(timed: LogBench, log_start_offset: int, *, reopened: bool) -> None:
    timed.log.delete_records_before(log_start_offset)
    if reopened:
        timed.log.close()
        timed.open(log_start_offset=log_start_offset)
    for asked in sorted({time + step for time in FLAT for step in (-1, 0, 1)}):
        expected = next((n for n, time in enumerate(FLAT) if time >= asked and n >= log_start_offset), None)
        found = timed.log.offset_for_timestamp(asked)
        assert (found and found.offset) == expected
        if found is not None:
            assert (found.timestamp, found.leader_epoch) == (FLAT[found.offset], 4)


@pytest.mark.parametrize("log_start_offset", [0, 9, 15, 16])
def test_the_youngest_record_is_found(timed: LogBench, log_start_offset: int) -> None:
    timed.log.delete_records_before(log_start_offset)
    found = timed.log.offset_of_max_timestamp()
    kept = FLAT[log_start_offset:]
    assert found is not None
    assert (found.timestamp, found.offset) == (max(kept), log_start_offset + kept.index(max(kept)))


def test_an_empty_log_has_no_record_of_any_time(bench: LogBench) -> None:
    assert bench.log.offset_for_timestamp(0) is None
    assert bench.log.offset_of_max_timestamp() is None


def test_records_without_timestamps_are_not_found_by_time(bench: LogBench) -> None:
    bench.append(a_batch(b"v", timestamps=[-1]))
    assert bench.log.offset_for_timestamp(0) is None
    assert bench.log.offset_of_max_timestamp() is None
