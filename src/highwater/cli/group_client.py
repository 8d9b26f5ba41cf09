"""What the `group` commands ask the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.cli.cluster import REQUEST_TIMEOUT_SECONDS, Cluster, answers
from highwater.cli.failures import no_such
from highwater.cli.group_progress import Place, Progress
from highwater.cli.positions import lookup

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from confluent_kafka.admin import ConsumerGroupDescription, ConsumerGroupListing


def all_groups(cluster: Cluster) -> dict[str, ConsumerGroupListing]:
    """Return every group by name."""
    outcome = cluster.admin.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_SECONDS).result()
    for error in outcome.errors or ():
        raise error
    return {group.group_id: group for group in sorted(outcome.valid, key=lambda group: group.group_id)}


def require_groups(cluster: Cluster, names: Iterable[str]) -> None:
    """Fail with the closest names if one of the groups does not exist."""
    known = all_groups(cluster)
    for name in names:
        if name not in known:
            raise no_such("group", name, known, "`highwater group list` shows all")


def descriptions(cluster: Cluster, names: Sequence[str]) -> dict[str, ConsumerGroupDescription]:
    """Return the state and members of groups."""
    futures = cluster.admin.describe_consumer_groups(list(names), request_timeout=REQUEST_TIMEOUT_SECONDS)
    return answers(futures)


def state_text(group: ConsumerGroupDescription | ConsumerGroupListing) -> str:
    """Return a group's state as people write it."""
    return str(group.state.name).lower().replace("_", " ").replace("rebalancing", "rebalance")


def progress_of(cluster: Cluster, group: str, assigned: Iterable[Place] = ()) -> dict[Place, Progress]:
    """Return the committed and the latest offset of every partition the group reads or once read."""
    from confluent_kafka.admin import OffsetSpec

    committed = committed_offsets(cluster, group)
    places = sorted({*committed, *assigned})
    existing = cluster.topics()
    latest: dict[Place, int] = {}
    for topic in {topic for topic, _ in places if topic in existing}:
        partitions = [partition for name, partition in places if name == topic]
        found = lookup(cluster, topic, partitions, OffsetSpec.latest())
        latest |= {(topic, partition): offset for partition, offset in found.items()}
    return {place: Progress(committed.get(place), latest[place]) for place in places if place in latest}


def committed_offsets(cluster: Cluster, group: str) -> dict[Place, int]:
    """Return where the group is in each partition in which it has committed."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    asked = [ConsumerGroupTopicPartitions(group)]
    futures = cluster.admin.list_consumer_group_offsets(asked, request_timeout=REQUEST_TIMEOUT_SECONDS)
    found = answers(futures)[group].topic_partitions or []
    return {(place.topic, place.partition): place.offset for place in found if place.offset >= 0}
