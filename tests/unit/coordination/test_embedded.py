"""What only the embedded store must do: survive, and keep others out."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from highwater.coordination.embedded import FILE_NAME, EmbeddedCoordination
from highwater.coordination.port import StoreFailed
from highwater.model.errors import ErrorCode

WRITE_UNTIL_KILLED = """
import asyncio, sys
from pathlib import Path
from highwater.coordination.embedded import EmbeddedCoordination

async def main():
    store = EmbeddedCoordination.open(Path(sys.argv[1]))
    await store.create("/counter", b"0")
    await store.create("/me", ephemeral=True)
    for n in range(1, 1_000_000):
        await store.write("/counter", b"%d" % n)
        print(n, flush=True)

asyncio.run(main())
"""


def last_acknowledged_before_kill(path: Path) -> int:
    command = [sys.executable, "-c", WRITE_UNTIL_KILLED, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(20)]
        os.kill(writer.pid, signal.SIGKILL)
        lines += writer.stdout.read().splitlines(keepends=True)
    return max(int(line) for line in lines if line.endswith("\n"))


async def test_what_was_acknowledged_survives_kill_nine(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    acknowledged = last_acknowledged_before_kill(path)
    store = EmbeddedCoordination.open(path)
    assert int((await store.read("/counter")).data) in {acknowledged, acknowledged + 1}
    assert not await store.exists("/me"), "its session is over"
    await store.close()


async def test_a_second_broker_is_kept_out(tmp_path: Path) -> None:
    store = EmbeddedCoordination.open(tmp_path / FILE_NAME)
    with pytest.raises(StoreFailed, match="another broker uses it"):
        EmbeddedCoordination.open(tmp_path / FILE_NAME)
    await store.close()


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(b"not a database, but something dear to its owner" * 100)
    before = path.read_bytes()
    with pytest.raises(StoreFailed, match="not a database") as caught:
        EmbeddedCoordination.open(path)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert path.read_bytes() == before


def test_somebody_elses_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE theirs (x)")
    database.commit()
    database.close()
    with pytest.raises(StoreFailed, match="not a Highwater metadata file"):
        EmbeddedCoordination.open(path)


async def test_a_file_of_a_later_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    await EmbeddedCoordination.open(path).close()
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(StoreFailed, match="has format 99"):
        EmbeddedCoordination.open(path)


async def test_a_file_of_the_first_format_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    store = EmbeddedCoordination.open(path)
    await store.create("/a", b"kept")
    await store.close()
    database = sqlite3.connect(path)
    database.execute("ALTER TABLE node DROP COLUMN modified")
    database.execute("PRAGMA user_version = 1")
    database.commit()
    database.close()
    store = EmbeddedCoordination.open(path)
    assert (await store.read("/a")).data == b"kept"
    await store.write("/a", b"new")
    assert (await store.read("/a")).modified > (await store.read("/a")).created
    await store.close()


def test_a_folder_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="unable to open database file"):
        EmbeddedCoordination.open(tmp_path / "missing" / FILE_NAME)


async def test_a_change_whose_asker_gave_up_is_whole_or_not_there(tmp_path: Path) -> None:
    """The connection must not be left inside a transaction when a request is cancelled during its commit."""
    store = EmbeddedCoordination.open(tmp_path / FILE_NAME)
    told = 0

    def tell() -> None:
        nonlocal told
        told += 1

    store.watch_node("/a", tell)
    asker = asyncio.create_task(store.create("/a", b"1"))
    await asyncio.sleep(0)  # now it is committing
    asker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asker
    assert await store.exists("/a") == bool(told)
    await store.create("/b")
    await store.close()


async def test_a_full_disk_is_an_error_and_nothing_more(tmp_path: Path) -> None:
    store = EmbeddedCoordination.open(tmp_path / FILE_NAME)
    await store.create("/a", b"1")
    store._database.execute("PRAGMA max_page_count = 1")  # SQLite answers as it does to ENOSPC
    with pytest.raises(StoreFailed, match="full"):
        await store.write("/a", b"x" * 1_000_000)
    assert (await store.read("/a")).data == b"1"
    store._database.execute("PRAGMA max_page_count = 1000000")
    assert await store.write("/a", b"2") == 1
    await store.close()
