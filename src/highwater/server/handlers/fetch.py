"""Fetch (key 1), versions 4-18: read batches, and wait for them if there are too few.

v4   isolation level: read_committed stops at the last stable offset and lists the aborted transactions
v7   incremental sessions (KIP-227)
v9   callers state the leader epoch they know
v11  consumers state their rack, and may be told of a replica that is closer; followers serve those that do (KIP-392)
v12  followers state the epoch of their last record, and are told where their log and ours part (KIP-595); whoever asks
     the wrong broker is told who leads
v13  topics by id
v15  followers say who they are in another field
v16  where the leaders are that are named in the answer (KIP-951)
A Fetch at an offset inside a batch gets that whole batch, and the first batch comes even when larger than asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.broker.delayed_fetch import DelayedFetch
from highwater.broker.fetch_interest import FetchEntry, FetchInterest
from highwater.broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchSession
from highwater.broker.read_replica import closest_replica
from highwater.broker.replica_fetch import ReplicaFetch
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import UNKNOWN_OFFSET, BrokerId, Offset, TopicId
from highwater.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from highwater.security.authorizer import CLUSTER_NAME, Operation, ResourceType
from highwater.server.current_leader import LEADER_IS_ELSEWHERE, current_leader, leader_address

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable

    from highwater.broker.partition import Partition
    from highwater.server.request_context import RequestContext

_READ: Final = Operation.READ  # an enum finds its members by name, which costs on this path
_TOPIC: Final = ResourceType.TOPIC
TOPICS_BY_ID_FROM: Final = 13
SESSIONS_FROM: Final = 7


def handle(context: RequestContext, request: FetchRequest) -> DelayedFetch | FetchResponse:
    """Return the answer if there is enough to read, and otherwise the fetch as something that answers when it can."""
    broker = context.broker
    by_id = context.version >= TOPICS_BY_ID_FROM
    replica = BrokerId(request.replica_id if request.replica_state is None else request.replica_state.replica_id)
    try:
        if replica >= 0:
            context.require(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
        interest, full = _interest(context, request, by_id=by_id)
    except KafkaError as error:
        return FetchResponse(error_code=error.code)
    _note_what_is_asked(context, interest, request, by_id=by_id)
    caller = _Caller(context, interest, rack=request.rack_id if replica < 0 else "")
    max_bytes = min(request.max_bytes, broker.fetch_max_bytes)
    if replica < 0:
        fetch = DelayedFetch(broker.loop, caller, request, interest, max_bytes, full)
    else:
        interest.is_replica = True
        fetch = ReplicaFetch(
            broker.loop,
            caller,
            request,
            interest,
            max_bytes,
            full,
            replica=replica,
            throttles=broker.replication_throttles,
            pushes_watermark=broker.reads_from_followers,
        )
    # What this turn has staged is not in the log yet, and a client may read what it has just written.
    return (None if broker.appends.staged else fetch.at_once()) or fetch


class _Caller:
    """The client or follower that fetches."""

    __slots__ = ("_context", "_interest", "_rack")

    def __init__(self, context: RequestContext, interest: FetchInterest, *, rack: str) -> None:
        self._context = context
        self._interest = interest
        self._rack = rack

    def find(self, entry: FetchEntry) -> Partition:
        """Return the partition that an entry names, or raise the error that its part of the answer carries."""
        context = self._context
        topic_name = entry.topic_name or _learn_name(context, entry)
        if not self._interest.is_replica:
            context.require(_READ, _TOPIC, topic_name)
        partitions = context.partitions
        return (partitions.replica_of if self._rack else partitions.leader_of)(topic_name, entry.key[1])

    def closer_replica(self, partition: Partition, offset: Offset) -> BrokerId | None:
        """Return a follower in the caller's rack, if followers are to be read from."""
        broker = self._context.broker
        if not self._rack or not broker.reads_from_followers:
            return None
        return closest_replica(partition, self._rack, offset, broker.cluster)

    def on_a_thread(self, work: Callable[[], None]) -> Future[None]:
        """Have something done that waits for the disk."""
        broker = self._context.broker
        return broker.loop.run_in_executor(broker.disk_threads, work)

    def assemble(self, read: list[tuple[FetchEntry, PartitionData]]) -> FetchResponse:
        """Return the response that carries these partitions."""
        interest = self._interest
        response = FetchResponse(
            session_id=interest.id if isinstance(interest, FetchSession) else NO_SESSION, responses=_by_topic(read)
        )
        for entry, data in read:
            if data.error_code in LEADER_IS_ELSEWHERE:
                _name_leader(self._context, response, entry, data)
        return response


