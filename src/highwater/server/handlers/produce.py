"""Produce (key 0), versions 3-13 (advertised from 0): append batches, one per partition.

acks 0: no answer; an error closes the connection, which is all that such a client can notice.
acks 1: answered when the batch is in the leader's log (and synced, if `flush.messages` asks for it).
acks -1: answered when the batch is committed.
v8   record-level errors and an error message
v10  who leads, and where, when it is not this broker (KIP-951)
v11  TRANSACTION_ABORTABLE, which is INVALID_TXN_STATE before
v12  a transactional batch makes its partition part of the transaction (KIP-890, part 2)
v13  topics by id
The first batch of a transaction in a partition waits until the transaction's coordinator has let it in.
Batches of a topic with a `compression.type` of its own are compressed anew first, see `highwater.broker.recompression`.
Staged here, written once per turn by the connection: see `highwater.broker.appends`.
"""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple

from highwater.broker.delayed_produce import DelayedProduce
from highwater.broker.held_produce import HeldProduce
from highwater.broker.partition import Partition
from highwater.broker.recompression import RecompressedProduce, Refusals, Task, task_for
from highwater.broker.transaction_check import Entry
from highwater.model.errors import ErrorCode, KafkaError, StorageError
from highwater.model.ids import Offset, ProducerId, TopicId, TopicPartition
from highwater.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from highwater.protocol.records.batch import HEADER_BYTES, TRANSACTIONAL, read_header
from highwater.protocol.records.errors import RecordAtFault
from highwater.protocol.records.validate import FIRST_PRODUCE_VERSION_WITH_ZSTD, check_codec_for_version
from highwater.security.authorizer import Operation, ResourceType
from highwater.server.current_leader import LEADER_IS_ELSEWHERE, current_leader, leader_address
from highwater.server.request_context import RequestContext
from highwater.server.transactional_errors import refused_entry
from highwater.transactions.transaction import Producer

_WRITE: Final = Operation.WRITE  # an enum finds its members by name, which costs on this path
_TOPIC: Final = ResourceType.TOPIC
ACKS_NONE = 0
ACKS_ALL = -1
ABORTABLE_FROM = 11
ADDS_PARTITIONS_FROM = 12
TOPICS_BY_ID_FROM = 13
ATTRIBUTES_LOW_BYTE = 22
"""Where a batch says whether it is part of a transaction."""


def handle(
    context: RequestContext, request: ProduceRequest
) -> ProduceResponse | DelayedProduce | HeldProduce | RecompressedProduce | None:
    """Stage every batch; one bad partition never spoils the rest."""
    if context.recompression.is_wanted:
        held = _compress_anew(context, request)
        if held is not None:
            return None if request.acks == ACKS_NONE else held
    return _append_all(context, request, {})


