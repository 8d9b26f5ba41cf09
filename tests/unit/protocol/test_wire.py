"""Unsigned varints, and what is read past."""

import pytest

from highwater.protocol import codec, wire
from highwater.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

EDGES = [0, 1, 127, 128, 2**14 - 1, 2**14, 2**21 - 1, 2**21, 2**28 - 1, 2**28, 2**31 - 1, 2**32 - 1]


def seven_bits_a_byte(number: int) -> bytes:
    """Return the varint as KIP-482 describes it."""
    encoded = []
    while number >= 128:
        encoded.append(number % 128 + 128)
        number //= 128
    return bytes([*encoded, number])


@pytest.mark.parametrize("number", EDGES)
def test_varints(number: int) -> None:
    encoded = wire.varint(number)
    assert encoded == seven_bits_a_byte(number)
    assert wire.read_varint(memoryview(b"x" + encoded + b"\xff"), 1) == (number, 1 + len(encoded))


@pytest.mark.parametrize("number", EDGES[1:])
def test_a_varint_that_is_cut_cannot_be_read(number: int) -> None:
    encoded = wire.varint(number)
    with pytest.raises(IndexError):
        wire.read_varint(memoryview(encoded)[:-1], 0)


def test_a_varint_may_be_longer_than_it_has_to_be() -> None:
    assert wire.read_varint(memoryview(b"\x83\x80\x00"), 0) == (3, 3)


def test_a_varint_has_at_most_five_bytes() -> None:
    with pytest.raises(ValueError, match="more than five bytes"):
        wire.read_varint(memoryview(b"\xff\xff\xff\xff\xff\x01"), 0)


@pytest.mark.parametrize("size", [0, 126, 127, 2**14 - 2, 2**14 - 1, 2**21 - 2, 2**21 - 1])
def test_records_of_any_size_are_announced_by_a_varint(size: int) -> None:
    partition = PartitionProduceData(records=memoryview(bytes(size)))
    request = ProduceRequest(topic_data=[TopicProduceData(partition_data=[partition])])
    encoded = codec.encode(request, 9)
    # Before: transactional id, acks, timeout, topic count and name, partition count and index. After: no tagged fields.
    assert encoded[1 + 2 + 4 + 1 + 1 + 1 + 4 :] == seven_bits_a_byte(size + 1) + bytes(size) + bytes(3)
    assert codec.decode(ProduceRequest, 9, encoded) == request
