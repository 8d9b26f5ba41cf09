"""The encodings, byte by byte, and what bad bytes lead to."""

import pytest

from highwater.model.errors import ErrorCode, KafkaError, MalformedFrame
from highwater.protocol import codec, messages
from highwater.protocol.messages.api_versions import ApiVersionsResponse
from highwater.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from highwater.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from highwater.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from highwater.protocol.schema import (
    ELEMENT_BUDGET,
    Message,
    Part,
    Struct,
    array,
    blob,
    boolean,
    float64,
    int8,
    int16,
    int32,
    int64,
    string,
    struct,
    uint16,
    uuid,
)
from highwater.protocol.wire import varint

BUDGET_OF_SMALL = 16


class Inner(Struct):
    number: int = int16()
    late: int = int16(versions="1+", default=5)


class Everything(Message, versions="0-2", flexible="2+"):
    flag: bool = boolean()
    tiny: int = int8()
    short: int = int16()
    unsigned: int = uint16()
    word: int = int32()
    long: int = int64()
    real: float = float64()
    identity: bytes = uuid()
    text: str | None = string(nullable="1+")
    raw: bytes | None = blob(nullable="0+")
    numbers: list[int] = array(int32)
    flags: list[bool] = array(boolean)
    identities: list[bytes] = array(uuid)
    names: list[str] | None = array(string, nullable="0+")
    inners: list[Inner] = array(Inner)
    inner: Inner = struct(Inner)
    maybe: Inner | None = struct(Inner, nullable="0+")
    tagged_number: int = int32(versions="2+", default=-1, tag=3)
    tagged_inner: Inner | None = struct(Inner, versions="2+", tag=1)


class Small(Message, versions="0-1", flexible="1+", element_budget=BUDGET_OF_SMALL):
    names: list[str] = array(string)
    numbers: list[int] = array(int32)


FULL = Everything(
    flag=True,
    tiny=-2,
    short=-300,
    unsigned=65535,
    word=1 << 30,
    long=-(1 << 40),
    real=0.5,
    identity=bytes(range(16)),
    text="häß",
    raw=b"\x00\xff",
    numbers=[1, -1],
    flags=[True, False],
    identities=[bytes(16), bytes(range(16))],
    names=["a", ""],
    inners=[Inner(number=1, late=2), Inner(number=3, late=4)],
    inner=Inner(number=9),
    maybe=Inner(number=8),
    tagged_number=77,
    tagged_inner=Inner(number=6),
)


def fields_of_version(message: Everything, version: int) -> Everything:
    """Return what is left of `message` once it has travelled in `version`."""
    return codec.decode(Everything, version, codec.encode(message, version))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_kind_of_field_survives_the_journey(version: int) -> None:
    arrived = fields_of_version(FULL, version)
    for field in Everything.FIELDS:
        if version in field.versions and version > 0:
            assert getattr(arrived, field.name) == getattr(FULL, field.name)


def test_a_field_that_the_version_lacks_arrives_as_its_default() -> None:
    arrived = fields_of_version(FULL, 0)
    assert arrived.inners == [Inner(number=1), Inner(number=3)]
    assert (arrived.tagged_number, arrived.tagged_inner) == (-1, None)


def test_the_classic_encoding() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="ab")], allow_auto_topic_creation=True)
    assert codec.encode(request, 4) == b"\0\0\0\x01" + b"\0\x02ab" + b"\x01"


def test_the_flexible_encoding() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="ab")], allow_auto_topic_creation=True)
    assert codec.encode(request, 12) == b"\x02" + bytes(16) + b"\x03ab" + b"\0" + b"\x01\0" + b"\0"


def test_null_is_minus_one_or_a_zero_varint() -> None:
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    assert codec.encode(request, 1) == b"\xff\xff\xff\xff"
    assert codec.encode(request, 12) == b"\0" + b"\0\0" + b"\0"


def test_a_string_that_needs_a_longer_varint() -> None:
    name = "n" * 300
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    assert codec.decode(MetadataRequest, 12, codec.encode(request, 12)).topics == request.topics


