"""Compiles a message declaration and a version into the function that reads it.

What comes out is straight-line code, as one would write by hand for one version:

    def decode(buffer, position):
        end = len(buffer)
        ...
        it1 = new(FetchTopic)
        size = buffer[position]
        ...

Consecutive values of fixed size, and the first byte of the length or count after them, are read by one call of
`struct`. Reading past the end raises by itself, except in slices and counts: those are compared with what is left of
the frame before anything is allocated. Arrays also draw on the message's element budget.
"""

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from highwater.model.errors import MalformedFrame
from highwater.protocol import wire
from highwater.protocol.schema import Array, Blob, Field, Fixed, Kind, Message, Nested, Struct, Text, smallest_size
from highwater.protocol.source import Source

_BYTE: Final = Fixed("B", 1)
_INT8: Final = Fixed("b", 1)
_INT16: Final = Fixed("h", 2)
_INT32: Final = Fixed("i", 4)

_FIXED_ELEMENTS_SHIFT: Final = 3
"""Eight numbers in an array, which are read in one call, cost about as much as one other element."""

_SCOPE: Final[dict[str, Any]] = {
    "UNREADABLE": (struct.error, IndexError, ValueError),
    "MalformedFrame": MalformedFrame,
    "over_budget": wire.over_budget,
    "overrun": wire.overrun,
    "read_varint": wire.read_varint,
    "rest_of_varint": wire.rest_of_varint,
    "skip_tagged_fields": wire.skip_tagged_fields,
    "unexpected_null": wire.unexpected_null,
    "wrong_tag_size": wire.wrong_tag_size,
}


def compile_decoder(cls: type[Message], version: int) -> Callable[[memoryview, int], tuple[Any, int]]:
    """Return the function that reads `version` of `cls` at a position of a frame, and says where it ends."""
    return decoder_source(cls, version).compiled("decode", f"decoder of {cls.__name__} v{version}")


def decoder_source(cls: type[Message], version: int) -> Source:
    """Return the source of that function."""
    source = Source(_SCOPE)
    writer = DecoderWriter(source, version, flexible=version in cls.FLEXIBLE)
    with source.block("def decode(buffer, position):"):
        source.line("end = len(buffer)")
        source.line(f"budget = {cls.ELEMENT_BUDGET}")
        with source.block("try:"):
            message = writer.read_struct(cls)
            writer.flush()
        with source.block("except UNREADABLE as error:"):
            source.line(f'raise MalformedFrame(f"{cls.__name__} v{version}: {{error}}") from error')
        source.line(f"return {message}, position")
    return source


