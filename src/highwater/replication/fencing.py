"""Who speaks for an older or a newer leader than the one we know is refused (KIP-320)."""

from typing import Final

from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import LeaderEpoch

NO_EPOCH: Final = LeaderEpoch(-1)
"""A caller that does not say which leader it knows: consumers may, replicas may not."""


class FencedLeaderEpoch(KafkaError):
    """The caller knows an older leader than we do; it must learn who leads now."""

    code = ErrorCode.FENCED_LEADER_EPOCH

    def __init__(self, *, theirs: int, ours: int) -> None:
        super().__init__(f"the request carries leader epoch {theirs}, the partition is at {ours}")


class UnknownLeaderEpoch(KafkaError):
    """The caller knows a newer leader than we do; we have not been told yet, so it must ask again."""

    code = ErrorCode.UNKNOWN_LEADER_EPOCH

    def __init__(self, *, theirs: int, ours: int) -> None:
        super().__init__(f"the request carries leader epoch {theirs}, the partition is still at {ours}")


def check_epoch(theirs: int, ours: int) -> None:
    """Let a client pass that knows our epoch, or does not say which one it knows."""
    if theirs not in {NO_EPOCH, ours}:
        check_replica_epoch(theirs, ours)


def check_replica_epoch(theirs: int, ours: int) -> None:
    """Let a replica pass that knows our epoch exactly.

    Truncation and the high watermark are decided by what passes here: an answer from another epoch could cut what is
    committed, and a fetch from another epoch could commit what its sender will cut.
    """
    if theirs < ours:
        raise FencedLeaderEpoch(theirs=theirs, ours=ours)
    if theirs > ours:
        raise UnknownLeaderEpoch(theirs=theirs, ours=ours)
