"""What transaction coordination counts."""

from highwater.metrics import declared
from highwater.metrics.registry import Registry


class TransactionMetrics:
    """The cells, looked up once."""

    __slots__ = ("_aborted", "_committed", "markers_delayed", "timed_out")

    def __init__(self, registry: Registry) -> None:
        self._committed = registry.cell(declared.TRANSACTIONS_ENDED, "commit")
        self._aborted = registry.cell(declared.TRANSACTIONS_ENDED, "abort")
        self.markers_delayed = registry.cell(declared.TRANSACTION_MARKERS_DELAYED)
        self.timed_out = registry.cell(declared.TRANSACTIONS_TIMED_OUT)

    def ended(self, *, committed: bool) -> None:
        """Count a transaction whose markers are everywhere."""
        (self._committed if committed else self._aborted).value += 1
