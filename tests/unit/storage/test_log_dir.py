"""A log dir: one broker's, with a folder for each partition, and the marks that a restart goes by."""

from pathlib import Path

import pytest

from highwater.model.errors import StorageError
from highwater.model.ids import TopicId, TopicPartition
from highwater.storage import checkpoints
from highwater.storage.files import OsFiles
from highwater.storage.log import Log
from highwater.storage.log_config import LogConfig
from highwater.storage.log_dir import LogDir, LogDirInUse
from highwater.testing.faulty_files import FaultyFiles
from highwater.testing.log_bench import NOW_MS, a_batch

ORDERS = TopicPartition("orders", 0)
VIEWS = TopicPartition("page-views.v1", 12)


def a_log_dir(path: Path) -> LogDir:
    return LogDir.open(OsFiles(), path)


def open_log(log_dir: LogDir, name: TopicPartition = ORDERS) -> Log:
    return log_dir.open_log(name, LogConfig(), now_ms=NOW_MS)


def append(log: Log, *values: bytes) -> None:
    log.stage(memoryview(a_batch(*values)), leader_epoch=0, now_ms=NOW_MS)
    log.write_staged()


def test_a_folder_belongs_to_one_broker_at_a_time(tmp_path: Path) -> None:
    log_dir = a_log_dir(tmp_path / "new" / "data")
    with pytest.raises(LogDirInUse, match="in use by another broker"):
        a_log_dir(log_dir.path)
    log_dir.close(clean=True)
    a_log_dir(log_dir.path).close(clean=True)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match=r"cannot use log dir .*file/data: Not a directory"):
        a_log_dir(tmp_path / "file" / "data")


def test_a_folder_says_which_topic_it_is_of(tmp_path: Path) -> None:
    ours = TopicId(bytes(range(16)))
    log_dir = a_log_dir(tmp_path)
    log_dir.open_log(ORDERS, LogConfig(), now_ms=NOW_MS, topic_id=ours)
    said = tmp_path / str(ORDERS) / "partition.metadata"
    content = said.read_bytes()
    assert content.startswith(b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n")
    assert log_dir.topic_of(ORDERS) == ours
    log_dir.close(clean=True)
    flipped = [content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :] for at in range(len(content))]
    for damaged in (b"", bytes(50), content[:-5], b"version: 9\ntopic_id: \xff\n", *flipped):
        said.write_bytes(damaged)
        again = a_log_dir(tmp_path)
        assert again.topic_of(ORDERS) is None, "a power cut or a bad disk may have taken what it said"
        again.open_log(ORDERS, LogConfig(), now_ms=NOW_MS, topic_id=ours)
        assert again.topic_of(ORDERS) == ours
        again.close(clean=True)


def test_partitions_are_found_by_their_folders(tmp_path: Path) -> None:
    log_dir = a_log_dir(tmp_path)
    for name in (ORDERS, VIEWS):
        assert not log_dir.holds(name)
        open_log(log_dir, name)
        assert log_dir.holds(name)
    (tmp_path / "lost+found").mkdir()
    log_dir.close(clean=False)
    again = a_log_dir(tmp_path)
    assert again.partitions == {ORDERS, VIEWS}
    assert again.partition_count == 2


def test_after_a_clean_stop_logs_are_believed_until_it_serves_again(tmp_path: Path) -> None:
    log_dir = a_log_dir(tmp_path)
    log_dir.serving()
    log = open_log(log_dir)
    append(log, b"a")
    log_dir.close(clean=True, flushes=[log.close()])

    log_dir = a_log_dir(tmp_path)
    assert log_dir.was_stopped_cleanly
    assert open_log(log_dir).report.checked_bytes == 0
    log_dir.serving()
    log_dir.close(clean=False)

    log_dir = a_log_dir(tmp_path)
    assert not log_dir.was_stopped_cleanly
    assert open_log(log_dir).report.checked_bytes > 0


