"""Batches captured from Apache Kafka 4.1's Java library, one for each codec, are read as they were meant."""

import pytest

from highwater.protocol.records.batch import HEADER_BYTES
from highwater.protocol.records.compression import Codec, compress
from highwater.protocol.records.record import Record, build_batch, read_records, write_payload
from highwater.protocol.records.validate import check_produced

RECORDS = [
    Record(
        0,
        1_700_000_000_000,
        b"k0",
        b"some text, some text, some more text, and some text" + b" again and" * 2 + b" again",
    ),
    Record(1, 1_700_000_000_005, None, b"some text, some text, some more text"),
    Record(2, 1_699_999_999_000, b"k2", None, (("trace", "é".encode()), ("empty", None))),
    Record(3, 1_700_000_000_001, b"", b""),
]
JAVA_BATCHES = {
    "none": (
        "0000000000000000000000d5ffffffff0244a0e7cf0010000000030000018bcfe568000000018bcfe5680500000000000004"
        "d200030000004d00000004ac01000000046b309a01736f6d6520746578742c20736f6d6520746578742c20736f6d65206d6f"
        "726520746578742c20616e6420736f6d65207465787420616761696e20616e6420616761696e20616e6420616761696e0054"
        "000a020148736f6d6520746578742c20736f6d6520746578742c20736f6d65206d6f72652074657874003200cf0f04046b32"
        "01040a747261636504c3a90a656d707479010c000206000000"
    ),
    "gzip": (
        "00000000000000000000009affffffff02c48146c80011000000030000018bcfe568000000018bcfe5680500000000000004"
        "d200030000004d000000041f8b08000000000000ff5bc3c8c0c0c0926d308bb1383f3755a124b5a24447019d999b5f04e327"
        "e6a520a41512d31333f3c062682c8610062e26460f62cc64306238cfcfc2926dc4c8c2555294989cca727825576a6e414925"
        "230f03131bd0790057f32d41a4000000"
    ),
    "snappy": (
        "0000000000000000000000aaffffffff02d55714ea0012000000030000018bcfe568000000018bcfe5680500000000000004"
        "d200030000004d0000000482534e4150505900000000010000000100000065a40150ac01000000046b309a01736f6d652074"
        "6578742c203e0b00086d6f72111b08616e64191f1420616761696e05143a0a00180054000a0201483e49001d5f1554840032"
        "00cf0f04046b3201040a747261636504c3a90a656d707479010c000206000000"
    ),
    "lz4": (
        "0000000000000000000000a5ffffffff0255dd12440013000000030000018bcfe568000000018bcfe5680500000000000004"
        "d200030000004d0000000404224d1860408265000000fc06ac01000000046b309a01736f6d6520746578742c200b00346d6f"
        "721b0036616e641f006120616761696e14000b0a007c0054000a0201484900075f00055400f013003200cf0f04046b320104"
        "0a747261636504c3a90a656d707479010c00020600000000000000"
    ),
    "zstd": (
        "00000000000000000000009dffffffff026b4cc4250014000000030000018bcfe568000000018bcfe5680500000000000004"
        "d200030000004d0000000428b52ffd0058040300a404ac01000000046b309a01736f6d6520746578742c206d6f72616e6420"
        "616761696e0054000a020148003200cf0f04046b3201040a747261636504c3a90a656d707479010c00020600000007005708"
        "a029cd5a1adc6c4528387cbea391c204010000"
    ),
}


@pytest.mark.parametrize("name", JAVA_BATCHES)
def test_a_batch_of_the_java_library_is_read(name: str) -> None:
    batch = bytes.fromhex(JAVA_BATCHES[name])
    header = check_produced(memoryview(batch), max_message_bytes=len(batch))
    assert (header.codec, header.record_count, header.is_transactional) == (Codec[name.upper()], 4, True)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1234, 3, 77)
    assert (header.base_timestamp, header.max_timestamp) == (1_700_000_000_000, 1_700_000_000_005)
    assert read_records(batch) == RECORDS


def test_ours_equals_the_java_library_to_the_byte() -> None:
    ours = build_batch(RECORDS, producer_id=1234, producer_epoch=3, base_sequence=77, is_transactional=True)
    assert ours.hex() == JAVA_BATCHES["none"]


def test_snappy_has_the_framing_of_the_java_library() -> None:
    theirs = bytes.fromhex(JAVA_BATCHES["snappy"])[HEADER_BYTES:]
    payload = write_payload(RECORDS, base_offset=0, base_timestamp=RECORDS[0].timestamp)
    assert compress(Codec.SNAPPY, payload)[:16] == theirs[:16]
