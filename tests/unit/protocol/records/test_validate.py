"""What a broker refuses from the header and checksum alone."""

from collections.abc import Callable

import pytest

from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.records.batch import HEADER, BatchHeader, patch_checksum, read_header
from highwater.protocol.records.validate import (
    check_batch,
    check_codec_for_version,
    check_produced,
    check_timestamps,
)

AClientBatch = Callable[..., bytearray]
HOUR_MS = 3_600_000
FOREVER_MS = 2**63 - 1


def changed(batch: bytearray, **fields: int) -> memoryview:
    """Return the batch with other header fields and a checksum that fits them."""
    HEADER.pack_into(batch, 0, *read_header(batch)._replace(**fields))
    patch_checksum(batch)
    return memoryview(batch)


def produced_error(view: memoryview, *, max_message_bytes: int = 1_048_588) -> ErrorCode:
    with pytest.raises(KafkaError) as refusal:
        check_produced(view, max_message_bytes=max_message_bytes)
    return refusal.value.code


def test_a_batch_of_a_real_client_passes(a_batch: AClientBatch) -> None:
    batch = a_batch(3, producer_id=7, base_sequence=0)
    assert check_produced(memoryview(batch), max_message_bytes=len(batch)) == read_header(batch)
    assert check_batch(memoryview(batch)) == read_header(batch)


def test_a_batch_one_byte_over_the_limit_is_too_large(a_batch: AClientBatch) -> None:
    batch = a_batch(3)
    assert produced_error(memoryview(batch), max_message_bytes=len(batch) - 1) == ErrorCode.MESSAGE_TOO_LARGE


def test_any_flipped_bit_under_the_checksum_is_noticed(a_batch: AClientBatch) -> None:
    batch = a_batch(1)
    for bit in range(17 * 8, len(batch) * 8):
        batch[bit // 8] ^= 1 << bit % 8
        with pytest.raises(KafkaError) as refusal:
            check_batch(memoryview(batch))
        assert refusal.value.code == ErrorCode.CORRUPT_MESSAGE
        batch[bit // 8] ^= 1 << bit % 8


@pytest.mark.parametrize("batch_length", [-(2**31), -12, -1, 0, 48])
def test_a_false_length_is_corrupt(a_batch: AClientBatch, batch_length: int) -> None:
    batch = a_batch(1)
    batch[8:12] = batch_length.to_bytes(4, signed=True)
    assert produced_error(memoryview(batch)) == ErrorCode.CORRUPT_MESSAGE
    with pytest.raises(KafkaError) as refusal:
        check_batch(memoryview(batch))
    assert refusal.value.code == ErrorCode.CORRUPT_MESSAGE


def test_a_batch_cut_short_is_its_producers_mistake_and_damage_only_later(a_batch: AClientBatch) -> None:
    """A client sends again what was damaged on the way (CORRUPT_MESSAGE): here that would never end."""
    batch = a_batch(1)
    for length in range(1, len(batch)):
        assert produced_error(memoryview(batch)[:length]) == ErrorCode.INVALID_RECORD
        with pytest.raises(KafkaError) as refusal:
            check_batch(memoryview(batch)[:length])
        assert refusal.value.code == ErrorCode.CORRUPT_MESSAGE


def test_a_producer_sends_exactly_one_batch_for_a_partition(a_batch: AClientBatch) -> None:
    assert produced_error(memoryview(b"")) == ErrorCode.INVALID_RECORD
    assert produced_error(memoryview(a_batch(1) + a_batch(1))) == ErrorCode.INVALID_RECORD
    assert produced_error(memoryview(a_batch(1) + b"\0")) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    "fields",
    [
        {"record_count": 0, "last_offset_delta": -1},
        {"record_count": -1, "last_offset_delta": -2},
        {"record_count": 4},
        {"record_count": 2},
        {"last_offset_delta": 3},
        {"last_offset_delta": -1},
        {"attributes": 5},
        {"attributes": 7},
        {"attributes": 0b10_0000},
        {"attributes": 0b100_0000},
        {"attributes": 0b1_0000, "producer_id": -1},
        {"base_sequence": -1},
        {"producer_epoch": -1},
    ],
    ids=str,
)
def test_a_header_against_the_rules_is_an_invalid_record(a_batch: AClientBatch, fields: dict[str, int]) -> None:
    batch = a_batch(3, producer_id=7, base_sequence=0)
    assert produced_error(changed(batch, **fields)) == ErrorCode.INVALID_RECORD


def test_only_a_broker_may_say_log_append_time(a_batch: AClientBatch) -> None:
    assert produced_error(changed(a_batch(1), attributes=0b1000)) == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize(
    ("magic", "code"),
    [(0, ErrorCode.INVALID_RECORD), (1, ErrorCode.INVALID_RECORD), (3, ErrorCode.CORRUPT_MESSAGE)],
)
def test_other_message_formats_get_the_codes_of_apache_kafka(
    a_batch: AClientBatch, magic: int, code: ErrorCode
) -> None:
    batch = a_batch(1)
    batch[16] = magic
    assert produced_error(memoryview(batch)) == code


def header_with(a_batch: AClientBatch, **fields: int) -> BatchHeader:
    return read_header(a_batch(1))._replace(**fields)


@pytest.mark.parametrize("field", ["base_timestamp", "max_timestamp"])
def test_timestamps_may_be_as_far_from_the_clock_as_the_topic_allows(a_batch: AClientBatch, field: str) -> None:
    now_ms = 10 * HOUR_MS
    near = header_with(a_batch, base_timestamp=now_ms, max_timestamp=now_ms)

    def check(timestamp_ms: int, *, before_max_ms: int = HOUR_MS) -> None:
        check_timestamps(
            near._replace(**{field: timestamp_ms}), now_ms=now_ms, before_max_ms=before_max_ms, after_max_ms=HOUR_MS
        )

    check(now_ms + HOUR_MS)
    check(now_ms - HOUR_MS)
    check(0, before_max_ms=FOREVER_MS)
    check(-1)  # no timestamp at all
    for far in (now_ms + HOUR_MS + 1, now_ms - HOUR_MS - 1):
        with pytest.raises(KafkaError) as refusal:
            check(far)
        assert refusal.value.code == ErrorCode.INVALID_TIMESTAMP


def test_zstd_needs_a_producer_that_speaks_version_7(a_batch: AClientBatch) -> None:
    zstd, gzip = header_with(a_batch, attributes=4), header_with(a_batch, attributes=1)
    check_codec_for_version(zstd, 7)
    check_codec_for_version(gzip, 3)
    with pytest.raises(KafkaError) as refusal:
        check_codec_for_version(zstd, 6)
    assert refusal.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
