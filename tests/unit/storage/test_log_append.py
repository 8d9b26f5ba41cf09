"""Appending: what is taken, what it becomes, and what is refused."""

from dataclasses import replace

import pytest

from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.records.batch import HEADER_BYTES, patch_checksum, read_header
from highwater.protocol.records.compression import Codec
from highwater.protocol.records.control import Marker, MarkerType, build_marker
from highwater.protocol.records.errors import InvalidRecord, InvalidTimestamp
from highwater.protocol.records.record import Record, build_batch
from highwater.storage.errors import RecordListTooLarge
from highwater.storage.files import OsFiles
from highwater.storage.leader_epochs import LeaderEpochs
from highwater.storage.log_config import LogConfig
from highwater.testing.log_bench import NOW_MS, LogBench, a_batch

HOUR_MS = 60 * 60 * 1000


def test_what_is_staged_is_seen_when_it_is_written_and_not_before(bench: LogBench) -> None:
    first = bench.log.stage(memoryview(a_batch(b"a", b"b")), leader_epoch=0, now_ms=NOW_MS)
    second = bench.log.stage(memoryview(a_batch(b"c")), leader_epoch=0, now_ms=NOW_MS)
    assert (first.base_offset, first.last_offset) == (0, 1)
    assert (second.base_offset, second.last_offset) == (2, 2)
    assert bench.log.log_end_offset == 0
    assert bench.values() == []

    bench.log.write_staged()
    assert bench.log.log_end_offset == 3
    assert bench.values() == [b"a", b"b", b"c"]


def test_bytes_on_disk_are_the_bytes_that_were_sent_but_for_offset_and_epoch(bench: LogBench) -> None:
    bench.append_values(b"before")
    sent = a_batch(b"x" * 100, b"y", codec=Codec.LZ4)
    original = bytes(sent)
    bench.append(sent, leader_epoch=7)
    region = bench.log.read(1, max_bytes=10_000, up_to=3)
    assert region is not None
    stored = region.read()
    assert stored[:16] == (1).to_bytes(8, "big") + original[8:12] + (7).to_bytes(4, "big")
    assert stored[16:] == original[16:]


def test_writing_nothing_does_nothing(bench: LogBench) -> None:
    bench.log.write_staged()
    assert bench.log.log_end_offset == 0


def test_staged_batches_can_be_thrown_away(bench: LogBench) -> None:
    bench.log.stage(memoryview(a_batch(b"a", producer_id=1)), leader_epoch=0, now_ms=NOW_MS)
    bench.log.discard_staged()
    bench.append(a_batch(b"b", producer_id=1))
    assert bench.values() == [b"b"]


def test_log_append_time_is_written_into_the_batch_and_answered(bench: LogBench) -> None:
    bench.log.config = LogConfig(log_append_time=True)
    staged = bench.append(a_batch(b"a", b"b", timestamps=[1, 2]))
    assert staged.append_time_ms == NOW_MS
    assert [record.timestamp for record in bench.records()] == [NOW_MS, NOW_MS]
    bench.open(clean=False)
    assert bench.log.report.notes == []


def test_create_time_is_kept_and_the_answer_carries_no_time(bench: LogBench) -> None:
    staged = bench.append(a_batch(b"a", timestamps=[5]))
    assert staged.append_time_ms == -1
    assert [record.timestamp for record in bench.records()] == [5]


def test_a_leader_epoch_is_known_from_its_first_batch_on(bench: LogBench) -> None:
    for epoch in (0, 0, 3, 5):
        bench.append(a_batch(b"a", b"b"), leader_epoch=epoch)
    assert bench.log.leader_epochs.entries == ((0, 0), (3, 4), (5, 6))
    assert bench.log.end_offset_for_epoch(0) == (0, 4)
    assert bench.log.end_offset_for_epoch(4) == (3, 6)
    assert bench.log.end_offset_for_epoch(5) == (5, 8)
    assert bench.log.end_offset_for_epoch(6) == (-1, -1)


def test_the_first_batch_of_an_epoch_that_has_begun_writes_it_down(bench: LogBench) -> None:
    bench.append(a_batch(b"a"), leader_epoch=0)
    bench.log.leader_epochs.begin(3, bench.log.log_end_offset)
    for expected in (((0, 0),), ((0, 0), (3, 1)), ((0, 0), (3, 1))):
        assert LeaderEpochs.load(OsFiles(), bench.log.directory).entries == expected
        bench.append(a_batch(b"b"), leader_epoch=3)
    assert bench.log.leader_epochs.entries == ((0, 0), (3, 1))


def damaged_checksum() -> bytearray:
    batch = a_batch(b"a")
    batch[-1] ^= 1
    return batch


def older_magic() -> bytearray:
    batch = a_batch(b"a")
    batch[16] = 1
    return batch


def without_records() -> bytearray:
    batch = a_batch(b"a")[:HEADER_BYTES]
    batch[8:12] = (HEADER_BYTES - 12).to_bytes(4, "big")
    batch[57:61] = bytes(4)
    patch_checksum(batch)
    return batch


