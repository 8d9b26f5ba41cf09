"""Every codec, both ways, with what other implementations write and with what nobody should."""

import gzip
import resource
import struct

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.records.compression import Codec, compress, decompress

COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
TEXT = b"the quick brown fox jumps over the lazy dog; " * 4_000
XERIAL_HEADER = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"


def refused(codec: Codec, data: bytes, *, limit_bytes: int = 1 << 20) -> None:
    with pytest.raises(KafkaError) as refusal:
        decompress(codec, data, limit_bytes=limit_bytes)
    assert refusal.value.code == ErrorCode.CORRUPT_MESSAGE


@given(st.sampled_from(Codec), st.binary(max_size=2_000), st.integers(0, 60))
def test_data_survives_every_codec(codec: Codec, data: bytes, repeat: int) -> None:
    data *= repeat
    for buffer in (data, bytearray(data), memoryview(data)):
        assert decompress(codec, compress(codec, buffer), limit_bytes=max(1, len(data))) == data


@pytest.mark.parametrize(("codec", "level"), [(Codec.GZIP, 9), (Codec.LZ4, 12), (Codec.ZSTD, 19), (Codec.ZSTD, -5)])
def test_levels_change_the_size_and_not_the_content(codec: Codec, level: int) -> None:
    compressed = compress(codec, TEXT, level)
    assert len(compressed) < len(TEXT) // 10
    assert decompress(codec, compressed) == TEXT


@pytest.mark.parametrize(
    ("codec", "theirs"),
    [
        (Codec.GZIP, gzip.compress(TEXT)),
        (Codec.GZIP, gzip.compress(TEXT[:100]) + gzip.compress(TEXT[100:])),
        (Codec.SNAPPY, snappy.compress(TEXT)),
        (Codec.LZ4, lz4.frame.compress(TEXT, block_linked=False)),
        (Codec.LZ4, lz4.frame.compress(TEXT, block_linked=True, content_checksum=True, store_size=False)),
        (Codec.ZSTD, zstandard.compress(TEXT)),
        (Codec.ZSTD, zstandard.ZstdCompressor(write_content_size=False).compress(TEXT)),
    ],
    ids=["gzip", "gzip in two members", "raw snappy", "lz4", "lz4 linked", "zstd", "zstd of unknown size"],
)
def test_what_other_libraries_write_is_read(codec: Codec, theirs: bytes) -> None:
    assert decompress(codec, theirs) == TEXT
    assert decompress(codec, theirs, limit_bytes=len(TEXT)) == TEXT
    refused(codec, theirs, limit_bytes=len(TEXT) - 1)


def test_what_we_write_is_read_by_other_libraries() -> None:
    assert gzip.decompress(compress(Codec.GZIP, TEXT)) == TEXT
    assert lz4.frame.decompress(compress(Codec.LZ4, TEXT)) == TEXT
    assert zstandard.ZstdDecompressor().decompressobj().decompress(compress(Codec.ZSTD, TEXT)) == TEXT


def test_lz4_blocks_are_independent() -> None:
    """Java's reader refuses a frame whose blocks refer to earlier ones."""
    assert not lz4.frame.get_frame_info(compress(Codec.LZ4, TEXT))["block_linked"]


def test_snappy_has_the_framing_of_java_in_blocks_of_32_kib() -> None:
    framed = compress(Codec.SNAPPY, TEXT)
    assert framed.startswith(XERIAL_HEADER)
    (length,) = struct.unpack_from(">i", framed, 16)
    assert snappy.decompress(framed[20 : 20 + length]) == TEXT[: 32 * 1024]


def test_snappy_framing_may_start_again_in_the_middle() -> None:
    """A Java writer that is flushed and reused repeats its header, and Java's reader skips it."""
    assert decompress(Codec.SNAPPY, compress(Codec.SNAPPY, TEXT) + compress(Codec.SNAPPY, b"more")) == TEXT + b"more"


@pytest.mark.parametrize("codec", COMPRESSED)
def test_data_cut_short_anywhere_is_corrupt(codec: Codec) -> None:
    compressed = compress(codec, b"some text, and some text, and some more text")
    whole_before_the_cut = {len(XERIAL_HEADER)} if codec is Codec.SNAPPY else set()
    for length in set(range(len(compressed))) - whole_before_the_cut:
        refused(codec, compressed[:length])


@pytest.mark.parametrize("codec", COMPRESSED)
@given(garbage=st.binary(max_size=300))
def test_garbage_is_corrupt_or_small(codec: Codec, garbage: bytes) -> None:
    for data in (garbage, compress(codec, TEXT)[:20] + garbage):
        try:
            assert len(decompress(codec, data, limit_bytes=100_000)) <= 100_000
        except KafkaError as error:
            assert error.code == ErrorCode.CORRUPT_MESSAGE  # noqa: PT017 - either outcome is right


@pytest.mark.parametrize("length", [-1, 5, 2**31 - 1])
def test_a_false_snappy_block_length_is_corrupt(length: int) -> None:
    refused(Codec.SNAPPY, XERIAL_HEADER + struct.pack(">i", length) + b"1234")


MEBIBYTE_OF_ZEROS = bytes(1 << 20)


@pytest.mark.parametrize(
    ("codec", "a_mebibyte"),
    [
        (Codec.GZIP, gzip.compress(MEBIBYTE_OF_ZEROS)),
        (Codec.SNAPPY, compress(Codec.SNAPPY, MEBIBYTE_OF_ZEROS)),
        (Codec.LZ4, lz4.frame.compress(MEBIBYTE_OF_ZEROS)),
        (Codec.ZSTD, zstandard.compress(MEBIBYTE_OF_ZEROS)),
    ],
    ids=["gzip", "snappy", "lz4", "zstd"],
)
def test_a_bomb_is_refused_within_the_memory_of_its_limit(codec: Codec, a_mebibyte: bytes) -> None:
    assert decompress(codec, a_mebibyte * 3) == MEBIBYTE_OF_ZEROS * 3
    two_gibibytes = a_mebibyte * 2048
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(codec, two_gibibytes, limit_bytes=4 << 20)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 64 * 1024


def test_a_raw_snappy_block_that_claims_four_gibibytes_costs_nothing() -> None:
    refused(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(100))


def test_uncompressed_data_keeps_to_the_limit_too() -> None:
    assert decompress(Codec.NONE, b"four", limit_bytes=4) == b"four"
    refused(Codec.NONE, b"four", limit_bytes=3)
