"""Records as text: what `consume` writes and `produce` reads, the same in both directions."""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, Any, cast

from highwater.cli.failures import CommandFailed
from highwater.cli.output import time_text

if TYPE_CHECKING:
    from confluent_kafka import Message


def as_json_value(data: bytes | None) -> Any:
    """Return bytes as JSON: text where they are UTF-8, otherwise `{"base64": ...}`."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def from_json_value(value: Any) -> bytes | None:
    """Return the bytes that `as_json_value` shows; other JSON values become their JSON text."""
    match value:
        case None:
            return None
        case str():
            return value.encode()
        case {"base64": str() as text, **rest} if not rest:
            try:
                return base64.b64decode(text, validate=True)
            except binascii.Error as error:
                raise CommandFailed(f"not base64: {text!r} ({error})") from None
        case _:
            return json.dumps(value, ensure_ascii=False).encode()


def as_document(message: Message) -> dict[str, Any]:
    """Return a record as `consume --json` writes it."""
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": message.timestamp()[1],
        "key": as_json_value(message.key()),
        "value": as_json_value(message.value()),
        "headers": [[name, as_json_value(value)] for name, value in headers_of(message)],
    }


def headers_of(message: Message) -> list[tuple[str, bytes | None]]:
    """Return a record's headers as a list of names and values."""
    return cast("list[tuple[str, bytes | None]]", message.headers() or [])


def as_details(message: Message) -> str:
    """Return a record with its place, time, key and headers in one line for people."""
    headers = "".join(f"  {name}={_shown(value)}" for name, value in headers_of(message))
    place = f"{message.partition()}:{message.offset()}"
    return (
        f"{place:<12} {time_text(message.timestamp()[1])}  {_shown(message.key())}  {_shown(message.value())}{headers}"
    )


def _shown(data: bytes | None) -> str:
    if data is None:
        return "null"
    return data.decode(errors="backslashreplace")
