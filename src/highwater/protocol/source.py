"""Source text of a function under construction, and the names that it will find when it runs."""

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from highwater.protocol.wire import ByCount


class Source:
    """Lines of one function, indented as they are nested, and the scope that it is executed in."""

    def __init__(self, scope: dict[str, Any]) -> None:
        self.scope = dict(scope)
        self._lines: list[str] = []
        self._depth = 0

    def __str__(self) -> str:
        return "\n".join(self._lines) + "\n"

    def line(self, text: str) -> None:
        """Add one line."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Add `header`, and all that is added inside the context as its body."""
        self.line(header)
        self._depth += 1
        yield
        self._depth -= 1

    def bind(self, name: str, value: Any) -> str:
        """Make `value` known to the function as `name`, which is returned."""
        assert self.scope.setdefault(name, value) is value, f"two meanings of {name}"
        return name

    def struct_method(self, method: str, codes: str) -> str:
        """Return a name for pack or unpack_from of a big-endian struct with these codes."""
        name = f"{method}_{codes.replace('?', 'bool')}"
        if name not in self.scope:
            self.scope[name] = getattr(struct.Struct(f">{codes}"), method)
        return name

    def array_method(self, method: str, code: str) -> str:
        """Return a name for a mapping from a count to pack or unpack_from of so many values with this code."""
        name = f"{method}_many_{code.replace('?', 'bool')}"
        if name not in self.scope:
            self.scope[name] = ByCount(method, code)
        return name

    def compiled(self, name: str, origin: str) -> Callable[..., Any]:
        """Return the function `name`; a traceback shows `origin` as its file."""
        exec(compile(str(self), f"<{origin}>", "exec"), self.scope)  # noqa: S102 - made of our own declarations only
        function: Callable[..., Any] = self.scope[name]
        return function