def test_checkpoints_say_from_where_on_a_log_is_checked_and_read(tmp_path: Path) -> None:
    log_dir = a_log_dir(tmp_path)
    log = open_log(log_dir)
    for _ in range(4):
        append(log, b"a", b"b")
    log.delete_records_before(3)
    log.flush()
    log_dir.write_checkpoint(checkpoints.RECOVERY_POINTS, {ORDERS: log.recovery_point})
    log_dir.write_checkpoint(checkpoints.LOG_START_OFFSETS, {ORDERS: log.log_start_offset})
    log_dir.close(clean=False)

    again = open_log(a_log_dir(tmp_path))
    assert (again.log_start_offset, again.log_end_offset, again.recovery_point) == (3, 8, 8)


def test_a_damaged_checkpoint_means_that_nothing_is_believed(tmp_path: Path) -> None:
    log_dir = a_log_dir(tmp_path)
    log = open_log(log_dir)
    append(log, b"a")
    log_dir.close(clean=True, flushes=[log.close()])
    (tmp_path / checkpoints.RECOVERY_POINTS).write_text("nonsense")
    log_dir = a_log_dir(tmp_path)
    assert not log_dir.was_stopped_cleanly
    assert len(log_dir.notes) == 1
    assert open_log(log_dir).log_end_offset == 1


def test_a_dropped_partition_is_out_of_sight_at_once_and_gone_soon(tmp_path: Path) -> None:
    log_dir = a_log_dir(tmp_path)
    append(open_log(log_dir), b"a")
    folder = log_dir.detach(ORDERS)
    assert not log_dir.holds(ORDERS)
    assert not (tmp_path / "orders-0").exists()
    assert open_log(log_dir).log_end_offset == 0
    log_dir.remove_detached(folder)
    assert sorted(path.name for path in tmp_path.glob("orders*")) == ["orders-0"]


def test_what_was_dropped_before_a_crash_is_removed_at_the_next_start(tmp_path: Path) -> None:
    log_dir = a_log_dir(tmp_path)
    append(open_log(log_dir), b"a")
    log_dir.detach(ORDERS)
    log_dir.close(clean=False)
    assert a_log_dir(tmp_path).partitions == frozenset()
    assert list(tmp_path.glob("orders*")) == []


def test_there_is_no_mark_of_a_clean_stop_when_the_last_sync_fails(tmp_path: Path) -> None:
    disk = FaultyFiles()
    log_dir = LogDir.open(disk, tmp_path)
    log = log_dir.open_log(ORDERS, LogConfig(), now_ms=NOW_MS)
    append(log, b"a")
    flush = log.close()
    disk.fail_at = disk.steps + 1
    with pytest.raises(StorageError, match="No space left"):
        log_dir.close(clean=True, flushes=[flush])
    assert not a_log_dir(tmp_path).was_stopped_cleanly


def test_an_idle_log_leaves_nothing_to_flush(tmp_path: Path) -> None:
    log_dir = a_log_dir(tmp_path)
    log = open_log(log_dir)
    append(log, b"a")
    log_dir.close(clean=True, flushes=[log.close()])
    log_dir = a_log_dir(tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "orders-0").iterdir()}
    assert len(open_log(log_dir).close()) == 0
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "orders-0").iterdir()} == before


def test_many_logs_are_flushed_at_once(tmp_path: Path) -> None:
    """A sync for each file of a thousand partitions would take half a minute on a slow disk."""
    disk = FaultyFiles()
    log_dir = LogDir.open(disk, tmp_path)
    flushes = []
    for number in range(40):
        log = log_dir.open_log(TopicPartition("t", number), LogConfig(), now_ms=NOW_MS)
        append(log, b"a")
        flushes.append(log.close())
    before = disk.steps
    log_dir.close(clean=True, flushes=flushes)
    assert disk.steps < before + 10
    OsFiles().sync_all(tmp_path)
