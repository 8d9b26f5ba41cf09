"""Records in and out of batches: our writer, our reader, and those of two clients."""

import struct
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import pytest
from aiokafka.record import default_records as aiokafka_records
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import default_records as kafka_python_records

from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.records.batch import HEADER_BYTES, patch_log_append_time, read_header
from highwater.protocol.records.compression import Codec
from highwater.protocol.records.record import (
    Record,
    assemble,
    build_batch,
    numbered,
    read_records,
    recompress,
    write_payload,
)
from highwater.protocol.records.validate import check_batch, check_produced

CLIENTS = [aiokafka_records, kafka_python_records]
TIMESTAMPS = st.integers(0, 2**52)
OPTIONAL_BYTES = st.none() | st.binary(max_size=300)
HEADERS = st.lists(st.tuples(st.text(max_size=10), OPTIONAL_BYTES), max_size=3).map(tuple)


@st.composite
def record_lists(draw: st.DrawFn, *, gaps: bool = True) -> list[Record]:
    offset = -1
    records = []
    for _ in range(draw(st.integers(1, 8))):
        offset += draw(st.integers(1, 200)) if gaps else 1
        records.append(
            Record(offset, draw(TIMESTAMPS), draw(OPTIONAL_BYTES), draw(OPTIONAL_BYTES), draw(HEADERS)),
        )
    return records


def as_ours(theirs: Iterable[Any]) -> list[Record]:
    """Turn a client's record objects into ours."""
    return [Record(each.offset, each.timestamp, each.key, each.value, tuple(each.headers)) for each in theirs]


@given(record_lists(), st.integers(0, 2**60), st.sampled_from(Codec))
def test_records_survive_a_batch(records: list[Record], base_offset: int, codec: Codec) -> None:
    records = [record._replace(offset=record.offset + base_offset) for record in records]
    batch = build_batch(records, base_offset=base_offset, codec=codec)
    header = check_batch(memoryview(batch))
    assert (header.record_count, header.codec) == (len(records), codec)
    assert header.last_offset == records[-1].offset
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert read_records(batch) == records


@pytest.mark.parametrize("client", CLIENTS, ids=["aiokafka", "kafka-python"])
@given(records=record_lists(gaps=False), codec=st.sampled_from(Codec))
def test_what_a_client_writes_is_read(client: ModuleType, records: list[Record], codec: Codec) -> None:
    builder = client.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for record in records:
        builder.append(*record[:4], headers=list(record.headers))
    batch = builder.build()
    assert check_produced(memoryview(batch), max_message_bytes=len(batch)).codec in {codec, Codec.NONE}
    assert read_records(batch) == records


@pytest.mark.parametrize("client", CLIENTS, ids=["aiokafka", "kafka-python"])
@given(records=record_lists(), codec=st.sampled_from(Codec))
def test_what_we_write_a_client_reads(client: ModuleType, records: list[Record], codec: Codec) -> None:
    batch = client.DefaultRecordBatch(bytes(build_batch(records, codec=codec)))
    assert batch.validate_crc()
    assert as_ours(batch) == records


def test_a_batch_carries_its_producer_and_its_epoch() -> None:
    batch = build_batch(
        numbered([(b"k", b"v"), (None, None)], timestamp_ms=5),
        leader_epoch=3,
        producer_id=70_000,
        producer_epoch=4,
        base_sequence=9,
        is_transactional=True,
        is_control=True,
    )
    header = check_batch(memoryview(batch))
    assert (header.leader_epoch, header.producer_id, header.producer_epoch, header.base_sequence) == (3, 70_000, 4, 9)
    assert header.is_transactional
    assert header.is_control
    assert read_records(batch) == [Record(0, 5, b"k", b"v"), Record(1, 5, None, None)]


def test_under_log_append_time_every_record_has_the_time_of_the_broker() -> None:
    batch = build_batch([Record(0, 10, b"a", b"1"), Record(1, 20, b"b", b"2")])
    patch_log_append_time(batch, 777)
    assert [record.timestamp for record in read_records(batch)] == [777, 777]


@given(record_lists(), st.sampled_from(Codec), st.sampled_from(Codec))
def test_recompression_changes_the_codec_and_nothing_else(records: list[Record], old: Codec, new: Codec) -> None:
    batch = build_batch(records, codec=old, producer_id=7, producer_epoch=1, base_sequence=3, is_transactional=True)
    again = recompress(batch, new)
    before, after = read_header(batch), check_batch(memoryview(again))
    assert after.codec == new
    assert read_records(again) == records
    assert after._replace(attributes=0, batch_length=0, crc=0) == before._replace(attributes=0, batch_length=0, crc=0)
    assert after.is_transactional


def test_a_header_key_that_is_not_utf_8_survives() -> None:
    """Java decodes such a key with replacement characters; a compaction must not change it for good."""
    payload = write_payload([Record(0, 0, None, None, (("k??", b"v"),))], base_offset=0, base_timestamp=0)
    template = build_batch([Record(0, 0, None, None)])
    batch = assemble(read_header(template), bytes(payload).replace(b"??", b"\xff\xfe"))
    records = read_records(batch)
    assert build_batch(records) == batch


def one_record_batch(record: bytes, *, count: int = 1, last_offset_delta: int = 0) -> bytearray:
    header = read_header(build_batch([Record(0, 0, None, None)]))
    return assemble(header._replace(record_count=count, last_offset_delta=last_offset_delta), record)


GOOD = bytes((12, 0, 0, 0, 1, 1, 0))
"""Length 6, attributes, timestamp delta 0, offset delta 0, no key, no value, no headers."""


