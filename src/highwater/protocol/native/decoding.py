"""Writes native decoders: the straight-line code of `highwater.protocol.decoding` on machine integers.

Reading single values out of `bytes` is a load in C, but `bytes` must be copied out of the receive buffer. So a decoder
reads from a copy of the frame's head, takes records as views of the frame itself, and copies a little again where they
end. Positions count from `origin`, where the copy begins. If something did not fit into a copy, the decoder begins anew
with a copy of the whole frame.
"""

from typing import Final

from highwater.protocol.decoding import DecoderWriter
from highwater.protocol.schema import Field, Fixed, Message, Struct
from highwater.protocol.source import Source

_READS: Final = {
    "B": "data[{at}]",
    "b": "read_i8(data, {at})",
    "?": "data[{at}] != 0",
    "h": "i64(read_i16_be(data, {at}))",
    "i": "i64(read_i32_be(data, {at}))",
    "q": "read_i64_be(data, {at})",
    "16s": "read_uuid(data, {at})",
}


def write_decoder(source: Source, cls: type[Message], version: int, suffix: str) -> None:
    """Write the function `decode_SUFFIX`, which reads `version` of `cls` as the function of `codec.decoder` does."""
    with source.block(
        f"def read_{suffix}(buffer: memoryview, data: bytes, position: i64) -> tuple[{cls.__name__}, i64]:"
    ):
        source.line("origin: i64 = 0")
        source.line("end: i64 = len(buffer)")
        source.line("size: i64 = 0")
        source.line("stop: i64 = 0")
        source.line(f"budget: i64 = {cls.ELEMENT_BUDGET}")
        writer = NativeDecoderWriter(source, version, flexible=version in cls.FLEXIBLE)
        message = writer.read_struct(cls)
        writer.flush()
        source.line(f"return {message}, origin + position")
    with source.block(f"def decode_{suffix}(buffer: memoryview, position: int) -> tuple[{cls.__name__}, int]:"):
        with source.block("try:"):
            source.line(f"return read_{suffix}(buffer, buffer[:HEAD_BYTES].tobytes(), position)")
        with source.block("except (IndexError, ValueError) as error:"), source.block("if len(buffer) <= HEAD_BYTES:"):
            source.line(f'raise MalformedFrame(f"{cls.__name__}: {{error}}") from error')
        with source.block("try:"):
            source.line(f"return read_{suffix}(buffer, buffer.tobytes(), position)")
        with source.block("except (IndexError, ValueError) as error:"):
            source.line(f'raise MalformedFrame(f"{cls.__name__}: {{error}}") from error')


class NativeDecoderWriter(DecoderWriter):
    """Writes the body of one native decoder."""

    frame = "data"

    def flush(self) -> None:
        """Write the read of each fixed-size value that is waiting for it."""
        run, self.run = self.run, []
        offset = 0
        for kind, target in run:
            at = f"position + {offset}" if offset else "position"
            self.line(f"{target} = {_READS[kind.code].format(at=at)}")
            offset += kind.size
        if offset:
            self.line(f"position += {offset}")

    def make_struct(self, cls: type[Struct], absent: list[Field]) -> str:
        """Write the making of a struct, whose constructor gives all fields their defaults."""
        del absent
        it = self.fresh_name("it")
        self.line(f"{it} = {cls.__name__}()")
        return it

    def read_slice(self, target: str, name: str, conversion: str) -> None:
        """Write the read of as many bytes as `size` says: copied out of the copy, or as a view of the frame."""
        self.line(f"stop = position + {'size - 1' if self.flexible else 'size'}")
        with self.source.block(f"if stop > {'len(data)' if conversion else 'end'}:"):
            self.line(f'raise overrun("{name}")')
        if conversion:
            self.line(f"{target} = data[position:stop]{conversion.removeprefix('.tobytes()')}")
            self.line("position = stop")
            return
        self.line(f"{target} = buffer[origin + position : origin + stop]")
        self.line("position = stop")
        with self.source.block("if stop > len(data):"):
            self.line("origin += stop")
            self.line("end -= stop")
            self.line("position = 0")
            self.line("data = buffer[origin : origin + HEAD_BYTES].tobytes()")

    def read_fixed_elements(self, element: Fixed, target: str) -> None:
        """Write the read of `size` numbers or ids, one after the other."""
        items, count = self.fresh_name("items"), self.fresh_name("count")
        self.line(f"{items}: list[{'bytes' if element.code == '16s' else 'int'}] = []")
        self.line(f"{count} = size")
        with self.source.block(f"for _ in range({count}):"):
            self.line(f"{items}.append({_READS[element.code].format(at='position')})")
            self.line(f"position += {element.size}")
        self.line(f"{target} = {items}")
