"""Zigzag varints, as the fields inside a record are written: small numbers of either sign take one byte.

A number is folded first (0, -1, 1, -2 become 0, 1, 2, 3) and then written seven bits at a time, lowest first, with the
top bit set on all bytes but the last.
"""

from typing import Final

from highwater.protocol.records.errors import InvalidRecord

_LONGEST_BYTES: Final = 10
"""Ten bytes hold sixty-four bits."""


def read(data: bytes, position: int) -> tuple[int, int]:
    """Return the number at `position`, and the position after it; running off the end of `data` is an IndexError."""
    folded, position = read_folded(data, position)
    return (folded >> 1) ^ -(folded & 1), position


def read_folded(data: bytes, position: int) -> tuple[int, int]:
    """Return the number at `position` still folded, and the position after it."""
    folded = shift = 0
    while True:
        byte = data[position]
        position += 1
        folded |= (byte & 0x7F) << shift
        if byte <= 0x7F:
            break
        shift += 7
        if shift == 7 * _LONGEST_BYTES:
            raise InvalidRecord("a variable-length number inside a record does not end after ten bytes")
    if folded > 0xFFFF_FFFF_FFFF_FFFF:
        raise InvalidRecord("a variable-length number inside a record is larger than 64 bits")
    return folded, position


def write(out: bytearray, number: int) -> None:
    """Append `number` to `out`."""
    folded = (number << 1) ^ (number >> 63)
    while folded > 0x7F:
        out.append(folded & 0x7F | 0x80)
        folded >>= 7
    out.append(folded)
