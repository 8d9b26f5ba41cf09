"""Compiles a message declaration and a version into the function that writes it.

The function collects small pieces and joins them once. Record batches that are not bytes (a region of a file) are left
as they are, between the joined pieces, so that they can be sent without being read.
"""

from collections.abc import Callable
from typing import Any, Final

from highwater.protocol import wire
from highwater.protocol.schema import Array, Blob, Field, Fixed, Kind, Message, Nested, Struct, Text
from highwater.protocol.source import Source

_SCOPE: Final[dict[str, Any]] = {
    "BYTES_LIKE": frozenset({bytes, bytearray, memoryview}),
    "SHORT_VARINT": wire.SHORT_VARINT,
    "tagged_field_header": wire.tagged_field_header,
    "varint": wire.varint,
}


def compile_encoder(cls: type[Message], version: int) -> Callable[[Any, list[Any]], None]:
    """Return the function that appends `version` of a message, in pieces, to a list."""
    return encoder_source(cls, version).compiled("encode", f"encoder of {cls.__name__} v{version}")


def encoder_source(cls: type[Message], version: int) -> Source:
    """Return the source of that function."""
    source = Source(_SCOPE)
    writer = _EncoderWriter(source, version, flexible=version in cls.FLEXIBLE)
    with source.block("def encode(message, parts):"):
        source.line("out = []")
        source.line("put = out.append")
        writer.write_struct(cls, "message")
        writer.flush()
        with source.block("if out:"):
            source.line('parts.append(b"".join(out))')
    return source


