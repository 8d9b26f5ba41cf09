"""The transactions of a log that are not settled: what keeps the last stable offset back (KIP-98)."""

from collections.abc import Iterable
from typing import Final

from highwater.storage.producer_state import ProducerState

NO_OFFSET: Final = -1


class Transactions:
    """Open transactions, and those whose marker is written and may still be lost."""

    __slots__ = ("_first_offsets", "_unreplicated")

    def __init__(self, states: Iterable[ProducerState] = ()) -> None:
        self._first_offsets = {
            state.producer_id: state.transaction_first_offset for state in states if state.has_open_transaction
        }
        self._unreplicated: dict[int, int] = {}
        """First offset of each transaction that was ended, by the offset of its marker."""

    def copy(self) -> "Transactions":
        """Return the same, to be changed independently."""
        twin = Transactions()
        twin._first_offsets = self._first_offsets.copy()
        twin._unreplicated = self._unreplicated.copy()
        return twin

    def begin(self, producer_id: int, base_offset: int) -> None:
        """A batch was written for a transaction, which is open from now on, or has been since earlier."""
        self._first_offsets.setdefault(producer_id, base_offset)

    def end(self, producer_id: int, marker_offset: int) -> int:
        """A marker was written; return the first offset of what it ended, or -1 for a transaction without records."""
        first_offset = self._first_offsets.pop(producer_id, NO_OFFSET)
        if first_offset >= 0:
            self._unreplicated[marker_offset] = first_offset
        return first_offset

    def first_open_offset(self, *, otherwise: int) -> int:
        """Return where the oldest open transaction begins."""
        return min(self._first_offsets.values(), default=otherwise)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return the first offset whose transaction is open, or ended by a marker that is not replicated yet."""
        unreplicated = self._unreplicated
        while unreplicated and (marker_offset := next(iter(unreplicated))) < high_watermark:
            del unreplicated[marker_offset]
        if not unreplicated and not self._first_offsets:
            return None
        return min((*unreplicated.values(), *self._first_offsets.values()))
