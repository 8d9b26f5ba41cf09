"""`highwater cluster status`: who is alive, who leads what, and how far every single replica is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from highwater.broker.peer import Peer
from highwater.cli.cluster import REQUEST_TIMEOUT_SECONDS
from highwater.coordination.records import ListenerAddress
from highwater.model.errors import KafkaError
from highwater.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from highwater.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from confluent_kafka.admin import BrokerMetadata, ClusterMetadata

LIST_OFFSETS_VERSION: Final = 7
FETCH_VERSION: Final = 12
ANY_REPLICA: Final = -2
"""In place of a replica's id: asks about the replica that is asked, whether it leads or not, and its whole log."""
LATEST: Final = -1
REPLICA_SECONDS: Final = 3.0
"""A broker that is frozen must not keep us from showing the others."""

Name = tuple[str, int]


class ReplicaStatus(NamedTuple):
    """How far one replica is; None where its broker does not say."""

    topic: str
    partition: int
    broker: int
    role: str
    in_sync: bool
    log_end_offset: int | None
    high_watermark: int | None
    epoch: int | None


class _Progress(NamedTuple):
    log_end_offset: int
    epoch: int
    high_watermark: int | None = None


def replica_statuses(metadata: ClusterMetadata) -> list[ReplicaStatus]:
    """Return every replica of every partition, each as its own broker tells."""
    held: dict[int, list[Name]] = {broker: [] for broker in metadata.brokers}
    for name, topic in sorted(metadata.topics.items()):
        for index, partition in sorted(topic.partitions.items()):
            for broker in partition.replicas:
                if broker in held:
                    held[broker].append((name, index))
    told = asyncio.run(_ask_all(metadata.brokers, held))
    nothing = _Unknown()
    return [
        ReplicaStatus(
            name,
            index,
            broker,
            "leader" if broker == partition.leader else "follower",
            broker in partition.isrs,
            progress.log_end_offset,
            progress.high_watermark,
            progress.epoch,
        )
        for name, topic in sorted(metadata.topics.items())
        for index, partition in sorted(topic.partitions.items())
        for broker in partition.replicas
        for progress in [told.get(broker, {}).get((name, index), nothing)]
    ]


class _Unknown(NamedTuple):
    log_end_offset: None = None
    epoch: None = None
    high_watermark: None = None


async def _ask_all(brokers: dict[int, BrokerMetadata], held: dict[int, list[Name]]) -> dict[int, dict[Name, _Progress]]:
    answers = await asyncio.gather(*(_ask(brokers[broker], names) for broker, names in held.items()))
    return dict(zip(held, answers, strict=True))


async def _ask(broker: BrokerMetadata, names: list[Name]) -> dict[Name, _Progress]:
    """Return how far each of these replicas is; nothing if the broker does not answer."""
    address = ListenerAddress(str(broker.host), int(broker.port))
    peer = Peer(address, client_id="highwater-cli", timeout_s=min(REPLICA_SECONDS, REQUEST_TIMEOUT_SECONDS))
    try:
        ends = await _log_end_offsets(peer, names)
        watermarks = await _high_watermarks(peer, ends)
    except KafkaError:
        return {}
    finally:
        peer.close()
    return {name: progress._replace(high_watermark=watermarks.get(name)) for name, progress in ends.items()}


async def _log_end_offsets(peer: Peer, names: list[Name]) -> dict[Name, _Progress]:
    topics: dict[str, ListOffsetsTopic] = {}
    for name, index in names:
        topic = topics.setdefault(name, ListOffsetsTopic(name=name))
        topic.partitions.append(ListOffsetsPartition(partition_index=index, timestamp=LATEST))
    request = ListOffsetsRequest(replica_id=ANY_REPLICA, topics=list(topics.values()))
    response = await peer.ask(request, ListOffsetsResponse, version=LIST_OFFSETS_VERSION)
    return {
        (topic.name, answer.partition_index): _Progress(answer.offset, answer.leader_epoch)
        for topic in response.topics
        for answer in topic.partitions
        if not answer.error_code
    }


async def _high_watermarks(peer: Peer, ends: dict[Name, _Progress]) -> dict[Name, int]:
    """Fetch nothing, from the end of each log: the answer tells what is committed. Followers answer who has a rack."""
    topics: dict[str, FetchTopic] = {}
    for (name, index), progress in ends.items():
        topic = topics.setdefault(name, FetchTopic(topic=name))
        topic.partitions.append(
            FetchPartition(partition=index, fetch_offset=progress.log_end_offset, partition_max_bytes=1)
        )
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=1, session_epoch=-1, topics=list(topics.values()), rack_id="status"
    )
    response = await peer.ask(request, FetchResponse, version=FETCH_VERSION)
    return {
        (topic.topic, answer.partition_index): answer.high_watermark
        for topic in response.responses
        for answer in topic.partitions
        if not answer.error_code
    }
