"""Decisions as they are made: each change is a record, and counts at once for what is decided next."""

from highwater.groups.causes import RebalanceCause
from highwater.groups.records import GroupRecord
from highwater.groups.shard import GroupShard


class Changes:
    """The records of one decision, already applied, and why groups rebalance because of it."""

    __slots__ = ("_shard", "causes", "now_ms", "records", "wall_ms")

    def __init__(self, shard: GroupShard, *, now_ms: int, wall_ms: int) -> None:
        self._shard = shard
        self.now_ms = now_ms
        self.wall_ms = wall_ms
        self.records: list[GroupRecord] = []
        self.causes: list[RebalanceCause] = []

    def add(self, *records: GroupRecord) -> None:
        """Decide these records."""
        for record in records:
            self.records.append(record)
            self._shard.apply(record, now_ms=self.now_ms)
