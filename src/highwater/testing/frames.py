"""Random request frames of every API and version, valid and damaged: what a fuzzer feeds to a decoder or a broker.

Everything follows from the `Random` that is passed in, so a seed is enough to see a frame again.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, Final, TypeVar

from highwater.protocol import codec, messages
from highwater.protocol.codec import RequestHeader
from highwater.protocol.records.record import Record, build_batch
from highwater.protocol.schema import Array, Blob, Fixed, Kind, Message, Nested, Struct, Text

MessageT = TypeVar("MessageT", bound=Message)
StructT = TypeVar("StructT", bound=Struct)

_NULL_CHANCE: Final = 0.2
_LONGEST_ARRAY: Final = 3
_TEXTS: Final = ("", "a", "topic-1", "group", "grüße", "日本", "x" * 127, "y" * 128, "z" * 300)
_HOSTILE: Final = (
    b"\x00",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\x7f\xff",
    b"\x80\x00",
    b"\xff\xff\xff\x7f",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\x7f\xff\xff\xff\xff\xff\xff\xff",
)
"""Lengths, counts and numbers that lie at the edges."""


def every_request() -> Iterator[tuple[int, int]]:
    """Yield the key and version of every request there is."""
    for api_key in messages.API_NAMES:
        for version in messages.request_class(api_key).VERSIONS:
            yield api_key, version


def random_request(api_key: int, version: int, random: Random) -> bytes:
    """Return a request with its header, but without the size that precedes it on the wire."""
    client_id = None if random.random() < _NULL_CHANCE else random.choice(_TEXTS)
    header = RequestHeader(api_key, version, correlation_id=random.getrandbits(31), client_id=client_id)
    message = random_message(messages.request_class(api_key), version, random)
    return codec.request_header(header) + codec.encode(message, version)


def framed(request: bytes) -> bytes:
    """Return `request` after its size, as it travels."""
    return struct.pack(">i", len(request)) + request


def random_message(cls: type[MessageT], version: int, random: Random) -> MessageT:
    """Return a message with a random value in each field that `version` has."""
    return _random_struct(cls, version, random)


def _random_struct(cls: type[StructT], version: int, random: Random) -> StructT:
    values = {}
    for field in cls.FIELDS:
        if version in field.versions:
            nullable = version in field.nullable
            values[field.name] = _random_value(field.kind, version, random, nullable=nullable)
    return cls(**values)


def _random_value(kind: Kind, version: int, random: Random, *, nullable: bool = False) -> Any:
    if nullable and random.random() < _NULL_CHANCE:
        return None
    match kind:
        case Fixed():
            return _random_fixed(kind, random)
        case Text():
            return random.choice(_TEXTS)
        case Blob(in_place=in_place):
            return memoryview(_random_records(random)) if in_place else random.randbytes(random.randrange(20))
        case Array(element=element):
            return [_random_value(element, version, random) for _ in range(random.randint(0, _LONGEST_ARRAY))]
        case Nested(struct=cls):
            return _random_struct(cls, version, random)


def _random_fixed(kind: Fixed, random: Random) -> Any:
    match kind.code:
        case "?":
            return random.choice([False, True])
        case "d":
            return random.uniform(-1e9, 1e9)
        case "16s":
            return random.randbytes(16)
        case code:
            return _random_integer(kind.size * 8, random, signed=code.islower())


def _random_integer(bits: int, random: Random, *, signed: bool) -> int:
    lowest, highest = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    edges = [0, 1, highest, lowest, max(lowest, -1)]
    return random.choice([*edges, random.randrange(100), random.randint(lowest, highest)])


def _random_records(random: Random) -> bytes:
    """Return one or two sound batches, or noise."""
    if random.random() < _NULL_CHANCE:
        return random.randbytes(random.randrange(100))
    records = [
        Record(offset=number, timestamp=1_700_000_000_000 + number, key=b"key", value=random.randbytes(8), headers=())
        for number in range(random.randint(1, 3))
    ]
    return bytes(build_batch(records)) * random.randint(1, 2)


def mutated(frame: bytes, random: Random, *, start: int = 0) -> bytes:
    """Return `frame` with one to four injuries, none of them before `start`."""
    damaged = bytearray(frame)
    for _ in range(random.randint(1, 4)):
        if len(damaged) > start:
            random.choice(_INJURIES)(damaged, random.randrange(start, len(damaged)), random)
    return bytes(damaged)


def _flip_a_bit(frame: bytearray, position: int, random: Random) -> None:
    frame[position] ^= 1 << random.randrange(8)


def _overwrite(frame: bytearray, position: int, random: Random) -> None:
    hostile = random.choice(_HOSTILE)
    frame[position : position + len(hostile)] = hostile


def _insert(frame: bytearray, position: int, random: Random) -> None:
    frame[position:position] = random.choice(_HOSTILE)


def _repeat(frame: bytearray, position: int, random: Random) -> None:
    frame[position:position] = frame[position : position + random.randint(1, 32)]


def _remove(frame: bytearray, position: int, random: Random) -> None:
    del frame[position : position + random.randint(1, 16)]


def _cut(frame: bytearray, position: int, _: Random) -> None:
    del frame[position:]


_INJURIES: Final[Sequence[Callable[[bytearray, int, Random], None]]] = (
    _flip_a_bit,
    _overwrite,
    _insert,
    _repeat,
    _remove,
    _cut,
)
