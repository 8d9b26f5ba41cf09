"""The seam to the disk, on the real one."""

import subprocess
import sys
from pathlib import Path

import pytest

from highwater.storage.file_region import FileRegion
from highwater.storage.files import MAX_BUFFERS_PER_WRITE, OsFiles, read_file, replace_file, write_all
from highwater.testing.faulty_files import FaultyFiles, Killed

LOCK_SCRIPT = """
import sys
from pathlib import Path
from highwater.storage.files import OsFiles
sys.exit(0 if OsFiles().lock(Path(sys.argv[1])) is not None else 3)
"""


@pytest.fixture
def files() -> OsFiles:
    return OsFiles()


def test_what_is_written_is_read(files: OsFiles, tmp_path: Path) -> None:
    file = files.create(tmp_path / "a")
    assert file.write([b"one", bytearray(b"two"), memoryview(b"three")], 0) == 11
    assert file.write([b"TWO"], 3) == 3
    assert file.read(0, 100) == b"oneTWOthree"
    assert file.read(3, 3) == b"TWO"
    assert file.read(50, 3) == b""
    assert file.size() == 11
    file.cut(4)
    assert file.read(0, 100) == b"oneT"
    file.sync()


@pytest.mark.parametrize("count", [1, MAX_BUFFERS_PER_WRITE, MAX_BUFFERS_PER_WRITE + 1, 3 * MAX_BUFFERS_PER_WRITE])
@pytest.mark.parametrize("largest_write", [None, 5, 4096])
def test_all_is_written_however_much_the_disk_takes_at_once(
    tmp_path: Path, count: int, largest_write: int | None
) -> None:
    disk = FaultyFiles()
    disk.largest_write = largest_write
    buffers = [b"%d," % number for number in range(count)]
    whole = b"".join(buffers)
    file = disk.create(tmp_path / "a")
    write_all(file, buffers, 2, len(whole))
    assert file.read(2, len(whole) + 1) == whole


def test_a_disk_that_takes_nothing_is_an_error(tmp_path: Path) -> None:
    disk = FaultyFiles()
    disk.largest_write = 0
    with pytest.raises(OSError, match="took none"):
        write_all(disk.create(tmp_path / "a"), [b"data"], 0, 4)


def test_a_map_is_sparse_and_seen_in_the_file(files: OsFiles, tmp_path: Path) -> None:
    mapped = files.map(tmp_path / "a", 1_000_000)
    mapped.reserve(0, 4096)
    mapped.memory[0:3] = b"abc"
    mapped.close()
    status = (tmp_path / "a").stat()
    assert status.st_size == 1_000_000
    assert status.st_blocks * 512 < 100_000
    assert files.open(tmp_path / "a").read(0, 4) == b"abc\x00"


def test_a_region_keeps_its_file_open(files: OsFiles, tmp_path: Path) -> None:
    file = files.create(tmp_path / "a")
    write_all(file, [b"0123456789"], 0, 10)
    region = FileRegion(file, 2, 5)
    del file
    files.remove(tmp_path / "a")
    assert (len(region), region.read()) == (5, b"23456")


def test_a_replaced_file_is_the_old_or_the_new_one_whenever_it_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    for step in range(1, 8):
        disk = FaultyFiles()
        replace_file(disk, path, b"old")
        disk.kill_at = disk.steps + step
        try:
            replace_file(disk, path, b"new content")
        except Killed:
            pass
        else:
            break
        assert path.read_bytes() in {b"old", b"new content"}
    assert step > 3
    assert path.read_bytes() == b"new content"


def test_a_missing_file_reads_as_none(files: OsFiles, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files.open(tmp_path / "missing")
    assert read_file(files, tmp_path / "missing") is None
    assert not (tmp_path / "missing").exists()


def test_a_folder_is_listed_by_name(files: OsFiles, tmp_path: Path) -> None:
    files.make_folder(tmp_path / "b" / "c")
    (tmp_path / "a").write_bytes(b"12345")
    listed = files.list(tmp_path)
    assert [(entry.name, entry.is_folder) for entry in listed] == [("a", False), ("b", True)]
    assert listed[0].size == 5
    assert listed[0].modified_ms > 1_600_000_000_000


def test_removing_what_is_not_there_is_no_error(files: OsFiles, tmp_path: Path) -> None:
    files.remove(tmp_path / "missing")
    files.remove_folder(tmp_path / "missing")


def test_a_lock_is_held_once_in_this_process_and_in_others(files: OsFiles, tmp_path: Path) -> None:
    path = tmp_path / ".lock"

    def other_process() -> int:
        return subprocess.run([sys.executable, "-c", LOCK_SCRIPT, str(path)], check=False, timeout=60).returncode

    lock = files.lock(path)
    assert lock is not None
    assert files.lock(path) is None
    assert other_process() == 3
    lock.release()
    assert other_process() == 0
    assert files.lock(path) is not None
