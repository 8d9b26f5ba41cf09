"""Which brokers hold which partitions: even over brokers, and over pairs of brokers (row by row, like Apache Kafka).

When every broker has a rack, the replicas of a partition are on as many racks as there are.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest

from highwater.model.ids import BrokerId


def placement_order(live: Sequence[BrokerId], racks: Mapping[BrokerId, str | None]) -> list[BrokerId]:
    """Return the brokers in the order in which partitions go around them: by id, or from rack to rack."""
    by_rack: dict[str, list[BrokerId]] = defaultdict(list)
    for broker in sorted(live):
        rack = racks.get(broker)
        if rack is None:
            return sorted(live)
        by_rack[rack].append(broker)
    rounds = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [broker for broker in chain.from_iterable(rounds) if broker is not None]


def place(
    brokers: Sequence[BrokerId],
    *,
    first_partition: int,
    partition_count: int,
    replication_factor: int,
    start: int,
    shift: int,
    racks: Mapping[BrokerId, str | None] | None = None,
) -> list[tuple[BrokerId, ...]]:
    """Return the brokers of each partition, the preferred leader first.

    Replica 0 of partition i is on broker (i + start) mod n; the others follow at a distance that grows by one each time
    i has gone once around, so that the partitions a broker leads have their followers spread over all others. `start`
    and `shift` are random for a new topic, and the same again when it grows.

    With the racks of all brokers (given in `placement_order`), a follower goes to the next broker whose rack has the
    fewest replicas of the partition so far.
    """
    count = len(brokers)
    assert 0 < replication_factor <= count, "replicas are on different brokers"
    placed: list[tuple[BrokerId, ...]] = []
    for index in range(first_partition, first_partition + partition_count):
        first = (index + start) % count
        distance = shift + index // count
        steps = (1 + (distance + replica) % (count - 1) for replica in range(count - 1))
        others = [brokers[(first + step) % count] for step in steps]
        if racks is not None and all(racks.get(broker) is not None for broker in brokers):
            others = _from_rack_to_rack(brokers[first], others, racks)
        placed.append((brokers[first], *others[: replication_factor - 1]))
    return placed


def _from_rack_to_rack(first: BrokerId, others: list[BrokerId], racks: Mapping[BrokerId, str | None]) -> list[BrokerId]:
    used = Counter([racks[first]])
    ordered: list[BrokerId] = []
    while len(ordered) < len(others):
        left = [broker for broker in others if broker not in ordered]
        chosen = min(left, key=lambda broker: used[racks[broker]])  # the first of those that are equally good
        used[racks[chosen]] += 1
        ordered.append(chosen)
    return ordered
