"""Compaction: what stays, what goes, and when."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.model.errors import KafkaError
from highwater.protocol.records.compression import Codec
from highwater.protocol.records.record import Record
from highwater.storage.compaction.compaction import Compaction
from highwater.storage.compaction.plan import CompactionPlan
from highwater.storage.log_config import LogConfig
from highwater.testing.log_bench import NOW_MS, LogBench, a_batch

DAY_MS = 24 * 60 * 60 * 1000
CONFIG = LogConfig(compact=True, delete=False, segment_bytes=600, index_interval_bytes=100, delete_retention_ms=DAY_MS)
Pair = tuple[bytes, bytes | None]


@pytest.fixture
def bench(tmp_path: Path) -> LogBench:
    """A compacted log with small segments."""
    return LogBench(tmp_path / "t-0", CONFIG)


def write(bench: LogBench, *pairs: Pair, codec: Codec = Codec.NONE, timestamps: list[int] | None = None) -> None:
    keys: list[bytes | None] = [key for key, _ in pairs]
    bench.append(a_batch(*[value for _, value in pairs], keys=keys, codec=codec, timestamps=timestamps))


def roll(bench: LogBench) -> None:
    """Make all that is there part of a sealed segment."""
    bench.log.config = replace(bench.config, segment_ms=0)
    bench.append(a_batch(b"", keys=[b"filler"], timestamps=[NOW_MS + 60_000 + bench.log.log_end_offset]))
    bench.log.config = bench.config


def pairs(bench: LogBench, offset: int | None = None) -> list[Pair]:
    return [(record.key or b"", record.value) for record in bench.records(offset) if record.key != b"filler"]


def test_of_each_key_the_newest_record_stays_at_its_offset(bench: LogBench) -> None:
    for number in range(20):
        write(bench, (b"a", b"%d" % number), (b"b", b"%d" % number), (b"k%d" % number, b"v"))
    before = {record.offset: record for record in bench.records()}
    roll(bench)
    compaction = bench.compact()
    assert compaction is not None
    after = bench.records()
    kept = [record for record in after if record.offset in before]
    assert [(record.key, record.value) for record in kept if record.key in {b"a", b"b"}] == [
        (b"a", b"19"),
        (b"b", b"19"),
    ]
    assert len([record for record in kept if record.value == b"v"]) == 20
    assert all(before[record.offset] == record for record in kept)
    assert compaction.records_kept < compaction.records_read


@pytest.mark.parametrize("codec", list(Codec))
def test_compressed_batches_lose_records_and_stay_compressed(bench: LogBench, codec: Codec) -> None:
    for number in range(10):
        write(bench, (b"a", b"%d" % number * 20), (b"k%d" % number, b"v"), codec=codec)
    roll(bench)
    bench.compact()
    assert (b"a", b"9" * 20) in pairs(bench)
    assert len([pair for pair in pairs(bench) if pair[0] == b"a"]) == 1
    codecs = {header.codec for segment in bench.log.segments for _, header in segment.headers() if header.record_count}
    assert codecs == {codec, Codec.NONE}
    bench.open(clean=False)
    assert [note for note in bench.log.report.notes if "damaged" in note] == []


def test_every_offset_can_still_be_asked_for(bench: LogBench) -> None:
    for number in range(30):
        write(bench, (b"k%d" % (number % 4), b"%d" % number), (b"other%d" % (number % 3), b"%d" % number))
    roll(bench)
    bench.compact()
    records = bench.records()
    for offset in range(bench.log.log_end_offset):
        assert bench.records(offset) == [record for record in records if record.offset >= offset]


def test_a_second_round_with_nothing_new_changes_nothing(bench: LogBench) -> None:
    for number in range(20):
        write(bench, (b"k%d" % (number % 4), b"%d" % number))
    roll(bench)
    bench.compact()
    bench.compact()
    files = {path.name: path.read_bytes() for path in bench.folder.iterdir()}
    segments = list(bench.log.segments)
    bench.compact()
    assert list(bench.log.segments) == segments
    assert {path.name: path.read_bytes() for path in bench.folder.iterdir()} == files


def test_small_segments_are_joined(bench: LogBench) -> None:
    for number in range(40):
        write(bench, (b"k%d" % (number % 3), b"%d" % number))
    roll(bench)
    assert len(bench.log.segments) == 6
    bench.compact()
    bench.compact()
    assert len(bench.log.segments) == 2
    bench.log.close()
    bench.open()
    assert bench.log.report.notes == []
    assert len(pairs(bench)) == 3


def test_the_active_segment_is_left_alone(bench: LogBench) -> None:
    write(bench, (b"a", b"1"))
    write(bench, (b"a", b"2"))
    assert bench.compact() is None
    assert pairs(bench) == [(b"a", b"1"), (b"a", b"2")]


def test_a_tombstone_stays_for_its_time_and_then_goes(bench: LogBench) -> None:
    write(bench, (b"a", b"1"), (b"b", b"1"))
    write(bench, (b"a", None))
    roll(bench)
    bench.compact()
    assert pairs(bench) == [(b"b", b"1"), (b"a", None)]
    bench.now_ms += DAY_MS - 1
    bench.compact()
    assert pairs(bench) == [(b"b", b"1"), (b"a", None)]
    bench.now_ms += 1
    bench.compact()
    assert pairs(bench) == [(b"b", b"1")]


def test_a_tombstone_keeps_its_timestamp_when_its_horizon_is_written(bench: LogBench) -> None:
    write(bench, (b"a", None), (b"b", b"1"), timestamps=[NOW_MS - 500, NOW_MS - 7])
    roll(bench)
    bench.compact()
    kept = [record for record in bench.records() if record.key != b"filler"]
    assert kept == [Record(0, NOW_MS - 500, b"a", None), Record(1, NOW_MS - 7, b"b", b"1")]
    horizons = {header.delete_horizon_ms for segment in bench.log.segments for _, header in segment.headers()}
    assert horizons == {None, NOW_MS + DAY_MS}
    found = bench.log.offset_for_timestamp(NOW_MS - 7)
    assert found is not None
    assert found.offset == 1


def test_a_key_that_is_written_again_after_its_tombstone_is_there(bench: LogBench) -> None:
    write(bench, (b"a", b"1"))
    write(bench, (b"a", None))
    write(bench, (b"a", b"2"))
    roll(bench)
    bench.compact()
    assert pairs(bench) == [(b"a", b"2")]


def test_records_younger_than_the_lag_are_left_alone(bench: LogBench) -> None:
    bench.config = bench.log.config = replace(CONFIG, min_compaction_lag_ms=1000)
    for number in range(10):
        write(bench, (b"a", b"%d" % number * 50), timestamps=[NOW_MS - 2000])
    for number in range(10):
        write(bench, (b"a", b"%d" % number * 50), timestamps=[NOW_MS - 500])
    roll(bench)
    bench.compact()
    young = [record for record in bench.records() if record.timestamp == NOW_MS - 500]
    old = [record for record in bench.records() if record.timestamp == NOW_MS - 2000]
    assert len(young) == 10
    assert 0 < len(old) < 6


def test_a_map_that_is_full_ends_the_round_there_and_the_next_one_goes_on(bench: LogBench) -> None:
    for number in range(60):
        write(bench, (b"k%d" % (number % 20), b"%d" % number))
    roll(bench)
    end = bench.log.segments.active.base_offset
    rounds = 0
    while bench.log.first_dirty_offset < end:
        before = bench.log.first_dirty_offset
        bench.compact(memory_bytes=1500)
        assert bench.log.first_dirty_offset > before
        rounds += 1
    assert rounds > 5
    assert dict(pairs(bench)) == {b"k%d" % key: b"%d" % (40 + key) for key in range(20)}
    assert len(pairs(bench)) == 20


def test_where_the_keys_do_not_fit_a_part_of_what_has_come_in_is_compacted(bench: LogBench) -> None:
    for number in range(40):
        write(bench, *[(b"k%d" % (10 * (number % 20) + key), b"%d" % number) for key in range(10)])
    roll(bench)
    end = bench.log.segments.active.base_offset
    rounds = 0
    while bench.log.first_dirty_offset < end:
        bench.compact(memory_bytes=20_000)
        rounds += 1
    assert 1 < rounds < 10
    assert sorted(pairs(bench)) == sorted((b"k%d" % key, b"%d" % (20 + key // 10)) for key in range(200))


def test_a_round_may_begin_in_the_midst_of_a_batch(bench: LogBench) -> None:
    """As a checkpoint by Apache Kafka, or of an earlier version, may say."""
    write(bench, (b"a", b"0"), (b"b", b"0"), (b"a", b"1"), (b"a", b"2"))
    write(bench, (b"b", b"1"))
    roll(bench)
    bench.log.first_dirty_offset = 3
    bench.compact()
    assert pairs(bench) == [(b"a", b"2"), (b"b", b"1")]


keys = st.none() | st.sampled_from([b"a", b"b", b"c", b"", b"x" * 64, b"x" * 65])
values = st.none() | st.binary(max_size=40)
batches = st.tuples(st.lists(st.tuples(keys, values), min_size=1, max_size=9), st.sampled_from(Codec))


@settings(deadline=None, max_examples=60)
@given(st.lists(batches, max_size=25), st.integers(0, 4000), st.integers(0, 50))
def test_whatever_is_written_the_newest_of_each_key_stays(
    written: list[tuple[list[tuple[bytes | None, bytes | None]], Codec]], memory_bytes: int, first_round: int
) -> None:
    """In however many rounds, whether or not some of it was compacted before, and when not all of it has keys."""
    with TemporaryDirectory() as folder:
        config = replace(CONFIG, segment_bytes=1200)
        bench = LogBench(Path(folder) / "t-0", config)
        for number, (records, codec) in enumerate(written):
            bench.log.config = replace(config, compact=False)
            bench.append(a_batch(*[value for _, value in records], keys=[key for key, _ in records], codec=codec))
            bench.log.config = config
            if number == first_round:
                bench.compact(memory_bytes=memory_bytes)
        roll(bench)
        before = bench.records()
        end = bench.log.segments.active.base_offset
        while bench.log.first_dirty_offset < end:
            dirty_before = bench.log.first_dirty_offset
            bench.compact(memory_bytes=memory_bytes)
            assert bench.log.first_dirty_offset > dirty_before
        newest = {record.key: record.offset for record in before if record.offset < end}
        stays = [
            record
            for record in before
            if record.offset >= end or (record.key is not None and newest[record.key] == record.offset)
        ]
        assert bench.records() == stays


def test_dirt_counts_by_size_and_by_age(bench: LogBench) -> None:
    def plan() -> CompactionPlan:
        end = bench.log.log_end_offset
        return bench.log.plan_compaction(high_watermark=end, now_ms=bench.now_ms, memory_bytes=10_000)

    assert not plan().is_due
    for number in range(40):
        write(bench, (b"k%d" % number, b"v"))
    roll(bench)
    assert plan().dirty_ratio == 1
    assert plan().is_due
    bench.compact()
    assert plan().dirty_ratio == 0
    assert not plan().is_due
    for number in range(15):
        write(bench, (b"k%d" % number, b"v"))
    roll(bench)
    ratio = plan().dirty_ratio
    assert 0.2 < ratio < 0.5
    assert not plan().is_due
    bench.log.config = replace(CONFIG, min_cleanable_dirty_ratio=ratio)
    assert plan().is_due
    bench.log.config = replace(CONFIG, max_compaction_lag_ms=1000)
    bench.now_ms = bench.log.segments[-2].first_timestamp() + 1000
    assert not plan().is_due
    bench.now_ms += 61_000
    assert plan().is_due


def test_a_damaged_batch_stops_the_round_and_is_not_made_good(bench: LogBench) -> None:
    for number in range(20):
        write(bench, (b"k%d" % (number % 4), b"%d" % number))
    roll(bench)
    path = bench.log.segments[0].path
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(KafkaError, match="checksum"):
        bench.compact()
    assert path.read_bytes() == content


def test_a_round_is_not_put_in_place_when_its_segments_have_changed(bench: LogBench) -> None:
    for number in range(20):
        write(bench, (b"k%d" % (number % 4), b"%d" % number))
    roll(bench)
    plan = bench.log.plan_compaction(high_watermark=bench.log.log_end_offset, now_ms=NOW_MS, memory_bytes=10_000)
    groups = Compaction(bench.files, plan, lambda _: None).groups()
    first = next(groups)
    bench.log.truncate_to(3, now_ms=NOW_MS)
    assert bench.log.replace_segments(first) is None
    assert [record.offset for record in bench.records()] == [0, 1, 2]
    bench.open(clean=False)
    assert not (bench.folder / ".compaction").exists()
    assert [record.offset for record in bench.records()] == [0, 1, 2]


def test_the_youngest_record_is_found_although_a_younger_one_is_gone(bench: LogBench) -> None:
    bench.append(a_batch(b"1", keys=[b"a"], timestamps=[NOW_MS + 9], producer_id=1))
    write(bench, (b"a", b"2"), timestamps=[NOW_MS + 5])
    bench.log.config = replace(CONFIG, segment_bytes=200)
    write(bench, (b"b", b"x" * 100), timestamps=[NOW_MS + 1])
    bench.compact()
    assert [record.timestamp for record in bench.records()] == [NOW_MS + 5, NOW_MS + 1]
    found = bench.log.offset_of_max_timestamp()
    assert found is not None
    assert (found.offset, found.timestamp) == (1, NOW_MS + 5)


def test_what_was_truncated_and_written_anew_during_a_round_is_dirty(bench: LogBench) -> None:
    for number in range(20):
        write(bench, (b"k%d" % (number % 4), b"%d" % number))
    roll(bench)
    end = bench.log.log_end_offset
    plan = bench.log.plan_compaction(high_watermark=end, now_ms=NOW_MS, memory_bytes=10_000)
    compaction = Compaction(bench.files, plan, lambda _: None)
    for group in compaction.groups():
        assert bench.log.replace_segments(group) is not None
    bench.log.truncate_to(10, now_ms=NOW_MS)
    for number in range(20):
        write(bench, (b"k%d" % (number % 4), b"again"))
    bench.log.finish_compaction(compaction.end_offset)
    assert bench.log.first_dirty_offset <= 10
    roll(bench)
    bench.compact()
    assert {value for _, value in pairs(bench)} == {b"again"}