def _note_what_is_asked(
    context: RequestContext, interest: FetchInterest, request: FetchRequest, *, by_id: bool
) -> None:
    topics = context.topics
    for forgotten in request.forgotten_topics_data:
        for index in forgotten.partitions:
            interest.remove((forgotten.topic_id if by_id else forgotten.topic, index))
    for topic in request.topics:
        topic_key = topic.topic_id if by_id else topic.topic
        name = topics.name_of(TopicId(topic.topic_id)) if by_id else topic.topic
        for asked in topic.partitions:
            entry = interest.entry((topic_key, asked.partition), name)
            entry.fetch_offset = Offset(asked.fetch_offset)
            entry.max_bytes = asked.partition_max_bytes
            entry.known_epoch = asked.current_leader_epoch
            entry.last_fetched_epoch = asked.last_fetched_epoch
            entry.log_start_offset = asked.log_start_offset
            if interest.is_replica:
                # Its fetches overlap, and it believes no answer that is older than its last question. Tell it again.
                entry.sent_high_watermark = UNKNOWN_OFFSET


def _learn_name(context: RequestContext, entry: FetchEntry) -> str:
    """Look again for a topic that nobody knew: a session outlives that, and a follower may hear of it before we do."""
    topic_id = entry.key[0]
    name = context.topics.name_of(TopicId(topic_id)) if isinstance(topic_id, bytes) else topic_id
    if not name:
        raise KafkaError("no topic has this id", code=ErrorCode.UNKNOWN_TOPIC_ID)
    entry.topic_name = name
    return name


def _name_leader(context: RequestContext, response: FetchResponse, entry: FetchEntry, data: PartitionData) -> None:
    """Say who leads a partition that is not ours, and where that broker is."""
    leader = current_leader(context, entry.topic_name, data.partition_index)
    if leader is None:
        return
    data.current_leader = LeaderIdAndEpoch(leader_id=leader.broker, leader_epoch=leader.epoch)
    found = leader_address(context, leader.broker)
    if found is not None and all(endpoint.node_id != leader.broker for endpoint in response.node_endpoints):
        response.node_endpoints.append(
            NodeEndpoint(node_id=leader.broker, host=found.address.host, port=found.address.port, rack=found.rack)
        )


def _interest(context: RequestContext, request: FetchRequest, *, by_id: bool) -> tuple[FetchInterest, bool]:
    """Return what this request follows, and whether every partition of it must be in the answer."""
    sessions = context.broker.fetch_sessions
    appends = context.broker.appends
    if context.version < SESSIONS_FROM:
        return FetchInterest(appends), True
    if request.session_epoch in {INITIAL_EPOCH, FINAL_EPOCH}:
        if request.session_id != NO_SESSION:
            sessions.end(request.session_id)
        begun = sessions.begin(uses_topic_ids=by_id) if request.session_epoch == INITIAL_EPOCH else None
        return begun or FetchInterest(appends), True
    session = sessions.resume(request.session_id, request.session_epoch, uses_topic_ids=by_id)
    if session.waiting is not None:
        session.waiting.answer_now()  # a follower has more to ask, and does not wait for our answer
    return session, False


def _by_topic(read: list[tuple[FetchEntry, PartitionData]]) -> list[FetchableTopicResponse]:
    """Group by topic, in the order read."""
    topics: dict[str | bytes, FetchableTopicResponse] = {}
    for entry, data in read:
        key = entry.key[0]
        topic = topics.get(key)
        if topic is None:
            topic = FetchableTopicResponse()
            if isinstance(key, str):
                topic.topic = key
            else:
                topic.topic_id = key
            topics[key] = topic
        topic.partitions.append(data)
    return list(topics.values())