def control() -> bytearray:
    return build_marker(Marker(MarkerType.COMMIT, 0), producer_id=1, producer_epoch=0, timestamp_ms=NOW_MS)


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        (damaged_checksum(), ErrorCode.CORRUPT_MESSAGE),
        (older_magic(), ErrorCode.INVALID_RECORD),
        (a_batch(b"a")[:-1], ErrorCode.INVALID_RECORD),
        (a_batch(b"a")[:HEADER_BYTES], ErrorCode.INVALID_RECORD),
        (a_batch(b"a")[:20], ErrorCode.INVALID_RECORD),
        (bytearray(), ErrorCode.INVALID_RECORD),
        (a_batch(b"a") + a_batch(b"b"), ErrorCode.INVALID_RECORD),
        (without_records(), ErrorCode.INVALID_RECORD),
        (control(), ErrorCode.INVALID_RECORD),
        (a_batch(b"a" * 3000), ErrorCode.MESSAGE_TOO_LARGE),
        (a_batch(b"a", timestamps=[NOW_MS + HOUR_MS + 1]), ErrorCode.INVALID_TIMESTAMP),
        (a_batch(b"a", timestamps=[NOW_MS - HOUR_MS - 1]), ErrorCode.INVALID_TIMESTAMP),
        (a_batch(b"a", transactional=True), ErrorCode.INVALID_RECORD),
        (a_batch(b"a", producer_id=1, sequence=-1), ErrorCode.INVALID_RECORD),
        (a_batch(b"a", producer_id=1, epoch=-1), ErrorCode.INVALID_RECORD),
    ],
)
def test_a_bad_batch_is_refused_and_leaves_no_trace(bench: LogBench, batch: bytearray, code: ErrorCode) -> None:
    bench.log.config = LogConfig(max_message_bytes=2000, message_timestamp_before_max_ms=HOUR_MS)
    bench.append_values(b"before")
    with pytest.raises(KafkaError) as refused:
        bench.log.stage(memoryview(batch), leader_epoch=0, now_ms=NOW_MS)
    assert refused.value.code == code
    assert refused.value.message
    bench.append_values(b"after")
    assert bench.values() == [b"before", b"after"]
    assert len(bench.log.producers) == 0


def test_a_batch_that_no_segment_can_hold_is_refused(bench: LogBench) -> None:
    bench.log.config = LogConfig(segment_bytes=500)
    with pytest.raises(RecordListTooLarge, match=r"segment\.bytes, which is 500"):
        bench.append_values(b"x" * 600)


def test_a_compacted_topic_refuses_a_record_without_a_key(bench: LogBench) -> None:
    bench.log.config = LogConfig(compact=True)
    bench.append_values(b"with a key")
    with pytest.raises(InvalidRecord, match="without a key"):
        bench.append(build_batch([Record(0, NOW_MS, None, b"value")]))
    assert bench.values() == [b"with a key"]


def test_timestamp_limits_do_not_hold_for_log_append_time(bench: LogBench) -> None:
    bench.log.config = LogConfig(log_append_time=True, message_timestamp_before_max_ms=HOUR_MS)
    bench.append(a_batch(b"a", timestamps=[1]))
    bench.log.config = replace(bench.log.config, log_append_time=False)
    with pytest.raises(InvalidTimestamp):
        bench.append(a_batch(b"a", timestamps=[1]))


def test_a_follower_appends_what_the_leader_has(bench: LogBench, tmp_path_factory: pytest.TempPathFactory) -> None:
    for epoch in (1, 1, 2):
        bench.append(a_batch(b"a", b"b", producer_id=9, sequence=bench.log.log_end_offset), leader_epoch=epoch)
    bench.append(a_batch(b"c", producer_id=8, transactional=True), leader_epoch=2)
    region = bench.log.read(0, max_bytes=10_000, up_to=7)
    assert region is not None
    follower = LogBench(tmp_path_factory.mktemp("follower") / "topic-0")
    cut_short = memoryview(region.read() + bytes(a_batch(b"more"))[:50])
    follower.log.append_as_follower(cut_short, now_ms=NOW_MS)
    assert follower.records() == bench.records()
    assert follower.log.leader_epochs.entries == bench.log.leader_epochs.entries
    assert list(follower.log.producers) == list(bench.log.producers)
    assert follower.log.last_stable_offset(7) == 6


def test_a_follower_refuses_what_is_damaged_or_does_not_follow(bench: LogBench) -> None:
    first = a_batch(b"a", b"b")
    bench.log.append_as_follower(memoryview(first), now_ms=NOW_MS)
    with pytest.raises(InvalidRecord, match="offset 0 where 2 comes next"):
        bench.log.append_as_follower(memoryview(first), now_ms=NOW_MS)
    good, bad = build_batch([Record(2, NOW_MS, None, b"c")], base_offset=2), damaged_checksum()
    bad[:8] = (3).to_bytes(8, "big")
    bench.log.append_as_follower(memoryview(good + bad), now_ms=NOW_MS)
    assert bench.values() == [b"a", b"b", b"c"], "what comes before the damage is good"
    with pytest.raises(KafkaError, match="a damaged batch at offset 3") as refused:
        bench.log.append_as_follower(memoryview(bad + good), now_ms=NOW_MS)
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE
    assert bench.values() == [b"a", b"b", b"c"]
    assert bench.append_values(b"next").base_offset == 3


def test_a_follower_keeps_the_gaps_that_compaction_left_on_the_leader(bench: LogBench) -> None:
    bench.log.append_as_follower(memoryview(build_batch([Record(5, NOW_MS, None, b"a")], base_offset=3)), now_ms=NOW_MS)
    assert bench.log.log_end_offset == 6
    region = bench.log.read(0, max_bytes=1000, up_to=6)
    assert region is not None
    assert read_header(region.read()).base_offset == 3


def test_an_empty_follower_takes_a_batch_that_begins_before_its_start(bench: LogBench) -> None:
    """DeleteRecords on the leader may cut in the middle of a batch; the follower starts there and gets all of it."""
    bench.log.restart_at(2, now_ms=NOW_MS)
    bench.log.append_as_follower(memoryview(a_batch(b"a", b"b", b"c", b"d")), now_ms=NOW_MS)
    assert (bench.log.log_start_offset, bench.log.log_end_offset) == (2, 4)
    assert bench.values() == [b"c", b"d"]
    bench.open(clean=False, log_start_offset=2)
    assert bench.values() == [b"c", b"d"]