def test_tagged_fields_travel_in_the_order_of_their_tags_and_only_when_they_say_something() -> None:
    empty = ApiVersionsResponse()
    assert codec.encode(empty, 3) == b"\0\0" + b"\x01" + b"\0\0\0\0" + b"\0"
    ready = ApiVersionsResponse(finalized_features_epoch=2, zk_migration_ready=True)
    assert codec.encode(ready, 3) == (
        b"\0\0" + b"\x01" + b"\0\0\0\0" + b"\x02" + b"\x01\x08\0\0\0\0\0\0\0\x02" + b"\x03\x01\x01"
    )


def test_unknown_tagged_fields_are_stepped_over() -> None:
    plain = codec.encode(MetadataRequest(topics=None), 12)
    extended = plain[:-1] + b"\x02" + b"\x05\x03abc" + b"\x80\x01\x00"
    assert codec.decode(MetadataRequest, 12, extended) == codec.decode(MetadataRequest, 12, plain)


def test_unknown_tagged_fields_among_known_ones_are_stepped_over() -> None:
    plain = codec.encode(Everything(tagged_number=5), 2)
    head, tagged = plain[:-7], plain[-7:]
    assert tagged == b"\x01\x03\x04\0\0\0\x05"
    extended = head + b"\x03" + b"\x02\x01x" + tagged[1:] + b"\x7f\x00"
    assert codec.decode(Everything, 2, extended) == Everything(tagged_number=5)


def test_a_tagged_field_of_the_wrong_size_is_refused() -> None:
    plain = codec.encode(Everything(tagged_number=5), 2)
    with pytest.raises(MalformedFrame, match="tagged_number is not of the size that its tag claims"):
        codec.decode(Everything, 2, plain[:-5] + b"\x05" + plain[-4:] + b"\0")


def test_record_batches_are_a_view_of_the_frame() -> None:
    request = ProduceRequest(
        acks=1,
        topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(records=memoryview(b"xyz"))])],
    )
    frame = bytearray(codec.encode(request, 9))
    records = codec.decode(ProduceRequest, 9, frame).topic_data[0].partition_data[0].records
    assert records is not None
    assert records.tobytes() == b"xyz"
    frame[frame.index(b"xyz")] = ord("X")
    assert records.tobytes() == b"Xyz"


