"""Who leads a partition that was asked of the wrong broker, so that a client need not ask for metadata (KIP-951)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from highwater.model.errors import ErrorCode

if TYPE_CHECKING:
    from highwater.coordination.records import ListenerAddress
    from highwater.model.ids import BrokerId, LeaderEpoch
    from highwater.server.request_context import RequestContext

LEADER_IS_ELSEWHERE: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""The errors that name the leader."""


class CurrentLeader(NamedTuple):
    """Who leads since which epoch."""

    broker: BrokerId
    epoch: LeaderEpoch


class LeaderAddress(NamedTuple):
    """Where a leader is reached by those who use the asker's listener."""

    address: ListenerAddress
    rack: str | None


def current_leader(context: RequestContext, topic: str | None, index: int) -> CurrentLeader | None:
    """Return who leads, as far as this broker knows: as a replica, or by the cluster's metadata."""
    if topic is None:
        return None
    replica = context.broker.partitions.get(topic, index)
    if replica is not None:
        return CurrentLeader(replica.leader, replica.leader_epoch)
    known = context.broker.topics.get(topic)
    if known is None or not 0 <= index < len(known.partitions):
        return None
    return CurrentLeader(known.partitions[index].leader, known.partitions[index].leader_epoch)


def leader_address(context: RequestContext, broker: BrokerId) -> LeaderAddress | None:
    """Return where this leader is, if it is alive and has the listener by which the asker came."""
    live = context.broker.cluster.brokers.get(broker)
    address = None if live is None else live.listeners.get(context.listener_name)
    return None if live is None or address is None else LeaderAddress(address, live.rack)
