"""Bytes to messages and back, by functions that are made when a message and version is first met.

Those of the hot messages may have been made, and compiled to C, before: see `native`.

The limits that make this safe to point at a network are in `decoding`.
"""

import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

from highwater.model.errors import ErrorCode, KafkaError, MalformedFrame
from highwater.protocol.decoding import compile_decoder
from highwater.protocol.encoding import compile_encoder
from highwater.protocol.headers import (
    RequestHeader,
    read_request_header,
    read_response_header,
    request_header,
    response_header,
)
from highwater.protocol.schema import Message, Part, Region

__all__ = [
    "Part",
    "Region",
    "RequestHeader",
    "decode",
    "decoder",
    "encode",
    "encoder",
    "read_request_header",
    "read_response_header",
    "request_header",
    "response_header",
]

MessageT = TypeVar("MessageT", bound=Message)


_DECODERS: Final[dict[tuple[type[Message], int], Callable[[memoryview, int], tuple[Any, int]]]] = {}
_ENCODERS: Final[dict[tuple[type[Message], int], Callable[[Any, list[Part]], None]]] = {}


def decoder(cls: type[MessageT], version: int) -> Callable[[memoryview, int], tuple[MessageT, int]]:
    """Return the function that reads `version` of `cls` at a position of a frame, and says where the message ends.

    On bytes that are not such a message the function raises MalformedFrame, and nothing else. What follows the message
    is the caller's affair; in a request it should be let pass, since librdkafka adds a few zeros to some of its own.
    """
    compiled = _DECODERS.get((cls, version))
    if compiled is None:
        _check_version(cls, version)
        compiled = _native("NATIVE_DECODERS", cls, version) or compile_decoder(cls, version)
        _DECODERS[cls, version] = compiled
    return compiled


def encoder(cls: type[MessageT], version: int) -> Callable[[MessageT, list[Part]], None]:
    """Return the function that appends `version` of a message to a list of parts.

    A field that the version does not have is left out, whatever its value.
    """
    compiled = _ENCODERS.get((cls, version))
    if compiled is None:
        _check_version(cls, version)
        compiled = _native("NATIVE_ENCODERS", cls, version) or compile_encoder(cls, version)
        _ENCODERS[cls, version] = compiled
    return compiled


def decode(cls: type[MessageT], version: int, buffer: bytes | bytearray | memoryview) -> MessageT:
    """Return the message that is all of `buffer`."""
    message, end = decoder(cls, version)(memoryview(buffer), 0)
    if end != len(buffer):
        raise MalformedFrame(f"{cls.__name__} v{version}: {len(buffer) - end} bytes too many")
    return message


def encode(message: Message, version: int) -> bytes:
    """Return the bytes of a message that refers to no file."""
    parts: list[Part] = []
    encoder(type(message), version)(message, parts)
    if len(parts) == 1 and isinstance(parts[0], bytes):
        return parts[0]
    assert all(isinstance(part, bytes) for part in parts), "a file region cannot be joined with bytes"
    return b"".join(part for part in parts if isinstance(part, bytes))


def _native(table: str, cls: type[Message], version: int) -> Callable[..., Any] | None:
    """Return the function that came with a native message, see `native.module`; declared ones have none."""
    functions: dict[tuple[type[Message], int], Callable[..., Any]] = getattr(sys.modules[cls.__module__], table, {})
    return functions.get((cls, version))


def _check_version(cls: type[Message], version: int) -> None:
    if version not in cls.VERSIONS:
        known = f"{cls.VERSIONS.start}-{cls.VERSIONS.stop - 1}"
        raise KafkaError(f"{cls.__name__} has versions {known}, not {version}", code=ErrorCode.UNSUPPORTED_VERSION)
