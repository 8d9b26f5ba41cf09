"""A consumer group over one connection (KIP-848): a test says when each member reports, and what."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from highwater.testing.waiting import wait_until

if TYPE_CHECKING:
    from highwater.testing.wire import WireClient

VERSION: Final = 1


class WireConsumerGroup:
    """A consumer group over one connection: members by name, each with what it was told last."""

    def __init__(self, wire: WireClient, group_id: str) -> None:
        self.wire = wire
        self.id = group_id
        self._session = uuid.uuid4().hex[:8]
        self.epochs: dict[str, int] = {}
        self.assigned: dict[str, dict[bytes, list[int]]] = {}

    def member_id(self, name: str) -> str:
        """Return the id of a member."""
        return f"{name}-{self._session}"

    def report(self, name: str, epoch: int | None = None, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Send one heartbeat as it is told."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.id,
            member_id=self.member_id(name),
            member_epoch=self.epochs.get(name, 0) if epoch is None else epoch,
            **fields,
        )
        answer = self.wire.call(request, ConsumerGroupHeartbeatResponse, VERSION)
        if not answer.error_code:
            self.epochs[name] = answer.member_epoch
            if answer.assignment is not None:
                self.assigned[name] = {entry.topic_id: entry.partitions for entry in answer.assignment.topic_partitions}
        return answer

    def join(self, name: str, *topics: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """Join, or join anew."""
        return self.report(
            name,
            epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=list(topics),
            topic_partitions=[],
            **fields,
        )

    def beat(self, *names: str) -> None:
        """Let members report that they have what they were told, no more and no less."""
        for name in names:
            owned = [
                TopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in self.assigned.get(name, {}).items()
            ]
            assert self.report(name, topic_partitions=owned).error_code == ErrorCode.NONE

    def share(self, name: str) -> int:
        """Return how many partitions a member was told to have."""
        return sum(len(partitions) for partitions in self.assigned.get(name, {}).values())

    def settle(self, shares: dict[str, int]) -> None:
        """Let members report until they have so many partitions each."""

        def have_their_shares() -> bool:
            self.beat(*shares)
            return {name: self.share(name) for name in shares} == shares

        wait_until(have_their_shares, f"shares of {shares}")