def _compress_anew(context: RequestContext, request: ProduceRequest) -> RecompressedProduce | None:
    """Compress batches as their topics ask for; return the wait if that takes a while."""
    broker = context.broker
    if request.acks == ACKS_NONE and broker.recompression.is_full:
        raise KafkaError("more to compress than memory is set aside for", code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    tasks: list[Task] = []
    batches: list[tuple[TopicPartition, PartitionProduceData]] = []
    for topic in request.topic_data:
        is_refused = _refusal(context, request, topic) is not None
        for data in topic.partition_data:
            batches.append((TopicPartition(topic.name, data.index), data))
            partition = broker.partitions.get(topic.name, data.index)
            if partition is None or not partition.leads or is_refused:
                continue
            task = task_for(partition, data)
            if task is not None:
                tasks.append(task)
    return broker.recompression.hold(tasks, batches, partial(_append_all, context, request))


def _append_all(
    context: RequestContext, request: ProduceRequest, refusals: Refusals
) -> ProduceResponse | DelayedProduce | HeldProduce | None:
    """Stage every batch but those that were refused already."""
    produce = _Produce(context, request)
    for topic in request.topic_data:
        answers: list[PartitionProduceResponse] = []
        refusal = _refusal(context, request, topic)
        for data in topic.partition_data:
            receipt = PartitionProduceResponse(index=data.index, base_offset=-1)
            answers.append(receipt)
            try:
                if refusal is not None:
                    raise refusal
                if refusals and (topic.name, data.index) in refusals:
                    raise refusals[TopicPartition(topic.name, data.index)]
                if not produce.must_wait(topic.name, data, receipt):
                    produce.append(topic.name, data, receipt)
            except KafkaError as error:
                produce.refuse(topic.name, receipt, error)
        produce.response.responses.append(
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
        )
    if produce.waiting:
        held = produce.ask_coordinator()
        if held is not None:
            return None if request.acks == ACKS_NONE else held
    if request.acks == ACKS_NONE:
        _check_without_answer(produce.response)
        return None
    return produce.outcome


class _Produce:
    """One request under way."""

    __slots__ = ("_context", "_delayed", "_request", "response", "waiting")

    def __init__(self, context: RequestContext, request: ProduceRequest) -> None:
        self._context = context
        self._request = request
        self._delayed: DelayedProduce | None = None
        self.response = ProduceResponse()
        self.waiting: list[_Waiting] = []

    @property
    def outcome(self) -> ProduceResponse | DelayedProduce:
        """The answer, or the wait for it."""
        return self._delayed or self.response

    def append(self, topic_name: str, data: PartitionProduceData, receipt: PartitionProduceResponse) -> None:
        """Stage one batch, and expect its commit if the client waits for that."""
        acks = self._request.acks
        partition, end_offset = _append(self._context, acks, topic_name, data, receipt)
        if acks == ACKS_ALL or partition.syncs_appends:
            if self._delayed is None:
                loop, timeout_ms = self._context.broker.loop, self._request.timeout_ms
                self._delayed = DelayedProduce(loop, self.response, timeout_ms=timeout_ms)
            self._delayed.expect(partition, end_offset, receipt, for_all=acks == ACKS_ALL)

    def refuse(self, topic_name: str, receipt: PartitionProduceResponse, error: KafkaError) -> None:
        """Say why a batch is not appended."""
        receipt.error_code = error.code
        receipt.error_message = error.message or None
        if error.code in LEADER_IS_ELSEWHERE:
            _name_leader(self._context, self.response, topic_name, receipt)
        if isinstance(error, RecordAtFault) and error.record_index is not None:
            fault = BatchIndexAndErrorMessage(batch_index=error.record_index, batch_index_error_message=error.message)
            receipt.record_errors = [fault]

    # Transactions ---------------------------------------------------------------------------------------------------

    def must_wait(self, topic_name: str, data: PartitionProduceData, receipt: PartitionProduceResponse) -> bool:
        """Return whether the coordinator of a transaction must be asked first; then the batch is kept for later."""
        records = data.records
        if records is None or len(records) < HEADER_BYTES or not records[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL:
            return False
        transactional_id = self._request.transactional_id
        if transactional_id is None:
            raise KafkaError(
                "a transactional batch without a transactional id",
                code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            )
        self._context.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        broker = self._context.broker
        header = read_header(records)
        producer = Producer(ProducerId(header.producer_id), header.producer_epoch)
        partition = broker.partitions.leader_of(topic_name, data.index)
        if broker.transaction_gate.is_open(transactional_id, partition, producer, adds=self._adds_partitions):
            return False
        if self.waiting and self.waiting[0].producer != producer:
            raise KafkaError("batches of several producers in one request", code=ErrorCode.INVALID_RECORD)
        self.waiting.append(_Waiting(producer, partition.name, data, receipt))
        return True

    @property
    def _adds_partitions(self) -> bool:
        return self._context.version >= ADDS_PARTITIONS_FROM

    def ask_coordinator(self) -> HeldProduce | None:
        """Append what waits, if the coordinator can answer at once; otherwise return the wait for it."""
        waiting = self.waiting
        assert self._request.transactional_id is not None, "checked with the first that waits"
        entry = Entry(
            self._request.transactional_id,
            waiting[0].producer,
            [batch.name for batch in waiting],
            self._adds_partitions,
        )
        held = HeldProduce(self._context.broker.appends, self._let_in)
        self._context.broker.transaction_gate.enter(entry, held.decided)
        if held.is_decided:
            return None
        for batch in waiting:
            # What lies in the connection's buffer is gone after this turn.
            batch.data.records = memoryview(bytearray(batch.data.records or b""))
        held.is_late = True
        return held

    def _let_in(self, codes: list[ErrorCode]) -> ProduceResponse | DelayedProduce:
        knows_abortable = self._context.version >= ABORTABLE_FROM
        for (_, name, data, receipt), code in zip(self.waiting, codes, strict=True):
            if code:
                told = refused_entry(code, knows_abortable=knows_abortable)
                self.refuse(
                    name.topic, receipt, KafkaError(f"the transaction is not open here: {code.name}", code=told)
                )
                continue
            try:
                self.append(name.topic, data, receipt)
            except KafkaError as error:
                self.refuse(name.topic, receipt, error)
        return self.outcome


class _Waiting(NamedTuple):
    """A batch of a transaction that its coordinator has not let in yet."""

    producer: Producer
    name: TopicPartition
    data: PartitionProduceData
    receipt: PartitionProduceResponse


def _append(
    context: RequestContext,
    acks: int,
    topic_name: str,
    data: PartitionProduceData,
    receipt: PartitionProduceResponse,
) -> tuple[Partition, Offset]:
    """Stage one partition's batch; return the partition and the offset behind the batch."""
    partition = context.partitions.leader_of(topic_name, data.index)
    if data.records is None or not len(data.records):
        raise KafkaError("a Produce without records", code=ErrorCode.INVALID_RECORD)
    if context.version < FIRST_PRODUCE_VERSION_WITH_ZSTD and len(data.records) >= HEADER_BYTES:
        check_codec_for_version(read_header(data.records), context.version)
    if acks == ACKS_ALL:
        partition.check_enough_replicas()
    refusal = partition.log.health.refusal
    if refusal is not None:
        raise StorageError(refusal)
    staged = partition.stage(data.records, now_ms=context.now_ms(), receipt=receipt)
    receipt.base_offset = staged.base_offset
    receipt.log_append_time_ms = staged.append_time_ms
    receipt.log_start_offset = staged.log_start_offset
    return partition, Offset(staged.last_offset + 1)


def _refusal(context: RequestContext, request: ProduceRequest, topic: TopicProduceData) -> KafkaError | None:
    """Return why nothing may be appended to this topic, if so; find its name if the request gives its id."""
    if not -1 <= request.acks <= 1:
        return KafkaError(f"acks must be -1, 0 or 1, not {request.acks}", code=ErrorCode.INVALID_REQUIRED_ACKS)
    if context.version >= TOPICS_BY_ID_FROM:
        name = context.topics.name_of(TopicId(topic.topic_id))
        if name is None:
            return KafkaError("no topic has this id", code=ErrorCode.UNKNOWN_TOPIC_ID)
        topic.name = name
    if not context.authorize(_WRITE, _TOPIC, topic.name):
        return KafkaError("", code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if context.topics.is_internal(topic.name) and context.client_id != "__admin_client":
        return KafkaError(f"{topic.name} is written by the broker itself", code=ErrorCode.INVALID_TOPIC_EXCEPTION)
    return None


def _name_leader(
    context: RequestContext, response: ProduceResponse, topic: str, receipt: PartitionProduceResponse
) -> None:
    """Say who leads a partition that is not ours, and where that broker is."""
    leader = current_leader(context, topic, receipt.index)
    if leader is None:
        return
    receipt.current_leader = LeaderIdAndEpoch(leader_id=leader.broker, leader_epoch=leader.epoch)
    found = leader_address(context, leader.broker)
    if found is not None and all(endpoint.node_id != leader.broker for endpoint in response.node_endpoints):
        response.node_endpoints.append(
            NodeEndpoint(node_id=leader.broker, host=found.address.host, port=found.address.port, rack=found.rack)
        )


def _check_without_answer(response: ProduceResponse) -> None:
    """Nobody reads an answer to acks=0: a failure is told by closing the connection."""
    for topic in response.responses:
        for receipt in topic.partition_responses:
            if receipt.error_code:
                raise KafkaError(
                    f"acks=0 append to {topic.name}-{receipt.index} failed: {receipt.error_message}",
                    code=ErrorCode(receipt.error_code),
                )
