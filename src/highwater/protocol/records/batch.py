"""The 61-byte header of a record batch: read it, walk from batch to batch, patch it in place.

Source of the layout: Apache Kafka's documentation, "Record Batch" (message format version 2, KIP-98). Offset and
leader epoch are not under the checksum, so a broker assigns them without touching the rest.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from crc32c import crc32c

from highwater.protocol.records.errors import CorruptMessage, UnsupportedMessageFormat

Buffer: TypeAlias = bytes | bytearray | memoryview

HEADER: Final = Struct(">qiibIhiqqqhii")
HeaderFields: TypeAlias = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
"""What `HEADER` unpacks, so that compiled code knows it for numbers."""
HEADER_BYTES: Final = HEADER.size
MAGIC: Final = 2

LENGTH_PREFIX_BYTES: Final = 12
"""Base offset and length: what `batch_length` does not count."""
MAGIC_AT: Final = 16
"""Where the format version stands, in this format and in those before it."""
CRC_AT: Final = 17
CHECKED_FROM: Final = 21
"""The checksum covers all from here (the attributes) to the end of the batch."""

CODEC_MASK: Final = 0b0000_0111
LOG_APPEND_TIME: Final = 0b0000_1000
TRANSACTIONAL: Final = 0b0001_0000
CONTROL: Final = 0b0010_0000
DELETE_HORIZON: Final = 0b0100_0000
"""Set by compaction: the base timestamp then says when tombstones may go (KIP-534)."""

NO_TIMESTAMP: Final = -1
NO_SEQUENCE: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_LEADER_EPOCH: Final = -1

_LENGTH: Final = Struct(">i")
_BASE_OFFSET: Final = Struct(">q")
_LEADER_EPOCH: Final = Struct(">i")
_ATTRIBUTES: Final = Struct(">h")
_MAX_TIMESTAMP: Final = Struct(">q")
_CRC: Final = Struct(">I")
_LEADER_EPOCH_AT: Final = 12
_ATTRIBUTES_AT: Final = 21
_MAX_TIMESTAMP_AT: Final = 35


class BatchHeader(NamedTuple):
    """The fixed fields that open every batch, in the order of the wire."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.batch_length + LENGTH_PREFIX_BYTES

    @property
    def last_offset(self) -> int:
        """The offset of the last record; compaction may have removed the record and kept its offset."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The first offset after this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; after 2**31 - 1 comes 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFF_FFFF

    @property
    def codec(self) -> int:
        """The number of the compression codec, see `compression.Codec`."""
        return self.attributes & CODEC_MASK

    @property
    def uses_log_append_time(self) -> bool:
        """Whether every record carries `max_timestamp`, the time at which the broker appended it."""
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a transaction marker instead of a client's records."""
        return self.attributes & CONTROL != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop the tombstones of this batch; None before compaction has decided."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header of the batch that starts at `position`; the batch itself may be cut short."""
    available = len(buffer) - position
    if available > MAGIC_AT and buffer[position + MAGIC_AT] != MAGIC:
        raise UnsupportedMessageFormat(buffer[position + MAGIC_AT])
    if available < HEADER_BYTES:
        raise CorruptMessage(f"a record batch needs at least {HEADER_BYTES} bytes, found {available}")
    return BatchHeader._make(HEADER.unpack_from(buffer, position))


def iter_batches(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of each complete batch; a last one that is cut short, as a fetch may do, is left out.

    Raises CorruptMessage where a length cannot be true. Checksums are not looked at, see `validate.check_batch`.
    """
    end = len(buffer)
    while end - position >= HEADER_BYTES:
        header = read_header(buffer, position)
        if header.size < HEADER_BYTES:
            raise CorruptMessage(f"record batch at byte {position} states an impossible length, {header.batch_length}")
        if header.size > end - position:
            return
        yield position, header
        position += header.size


def checksum(view: memoryview, position: int, size: int) -> int:
    """Return the CRC-32C that the batch of `size` bytes at `position` should carry."""
    return crc32c(view[position + CHECKED_FROM : position + size])


def patch_offset_and_epoch(
    buffer: bytearray | memoryview, base_offset: int, leader_epoch: int, position: int = 0
) -> None:
    """Give the batch at `position` its place in the log; neither field is under the checksum."""
    _BASE_OFFSET.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, position + _LEADER_EPOCH_AT, leader_epoch)


def patch_log_append_time(buffer: bytearray | memoryview, append_time_ms: int, position: int = 0) -> None:
    """Make `append_time_ms` the timestamp of every record of the batch at `position`, and renew its checksum."""
    (attributes,) = _ATTRIBUTES.unpack_from(buffer, position + _ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(buffer, position + _ATTRIBUTES_AT, attributes | LOG_APPEND_TIME)
    _MAX_TIMESTAMP.pack_into(buffer, position + _MAX_TIMESTAMP_AT, append_time_ms)
    patch_checksum(buffer, position)


def patch_checksum(buffer: bytearray | memoryview, position: int = 0) -> None:
    """Renew the checksum of the batch at `position` after a change to what it covers."""
    (batch_length,) = _LENGTH.unpack_from(buffer, position + 8)
    crc = checksum(memoryview(buffer), position, batch_length + LENGTH_PREFIX_BYTES)
    _CRC.pack_into(buffer, position + CRC_AT, crc)
