"""What waits to be sent leaves whole and in order, from memory and from files, and never waits for the disk."""

import errno
import os
import socket
from pathlib import Path

import pytest

from highwater.server.errors import FileCutShort, FileUnreadable
from highwater.server.outbox import BYTES_PER_TURN, JOIN_LIMIT_BYTES, Outbox
from highwater.storage.file_region import FileRegion
from highwater.storage.files import File, OsFiles


class Peer:
    """Takes a few bytes at a time."""

    peer = "test"

    def __init__(self, at_a_time: int) -> None:
        self.at_a_time = at_a_time
        self.received = b""
        self.sends = 0

    def send(self, data: bytes | bytearray | memoryview, *, more: bool) -> int:
        del more
        self.sends += 1
        self.received += bytes(data[: self.at_a_time])
        return min(len(data), self.at_a_time)

    def send_file(self, file: File, position: int, length: int) -> int:
        data = os.pread(file.fileno(), min(length, self.at_a_time), position)
        self.received += data
        return len(data)


class ColdFile:
    """A file whose bytes are not in memory until someone reads them."""

    def __init__(self, real: File) -> None:
        self._real = real
        self.is_warm = False

    def fileno(self) -> int:
        return self._real.fileno()

    def read(self, position: int, length: int) -> bytes:
        self.is_warm = True
        return self._real.read(position, length)

    def read_without_waiting(self, position: int, length: int) -> bytes | None:
        return self._real.read(position, length) if self.is_warm else None


@pytest.fixture
def file(tmp_path: Path) -> File:
    opened = OsFiles().create(tmp_path / "segment")
    opened.write([bytes(range(256)) * 8], 0)
    return opened


@pytest.mark.parametrize("at_a_time", [1, 7, 1000, 1 << 20])
def test_pieces_arrive_whole_and_in_order(file: File, at_a_time: int) -> None:
    outbox, peer = Outbox(), Peer(at_a_time)
    outbox.put(b"head")
    outbox.put(FileRegion(file, 10, 500))
    outbox.put(b"between")
    outbox.put(bytearray(b"tail"))
    while outbox:
        outbox.send(peer)  # type: ignore[arg-type]
    assert peer.received == b"head" + file.read(10, 500) + b"betweentail"
    assert outbox.held_bytes == 0


def test_small_pieces_leave_joined(file: File) -> None:
    del file
    outbox, peer = Outbox(), Peer(1 << 20)
    for _ in range(100):
        outbox.put(b"answer")
    outbox.send(peer)  # type: ignore[arg-type]
    assert peer.received == b"answer" * 100
    assert peer.sends == 1


def test_joining_has_a_limit() -> None:
    outbox, peer = Outbox(), Peer(1 << 20)
    for _ in range(4):
        outbox.put(b"x" * JOIN_LIMIT_BYTES)
    outbox.send(peer)  # type: ignore[arg-type]
    assert peer.sends == 4


def test_a_long_answer_leaves_turns_to_other_connections(tmp_path: Path) -> None:
    """The loop does nothing else while the kernel copies what `sendfile` was asked for."""
    long = OsFiles().create(tmp_path / "long")
    long.write([bytes(4 * BYTES_PER_TURN)], 0)
    outbox, peer = Outbox(), Peer(8 * BYTES_PER_TURN)
    for start in range(0, 3 * BYTES_PER_TURN, BYTES_PER_TURN * 3 // 2):
        outbox.put(FileRegion(long, start, BYTES_PER_TURN * 3 // 2))
    turns = []
    while outbox:
        turns.append(outbox.send(peer))  # type: ignore[arg-type]
    assert turns == [BYTES_PER_TURN] * 3


def test_a_file_that_was_cut_is_an_error_and_no_endless_loop(file: File) -> None:
    outbox, peer = Outbox(), Peer(1 << 20)
    outbox.put(FileRegion(file, 2048, 500))
    outbox.send(peer)  # type: ignore[arg-type]
    assert outbox.cold_head is not None, "what is not there is not in memory"
    outbox.cold_head.warm()
    outbox.head_is_warm()
    with pytest.raises(FileCutShort):
        outbox.send(peer)  # type: ignore[arg-type]


def test_a_cold_file_range_is_not_sent_until_a_thread_has_read_it(file: File) -> None:
    """A `sendfile` of a page that is not in memory would hold up every connection (KAFKA-7504)."""
    cold = ColdFile(file)
    outbox, peer = Outbox(), Peer(1 << 20)
    outbox.put(b"head")
    outbox.put(FileRegion(cold, 0, 100))  # type: ignore[arg-type]
    outbox.send(peer)  # type: ignore[arg-type]
    assert peer.received == b"head"
    assert outbox.cold_head is not None
    outbox.cold_head.warm()
    outbox.head_is_warm()
    outbox.send(peer)  # type: ignore[arg-type]
    assert peer.received == b"head" + file.read(0, 100)
    assert not outbox


class Unreadable:
    """A file of which a page went bad after it was looked at."""

    def __init__(self, real: File, error_number: int) -> None:
        self._real = real
        self._error_number = error_number

    def read_without_waiting(self, position: int, length: int) -> bytes | None:
        return self._real.read(position, length)

    def fileno(self) -> int:
        raise OSError(self._error_number, os.strerror(self._error_number))


@pytest.mark.parametrize(("error_number", "blamed"), [(errno.EIO, "disk"), (errno.EPIPE, "peer")])
def test_a_disk_that_fails_is_told_from_a_peer_that_is_gone(file: File, error_number: int, blamed: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        outbox = Outbox()
        unreadable = Unreadable(file, error_number)
        outbox.put(FileRegion(unreadable, 0, 100))  # type: ignore[arg-type]  # all that sending needs of a file
        with pytest.raises((FileUnreadable, OSError)) as raised:
            outbox.send(Sending(ours))  # type: ignore[arg-type]
    assert isinstance(raised.value, FileUnreadable) == (blamed == "disk")


class Sending:
    """The sending half of a real transport."""

    peer = "test"

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def send(self, data: bytes | bytearray | memoryview, *, more: bool) -> int:
        del more
        return self._socket.send(data)

    def send_file(self, file: File, position: int, length: int) -> int:
        return os.sendfile(self._socket.fileno(), file.fileno(), position, length)
