"""Moves between log dirs that a stop interrupted: whatever is on the disk, one whole log stays."""

import contextlib
import errno
import os
from pathlib import Path

import pytest

from highwater.model.ids import TopicId, TopicPartition
from highwater.storage.files import Entry, OsFiles
from highwater.storage.log import Log
from highwater.storage.log_config import LogConfig
from highwater.storage.log_dir import LogDir
from highwater.storage.settled_moves import settle_moves
from highwater.testing.faulty_files import FaultyFiles, Killed
from highwater.testing.log_bench import NOW_MS, a_batch

NAME = TopicPartition("t", 0)
TOPIC_ID = TopicId(bytes(range(16)))


class OneBadDisk(OsFiles):
    """A file system of which one folder cannot be listed."""

    def __init__(self, bad: Path) -> None:
        self._bad = bad

    def list(self, folder: Path) -> list[Entry]:
        if folder == self._bad:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().list(folder)


def write(path: Path, folder: str, batches: int) -> None:
    """Leave a log in a log dir, under any name."""
    log_dir = LogDir.open(OsFiles(), path)
    log = log_dir.open_log(NAME, LogConfig(), now_ms=NOW_MS)
    for _ in range(batches):
        log.stage(memoryview(a_batch(b"v")), leader_epoch=0, now_ms=NOW_MS)
    log.write_staged()
    log.close()
    log_dir.close(clean=False)
    (path / "t-0").rename(path / folder)


@pytest.fixture
def disks(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "a", tmp_path / "b"


def settled(*paths: Path, bad: Path | None = None) -> tuple[list[LogDir], list[str]]:
    files = OsFiles() if bad is None else OneBadDisk(bad)
    log_dirs = [LogDir.open(files, path) for path in paths]
    return log_dirs, settle_moves(log_dirs)


def folders(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir() if entry.is_dir())


def test_what_was_set_aside_is_put_back_when_no_copy_has_its_name(disks: tuple[Path, Path]) -> None:
    write(disks[0], "t-0.1-moved", batches=3)
    write(disks[1], "t-0.1-future", batches=2)
    (old, new), notes = settled(*disks)
    assert old.holds(NAME)
    assert not new.holds(NAME)
    assert new.expected == {NAME}, "the move begins anew"
    assert folders(disks[0]) == ["t-0"]
    assert folders(disks[1]) == []
    assert len(notes) == 1


@pytest.mark.parametrize("back_in", [0, 1])
def test_of_what_several_moves_set_aside_the_last_is_put_back(disks: tuple[Path, Path], back_in: int) -> None:
    """Found by the simulator: moved there and back within a minute, and then the power was cut before the last name was
    on the disk. What the first move had set aside, which had nothing in it, was taken for the log.
    """
    first, second = disks[back_in], disks[1 - back_in]
    write(first, "t-0.1-moved", batches=0)
    write(first, "t-0.2-future", batches=3)
    write(first, "t-0.4-moved", batches=1)
    write(second, "t-0.3-moved", batches=3)
    log_dirs, notes = settled(*disks)
    assert not log_dirs[back_in].holds(NAME)
    assert log_dirs[1 - back_in].holds(NAME)
    log = log_dirs[1 - back_in].open_log(NAME, LogConfig(), now_ms=NOW_MS)
    assert log.log_end_offset == 3
    assert folders(first) == []
    assert folders(second) == ["t-0"]
    assert len(notes) == 3


def test_what_was_set_aside_goes_when_the_copy_has_its_name(disks: tuple[Path, Path]) -> None:
    write(disks[0], "t-0.1-moved", batches=3)
    write(disks[1], "t-0", batches=3)
    (old, new), _ = settled(*disks)
    assert not old.holds(NAME)
    assert new.holds(NAME)
    assert folders(disks[0]) == []


def test_of_two_logs_of_one_partition_the_longer_one_stays(disks: tuple[Path, Path]) -> None:
    """A power cut may bring the old name back after the new one was written."""
    write(disks[0], "t-0", batches=3)
    write(disks[1], "t-0", batches=4)
    (old, new), notes = settled(*disks)
    assert not old.holds(NAME)
    assert new.holds(NAME)
    assert folders(disks[0]) == []
    assert "two log dirs" in notes[0]


def test_nothing_is_put_back_while_the_copy_may_be_on_a_disk_that_cannot_be_read(disks: tuple[Path, Path]) -> None:
    write(disks[0], "t-0.1-moved", batches=3)
    write(disks[1], "t-0", batches=4)
    (old, new), _ = settled(*disks, bad=disks[1])
    assert not new.is_readable
    assert not old.holds(NAME)
    assert folders(disks[0]) == ["t-0.1-moved"]


def move(source: LogDir, target: LogDir, log: Log) -> None:
    """What `broker.LogDirMoves` does, without its loop and threads."""
    copy = target.begin_copy(NAME, log.config, start_offset=0, now_ms=NOW_MS, topic_id=TOPIC_ID)
    region = log.read(0, max_bytes=1 << 20, up_to=log.log_end_offset)
    assert region is not None
    copy.append_as_follower(memoryview(region.read()), now_ms=NOW_MS)
    copy.take_over_from(log)
    aside = source.set_aside(NAME)
    moved = target.adopt_copy(NAME, copy, flushed_to=0, now_ms=NOW_MS)
    moved.take_over_from(log)
    source.remove_detached(aside)


def test_a_kill_at_any_step_of_a_move_leaves_one_whole_log(tmp_path: Path) -> None:
    def a_move(name: str, kill_at: int | None) -> tuple[list[Path], int]:
        disk, paths = FaultyFiles(), [tmp_path / name / "a", tmp_path / name / "b"]
        source, target = (LogDir.open(disk, path) for path in paths)
        log = source.open_log(NAME, LogConfig(), now_ms=NOW_MS)
        for number in range(3):
            batch = a_batch(b"v", producer_id=7, sequence=number)
            log.stage(memoryview(batch), leader_epoch=number, now_ms=NOW_MS)
            log.write_staged()
        before = disk.steps
        disk.kill_at = None if kill_at is None else before + kill_at
        with contextlib.nullcontext() if kill_at is None else pytest.raises(Killed):
            move(source, target, log)
        steps = disk.steps - before
        disk.kill_at = None
        for log_dir in (source, target):
            log_dir.close(clean=False)
        return paths, steps

    _, steps = a_move("counting", None)
    assert steps > 8
    for step in range(1, steps + 1):
        paths, _ = a_move(str(step), step)
        log_dirs, _ = settled(*paths)
        (holder,) = [log_dir for log_dir in log_dirs if log_dir.holds(NAME)]
        log = holder.open_log(NAME, LogConfig(), now_ms=NOW_MS)
        assert (log.log_start_offset, log.log_end_offset) == (0, 3)
        assert [state.last_sequence for state in log.producers] == [2]
        assert log.leader_epochs.latest == 2
        assert sum(len(folders(path)) for path in paths) == 1
        for log_dir in log_dirs:
            log_dir.close(clean=False)
