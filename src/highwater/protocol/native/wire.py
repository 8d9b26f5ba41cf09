"""What native decoders and encoders are made of: the counterpart of `highwater.protocol.wire` on machine integers.

Compiled it calls straight into C; in plain Python, where only tests use it, it does the same.
"""

from typing import Any, Final

from librt.strings import BytesWriter, write_i16_be, write_i32_be
from mypy_extensions import i64, u8

from highwater.protocol.wire import over_budget, overrun

HEAD_BYTES: Final = 512
"""How much of a frame is copied to be read: nearly always all that comes before its records."""

FRESH: Final = object()
"""Stands for the default of a field whose every instance needs a list of its own."""

UUID_BYTES: Final = 16


class NativeStruct:
    """What `schema.Struct` is to declared messages."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        cls: Any = type(self)
        return all(getattr(self, field.name) == getattr(other, field.name) for field in cls.FIELDS)

    __hash__ = None  # type: ignore[assignment]  # the fields may change

    def __repr__(self) -> str:
        cls: Any = type(self)
        values = ", ".join(f"{field.name}={getattr(self, field.name)!r}" for field in cls.FIELDS)
        return f"{cls.__name__}({values})"


# Reading --------------------------------------------------------------------------------------------------------------


def read_i8(data: bytes, position: i64) -> i64:
    """Return a signed byte."""
    value: i64 = data[position]
    return value - 256 if value > 127 else value


def read_uuid(data: bytes, position: i64) -> bytes:
    """Return the sixteen bytes of an id."""
    if position + UUID_BYTES > len(data):
        raise overrun("an id")
    return data[position : position + UUID_BYTES]


def rest_of_varint(data: bytes, position: i64, first: i64) -> tuple[i64, i64]:
    """Return the varint whose first byte, just before `position`, says that it goes on; and where it ends."""
    number: i64 = first & 127
    shift: i64 = 7
    while shift < 35:
        byte: i64 = data[position]
        position += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, position
        shift += 7
    raise ValueError("a varint of more than five bytes")


def read_varint(data: bytes, position: i64) -> tuple[i64, i64]:
    """Return the unsigned varint at `position`, and where it ends."""
    first: i64 = data[position]
    return (first, position + 1) if first < 128 else rest_of_varint(data, position + 1, first)


def skip_tagged_fields(data: bytes, position: i64, count: i64, budget: i64) -> tuple[i64, i64]:
    """Step over tagged fields that nobody here knows; see `highwater.protocol.wire.skip_tagged_fields`."""
    if count >= 128:
        count, position = rest_of_varint(data, position, count)
    if count > budget:
        raise over_budget("tagged fields")
    end: i64 = len(data)
    for _ in range(count):
        _tag, position = read_varint(data, position)
        size, position = read_varint(data, position)
        position += size
        if position > end:
            raise overrun("tagged fields")
    return position, budget - count


# Writing --------------------------------------------------------------------------------------------------------------


def write_varint(out: BytesWriter, number: i64) -> None:
    """Write an unsigned varint."""
    while number > 127:
        out.append(u8(number & 127 | 128))
        number >>= 7
    out.append(u8(number))


def write_text(out: BytesWriter, text: str | None) -> None:
    """Write a string, or null, after a length of two bytes."""
    if text is None:
        write_i16_be(out, -1)
        return
    encoded = text.encode()
    write_i16_be(out, len(encoded))
    out.write(encoded)


def write_compact_text(out: BytesWriter, text: str | None) -> None:
    """Write a string, or null, after a varint that is larger by one than its length."""
    if text is None:
        out.append(0)
        return
    encoded = text.encode()
    write_varint(out, len(encoded) + 1)
    out.write(encoded)


def write_blob(out: BytesWriter, data: bytes | None) -> None:
    """Write bytes, or null, after a length of four bytes."""
    if data is None:
        write_i32_be(out, -1)
        return
    write_i32_be(out, len(data))
    out.write(data)


def write_compact_blob(out: BytesWriter, data: bytes | None) -> None:
    """Write bytes, or null, after a varint that is larger by one than their number."""
    if data is None:
        out.append(0)
        return
    write_varint(out, len(data) + 1)
    out.write(data)


def write_uuid(out: BytesWriter, value: bytes) -> None:
    """Write the sixteen bytes of an id."""
    if len(value) != UUID_BYTES:
        raise ValueError(f"an id of {len(value)} bytes")
    out.write(value)


def write_count(out: BytesWriter, items: list[Any] | None) -> None:
    """Write how many elements follow, or null, in four bytes."""
    write_i32_be(out, -1 if items is None else len(items))


def write_compact_count(out: BytesWriter, items: list[Any] | None) -> None:
    """Write how many elements follow, or null, as a varint that is larger by one."""
    write_varint(out, 0 if items is None else len(items) + 1)


def write_batches(out: BytesWriter, parts: list[Any], batches: Any) -> BytesWriter:
    """Write record batches after a length of four bytes; return what to write the rest to."""
    write_i32_be(out, -1 if batches is None else len(batches))
    return _put(out, parts, batches)


def write_compact_batches(out: BytesWriter, parts: list[Any], batches: Any) -> BytesWriter:
    """Write record batches after a varint that is larger by one than their length; return as above."""
    write_varint(out, 0 if batches is None else len(batches) + 1)
    return _put(out, parts, batches)


def _put(out: BytesWriter, parts: list[Any], batches: Any) -> BytesWriter:
    if not batches:
        return out
    if isinstance(batches, bytes):
        out.write(batches)
        return out
    if isinstance(batches, bytearray | memoryview):
        out.write(bytes(batches))
        return out
    parts.append(out.getvalue())
    parts.append(batches)  # a region of a file, which is sent without being read
    return BytesWriter()


def write_tagged_field(out: BytesWriter, tag: i64, field: BytesWriter) -> None:
    """Write a tagged field whose value is in `field`."""
    write_varint(out, tag)
    write_varint(out, len(field))
    out.write(field.getvalue())
