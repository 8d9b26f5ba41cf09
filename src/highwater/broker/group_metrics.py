"""What group coordination counts."""

from highwater.groups.causes import CauseKind
from highwater.metrics import declared
from highwater.metrics.registry import Cell, Registry


class GroupMetrics:
    """The cells, looked up once."""

    __slots__ = ("_rebalances", "committed_offsets", "dropped_members", "expired_records")

    def __init__(self, registry: Registry) -> None:
        self._rebalances = {kind: registry.cell(declared.GROUP_REBALANCES, kind.value) for kind in CauseKind}
        self.dropped_members = registry.cell(declared.GROUP_MEMBERS_DROPPED)
        self.committed_offsets = registry.cell(declared.GROUP_OFFSETS_COMMITTED)
        self.expired_records = registry.cell(declared.GROUP_RECORDS_EXPIRED)

    def rebalances(self, cause: CauseKind) -> Cell:
        """Return the counter of rebalances with this kind of cause."""
        return self._rebalances[cause]
