"""Requests that must say one thing about each name: a second one could be the last word or the first."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from highwater.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable


class NamedOnce:
    """Counts what a request names, and refuses what it names more than once."""

    __slots__ = ("_times",)

    def __init__(self, names: Iterable[Hashable]) -> None:
        self._times = Counter(names)

    def check(self, name: Hashable) -> None:
        """Refuse `name` if the request has it more than once."""
        if self._times[name] > 1:
            raise KafkaError(f"the request has {name} more than once", code=ErrorCode.INVALID_REQUEST)

    def check_all(self) -> None:
        """Refuse a request that has anything more than once."""
        for name in self._times:
            self.check(name)
