"""Opening a log after a crash, with whatever the crash left."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from highwater.model.ids import TopicPartition
from highwater.protocol.records.record import Record
from highwater.storage.files import OsFiles
from highwater.storage.log_config import LogConfig
from highwater.storage.log_dir import LogDir
from highwater.storage.recovery_worker import recover
from highwater.testing.log_bench import NOW_MS, LogBench, a_batch

SIZE = len(a_batch(b"v", producer_id=1))
CONFIG = LogConfig(segment_bytes=4 * SIZE, index_interval_bytes=0)
COUNT = 10


@pytest.fixture
def crashed(tmp_path: Path) -> LogBench:
    """Ten batches of one record in three segments (4, 4, 2), as a killed process leaves them."""
    bench = LogBench(tmp_path / "t-0", CONFIG)
    for sequence in range(COUNT):
        batch = a_batch(b"%d" % sequence, producer_id=1, sequence=sequence, timestamps=[NOW_MS + sequence])
        bench.append(batch, leader_epoch=sequence // 5)
    assert [segment.base_offset for segment in bench.log.segments] == [0, 4, 8]
    return bench


def segment_path(bench: LogBench, base_offset: int, suffix: str = ".log") -> Path:
    return bench.folder / f"{base_offset:020d}{suffix}"


def expect_prefix(bench: LogBench, records: list[Record], count: int) -> None:
    """The log holds the first `count` records, can be read by time, knows its producer, and goes on from there."""
    assert bench.records() == records[:count]
    assert bench.log.log_end_offset == count
    for offset in range(count):
        found = bench.log.offset_for_timestamp(NOW_MS + offset)
        assert found is not None
        assert found.offset == offset
    assert [state.last_sequence for state in bench.log.producers] == ([count - 1] if count else [])
    assert all(entry.start_offset < count for entry in bench.log.leader_epochs.entries)
    assert bench.append(a_batch(b"next", producer_id=1, sequence=count), leader_epoch=7).base_offset == count
    assert bench.values()[-1] == b"next"


def test_an_undamaged_log_is_whole_after_a_crash(crashed: LogBench) -> None:
    records = crashed.records()
    crashed.open(clean=False)
    assert crashed.log.report.notes == []
    assert crashed.log.report.checked_bytes == COUNT * SIZE
    expect_prefix(crashed, records, COUNT)


def test_a_log_ends_where_a_segment_is_missing(crashed: LogBench) -> None:
    """Before: a power cut that took all of one segment, and nothing of the next, left a hole in the log."""
    records = crashed.records()
    segment_path(crashed, 4).write_bytes(b"")
    crashed.open(clean=False)
    assert "has nothing from 4 on to 8" in crashed.log.report.notes[0]
    expect_prefix(crashed, records, 4)


def test_only_the_settings_of_a_topic_tell_whether_a_missing_segment_is_missed(crashed: LogBench) -> None:
    """Before: processes that check logs took compacted ones for cut off, and removed all that came after a gap."""
    segment_path(crashed, 4).write_bytes(b"")
    log_dir = LogDir.open(OsFiles(), crashed.folder.parent)
    job = log_dir.recovery_job(TopicPartition("t", 0), replace(CONFIG, compact=None), now_ms=NOW_MS)
    assert job is not None
    assert "has nothing from 4 on to 8" in (recover(job).failure or "")
    compacted = LogBench(crashed.folder, replace(CONFIG, compact=True), clean=False)
    assert [record.offset for record in compacted.records()] == [0, 1, 2, 3, 8, 9]


def test_only_segments_from_the_recovery_point_on_are_checked(crashed: LogBench) -> None:
    for recovery_point, segments in ((0, 3), (3, 3), (4, 3), (5, 2), (8, 2), (9, 1), (99, 1)):
        crashed.open(clean=False, recovery_point=recovery_point)
        assert crashed.log.report.checked_bytes == {3: 10, 2: 6, 1: 2}[segments] * SIZE
        assert [state.last_sequence for state in crashed.log.producers] == [COUNT - 1]


def test_a_clean_stop_is_believed(crashed: LogBench) -> None:
    records = crashed.records()
    crashed.log.close()
    crashed.open(clean=True)
    assert crashed.log.report.checked_bytes == 0
    assert crashed.log.report.notes == []
    expect_prefix(crashed, records, COUNT)


def test_a_log_torn_at_any_byte_of_its_last_batches_is_cut_there(crashed: LogBench) -> None:
    records = crashed.records()
    whole = segment_path(crashed, 8).read_bytes()
    copy = crashed.folder.with_name("copy-0")
    for size in range(len(whole)):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(crashed.folder, copy)
        (copy / f"{8:020d}.log").write_bytes(whole[:size])
        torn = LogBench(copy, CONFIG, clean=False)
        report = torn.log.report
        assert report.cut_bytes == size % SIZE
        assert report.cut_at_offset == (8 + size // SIZE if size % SIZE else -1)
        assert len(report.notes) == (1 if size % SIZE else 0)
        expect_prefix(torn, records, 8 + size // SIZE)


def test_a_flipped_bit_anywhere_in_a_batch_ends_the_log_before_it(crashed: LogBench) -> None:
    records = crashed.records()
    whole = segment_path(crashed, 8).read_bytes()
    copy = crashed.folder.with_name("copy-0")
    for position in range(SIZE):
        if 12 <= position < 16:
            continue  # The leader epoch is not under the checksum.
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(crashed.folder, copy)
        flipped = bytearray(whole)
        flipped[position] ^= 0x80
        (copy / f"{8:020d}.log").write_bytes(flipped)
        damaged = LogBench(copy, CONFIG, clean=False)
        expect_prefix(damaged, records, 8)


def test_a_gap_that_compaction_may_have_left_is_no_damage(crashed: LogBench) -> None:
    """An offset is not under the checksum: where nothing was compacted, one that is too large is damage."""
    second_batch = segment_path(crashed, 4).read_bytes()[SIZE:]
    segment_path(crashed, 4).write_bytes(second_batch)
    compacted = LogBench(crashed.folder, replace(CONFIG, compact=True), clean=False)
    assert [record.offset for record in compacted.records()] == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    crashed.open(clean=False, first_dirty_offset=6)
    assert [record.offset for record in crashed.records()] == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    crashed.open(clean=False)
    assert "offset 5 follows 3" in crashed.log.report.notes[0]
    assert [record.offset for record in crashed.records()] == [0, 1, 2, 3]


def test_damage_in_an_earlier_segment_takes_all_after_it(crashed: LogBench) -> None:
    records = crashed.records()
    path = segment_path(crashed, 4)
    content = bytearray(path.read_bytes())
    content[SIZE + 30] ^= 1
    path.write_bytes(content)
    crashed.open(clean=False)
    assert crashed.log.report.cut_at_offset == 5
    assert crashed.log.report.cut_bytes == 5 * SIZE
    assert "checksum" in crashed.log.report.notes[0]
    assert not segment_path(crashed, 8).exists()
    expect_prefix(crashed, records, 5)


@pytest.mark.parametrize("garbage", [b"\x00" * 200, b"\xff" * 200, b"\x00" * 10, bytes(range(100))])
def test_garbage_behind_the_last_batch_is_cut(crashed: LogBench, garbage: bytes) -> None:
    """After a power cut a file may be longer than what was written to it."""
    records = crashed.records()
    path = segment_path(crashed, 8)
    path.write_bytes(path.read_bytes() + garbage)
    crashed.open(clean=False)
    assert crashed.log.report.cut_bytes == len(garbage)
    expect_prefix(crashed, records, COUNT)


def test_a_torn_log_that_claims_a_clean_stop_is_checked_all_the_same(crashed: LogBench) -> None:
    records = crashed.records()
    crashed.log.close()
    path = segment_path(crashed, 8)
    path.write_bytes(path.read_bytes()[:-1])
    crashed.open(clean=True)
    assert crashed.log.report.cut_at_offset == 9
    expect_prefix(crashed, records, 9)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("base_offset", [0, 4, 8])
@pytest.mark.parametrize("damage", ["missing", "zeros", "ones", "odd size", "empty"])
@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_index_is_built_again(
    crashed: LogBench, suffix: str, base_offset: int, damage: str, *, clean: bool
) -> None:
    records = crashed.records()
    crashed.log.close()
    path = segment_path(crashed, base_offset, suffix)
    size = path.stat().st_size
    if damage == "missing":
        path.unlink()
    else:
        contents = {"zeros": bytes(size), "ones": b"\xff" * size, "odd size": path.read_bytes()[:-3], "empty": b""}
        path.write_bytes(contents[damage])
    crashed.open(clean=clean)
    expect_prefix(crashed, records, COUNT)


@pytest.mark.parametrize("clean", [True, False])
def test_damaged_snapshots_are_replaced_by_reading_the_log(crashed: LogBench, *, clean: bool) -> None:
    records = crashed.records()
    crashed.log.close()
    damages = (b"", b"\x00\x01", b"\xff" * 100)
    for path, damage in zip(sorted(crashed.folder.glob("*.snapshot")), damages, strict=True):
        path.write_bytes(damage)
    crashed.open(clean=clean)
    assert len([note for note in crashed.log.report.notes if "snapshot" in note]) == (3 if clean else 0)
    (state,) = crashed.log.producers
    assert [batch.last_offset for batch in state.batches] == [5, 6, 7, 8, 9]
    expect_prefix(crashed, records, COUNT)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("content", [b"", b"garbage", b"0\n5\n0 0\n", b"0\n2\n1 0\n0 5\n", b"7\n0\n", b"0\n1\nx y\n"])
def test_damaged_leader_epochs_are_read_from_the_batches(crashed: LogBench, content: bytes, *, clean: bool) -> None:
    crashed.log.close()
    (crashed.folder / "leader-epoch-checkpoint").write_bytes(content)
    crashed.open(clean=clean, recovery_point=9)
    assert crashed.log.leader_epochs.entries == ((0, 0), (1, 5))
    crashed.open(clean=clean)
    assert crashed.log.leader_epochs.entries == ((0, 0), (1, 5))


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("content", [None, b"0\n0\n", b"0\n1\n1 5\n", b"0\n1\n1 7\n"])
def test_leader_epochs_that_begin_after_the_first_batch_are_read_from_the_batches(
    crashed: LogBench, content: bytes | None, *, clean: bool
) -> None:
    """Who does not know what its older records are of would let a follower keep others in their place."""
    crashed.log.close()
    if content is None:
        (crashed.folder / "leader-epoch-checkpoint").unlink()
    else:
        (crashed.folder / "leader-epoch-checkpoint").write_bytes(content)
    crashed.open(clean=clean, recovery_point=9)
    assert crashed.log.leader_epochs.entries == ((0, 0), (1, 5))


def test_leader_epochs_of_batches_that_a_power_cut_took_back_are_forgotten(crashed: LogBench) -> None:
    """Otherwise a follower would claim to have what its leader wrote in epoch 2, and keep what it has instead."""
    (crashed.folder / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n1 5\n2 7\n")
    crashed.open(clean=False)
    assert crashed.log.leader_epochs.entries == ((0, 0), (1, 5))


def test_leader_epochs_that_were_not_written_yet_are_read_from_the_batches(crashed: LogBench) -> None:
    (crashed.folder / "leader-epoch-checkpoint").unlink()
    crashed.open(clean=False)
    assert crashed.log.leader_epochs.entries == ((0, 0), (1, 5))


def test_files_that_belong_to_no_segment_are_removed(crashed: LogBench) -> None:
    crashed.log.close()
    strays = ["00000000000000000077.index", "00000000000000000000.log.deleted", "00000000000000000004.log.cleaned"]
    strays += ["leader-epoch-checkpoint.tmp", "00000000000000000099.snapshot"]
    for name in strays:
        (crashed.folder / name).write_bytes(b"stray")
    (crashed.folder / "partition.metadata").write_bytes(b"version: 0\ntopic_id: x\n")
    crashed.open()
    names = {path.name for path in crashed.folder.iterdir()}
    assert not names & set(strays)
    assert "partition.metadata" in names


def test_a_log_that_ends_before_its_start_begins_anew(crashed: LogBench) -> None:
    crashed.open(clean=False, log_start_offset=50)
    assert (crashed.log.log_start_offset, crashed.log.log_end_offset) == (50, 50)
    assert crashed.append_values(b"v").base_offset == 50


def test_an_offset_that_goes_back_is_damage(crashed: LogBench) -> None:
    records = crashed.records()
    path = segment_path(crashed, 8)
    path.write_bytes(path.read_bytes() + segment_path(crashed, 4).read_bytes())
    crashed.open(clean=False)
    assert "comes after" in crashed.log.report.notes[0]
    expect_prefix(crashed, records, COUNT)


def test_recovery_is_idempotent(crashed: LogBench) -> None:
    path = segment_path(crashed, 8)
    path.write_bytes(path.read_bytes()[:-1])
    crashed.open(clean=False)
    files = {entry.name: entry.read_bytes() for entry in crashed.folder.iterdir()}
    crashed.open(clean=False)
    assert crashed.log.report.notes == []
    assert {entry.name: entry.read_bytes() for entry in crashed.folder.iterdir()} == files
