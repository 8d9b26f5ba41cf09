"""Turns a module of declared messages into the source of one that defines them natively, with their codec.

    class FetchTopic(NativeStruct):
        def __init__(self, *, topic: str = "", ...) -> None:
            self.topic = topic

It offers the same names, so that it takes the declared module's place in a compiled broker. Versions that nobody sends
any more are left to `codec`, which finds the fields declared here too.
"""

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final

from highwater.protocol.native.decoding import write_decoder
from highwater.protocol.native.encoding import write_encoder
from highwater.protocol.schema import Array, Blob, Field, Fixed, Kind, Message, Nested, Struct, Text
from highwater.protocol.source import Source

_HEADING: Final = '''\
"""Native messages and their codec, generated from the declarations of {name}."""

from typing import Any, ClassVar, Final

from librt.strings import (
    BytesWriter,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_i16_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i64, u8

from highwater.model.errors import MalformedFrame
from highwater.protocol.native.wire import *
from highwater.protocol.schema import Array, Blob, Field, Fixed, Nested, Text
from highwater.protocol.wire import over_budget, overrun, unexpected_null, wrong_tag_size

'''


def native_source(module: ModuleType, *, served: range, asked: range) -> str:
    """Return the source of a native module that can take the place of `module`.

    Its codec knows what a broker reads and writes in the versions `served`, and what it sends to other brokers in those
    that it has `asked`.
    """
    source = Source({})
    classes = [value for value in vars(module).values() if _is_declared_in(module, value)]
    for cls in classes:
        _write_class(source, cls)
    decoders: dict[str, str] = {}
    encoders: dict[str, str] = {}
    for cls in classes:
        if issubclass(cls, Message):
            incoming, outgoing = (asked, served) if cls.IS_RESPONSE else (served, asked)
            decoders |= _write_functions(source, cls, incoming, "decode", write_decoder)
            encoders |= _write_functions(source, cls, outgoing, "encode", write_encoder)
    _write_table(source, "NATIVE_DECODERS", decoders)
    _write_table(source, "NATIVE_ENCODERS", encoders)
    return _HEADING.format(name=module.__name__) + str(source)


def _is_declared_in(module: ModuleType, value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Struct) and value.__module__ == module.__name__


def _write_class(source: Source, cls: type[Struct]) -> None:
    parameters = [f"{field.name}: {_parameter(field)}" for field in cls.FIELDS]
    with source.block(f"class {cls.__name__}(NativeStruct):"):
        declarations = "".join(f"{_declaration(field)}, " for field in cls.FIELDS)
        source.line(f"FIELDS: ClassVar[tuple[Field, ...]] = ({declarations})  # type: ignore[arg-type]")
        if issubclass(cls, Message):
            source.line(f"API_KEY: ClassVar[int | None] = {cls.API_KEY}")
            source.line(f"IS_RESPONSE: ClassVar[bool] = {cls.IS_RESPONSE}")
            source.line(f"VERSIONS: ClassVar[range] = {cls.VERSIONS}")
            source.line(f"FLEXIBLE: ClassVar[range] = {cls.FLEXIBLE}")
            source.line(f"ELEMENT_BUDGET: ClassVar[int] = {cls.ELEMENT_BUDGET}")
        with source.block(f"def __init__(self, *, {', '.join(parameters)}) -> None:"):
            for field in cls.FIELDS:
                value = f"[] if {field.name} is FRESH else {field.name}" if callable(field.default) else field.name
                source.line(f"self.{field.name}: {_annotation(field)} = {value}")


def _parameter(field: Field) -> str:
    return "Any = FRESH" if callable(field.default) else f"{_annotation(field)} = {field.default!r}"


def _annotation(field: Field) -> str:
    is_optional = bool(field.nullable) or field.default is None
    return _type_of(field.kind) + (" | None" if is_optional else "")


def _type_of(kind: Kind) -> str:
    match kind:
        case Fixed(code=code):
            return {"16s": "bytes", "?": "bool"}.get(code, "int")
        case Text():
            return "str"
        case Blob():
            return "Any"
        case Array(element=element):
            return f"list[{_type_of(element)}]"
        case Nested(struct=cls):
            return cls.__name__


def _declaration(field: Field) -> str:
    """Return the expression that makes this field again, of native structs."""
    assert not isinstance(field.default, type) or field.default is list, "only lists are made anew"
    default = "list" if field.default is list else repr(field.default)
    return f"Field({_kind(field.kind)}, {field.versions}, {field.nullable}, {field.tag}, {default}, {field.name!r})"


def _kind(kind: Kind) -> str:
    match kind:
        case Array(element=element):
            return f"Array({_kind(element)})"
        case Nested(struct=cls):
            return f"Nested({cls.__name__})"
        case _:
            return repr(kind)


def _write_functions(
    source: Source, cls: type[Message], versions: range, verb: str, write: Callable[..., None]
) -> dict[str, str]:
    """Write one function for each layout that some versions share; return their names by class and version."""
    by_layout: dict[object, str] = {}
    table: dict[str, str] = {}
    for version in versions:
        layout = _layout(cls, version)
        if layout not in by_layout:
            by_layout[layout] = f"{cls.__name__}_{version}"
            write(source, cls, version, by_layout[layout])
        table[f"({cls.__name__}, {version})"] = f"{verb}_{by_layout[layout]}"
    return table


def _layout(cls: type[Message], version: int) -> object:
    """Return something that is equal for versions with the same bytes."""
    return version in cls.FLEXIBLE, *_fields_of(cls, version)


def _fields_of(cls: type[Struct], version: int) -> Iterator[object]:
    for field in cls.FIELDS:
        if version in field.versions:
            yield field.name, version in field.nullable
            kind = field.kind.element if isinstance(field.kind, Array) else field.kind
            if isinstance(kind, Nested):
                yield tuple(_fields_of(kind.struct, version))


def _write_table(source: Source, name: str, entries: dict[str, str]) -> None:
    with source.block(f"{name}: Final[dict[Any, Any]] = {{"):
        for key, function in entries.items():
            source.line(f"{key}: {function},")
    source.line("}")
