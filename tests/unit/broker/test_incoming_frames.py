"""Frames come out whole however they arrive, and a large one lies where it was received."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.broker.incoming_frames import MAX_FRAME_BYTES, SHARED_BYTES, IncomingFrames
from highwater.model.errors import MalformedFrame


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4) + body


def feed(frames: IncomingFrames, data: bytes, *, at_once: int) -> list[bytes]:
    """Let data arrive in pieces of at most this size; return the frames that come out."""
    found = []
    while data:
        room = frames.room()
        size = min(len(room), at_once, len(data))
        room[:size] = data[:size]
        data = data[size:]
        found += [frame.tobytes() for frame in frames.received(size)]
    return found


@settings(max_examples=50, deadline=None)
@given(
    sizes=st.lists(st.sampled_from([4, 5, 1000, SHARED_BYTES - 4, SHARED_BYTES - 3, SHARED_BYTES, 3 * SHARED_BYTES])),
    at_once=st.sampled_from([777, 5000, SHARED_BYTES, 10 * SHARED_BYTES]),
)
def test_frames_come_out_as_they_were_sent(sizes: list[int], at_once: int) -> None:
    bodies = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    assert feed(IncomingFrames(), b"".join(map(framed, bodies)), at_once=at_once) == bodies


def test_a_frame_is_its_receivers_to_keep() -> None:
    frames = IncomingFrames()
    room = frames.room()
    room[:8] = framed(b"kept")
    (kept,) = frames.received(8)
    feed(frames, framed(b"later"), at_once=100)
    assert kept.tobytes() == b"kept"


def test_a_large_frame_is_received_where_it_stays() -> None:
    frames = IncomingFrames()
    body = b"x" * (2 * SHARED_BYTES)
    assert feed(frames, framed(body)[:-10], at_once=SHARED_BYTES) == []
    room = frames.room()
    assert len(room) == 10, "no more than the rest of the frame: what follows it is another's"
    room[:] = b"y" * 10
    (frame,) = frames.received(10)
    assert frame.obj is room.obj


@pytest.mark.parametrize("size", [-1, 0, 3, MAX_FRAME_BYTES + 1])
def test_a_size_that_cannot_be_is_refused(size: int) -> None:
    frames = IncomingFrames()
    frames.room()[:4] = size.to_bytes(4, signed=True)
    with pytest.raises(MalformedFrame):
        list(frames.received(4))
