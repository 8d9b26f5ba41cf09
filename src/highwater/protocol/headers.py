"""Request and response headers, whose version follows from the API and the version of what they precede."""

import struct
from typing import Final, NamedTuple

from highwater.model.errors import MalformedFrame
from highwater.protocol import wire
from highwater.protocol.messages import API_NAMES, request_class
from highwater.protocol.schema import HIGHEST_VERSION

_FIXED_PART: Final = struct.Struct(">hhi")
_FIXED_PART_AND_CLIENT_ID_SIZE: Final = struct.Struct(">hhih")
_CORRELATION_ID: Final = struct.Struct(">i")
_CORRELATION_ID_AND_NO_TAGGED_FIELDS: Final = struct.Struct(">ix")

_CONTROLLED_SHUTDOWN: Final = 7  # the one API whose version 0 has no client id in its header
_API_VERSIONS: Final = 18

_TAGGED_FIELDS_LIMIT: Final = 100
"""No header has any yet; clients of the future may send a few."""

_FIRST_FLEXIBLE_VERSION: Final[dict[int, int]] = {}


class RequestHeader(NamedTuple):
    """What is asked, in which version, by whom, and the number by which the answer is recognised."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def read_request_header(buffer: memoryview, start: int = 0) -> tuple[RequestHeader, int]:
    """Return the header at `start` and where the request itself begins.

    The header of an API that we do not know is read as one without tagged fields, so that it can be logged.
    """
    try:
        # In a header without client id, the last of these is already part of the request.
        api_key, api_version, correlation_id, size = _FIXED_PART_AND_CLIENT_ID_SIZE.unpack_from(buffer, start)
        if api_key == _CONTROLLED_SHUTDOWN and api_version == 0:
            return RequestHeader(api_key, api_version, correlation_id, None), start + _FIXED_PART.size
        position = start + _FIXED_PART_AND_CLIENT_ID_SIZE.size
        client_id = None
        if size >= 0:
            if position + size > len(buffer):
                raise wire.overrun("client_id")
            client_id = buffer[position : position + size].tobytes().decode()
            position += size
        if api_version >= _first_flexible_version(api_key):
            tagged_fields = buffer[position]
            position += 1
            if tagged_fields:
                position, _ = wire.skip_tagged_fields(buffer, position, tagged_fields, _TAGGED_FIELDS_LIMIT)
    except (struct.error, IndexError, ValueError) as error:
        raise MalformedFrame(f"request header: {error}") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def request_header(header: RequestHeader) -> bytes:
    """Return the bytes of a request's header."""
    api_key, api_version, correlation_id, client_id = header
    if api_key == _CONTROLLED_SHUTDOWN and api_version == 0:
        return _FIXED_PART.pack(api_key, api_version, correlation_id)
    encoded = b"" if client_id is None else client_id.encode()
    size = -1 if client_id is None else len(encoded)
    tagged_fields = b"\0" if api_version >= _first_flexible_version(api_key) else b""
    return _FIXED_PART_AND_CLIENT_ID_SIZE.pack(api_key, api_version, correlation_id, size) + encoded + tagged_fields


def response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """Return the bytes of a response's header."""
    if response_has_tagged_fields(api_key, api_version):
        return _CORRELATION_ID_AND_NO_TAGGED_FIELDS.pack(correlation_id)
    return _CORRELATION_ID.pack(correlation_id)


def read_response_header(buffer: memoryview, api_key: int, api_version: int) -> tuple[int, int]:
    """Return the correlation id of the answer to such a request, and where the response itself begins."""
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(buffer)
        position = _CORRELATION_ID.size
        if response_has_tagged_fields(api_key, api_version):
            position, _ = wire.skip_tagged_fields(buffer, position + 1, buffer[position], _TAGGED_FIELDS_LIMIT)
    except (struct.error, IndexError, ValueError) as error:
        raise MalformedFrame(f"response header: {error}") from error
    return correlation_id, position


def request_has_tagged_fields(api_key: int, api_version: int) -> bool:
    """Return whether a request's header ends in tagged fields."""
    return api_version >= _first_flexible_version(api_key)


def response_has_tagged_fields(api_key: int, api_version: int) -> bool:
    """Return whether a response's header ends in tagged fields."""
    # A client that asks for a version of ApiVersions that we do not know must still be able to read our answer, so
    # its header stays as it was in version 0 (KIP-511).
    return api_key != _API_VERSIONS and api_version >= _first_flexible_version(api_key)


def _first_flexible_version(api_key: int) -> int:
    first = _FIRST_FLEXIBLE_VERSION.get(api_key)
    if first is None:
        if api_key not in API_NAMES:
            return HIGHEST_VERSION + 1
        flexible = request_class(api_key).FLEXIBLE
        first = _FIRST_FLEXIBLE_VERSION[api_key] = flexible.start if flexible else HIGHEST_VERSION + 1
    return first
