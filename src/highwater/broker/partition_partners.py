"""Whom a partition tells of its news, and whom it asks about the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from highwater.broker.partition import Partition
    from highwater.model.errors import ErrorCode
    from highwater.model.ids import BrokerId
    from highwater.replication.leader import IsrProposal


class Receipt(Protocol):
    """What a staged append is answered with; a failed write marks it."""

    error_code: int
    base_offset: int


class DataWaiter(Protocol):
    """A fetch that follows this partition."""

    def data_arrived(self, size_bytes: int) -> None:
        """More can be read now than before, by about `size_bytes`."""


class CommitWaiter(Protocol):
    """A produce that waits for the high watermark, or for the disk.

    It is told in the midst of a follower's fetch, which goes on afterwards: it may answer somebody, but not append.
    """

    def committed(self) -> None:
        """Everything that was waited for in this partition is committed."""

    def refused(self, code: ErrorCode) -> None:
        """It will not be committed here, or not by as many replicas as were asked for."""


class IsrKeeper(Protocol):
    """Who has the cluster agree upon in-sync replicas; it also knows the time, and how far behind is too far."""

    broker_id: BrokerId
    max_lag_ms: int
    pushes_watermark: bool
    """Whether followers are told a new watermark at once, because consumers read from them."""

    def now_ms(self) -> int:
        """Return the time of a clock that never jumps."""

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
        """Have the cluster agree; `partition` is told of the outcome."""
