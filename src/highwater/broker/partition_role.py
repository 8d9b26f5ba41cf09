"""What the controller wants of one replica: to lead, or to follow whom."""

from __future__ import annotations

from dataclasses import dataclass

from highwater.model.ids import BrokerId, LeaderEpoch, TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRole:
    """One partition as the controller last wrote it."""

    topic_id: TopicId
    leader: BrokerId
    """NO_BROKER: nobody in sync is alive."""
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    """All that hold it, those that are being added or removed included."""
    state_version: int
    """Of its state in the cluster's memory, for the leader's next conditional write."""
    controller_epoch: int
    is_new: bool = False
    """Whether the replica is not expected to be on the disk yet."""