class _EncoderWriter:
    """Writes the body of one encoder, field by field."""

    def __init__(self, source: Source, version: int, *, flexible: bool) -> None:
        self._source = source
        self._line = source.line
        self._version = version
        self._flexible = flexible
        self._run: list[tuple[str, str]] = []
        self._names = 0

    def flush(self) -> None:
        """Write out the fixed-size values that are waiting for it."""
        if self._run:
            self._line(f"put({self._packed(self._run)})")
            self._run = []

    def _packed(self, run: list[tuple[str, str]]) -> str:
        codes = "".join(code for code, _ in run)
        values = [value for code, value in run if code != "x"]
        match codes:
            case "x":
                return "SHORT_VARINT[0]"
            case "B":
                return f"SHORT_VARINT[{values[0]}]"
        return f"{self._source.struct_method('pack', codes)}({', '.join(values)})"

    def write_struct(self, cls: type[Struct], it: str) -> None:
        """Write the fields of `it`; its last run may still be waiting."""
        present = [field for field in cls.FIELDS if self._version in field.versions]
        for field in present:
            if field.tag is None:
                nullable = self._version in field.nullable
                self._write_value(field.kind, f"{it}.{field.name}", nullable=nullable)
        if self._flexible:
            self._write_tagged_fields(it, [field for field in present if field.tag is not None])

    def _write_value(self, kind: Kind, value: str, *, nullable: bool) -> None:
        match kind:
            case Fixed(code=code):
                self._run.append((code, value))
            case Text():
                self._write_text(value, nullable=nullable)
            case Blob(in_place=in_place):
                self._write_blob(value, in_place=in_place, nullable=nullable)
            case Array(element=element):
                self._write_array(element, value, nullable=nullable)
            case Nested(struct=cls) if nullable:
                self._write_nullable_struct(cls, value)
            case Nested(struct=cls):
                it = self._fresh_name("it")
                self._line(f"{it} = {value}")
                self.write_struct(cls, it)

    def _write_length(self, length: str, inflexible_code: str, *, null: str | None, often_large: bool = False) -> None:
        """Write a length or count; `null`, if given, is the condition under which it says that nothing follows."""
        if not self._flexible:
            self._run.append((inflexible_code, f"-1 if {null} else {length}" if null else length))
            self.flush()
            return
        self._line(f"size = 0 if {null} else {length} + 1" if null else f"size = {length} + 1")
        waiting, self._run = self._run, []
        packed = f"{self._packed(waiting)} + varint(size)" if waiting else "varint(size)"
        if often_large:  # 16 KB to 2 MB: worth packing in line, a call takes as long as all the rest
            three_bytes = [("B", "size & 127 | 128"), ("B", "size >> 7 & 127 | 128"), ("B", "size >> 14")]
            packed = f"{self._packed([*waiting, *three_bytes])} if 1 << 14 <= size < 1 << 21 else {packed}"
        self._line(f"put({self._packed([*waiting, ('B', 'size')])} if size < 128 else {packed})")

    def _write_text(self, value: str, *, nullable: bool) -> None:
        if nullable:
            self._line(f"text = {value}")
            self._line('encoded = b"" if text is None else text.encode()')
        else:
            self._line(f"encoded = {value}.encode()")
        self._write_length("len(encoded)", "h", null="text is None" if nullable else None)
        self._line("put(encoded)")

    def _write_blob(self, value: str, *, in_place: bool, nullable: bool) -> None:
        self._line(f"blob = {value}")
        self._write_length("len(blob)", "i", null="blob is None" if nullable else None, often_large=in_place)
        with self._source.block("if blob:"):
            if not in_place:
                self._line("put(blob)")
                return
            with self._source.block("if type(blob) in BYTES_LIKE:"):
                self._line("put(blob)")
            with self._source.block("else:"):
                self._line('parts.append(b"".join(out))')
                self._line("parts.append(blob)")
                self._line("out.clear()")

    def _write_array(self, element: Kind, value: str, *, nullable: bool) -> None:
        items = self._fresh_name("items")
        self._line(f"{items} = {value}")
        self._write_length(f"len({items})", "i", null=f"{items} is None" if nullable else None)
        with self._source.block(f"if {items}:"):
            match element:
                case Fixed(code=code) if len(code) == 1:
                    self._line(f"put({self._source.array_method('pack', code)}[len({items})](*{items}))")
                case Fixed():
                    self._line(f"out += {items}")
                case _:
                    self._write_elements(element, items)

    def _write_elements(self, element: Kind, items: str) -> None:
        item = self._fresh_name("it")
        with self._source.block(f"for {item} in {items}:"):
            if isinstance(element, Nested):
                self.write_struct(element.struct, item)
            else:
                self._write_value(element, item, nullable=False)
            self.flush()

    def _write_nullable_struct(self, cls: type[Struct], value: str) -> None:
        self.flush()
        it = self._fresh_name("it")
        self._line(f"{it} = {value}")
        with self._source.block(f"if {it} is None:"):
            self._line(r'put(b"\xff")')
        with self._source.block("else:"):
            self._run.append(("b", "1"))
            self.write_struct(cls, it)
            self.flush()

    def _write_tagged_fields(self, it: str, fields: list[Field]) -> None:
        if not fields:
            self._run.append(("x", ""))  # a zero byte: no tagged fields
            return
        fields = sorted(fields, key=lambda field: field.tag or 0)
        worth_sending = {field: differs_from_default(field, f"{it}.{field.name}") for field in fields}
        count = self._fresh_name("tagged")
        self._line(f"{count} = 0")
        for test in worth_sending.values():
            with self._source.block(f"if {test}:"):
                self._line(f"{count} += 1")
        self._run.append(("B", count))
        self.flush()
        with self._source.block(f"if {count}:"):
            for field, test in worth_sending.items():
                with self._source.block(f"if {test}:"):
                    self._write_tagged_field(field, f"{it}.{field.name}")

    def _write_tagged_field(self, field: Field, value: str) -> None:
        mark = self._fresh_name("mark")
        self._line(f"{mark} = len(out)")
        self._write_value(field.kind, value, nullable=self._version in field.nullable)
        self.flush()
        self._line(f"out.insert({mark}, tagged_field_header({field.tag}, out[{mark}:]))")

    def _fresh_name(self, stem: str) -> str:
        self._names += 1
        return f"{stem}{self._names}"


def differs_from_default(field: Field, value: str) -> str:
    """Return the condition under which a tagged field is worth sending."""
    if field.default is None:
        return f"{value} is not None"
    return f"{value} != {[] if callable(field.default) else field.default!r}"
