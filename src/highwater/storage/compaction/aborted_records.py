"""Which records belong to aborted transactions, and which markers have nothing left to mark."""

from collections.abc import Iterable
from heapq import heappop, heappush

from highwater.protocol.records.batch import BatchHeader
from highwater.protocol.records.control import MarkerType
from highwater.storage.replay import marker_of
from highwater.storage.txn_index import AbortedTransaction


class AbortedRecords:
    """Follows the batches of a log in order. Records of aborted transactions go at once, markers in a later round.

    While one round removes the records, readers may hold the file of before: the marker and the entry of the
    transaction index stay until a round finds no record of the transaction any more.
    """

    __slots__ = ("_committed", "_open", "_upcoming", "kept")

    def __init__(self) -> None:
        self._upcoming: list[tuple[int, AbortedTransaction]] = []
        self._open: dict[int, tuple[AbortedTransaction, bool]] = {}
        """Aborted transactions that have begun, by producer, and whether a record of it was seen."""
        self._committed: set[int] = set()
        """Producers with records of a transaction that is not aborted."""
        self.kept: list[AbortedTransaction] = []
        """What the transaction index must still hold."""

    def expect(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Learn of aborted transactions before their first batch is followed."""
        for transaction in aborted:
            heappush(self._upcoming, (transaction.first_offset, transaction))

    def _begin_up_to(self, offset: int) -> None:
        while self._upcoming and self._upcoming[0][0] <= offset:
            _, transaction = heappop(self._upcoming)
            self._open.setdefault(transaction.producer_id, (transaction, False))

    def holds(self, header: BatchHeader) -> bool:
        """Follow a batch of records; say whether its transaction was aborted."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        found = self._open.get(header.producer_id)
        if found is None:
            self._committed.add(header.producer_id)
            return False
        self._open[header.producer_id] = (found[0], True)
        return True

    def marks_nothing(self, header: BatchHeader, batch: memoryview) -> bool:
        """Follow a control batch; say whether the transaction that it ends has no record left."""
        self._begin_up_to(header.last_offset)
        marker = marker_of(batch)
        if marker is None:
            return True
        if marker.type is MarkerType.COMMIT:
            had_records = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not had_records
        transaction, had_records = self._open.pop(header.producer_id, (None, False))
        if transaction is not None and had_records:
            self.kept.append(transaction)
        return not had_records
