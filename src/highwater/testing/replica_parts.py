"""What is around a replica, by parts that only remember what they were told."""

from highwater.broker.partition import Partition
from highwater.model.ids import BrokerId, TopicPartition
from highwater.replication.leader import IsrProposal


class RememberedProposals:
    """Keeps what leaders propose, for a test to agree or not; its clock stands still unless it is set."""

    def __init__(self, broker_id: BrokerId, *, max_lag_ms: int = 10_000) -> None:
        self.broker_id = broker_id
        self.max_lag_ms = max_lag_ms
        self.pushes_watermark = False
        self.time_ms = 0
        self.proposed: list[tuple[Partition, IsrProposal]] = []

    def now_ms(self) -> int:
        """Return what the clock shows."""
        return self.time_ms

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
        """Remember a proposal."""
        self.proposed.append((partition, proposal))


class RememberedFollowing:
    """Knows which partitions should be fetched, and fetches none."""

    def __init__(self) -> None:
        self.followed: dict[TopicPartition, BrokerId] = {}

    def follow(self, partition: Partition) -> None:
        """Remember whom the partition follows."""
        self.followed[partition.name] = partition.leader

    def leave(self, name: TopicPartition) -> None:
        """Forget it."""
        self.followed.pop(name, None)
