"""Every version of every message, both ways, against `kio`, which is generated from Apache Kafka's own definitions.

kio has one class for each version, and richer types than the wire has; `as_plain` brings both sides to the same terms.
"""

import dataclasses
import io
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from highwater.protocol import codec, messages
from highwater.protocol.schema import Array, Blob, Field, Fixed, Kind, Message, Nested, Struct, Text

EXAMPLES = 15
BETWEEN_BROKERS = (4, 5, 6, 7)  # gone from Kafka 4, and so not in kio

FIXED = {
    "?": st.booleans(),
    "b": st.integers(-(2**7), 2**7 - 1),
    "h": st.integers(-(2**15), 2**15 - 1),
    "H": st.integers(0, 2**16 - 1),
    "i": st.integers(-(2**31), 2**31 - 1),
    "q": st.integers(-(2**63), 2**63 - 1),
    "d": st.floats(allow_nan=False),
    "16s": st.binary(min_size=16, max_size=16),
}
TEXTS = st.text(max_size=8) | st.sampled_from(["x" * 126, "x" * 127, "x" * 128, "ü" * 200])
KNOWN_ERRORS = st.sampled_from([code.value for code in ErrorCode])
PRESENT_DAY_MS = st.integers(0, 4_000_000_000_000)


def values(kind: Kind) -> st.SearchStrategy[Any]:
    match kind:
        case Fixed(code=code):
            return FIXED[code]
        case Text():
            return TEXTS
        case Blob():
            return st.binary(max_size=200)
        case Array(element=element):
            return st.lists(values(element), max_size=3)
        case Nested(struct=cls):
            return structs(cls)


def field_values(field: Field) -> st.SearchStrategy[Any]:
    """Return values that some version of the field can carry, and that kio has a word for."""
    if field.name.endswith("error_code"):
        return KNOWN_ERRORS
    if field.name.endswith("_ms") and field.kind == Fixed("q", 8):
        return PRESENT_DAY_MS
    may_be_null = field.nullable or field.default is None
    return st.none() | values(field.kind) if may_be_null else values(field.kind)


@cache
def structs(cls: type[Struct]) -> st.SearchStrategy[Any]:
    return st.builds(cls, **{field.name: field_values(field) for field in cls.FIELDS})


def fitted(struct: Any, version: int) -> Any:
    """Return what `version` can carry of `struct`."""
    carried = {}
    for field in struct.FIELDS:
        value = getattr(struct, field.name)
        if version not in field.versions:
            continue
        if value is None and field.tag is None and version not in field.nullable:
            continue
        if hasattr(value, "FIELDS"):
            value = fitted(value, version)
            if field.tag is not None and value == type(value)():
                continue  # for kio, a tagged struct of defaults is an absent one
        elif isinstance(value, list):
            value = [fitted(item, version) if hasattr(item, "FIELDS") else item for item in value]
        carried[field.name] = value
    return type(struct)(**carried)


def as_plain(value: Any) -> Any:
    """Return the value of a field of kio's, as the wire has it."""
    match value:
        case Enum():
            return value.value
        case timedelta():
            return round(value / timedelta(milliseconds=1))
        case datetime():
            return round(value.timestamp() * 1000)
        case UUID():
            return value.bytes
        case tuple():
            return [as_plain(item) for item in value]
    return value


def assert_same(ours: Any, theirs: Any, version: int) -> None:
    """Compare field by field; kio keeps Kafka's order, and leaves the unit off the names of durations and times."""
    our_fields = [field for field in ours.FIELDS if version in field.versions]
    their_fields = dataclasses.fields(theirs)
    assert [field.name.removesuffix("_ms") for field in our_fields] == [
        field.name.removesuffix("_ms").replace("enable2_pc", "enable_2pc") for field in their_fields
    ]
    for our_field, their_field in zip(our_fields, their_fields, strict=True):
        our_value, their_value = getattr(ours, our_field.name), getattr(theirs, their_field.name)
        assert_same_value(our_field, our_value, their_value, version)


def assert_same_value(field: Field, ours: Any, theirs: Any, version: int) -> None:
    match field.kind:
        case Nested(struct=cls) if theirs is not None:
            assert_same(cls() if ours is None else ours, theirs, version)
        case Array(element=Nested()) if theirs is not None:
            for our_item, their_item in zip(ours, theirs, strict=True):
                assert_same(our_item, their_item, version)
        case Fixed(code="16s"):
            assert ours == (bytes(16) if theirs is None else theirs.bytes)
        case _:
            assert ours == as_plain(theirs)


def written_by_kio(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("cls", "load_schema"),
    [
        pytest.param(message_class(api_key), load_schema, id=f"{name}-{message_class.__name__}")
        for api_key, name in messages.API_NAMES.items()
        if api_key not in BETWEEN_BROKERS
        for message_class, load_schema in (
            (messages.request_class, load_request_schema),
            (messages.response_class, load_response_schema),
        )
    ],
)
@given(st.data())
@settings(max_examples=EXAMPLES, deadline=None)
def test_kio_reads_what_we_write_and_writes_what_we_read(
    cls: type[Message], load_schema: Callable[[int, int], Any], data: st.DataObject
) -> None:
    anything = data.draw(structs(cls))
    for version in cls.VERSIONS:
        message = fitted(anything, version)
        encoded = codec.encode(message, version)
        entity, size = entity_reader(load_schema(cls.API_KEY or 0, version))(encoded, 0)

        assert size == len(encoded)
        assert_same(message, entity, version)
        assert written_by_kio(entity) == encoded
        assert codec.decode(cls, version, encoded) == message
