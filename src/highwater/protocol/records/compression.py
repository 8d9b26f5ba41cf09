"""The five codecs of a record batch: none, gzip, snappy, lz4, zstd.

Compressed data comes from clients, so decompression is bounded: a few kilobytes that claim to hold gigabytes cost no
more than the limit, and anything that does not decompress is a `CorruptMessage`. The codec library is imported on
first use; a broker that never looks inside a batch never loads it.
"""

import contextlib
import mmap
import zlib
from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Final

from highwater.protocol.records.batch import Buffer
from highwater.protocol.records.errors import CorruptMessage

DEFAULT_LIMIT_BYTES: Final = 100 * 1024 * 1024
"""As much as the largest request (`socket.request.max.bytes`): nothing honest is larger uncompressed."""


class Codec(IntEnum):
    """The codecs by their number in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Return `data` compressed as Java clients can read it; without `level`, at the codec's own default."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return zlib.compress(data, -1 if level is None else level, _GZIP_WINDOW)
        case Codec.SNAPPY:
            return _compress_snappy(data)
        case Codec.LZ4:
            return _compress_lz4(data, level)
        case Codec.ZSTD:
            from cramjam import zstd

            return bytes(zstd.compress(data, level))


def decompress(codec: Codec, data: Buffer, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> bytes:
    """Return what `data` holds, at most `limit_bytes` of it; raise CorruptMessage if it holds more or is damaged."""
    match codec:
        case Codec.NONE:
            return _within(bytes(data), limit_bytes)
        case Codec.GZIP:
            return _decompress_gzip(data, limit_bytes)
        case Codec.SNAPPY:
            return _decompress_snappy(memoryview(data), limit_bytes)
        case Codec.LZ4 | Codec.ZSTD:
            return _decompress_frames(codec, data, limit_bytes)


_GZIP_WINDOW: Final = 31
"""zlib's way to ask for the largest window and a gzip header."""


def _decompress_gzip(data: Buffer, limit_bytes: int) -> bytes:
    """Read all members of a gzip file; Java's reader accepts several in a row too."""
    parts: list[bytes] = []
    left = limit_bytes
    rest: Buffer = data
    try:
        while rest or not parts:
            member = zlib.decompressobj(_GZIP_WINDOW)
            parts.append(member.decompress(rest, left + 1))
            left -= len(parts[-1])
            if left < 0:
                raise _too_large(limit_bytes)
            if not member.eof:
                raise CorruptMessage("gzip data is cut short")
            rest = member.unused_data
    except zlib.error as error:
        raise CorruptMessage(f"gzip data is damaged: {error}") from None
    return b"".join(parts)


_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + bytes((0, 0, 0, 1, 0, 0, 0, 1))  # version 1, readable by version 1
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_BLOCK_LENGTH: Final = Struct(">i")


def _compress_snappy(data: Buffer) -> bytes:
    """Write the framing of Java's snappy-java (xerial): a header, then blocks that each state their length."""
    from cramjam import snappy

    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _decompress_snappy(view: memoryview, limit_bytes: int) -> bytes:
    """Read xerial's framing, or one raw block, which some clients send.

    No raw block can start like the framing: its third byte would copy from before the start.
    """
    from cramjam import DecompressionError, snappy

    framed = bytes(view[: len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC
    parts: list[bytes] = []
    left = limit_bytes
    try:
        for block in _xerial_blocks(view) if framed else (view,):
            # The length is checked against the limit before anything of that size is allocated.
            left -= snappy.decompress_raw_len(block)
            if left < 0:
                raise _too_large(limit_bytes)
            parts.append(bytes(snappy.decompress_raw(block)))
    except DecompressionError as error:
        raise CorruptMessage(f"snappy data is damaged: {error}") from None
    return b"".join(parts)


def _xerial_blocks(view: memoryview) -> Iterator[memoryview]:
    position, end = 0, len(view)
    while position < end:
        if bytes(view[position : position + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
            # A writer may flush and start again, header included.
            position += len(_XERIAL_HEADER)
            continue
        if end - position < _BLOCK_LENGTH.size:
            raise CorruptMessage("snappy data is cut short inside a block length")
        (length,) = _BLOCK_LENGTH.unpack_from(view, position)
        position += _BLOCK_LENGTH.size
        if not 0 <= length <= end - position:
            raise CorruptMessage(f"snappy block states {length} bytes where {end - position} are left")
        yield view[position : position + length]
        position += length
    if position > end:
        raise CorruptMessage("snappy data is cut short inside its header")


def _compress_lz4(data: Buffer, level: int | None) -> bytes:
    """Write an LZ4 frame of independent blocks: Java's reader refuses blocks that refer to earlier ones."""
    from cramjam import lz4

    compressor = lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))
    return bytes(compressor.finish())


_LARGEST_RATIO: Final = {
    Codec.LZ4: 256,  # each byte of a match length adds at most 255 bytes
    Codec.ZSTD: 64 * 1024,  # a block of at least three bytes makes at most 128 KiB
}


_LIKELY_RATIO: Final = 8


def _decompress_frames(codec: Codec, data: Buffer, limit_bytes: int) -> bytes:
    """Read lz4 or zstd frames, neither of which says how much it holds.

    What cannot exceed the limit is decompressed straight away. So is what holds no more than most batches do for their
    size. All else goes into memory that the system hands out page by page as it is filled, and no further than the
    limit: no more pages than there is data, but large ones, which cost more than decompressing a small batch.
    """
    from cramjam import DecompressionError, lz4, zstd

    library = lz4 if codec is Codec.LZ4 else zstd
    try:
        if len(data) * _LARGEST_RATIO[codec] <= limit_bytes:
            return bytes(library.decompress(data))
        likely = bytearray(min(limit_bytes, len(data) * _LIKELY_RATIO))
        with contextlib.suppress(DecompressionError):
            return bytes(memoryview(likely)[: library.decompress_into(data, likely)])
        with mmap.mmap(-1, limit_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as pages:
            return pages[: library.decompress_into(data, pages)]
    except DecompressionError as error:
        raise CorruptMessage(
            f"{codec.name.lower()} data is damaged, or holds more than {limit_bytes} bytes: {error}"
        ) from None


def _within(data: bytes, limit_bytes: int) -> bytes:
    if len(data) > limit_bytes:
        raise _too_large(limit_bytes)
    return data


def _too_large(limit_bytes: int) -> CorruptMessage:
    return CorruptMessage(f"compressed records hold more than the {limit_bytes} bytes allowed")
