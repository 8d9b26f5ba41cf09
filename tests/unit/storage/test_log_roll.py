"""Rolling: when a new segment begins."""

from pathlib import Path

from highwater.protocol.records.record import Record, build_batch
from highwater.storage.log_config import LogConfig
from highwater.testing.log_bench import NOW_MS, LogBench, a_batch


def base_offsets(bench: LogBench) -> list[int]:
    return [segment.base_offset for segment in bench.log.segments]


def stage_all(bench: LogBench, batches: list[bytearray]) -> None:
    for batch in batches:
        bench.log.stage(memoryview(batch), leader_epoch=0, now_ms=bench.now_ms)
    bench.log.write_staged()


def test_a_segment_ends_before_it_would_be_larger_than_segment_bytes(bench: LogBench) -> None:
    size = len(a_batch(bytes(100)))
    bench.log.config = LogConfig(segment_bytes=3 * size)
    stage_all(bench, [a_batch(bytes(100)) for _ in range(7)])
    assert base_offsets(bench) == [0, 3, 6]
    assert [segment.size for segment in bench.log.segments] == [3 * size, 3 * size, size]
    assert bench.log.size_bytes == 7 * size
    assert bench.values() == [bytes(100)] * 7


def test_a_segment_ends_when_segment_ms_has_passed_since_its_first_batch(bench: LogBench) -> None:
    bench.log.config = LogConfig(segment_ms=1000)
    for after_ms in (0, 1000, 1001, 500, 2001, 2002):
        bench.append(a_batch(b"a", timestamps=[NOW_MS + after_ms]))
    assert base_offsets(bench) == [0, 2, 5]


def test_batches_staged_together_roll_by_time_as_if_they_came_one_by_one(bench: LogBench) -> None:
    bench.log.config = LogConfig(segment_ms=1000)
    stage_all(bench, [a_batch(b"a", timestamps=[NOW_MS + after_ms]) for after_ms in (0, 1000, 1001, 500, 2001, 2002)])
    assert base_offsets(bench) == [0, 2, 5]


def test_jitter_makes_segments_end_earlier(bench: LogBench) -> None:
    bench.log.config = LogConfig(segment_ms=1000, segment_jitter_ms=400)
    for after_ms in (0, 600, 601):
        bench.append(a_batch(b"a", timestamps=[NOW_MS + after_ms]))
    assert base_offsets(bench) == [0, 2]


def test_the_time_of_a_segment_is_known_after_a_restart(bench: LogBench) -> None:
    bench.config = LogConfig(segment_ms=1000)
    bench.append(a_batch(b"a"))
    bench.log.close()
    bench.open()
    bench.append(a_batch(b"b", timestamps=[NOW_MS + 1001]))
    assert base_offsets(bench) == [0, 1]


def test_a_segment_without_timestamps_is_measured_by_the_clock(bench: LogBench) -> None:
    bench.log.config = LogConfig(segment_ms=1000)
    bench.append(a_batch(b"a", timestamps=[-1]))
    bench.now_ms += 1000
    bench.append(a_batch(b"b", timestamps=[-1]))
    bench.now_ms += 1
    bench.append(a_batch(b"c", timestamps=[-1]))
    assert base_offsets(bench) == [0, 2]


def test_a_segment_ends_when_an_index_is_full(tmp_path: Path) -> None:
    bench = LogBench(tmp_path / "t-0", LogConfig(segment_index_bytes=48, index_interval_bytes=0))
    for number in range(40):
        bench.append(a_batch(b"a", timestamps=[NOW_MS + number]))
    assert len(base_offsets(bench)) > 5
    assert all(segment.time_index.entry_count <= 4 for segment in bench.log.segments)
    assert [record.timestamp for record in bench.records()] == [NOW_MS + number for number in range(40)]
    stage_all(bench, [a_batch(b"b", timestamps=[NOW_MS + number]) for number in range(40, 80)])
    assert [record.timestamp for record in bench.records()] == [NOW_MS + number for number in range(80)]


def test_a_segment_ends_when_an_offset_does_not_fit_its_index(bench: LogBench) -> None:
    far = 2**31
    for base_offset in (0, far - 1, far):
        batch = build_batch([Record(base_offset, NOW_MS, None, b"a")], base_offset=base_offset)
        bench.log.append_as_follower(memoryview(batch), now_ms=NOW_MS)
    assert base_offsets(bench) == [0, far]
    assert len(bench.records()) == 3


def test_every_roll_leaves_a_snapshot_of_the_producers_before_it(bench: LogBench) -> None:
    """A roll in the middle of what was staged must not put later batches into the snapshot, nor leave earlier out."""
    size = len(a_batch(bytes(100), producer_id=1))
    bench.config = bench.log.config = LogConfig(segment_bytes=2 * size)
    stage_all(bench, [a_batch(bytes(100), producer_id=1, sequence=number) for number in range(5)])
    assert base_offsets(bench) == [0, 2, 4]
    for end in (4, 2, 1):
        bench.log.truncate_to(end, now_ms=NOW_MS)
        (state,) = bench.log.producers
        assert [batch.last_offset for batch in state.batches] == list(range(end))


def test_a_sealed_index_is_as_long_as_its_entries(bench: LogBench) -> None:
    bench.log.config = LogConfig(segment_bytes=10_000, index_interval_bytes=100)
    for _ in range(100):
        bench.append_values(bytes(100))
    first, *_, active = bench.log.segments
    assert first.offset_index.path.stat().st_size == first.offset_index.entry_count * 8 > 0
    assert first.time_index.path.stat().st_size == first.time_index.entry_count * 12 > 0
    assert active.offset_index.path.stat().st_size > active.offset_index.entry_count * 8
    bench.log.close()
    assert active.offset_index.path.stat().st_size == active.offset_index.entry_count * 8 > 0
