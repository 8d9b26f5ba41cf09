"""Which brokers hold which partitions: even over brokers, and over pairs of brokers (row by row, like Apache Kafka)."""

from collections.abc import Sequence

from highwater.model.ids import BrokerId


def place(
    brokers: Sequence[BrokerId],
    *,
    first_partition: int,
    partition_count: int,
    replication_factor: int,
    start: int,
    shift: int,
) -> list[tuple[BrokerId, ...]]:
    """Return the brokers of each partition, the preferred leader first.

    Replica 0 of partition i is on broker (i + start) mod n; the others follow at a distance that grows by one each time
    i has gone once around, so that the partitions a broker leads have their followers spread over all others. `start`
    and `shift` are random for a new topic, and the same again when it grows.
    """
    count = len(brokers)
    assert 0 < replication_factor <= count, "replicas are on different brokers"
    placed: list[tuple[BrokerId, ...]] = []
    for index in range(first_partition, first_partition + partition_count):
        first = (index + start) % count
        distance = shift + index // count
        others = (1 + (distance + replica) % (count - 1) for replica in range(replication_factor - 1))
        placed.append((brokers[first], *(brokers[(first + step) % count] for step in others)))
    return placed
