"""Writes native encoders: one call into C for each value, into a buffer that grows."""

from typing import Final

from highwater.protocol.encoding import differs_from_default
from highwater.protocol.schema import Array, Blob, Field, Fixed, Kind, Message, Nested, Struct, Text
from highwater.protocol.source import Source

_WRITES: Final = {
    "b": "out.append(u8({value} & 255))",
    "?": "out.append(1 if {value} else 0)",
    "h": "write_i16_be(out, {value})",
    "i": "write_i32_be(out, {value})",
    "q": "write_i64_be(out, {value})",
    "16s": "write_uuid(out, {value})",
}


def write_encoder(source: Source, cls: type[Message], version: int, suffix: str) -> None:
    """Write the function `encode_SUFFIX`, which writes `version` of `cls` as the function of `codec.encoder` does."""
    with source.block(f"def encode_{suffix}(message: {cls.__name__}, parts: list[Any]) -> None:"):
        source.line("out = BytesWriter()")
        _NativeEncoderWriter(source, version, flexible=version in cls.FLEXIBLE).write_struct(cls, "message")
        with source.block("if len(out):"):
            source.line("parts.append(out.getvalue())")


class _NativeEncoderWriter:
    """Writes the body of one native encoder, field by field."""

    def __init__(self, source: Source, version: int, *, flexible: bool) -> None:
        self._source = source
        self._line = source.line
        self._version = version
        self._flexible = flexible
        self._compact = "compact_" if flexible else ""
        self._names = 0

    def write_struct(self, cls: type[Struct], it: str) -> None:
        """Write the fields of `it`."""
        present = [field for field in cls.FIELDS if self._version in field.versions]
        for field in present:
            if field.tag is None:
                self._write_value(field.kind, f"{it}.{field.name}")
        if self._flexible:
            self._write_tagged_fields(it, [field for field in present if field.tag is not None])

    def _write_value(self, kind: Kind, value: str) -> None:
        match kind:
            case Fixed(code=code):
                self._line(_WRITES[code].format(value=value))
            case Text():
                self._line(f"write_{self._compact}text(out, {value})")
            case Blob(in_place=True):
                self._line(f"out = write_{self._compact}batches(out, parts, {value})")
            case Blob():
                self._line(f"write_{self._compact}blob(out, {value})")
            case Array(element=element):
                items, item = self._fresh_name("items"), self._fresh_name("it")
                self._line(f"{items} = {value}")
                self._line(f"write_{self._compact}count(out, {items})")
                with self._source.block(f"if {items}:"), self._source.block(f"for {item} in {items}:"):
                    self._write_value(element, item)
            case Nested(struct=cls):
                self.write_struct(cls, value)

    def _write_tagged_fields(self, it: str, fields: list[Field]) -> None:
        if not fields:
            self._line("out.append(0)")
            return
        fields = sorted(fields, key=lambda field: field.tag or 0)
        count = self._fresh_name("tagged")
        self._line(f"{count}: i64 = 0")
        tests = [differs_from_default(field, f"{it}.{field.name}") for field in fields]
        for test in tests:
            with self._source.block(f"if {test}:"):
                self._line(f"{count} += 1")
        self._line(f"out.append(u8({count}))")
        with self._source.block(f"if {count}:"):
            for field, test in zip(fields, tests, strict=True):
                with self._source.block(f"if {test}:"):
                    self._write_tagged_field(field, f"{it}.{field.name}")

    def _write_tagged_field(self, field: Field, value: str) -> None:
        outer, it = self._fresh_name("outer"), self._fresh_name("it")
        self._line(f"{outer} = out")
        self._line("out = BytesWriter()")
        self._line(f"{it} = {value}")
        if field.default is None:
            self._line(f"assert {it} is not None")
        self._write_value(field.kind, it)
        self._line(f"write_tagged_field({outer}, {field.tag}, out)")
        self._line(f"out = {outer}")

    def _fresh_name(self, stem: str) -> str:
        self._names += 1
        return f"{stem}{self._names}"
