"""Moves between log dirs that a stop interrupted: whatever is on the disk, one whole log stays."""

import errno
import os
from pathlib import Path

import pytest

from highwater.model.ids import TopicPartition
from highwater.storage.files import Entry, OsFiles
from highwater.storage.log_config import LogConfig
from highwater.storage.log_dir import LogDir
from highwater.storage.settled_moves import settle_moves
from highwater.testing.log_bench import NOW_MS, a_batch

NAME = TopicPartition("t", 0)


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
