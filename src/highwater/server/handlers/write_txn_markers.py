"""WriteTxnMarkers (key 27), version 1: the outcome of transactions, written to the partitions that this broker leads.

Asked by the coordinators of transactions; and by administrators, to end a transaction that has lost its coordinator's
memory (`kafka-transactions.sh abort`, KIP-664).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from highwater.broker.marker_writer import TransactionEnd
from highwater.broker.pending_answer import PendingAnswer
from highwater.model.errors import ErrorCode
from highwater.model.ids import ProducerId, TopicPartition
from highwater.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from highwater.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from highwater.server.request_context import RequestContext

_RETRIABLE = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
"""What the group coordinator says, where the caller expects what partitions say."""


def handle(context: RequestContext, request: WriteTxnMarkersRequest) -> PendingAnswer[WriteTxnMarkersResponse]:
    """Write the markers, and answer when all of them are committed."""
    if not context.authorize(Operation.ALTER, ResourceType.CLUSTER):
        context.require(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    gathered = _Gathered(request)
    for number, marker in enumerate(request.markers):
        end = TransactionEnd(
            ProducerId(marker.producer_id),
            marker.producer_epoch,
            committed=marker.transaction_result,
            coordinator_epoch=marker.coordinator_epoch,
        )
        context.broker.markers.write(end, dict.fromkeys(_names(marker)), partial(gathered.tell, number))
    gathered.finish_if_complete()
    return gathered.answer


def _names(marker: WritableTxnMarker) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]


class _Gathered:
    """What became of each marker, until all of it is known."""

    def __init__(self, request: WriteTxnMarkersRequest) -> None:
        self._request = request
        self._errors: list[dict[TopicPartition, ErrorCode]] = [{} for _ in request.markers]
        self._left = sum(len(set(_names(marker))) for marker in request.markers)
        self.answer: PendingAnswer[WriteTxnMarkersResponse] = PendingAnswer(lambda _: WriteTxnMarkersResponse())

    def tell(self, number: int, name: TopicPartition, code: ErrorCode) -> None:
        """Note one partition's outcome."""
        told = ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _RETRIABLE else code
        self._errors[number][name] = told
        self._left -= 1
        self.finish_if_complete()

    def finish_if_complete(self) -> None:
        """Answer if nothing is left to be known."""
        if self._left == 0:
            markers = zip(self._request.markers, self._errors, strict=True)
            self.answer.resolve(WriteTxnMarkersResponse(markers=[_result(*each) for each in markers]))


def _result(marker: WritableTxnMarker, errors: dict[TopicPartition, ErrorCode]) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        producer_id=marker.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(
                        partition_index=index, error_code=errors[TopicPartition(topic.name, index)]
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in marker.topics
        ],
    )