class DecoderWriter:
    """Writes the body of one decoder, field by field; `native.decoding` has another way with the single values."""

    frame = "buffer"
    """The variable that single bytes and varints are read from."""

    def __init__(self, source: Source, version: int, *, flexible: bool) -> None:
        self.source = source
        self.line = source.line
        self.version = version
        self.flexible = flexible
        self.run: list[tuple[Fixed, str]] = []
        self._names = 0

    def flush(self) -> None:
        """Write the read of all fixed-size values that are waiting for it."""
        run, self.run = self.run, []
        if not run:
            return
        codes = "".join(kind.code for kind, _ in run)
        targets = ", ".join(target for _, target in run)
        if codes == "B":
            self.line(f"{targets} = buffer[position]")
        else:
            unpack = self.source.struct_method("unpack_from", codes)
            self.line(f"({targets},) = {unpack}(buffer, position)")
        self.line(f"position += {sum(kind.size for kind, _ in run)}")

    def read_struct(self, cls: type[Struct]) -> str:
        """Write the read of a struct and return the variable that it is in; its last run may still be waiting."""
        present = [field for field in cls.FIELDS if self.version in field.versions]
        plain = [field for field in present if field.tag is None]
        tagged = [field for field in present if field.tag is not None]
        it = self.make_struct(cls, [field for field in cls.FIELDS if field not in plain])
        for field in plain:
            self._read_value(field.kind, f"{it}.{field.name}", field.name, nullable=self.version in field.nullable)
        if self.flexible:
            self._read_tagged_fields(it, tagged)
        else:
            assert not tagged, f"{cls.__name__} has tagged fields in version {self.version}, which is not flexible"
        return it

    def make_struct(self, cls: type[Struct], absent: list[Field]) -> str:
        """Write the making of a struct whose `absent` fields have their defaults; return the variable that it is in."""
        it = self.fresh_name("it")
        name = self.source.bind(cls.__name__, cls)
        self.line(f"{it} = {name}.__new__({name})")
        for field in absent:
            match field.default:
                case type() as made if issubclass(made, Struct):
                    value = f"{self.source.bind(made.__name__, made)}()"
                case type():
                    value = "[]"
                case constant:
                    value = repr(constant)
            self.line(f"{it}.{field.name} = {value}")
        return it

    def _read_value(self, kind: Kind, target: str, name: str, *, nullable: bool) -> None:
        match kind:
            case Fixed():
                self.run.append((kind, target))
            case Text():
                self._read_length(_INT16)
                with self._unless_null(target, name, nullable=nullable):
                    self.read_slice(target, name, ".tobytes().decode()")
            case Blob(in_place=in_place):
                self._read_length(_INT32)
                with self._unless_null(target, name, nullable=nullable):
                    self.read_slice(target, name, "" if in_place else ".tobytes()")
            case Array(element=element):
                self._read_length(_INT32)
                with self._unless_null(target, name, nullable=nullable):
                    self._read_array(element, target, name)
            case Nested(struct=cls) if nullable:
                self.run.append((_INT8, "size"))
                self.flush()
                with self._unless_null(target, name, nullable=True, test="size < 0"):
                    self.line(f"{target} = {self.read_struct(cls)}")
            case Nested(struct=cls):
                self.line(f"{target} = {self.read_struct(cls)}")

    def _read_length(self, inflexible: Fixed) -> None:
        """Write the read of a length or count into `size`; a flexible one is larger by one, so that 0 can mean null."""
        self.run.append((_BYTE if self.flexible else inflexible, "size"))
        self.flush()
        if self.flexible:
            with self.source.block("if size >= 128:"):
                self.line(f"size, position = rest_of_varint({self.frame}, position, size)")

    @contextmanager
    def _unless_null(self, target: str, name: str, *, nullable: bool, test: str = "") -> Iterator[None]:
        """Write what happens to a null; what is written inside the context happens to any other value."""
        test = test or ("size == 0" if self.flexible else "size < 0")
        with self.source.block(f"if {test}:"):
            self.line(f"{target} = None" if nullable else f'raise unexpected_null("{name}")')
        if not nullable:
            yield
            return
        with self.source.block("else:"):
            yield
            self.flush()

    def read_slice(self, target: str, name: str, conversion: str) -> None:
        """Write the read of as many bytes as `size` says, and what becomes of them."""
        self.line(f"stop = position + {'size - 1' if self.flexible else 'size'}")
        with self.source.block("if stop > end:"):
            self.line(f'raise overrun("{name}")')
        self.line(f"{target} = buffer[position:stop]{conversion}")
        self.line("position = stop")

    def _read_array(self, element: Kind, target: str, name: str) -> None:
        if self.flexible:
            self.line("size -= 1")
        smallest = smallest_size(element, self.version, flexible=self.flexible)
        if smallest:
            with self.source.block(f"if size * {smallest} > end - position:"):
                self.line(f'raise overrun("{name}")')
        self._draw_on_budget(f"size >> {_FIXED_ELEMENTS_SHIFT}" if isinstance(element, Fixed) else "size", name)
        if isinstance(element, Fixed):
            self.read_fixed_elements(element, target)
        else:
            self._read_elements(element, target, name)

    def read_fixed_elements(self, element: Fixed, target: str) -> None:
        """Write the read of `size` numbers or ids, one after the other."""
        self.line(f"stop = position + size * {element.size}")
        if len(element.code) == 1:
            unpack = self.source.array_method("unpack_from", element.code)
            self.line(f"{target} = list({unpack}[size](buffer, position))")
        else:
            pieces = f"buffer[start:start + {element.size}].tobytes()"
            self.line(f"{target} = [{pieces} for start in range(position, stop, {element.size})]")
        self.line("position = stop")

    def _read_elements(self, element: Kind, target: str, name: str) -> None:
        items, count = self.fresh_name("items"), self.fresh_name("count")
        self.line(f"{items} = []")
        self.line(f"{count} = size")
        with self.source.block(f"for _ in range({count}):"):
            if isinstance(element, Nested):
                item = self.read_struct(element.struct)
            else:
                item = "item"
                self._read_value(element, item, name, nullable=False)
            self.flush()
            self.line(f"{items}.append({item})")
        self.line(f"{target} = {items}")

    def _read_tagged_fields(self, it: str, fields: list[Field]) -> None:
        self.run.append((_BYTE, "size"))
        self.flush()
        with self.source.block("if size:"):
            if fields:
                self._read_known_tagged_fields(it, fields)
            else:
                self.line(f"position, budget = skip_tagged_fields({self.frame}, position, size, budget)")

    def _read_known_tagged_fields(self, it: str, fields: list[Field]) -> None:
        with self.source.block("if size >= 128:"):
            self.line(f"size, position = rest_of_varint({self.frame}, position, size)")
        self._draw_on_budget("size", "tagged fields")
        tag, stop, count = self.fresh_name("tag"), self.fresh_name("stop"), self.fresh_name("count")
        self.line(f"{count} = size")
        with self.source.block(f"for _ in range({count}):"):
            self.line(f"{tag}, position = read_varint({self.frame}, position)")
            self.line(f"size, position = read_varint({self.frame}, position)")
            self.line(f"{stop} = position + size")
            with self.source.block(f"if {stop} > end:"):
                self.line('raise overrun("tagged fields")')
            for index, field in enumerate(fields):
                with self.source.block(f"{'elif' if index else 'if'} {tag} == {field.tag}:"):
                    nullable = self.version in field.nullable
                    self._read_value(field.kind, f"{it}.{field.name}", field.name, nullable=nullable)
                    self.flush()
                    with self.source.block(f"if position != {stop}:"):
                        self.line(f'raise wrong_tag_size("{field.name}")')
            with self.source.block("else:"):
                self.line(f"position = {stop}")

    def _draw_on_budget(self, cost: str, name: str) -> None:
        self.line(f"budget -= {cost}")
        with self.source.block("if budget < 0:"):
            self.line(f'raise over_budget("{name}")')

    def fresh_name(self, stem: str) -> str:
        """Return a variable's name that no other has."""
        self._names += 1
        return f"{stem}{self._names}"
