"""Frames come out whole, in order, whatever pieces they arrive in."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.model.errors import MalformedFrame
from highwater.server.inbox import Inbox, SharedBuffer


class Pieces:
    """A transport that delivers given pieces, one per receive."""

    peer = "test"

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)

    def receive_into(self, buffer: memoryview) -> int:
        piece = self.pieces[0][: len(buffer)]
        buffer[: len(piece)] = piece
        self.pieces[0] = self.pieces[0][len(piece) :]
        if not self.pieces[0]:
            self.pieces.pop(0)
        return len(piece)


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def drain(inbox: Inbox, pieces: Pieces) -> list[bytes]:
    received: list[bytes] = []
    while pieces.pieces:
        inbox.receive(pieces)  # type: ignore[arg-type]
        received.extend(bytes(view) for view in iter(inbox.next_frame, None))
    return received


@given(
    bodies=st.lists(st.binary(min_size=8, max_size=600), min_size=1, max_size=20),
    cuts=st.lists(st.integers(1, 700), max_size=30),
    shared_bytes=st.integers(16, 400),
)
def test_frames_survive_any_cutting(bodies: list[bytes], cuts: list[int], shared_bytes: int) -> None:
    stream = b"".join(frame(body) for body in bodies)
    pieces = []
    for cut in cuts:
        pieces.append(stream[:cut])
        stream = stream[cut:]
    pieces.append(stream)
    inbox = Inbox(SharedBuffer(shared_bytes), max_frame_bytes=1000)
    assert drain(inbox, Pieces(*[piece for piece in pieces if piece])) == bodies


def test_two_connections_share_the_buffer_without_mixing() -> None:
    shared = SharedBuffer(64)
    one, two = Inbox(shared, max_frame_bytes=100), Inbox(shared, max_frame_bytes=100)
    first = Pieces(frame(b"a" * 20)[:15], frame(b"a" * 20)[15:])
    second = Pieces(frame(b"b" * 30))
    one.receive(first)  # type: ignore[arg-type]
    assert list(iter(one.next_frame, None)) == []
    two.receive(second)  # type: ignore[arg-type]
    assert [bytes(view) for view in iter(two.next_frame, None)] == [b"b" * 30]
    one.receive(first)  # type: ignore[arg-type]
    assert [bytes(view) for view in iter(one.next_frame, None)] == [b"a" * 20]


@pytest.mark.parametrize("size", [-1, 0, 7, 1001, 2**31 - 1])
def test_a_frame_of_impossible_size_is_refused(size: int) -> None:
    inbox = Inbox(SharedBuffer(), max_frame_bytes=1000)
    inbox.receive(Pieces(struct.pack(">i", size) + b"xxxx"))  # type: ignore[arg-type]
    with pytest.raises(MalformedFrame):
        list(iter(inbox.next_frame, None))


def test_a_claimed_size_costs_nothing_until_its_bytes_arrive() -> None:
    inbox = Inbox(SharedBuffer(), max_frame_bytes=100 * 1024 * 1024)
    inbox.receive(Pieces(struct.pack(">i", 100 * 1024 * 1024) + b"x" * 40))  # type: ignore[arg-type]
    assert list(iter(inbox.next_frame, None)) == []
    assert inbox.held_bytes < 256 * 1024