@pytest.mark.parametrize(
    ("record", "count"),
    [
        (b"", 1),
        (GOOD, 2),
        (GOOD, 0),
        (GOOD, -1),
        (GOOD, 2**31 - 1),
        (GOOD + b"\0", 1),
        (GOOD + GOOD, 2),  # the same offset twice
        (bytes((11,)) + GOOD[1:], 1),  # length -6
        (bytes((14,)) + GOOD[1:], 1),  # one byte longer than there is
        (bytes((10,)) + GOOD[1:], 1),  # one byte shorter than the fields
        (bytes((12, 0, 0, 1, 1, 1, 0)), 1),  # offset delta -1
        (bytes((12, 0, 0, 2, 1, 1, 0)), 1),  # offset delta after the batch's last
        (bytes((12, 0, 0, 0, 3, 1, 0)), 1),  # key of -2 bytes
        (bytes((12, 0, 0, 0, 1, 3, 0)), 1),  # value of -2 bytes
        (bytes((12, 0, 0, 0, 2, 1, 0)), 1),  # key takes the byte of the value's length
        (bytes((12, 0, 0, 0, 1, 1, 1)), 1),  # -1 headers
        (bytes((12, 0, 0, 0, 1, 1, 2)), 1),  # a header that is not there
        (bytes((16, 0, 0, 0, 1, 1, 2, 1, 1)), 1),  # a header without a key
        (bytes((18, 0, 0, 0, 1, 1, 2, 2, 65, 3)), 1),  # a header's value of -2 bytes
        (bytes((18, 0, 0, 0, 1, 1, 2, 2, 65, 2)), 1),  # a header's value beyond the record
        (b"\xff" * 12, 1),  # a number that does not end
        (b"\xff" * 9 + b"\x7f", 1),  # a number beyond 64 bits
    ],
)
def test_records_against_the_format_are_invalid(record: bytes, count: int) -> None:
    with pytest.raises(KafkaError) as refusal:
        read_records(one_record_batch(record, count=count))
    assert refusal.value.code == ErrorCode.INVALID_RECORD


def test_the_smallest_record_is_read() -> None:
    assert read_records(one_record_batch(GOOD)) == [Record(0, 0, None, None)]


def test_the_longest_number_is_read() -> None:
    record = bytes((30, 0)) + b"\xff" * 9 + b"\x01" + GOOD[3:]
    assert read_records(one_record_batch(record)) == [Record(0, -(2**63), None, None)]


def test_a_timestamp_beyond_64_bits_is_invalid() -> None:
    header = read_header(build_batch([Record(0, 0, None, None)]))
    batch = assemble(header._replace(base_timestamp=2**63 - 1), bytes((12, 0, 2, 0, 1, 1, 0)))
    with pytest.raises(KafkaError) as refusal:
        read_records(batch)
    assert refusal.value.code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_invalid(codec: int) -> None:
    header = read_header(build_batch([Record(0, 0, None, None)]))
    with pytest.raises(KafkaError) as refusal:
        read_records(assemble(header._replace(attributes=codec), GOOD))
    assert refusal.value.code == ErrorCode.INVALID_RECORD


def test_a_batch_without_records_is_legal_after_compaction() -> None:
    header = read_header(build_batch([Record(0, 0, None, None)]))
    assert read_records(assemble(header._replace(record_count=0, last_offset_delta=9), b"")) == []


@given(
    records=record_lists(),
    codec=st.sampled_from(Codec),
    changes=st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), max_size=4),
    cut=st.none() | st.integers(0, 400),
    insert=st.none() | st.tuples(st.integers(0, 400), st.binary(max_size=20)),
)
def test_a_mutated_batch_is_read_or_refused_and_nothing_else(
    records: list[Record],
    codec: Codec,
    changes: list[tuple[int, int]],
    cut: int | None,
    insert: tuple[int, bytes] | None,
) -> None:
    """Any other exception would take the connection or the broker down."""
    batch = build_batch(records, codec=codec)
    for position, byte in changes:
        batch[position % len(batch)] = byte
    if insert:
        batch[insert[0] : insert[0]] = insert[1]
    batch = batch[:cut]
    for look in LOOKS:
        try:
            look(batch)
        except KafkaError as error:
            assert error.code in REFUSALS  # noqa: PT017 - either outcome is right


LOOKS: list[Callable[[bytearray], object]] = [
    lambda batch: read_records(batch, limit_bytes=1 << 20),
    lambda batch: check_batch(memoryview(batch)),
    lambda batch: check_produced(memoryview(batch), max_message_bytes=1 << 20),
    lambda batch: recompress(batch, Codec.GZIP),
]
REFUSALS = {
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.MESSAGE_TOO_LARGE,
}


@given(st.binary(max_size=200), st.integers(1, 40), st.sampled_from(Codec))
def test_garbage_after_a_true_header_is_read_or_refused(garbage: bytes, count: int, codec: Codec) -> None:
    header = read_header(build_batch([Record(0, 0, None, None)]))
    batch = assemble(header._replace(record_count=count, last_offset_delta=count, attributes=codec), garbage)
    try:
        assert len(read_records(batch, limit_bytes=1 << 20)) == count
    except KafkaError as error:
        assert error.code in {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD}  # noqa: PT017 - either is right


def test_the_layout_is_that_of_the_documentation() -> None:
    batch = build_batch([Record(5, 1_000, b"k", b"v", (("h", b"x"),))], base_offset=5, leader_epoch=2)
    assert struct.unpack_from(">qii", batch) == (5, len(batch) - 12, 2)
    assert batch[HEADER_BYTES:] == bytes((24, 0, 0, 0, 2)) + b"k" + bytes((2,)) + b"v" + bytes((2, 2)) + b"h\x02x"