class Region:
    """Stands for a part of a file."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size


def test_file_regions_pass_through_between_the_bytes() -> None:
    first, second = Region(300), Region(20)
    partitions = [
        PartitionData(partition_index=0, records=first),
        PartitionData(partition_index=1, records=second, diverging_epoch=EpochEndOffset(epoch=1, end_offset=2)),
        PartitionData(partition_index=2, records=Region(0)),
    ]
    answer = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])
    parts: list[Part] = []
    codec.encoder(FetchResponse, 12)(answer, parts)
    assert [type(part) for part in parts] == [bytes, Region, bytes, Region, bytes]
    assert (parts[1], parts[3]) == (first, second)

    joined = b"".join(part if isinstance(part, bytes) else bytes(len(part)) for part in parts)
    [topic] = codec.decode(FetchResponse, 12, joined).responses
    assert [partition.records for partition in topic.partitions] == [bytes(300), bytes(20), b""]
    assert topic.partitions[1].diverging_epoch == EpochEndOffset(epoch=1, end_offset=2)


def test_a_message_can_be_read_in_the_middle_of_a_frame() -> None:
    encoded = codec.encode(MetadataRequest(topics=None), 12)
    message, end = codec.decoder(MetadataRequest, 12)(memoryview(b"head" + encoded), 4)
    assert message == MetadataRequest(topics=None)
    assert end == 4 + len(encoded)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_frame_cut_at_any_byte_is_refused(version: int) -> None:
    encoded = codec.encode(FULL, version)
    for length in range(len(encoded)):
        with pytest.raises(MalformedFrame):
            codec.decode(Everything, version, encoded[:length])


def test_bytes_after_the_message_are_refused() -> None:
    with pytest.raises(MalformedFrame, match="MetadataRequest v1: 2 bytes too many"):
        codec.decode(MetadataRequest, 1, b"\0\0\0\0\0\0")


def test_null_where_the_protocol_has_none_is_refused() -> None:
    with pytest.raises(MalformedFrame, match="topics must not be null"):
        codec.decode(FetchRequest, 4, bytes(17) + b"\xff\xff\xff\xff")


def test_text_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(MalformedFrame, match="utf-8"):
        codec.decode(MetadataRequest, 0, b"\0\0\0\x01\0\x01\xff")


def test_a_varint_without_end_is_refused() -> None:
    with pytest.raises(MalformedFrame, match="a varint of more than five bytes"):
        codec.decode(MetadataRequest, 12, b"\xff" * 10)


def test_elements_are_limited() -> None:
    exactly = Small(names=["x"] * BUDGET_OF_SMALL)
    assert codec.decode(Small, 0, codec.encode(exactly, 0)) == exactly
    for version in Small.VERSIONS:
        with pytest.raises(MalformedFrame, match="names takes the number of elements over the limit"):
            codec.decode(Small, version, codec.encode(Small(names=["x"] * (BUDGET_OF_SMALL + 1)), version))


def test_numbers_in_arrays_count_for_an_eighth() -> None:
    exactly = Small(numbers=[1] * (BUDGET_OF_SMALL * 8))
    assert codec.decode(Small, 0, codec.encode(exactly, 0)) == exactly
    with pytest.raises(MalformedFrame, match="numbers takes the number of elements over the limit"):
        codec.decode(Small, 0, codec.encode(Small(numbers=[1] * (BUDGET_OF_SMALL * 8 + 8)), 0))


def test_a_megabyte_of_empty_topics_is_refused() -> None:
    topics = [FetchTopic()] * (ELEMENT_BUDGET + 1)
    with pytest.raises(MalformedFrame, match="topics takes the number of elements over the limit"):
        codec.decode(FetchRequest, 12, codec.encode(FetchRequest(topics=topics), 12))


def test_a_megabyte_of_tagged_fields_is_refused() -> None:
    encoded = codec.encode(MetadataRequest(topics=None), 12)
    with pytest.raises(MalformedFrame, match="tagged fields takes the number of elements over the limit"):
        codec.decode(
            MetadataRequest, 12, encoded[:-1] + varint(ELEMENT_BUDGET + 1) + b"\x09\x00" * (ELEMENT_BUDGET + 1)
        )


@pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\x00\xff\xff\xff"])
def test_a_hostile_count_is_refused_before_anything_is_allocated(count: bytes) -> None:
    with pytest.raises(MalformedFrame, match="topics claims more bytes than are left"):
        codec.decode(FetchRequest, 4, bytes(17) + count + bytes(19))


def test_a_version_that_does_not_exist_is_refused() -> None:
    with pytest.raises(KafkaError, match="FetchRequest has versions 4-18, not 19") as refused:
        codec.decoder(FetchRequest, 19)
    assert refused.value.code == ErrorCode.UNSUPPORTED_VERSION


def test_functions_are_compiled_once() -> None:
    assert codec.decoder(FetchRequest, 12) is codec.decoder(FetchRequest, 12)
    assert codec.encoder(FetchRequest, 12) is codec.encoder(FetchRequest, 12)


@pytest.mark.parametrize("api_key", messages.API_NAMES)
def test_every_version_of_every_message_carries_its_defaults(api_key: int) -> None:
    for cls in (messages.request_class(api_key), messages.response_class(api_key)):
        for version in cls.VERSIONS:
            assert codec.decode(cls, version, codec.encode(cls(), version)) == cls()


def test_a_fetch_of_several_partitions() -> None:
    partitions = [FetchPartition(partition=number, fetch_offset=number * 10) for number in range(200)]
    request = FetchRequest(max_wait_ms=500, topics=[FetchTopic(topic_id=bytes(range(16)), partitions=partitions)])
    assert codec.decode(FetchRequest, 17, codec.encode(request, 17)) == request
