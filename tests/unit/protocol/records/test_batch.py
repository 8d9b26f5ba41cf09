"""The header of a batch: reading, walking, patching."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.records.batch import (
    HEADER_BYTES,
    BatchHeader,
    iter_batches,
    patch_log_append_time,
    patch_offset_and_epoch,
    read_header,
)
from highwater.protocol.records.validate import check_batch

AClientBatch = Callable[..., bytearray]


def test_a_header_tells_what_the_client_wrote(a_batch: AClientBatch) -> None:
    batch = a_batch(3, producer_id=7, base_sequence=40)
    header = read_header(batch)
    assert header == BatchHeader(
        base_offset=0,
        batch_length=len(batch) - 12,
        leader_epoch=header.leader_epoch,
        magic=2,
        crc=header.crc,
        attributes=0,
        last_offset_delta=2,
        base_timestamp=1_000,
        max_timestamp=1_002,
        producer_id=7,
        producer_epoch=0,
        base_sequence=40,
        record_count=3,
    )
    assert header.size == len(batch)
    assert header.last_sequence == 42


def test_sequence_numbers_wrap_to_zero(a_batch: AClientBatch) -> None:
    assert read_header(a_batch(3, producer_id=7, base_sequence=2**31 - 2)).last_sequence == 0
    assert read_header(a_batch(3)).last_sequence == -1


def test_a_place_in_the_log_leaves_the_checksum_valid(a_batch: AClientBatch) -> None:
    batch = bytearray(5) + a_batch(3)
    patch_offset_and_epoch(memoryview(batch), 1_000_000_007, 12, position=5)
    header = check_batch(memoryview(batch), 5)
    assert (header.base_offset, header.last_offset, header.next_offset) == (1_000_000_007, 1_000_000_009, 1_000_000_010)
    assert header.leader_epoch == 12


def test_log_append_time_renews_the_checksum(a_batch: AClientBatch) -> None:
    batch = a_batch(3)
    before = read_header(batch)
    patch_log_append_time(batch, 5_000)
    header = check_batch(memoryview(batch))
    assert header == before._replace(attributes=0b1000, max_timestamp=5_000, crc=header.crc)
    assert header.uses_log_append_time


@dataclass(frozen=True)
class Flag:
    bit: int
    name: str


@pytest.mark.parametrize(
    "flag", [Flag(3, "uses_log_append_time"), Flag(4, "is_transactional"), Flag(5, "is_control")], ids=lambda f: f.name
)
def test_each_attribute_bit_is_one_flag(a_batch: AClientBatch, flag: Flag) -> None:
    plain = read_header(a_batch(1))
    flagged = plain._replace(attributes=1 << flag.bit)
    assert not getattr(plain, flag.name)
    assert getattr(flagged, flag.name)


def test_a_delete_horizon_is_kept_in_the_base_timestamp(a_batch: AClientBatch) -> None:
    header = read_header(a_batch(1))
    assert header.delete_horizon_ms is None
    assert header._replace(attributes=0b100_0000).delete_horizon_ms == 1_000


def test_walking_stops_before_a_batch_that_is_cut_short(a_batch: AClientBatch) -> None:
    first, second = a_batch(1), a_batch(2)
    whole = bytes(first + second)
    assert [position for position, _ in iter_batches(whole)] == [0, len(first)]
    for cut in range(len(first), len(whole)):
        assert [position for position, _ in iter_batches(whole[:cut])] == [0]


def test_walking_refuses_a_length_that_would_never_advance(a_batch: AClientBatch) -> None:
    batch = a_batch(1)
    batch[8:12] = (-12).to_bytes(4, signed=True)
    with pytest.raises(KafkaError) as refusal:
        list(iter_batches(batch))
    assert refusal.value.code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("magic", [0, 1, 3, 255])
def test_other_message_formats_are_named_as_such_even_when_shorter_than_a_header(magic: int) -> None:
    with pytest.raises(KafkaError, match=f"version {magic} is not supported") as refusal:
        read_header(bytes(16) + bytes([magic]) + bytes(9))
    assert refusal.value.code == (ErrorCode.INVALID_RECORD if magic < 2 else ErrorCode.CORRUPT_MESSAGE)


def test_fewer_bytes_than_a_header_are_corrupt(a_batch: AClientBatch) -> None:
    batch = a_batch(1)
    for length in range(HEADER_BYTES):
        with pytest.raises(KafkaError) as refusal:
            read_header(batch[:length])
        assert refusal.value.code == ErrorCode.CORRUPT_MESSAGE
