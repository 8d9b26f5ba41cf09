"""What compiled encoders and decoders call when a value is not of the common, short kind.

A value that cannot be read is a ValueError here; the decoder that meets it adds the message's name and makes it a
MalformedFrame.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

SHORT_VARINT: Final = tuple(bytes([number]) for number in range(128))
"""The unsigned varints of one byte, by their value."""


def varint(number: int) -> bytes:
    """Return `number`, which is not negative, as an unsigned varint: seven bits a byte, lowest first."""
    if 1 << 7 <= number < 1 << 14:
        return bytes((number & 127 | 128, number >> 7))
    if 1 << 14 <= number < 1 << 21:
        return bytes((number & 127 | 128, number >> 7 & 127 | 128, number >> 14))
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


class ByCount(dict[int, Callable[..., Any]]):
    """`pack` or `unpack_from` for any number of values of one struct code; those for small numbers are kept."""

    _LARGEST_KEPT: Final = 32

    def __init__(self, method: str, code: str) -> None:
        super().__init__()
        self._method = method
        self._code = code

    def __missing__(self, count: int) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(struct.Struct(f">{count}{self._code}"), self._method)
        if count <= self._LARGEST_KEPT:
            self[count] = function
        return function


def rest_of_varint(buffer: memoryview, position: int, first: int) -> tuple[int, int]:
    """Return the varint whose first byte, just before `position`, says that it goes on; and where it ends."""
    second = buffer[position]
    number = first & 127 | (second & 127) << 7
    if second < 128:
        return number, position + 1
    third = buffer[position + 1]
    number |= (third & 127) << 14
    if third < 128:
        return number, position + 2
    fourth = buffer[position + 2]
    number |= (fourth & 127) << 21
    if fourth < 128:
        return number, position + 3
    fifth = buffer[position + 3]
    if fifth < 128:
        return number | fifth << 28, position + 4
    raise ValueError("a varint of more than five bytes")


def read_varint(buffer: memoryview, position: int) -> tuple[int, int]:
    """Return the unsigned varint at `position`, and where it ends."""
    first = buffer[position]
    return (first, position + 1) if first < 128 else rest_of_varint(buffer, position + 1, first)


def skip_tagged_fields(buffer: memoryview, position: int, count: int, budget: int) -> tuple[int, int]:
    """Step over `count` tagged fields that nobody here knows; return where they end and what is left of the budget.

    `count` is the first byte of their number, which lies just before `position`.
    """
    if count >= 128:
        count, position = rest_of_varint(buffer, position, count)
    if count > budget:
        raise over_budget("tagged fields")
    for _ in range(count):
        _, position = read_varint(buffer, position)
        size, position = read_varint(buffer, position)
        position += size
        if position > len(buffer):
            raise overrun("tagged fields")
    return position, budget - count


def tagged_field_header(tag: int, pieces: list[bytes]) -> bytes:
    """Return what precedes the tagged field whose value is in `pieces`."""
    return varint(tag) + varint(sum(map(len, pieces)))


def overrun(field: str) -> ValueError:
    """Return the complaint about a length that is larger than the rest of the frame."""
    return ValueError(f"{field} claims more bytes than are left")


def unexpected_null(field: str) -> ValueError:
    """Return the complaint about a null where the protocol has none."""
    return ValueError(f"{field} must not be null")


def over_budget(field: str) -> ValueError:
    """Return the complaint about a frame that would take too long to read."""
    return ValueError(f"{field} takes the number of elements over the limit")


def wrong_tag_size(field: str) -> ValueError:
    """Return the complaint about a tagged field that is longer or shorter than it claims."""
    return ValueError(f"{field} is not of the size that its tag claims")
