"""A short fuzz of every decoder: a damaged frame is refused or read, and costs no more than its size warrants."""

import tracemalloc
from collections.abc import Iterator
from random import Random

import pytest

from highwater.model.errors import MalformedFrame
from highwater.protocol import codec, messages
from highwater.protocol.schema import Message
from highwater.testing.frames import every_request, mutated, random_message, random_request

FRAMES_OF_EACH_VERSION = 3
DAMAGED_COPIES = 25
HOSTILE_POSITIONS = 150
MEMORY_PER_FRAME_BYTE = 200
"""A slotted object of some 100 bytes, and its place in a list, for each byte of a frame of empty elements."""


def reads(cls: type[Message], version: int, frame: memoryview, start: int = 0) -> bool:
    """Return whether the frame can be read; any error but MalformedFrame fails the test."""
    try:
        message, end = codec.decoder(cls, version)(frame, start)
    except MalformedFrame:
        return False
    assert isinstance(message, cls)
    assert start <= end <= len(frame)
    return True


def encoded_messages(api_key: int) -> Iterator[tuple[type[Message], int, bytes]]:
    """Yield sound encodings of all versions of an API's request and response."""
    random = Random(api_key)
    for cls in (messages.request_class(api_key), messages.response_class(api_key)):
        for version in cls.VERSIONS:
            for _ in range(FRAMES_OF_EACH_VERSION):
                yield cls, version, codec.encode(random_message(cls, version, random), version)


@pytest.mark.parametrize("api_key", messages.API_NAMES)
def test_a_damaged_message_is_refused_or_read(api_key: int) -> None:
    random = Random(api_key)
    outcomes = {
        reads(cls, version, memoryview(mutated(encoded, random)))
        for cls, version, encoded in encoded_messages(api_key)
        for _ in range(DAMAGED_COPIES)
    }
    assert False in outcomes


def test_a_damaged_request_header_is_refused_or_read() -> None:
    random = Random(1)
    for api_key, version in every_request():
        request = random_request(api_key, version, random)
        for _ in range(DAMAGED_COPIES):
            frame = memoryview(mutated(request, random))
            try:
                _, end = codec.read_request_header(frame)
            except MalformedFrame:
                continue
            assert end <= len(frame)


@pytest.mark.parametrize("api_key", messages.API_NAMES)
def test_a_message_cut_at_any_byte_is_refused(api_key: int) -> None:
    for cls, version, encoded in encoded_messages(api_key):
        for length in range(len(encoded)):
            assert not reads(cls, version, memoryview(encoded)[:length])


@pytest.fixture
def memory_watch() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("memory_watch")
@pytest.mark.parametrize("api_key", messages.API_NAMES)
def test_a_hostile_length_anywhere_costs_next_to_nothing(api_key: int) -> None:
    """An array that claims two thousand million elements has brought down other brokers (CVE-2022-34917)."""
    random = Random(api_key)
    for cls in (messages.request_class(api_key), messages.response_class(api_key)):
        for version in {cls.VERSIONS[0], cls.VERSIONS[-1]}:
            encoded = codec.encode(random_message(cls, version, random), version)
            hostile = b"\xff\xff\xff\xff\x07" if version in cls.FLEXIBLE else b"\x7f\xff\xff\xff"
            codec.decoder(cls, version)
            for position in random.sample(range(len(encoded)), min(len(encoded), HOSTILE_POSITIONS)):
                frame = encoded[:position] + hostile + encoded[position + len(hostile) :]
                tracemalloc.reset_peak()
                before, _ = tracemalloc.get_traced_memory()
                reads(cls, version, memoryview(frame))
                _, peak = tracemalloc.get_traced_memory()
                assert peak - before < MEMORY_PER_FRAME_BYTE * len(frame) + 20_000
