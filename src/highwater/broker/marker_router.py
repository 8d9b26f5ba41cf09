"""The end of a transaction, brought to the brokers that lead its partitions (KIP-98)."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from highwater.broker.gathered_requests import GatheredRequests
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import NO_BROKER, BrokerId, TopicPartition
from highwater.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Iterable

    from highwater.broker.marker_sender import Writer
    from highwater.broker.marker_writer import TransactionEnd
    from highwater.broker.peers import Peers
    from highwater.broker.topics import Topics

WRITE_TXN_MARKERS_VERSION: Final = 1
MARKERS_AT_ONCE: Final = 500
REQUESTS_UNDER_WAY: Final = 5
"""For each broker. One would have every transaction wait for the slowest partition of those before it."""

Errors = dict[TopicPartition, ErrorCode]


class _Marker(NamedTuple):
    end: TransactionEnd
    names: list[TopicPartition]


class MarkerRouter:
    """Writes markers here or has other brokers write them, by who leads each partition as far as this broker knows."""

    def __init__(self, loop: AbstractEventLoop, me: BrokerId, *, here: Writer, topics: Topics, peers: Peers) -> None:
        self._me = me
        self._here = here
        self._topics = topics
        self._peers = peers
        self._requests: GatheredRequests[_Marker, Errors] = GatheredRequests(
            loop, self._send, most_in_one=MARKERS_AT_ONCE, most_under_way=REQUESTS_UNDER_WAY
        )

    def write(
        self, end: TransactionEnd, names: Iterable[TopicPartition], tell: Callable[[TopicPartition, ErrorCode], None]
    ) -> None:
        """Write a marker to each partition; `tell` is called once for each, now or later."""
        by_leader: dict[BrokerId, list[TopicPartition]] = {}
        for name in names:
            by_leader.setdefault(self._leader_of(name), []).append(name)
        for leader, theirs in by_leader.items():
            if leader == self._me:
                self._here.write(end, theirs, tell)
            elif leader == NO_BROKER:
                for name in theirs:
                    tell(name, ErrorCode.LEADER_NOT_AVAILABLE)
            else:
                self._ask(leader, _Marker(end, theirs), tell)

    def close(self) -> None:
        """Send nothing more."""
        self._requests.close()
        self._peers.close()

    def _leader_of(self, name: TopicPartition) -> BrokerId:
        topic = self._topics.get(name.topic)
        if topic is None or name.partition >= len(topic.partitions):
            return NO_BROKER
        return topic.partitions[name.partition].leader

    def _ask(self, leader: BrokerId, marker: _Marker, tell: Callable[[TopicPartition, ErrorCode], None]) -> None:
        def told(answer: Errors | KafkaError) -> None:
            for name in marker.names:
                if isinstance(answer, KafkaError):
                    tell(name, answer.code)
                else:
                    tell(name, answer.get(name, ErrorCode.UNKNOWN_SERVER_ERROR))

        self._requests.ask(leader, marker, told)

    async def _send(self, broker: BrokerId, markers: list[_Marker]) -> list[Errors]:
        response = await self._peers.get(broker).ask(
            WriteTxnMarkersRequest(markers=[_writable(marker) for marker in markers]),
            WriteTxnMarkersResponse,
            version=WRITE_TXN_MARKERS_VERSION,
        )
        if len(response.markers) != len(markers):
            raise KafkaError(f"{len(response.markers)} answers to {len(markers)} markers")
        return [_errors(result) for result in response.markers]


def _writable(marker: _Marker) -> WritableTxnMarker:
    end = marker.end
    return WritableTxnMarker(
        producer_id=end.producer_id,
        producer_epoch=end.producer_epoch,
        transaction_result=end.committed,
        topics=[
            WritableTxnMarkerTopic(name=topic, partition_indexes=[name.partition for name in names])
            for topic, names in groupby(sorted(marker.names), attrgetter("topic"))
        ],
        coordinator_epoch=end.coordinator_epoch,
    )


def _errors(result: WritableTxnMarkerResult) -> Errors:
    return {
        TopicPartition(topic.name, partition.partition_index): ErrorCode(partition.error_code)
        for topic in result.topics
        for partition in topic.partitions
    }
