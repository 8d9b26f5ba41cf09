"""Transactions on the wire: what is late, repeated or out of turn, as only a test can send it."""

import time
import uuid

import pytest
from confluent_kafka import Producer

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from highwater.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from highwater.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from highwater.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from highwater.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from highwater.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from highwater.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from highwater.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from highwater.protocol.messages.produce import ProduceResponse
from highwater.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from highwater.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from highwater.protocol.records.record import build_batch, numbered
from highwater.testing.plugin import BrokerFactory
from highwater.testing.requests import produce_request
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until
from highwater.testing.wire import WireClient, frame

FENCED_OR_LATE = {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE}


class Client:
    """A transactional producer that says exactly what it is told to."""

    def __init__(self, wire: WireClient, topic: str) -> None:
        self._wire = wire
        self.topic = topic
        self.transactional_id = f"id-{uuid.uuid4().hex[:8]}"
        wait_until(self._coordinator_is_there, "a coordinator")
        answer = self.init(4)
        self.producer = answer.producer_id, answer.producer_epoch

    def use(self, wire: WireClient) -> None:
        """Go on with another connection."""
        self._wire = wire

    def _coordinator_is_there(self) -> bool:
        request = FindCoordinatorRequest(key=self.transactional_id, key_type=1)
        if self._wire.call(request, FindCoordinatorResponse, 3).error_code:
            return False
        return self.init(4).error_code == ErrorCode.NONE

    def init(self, version: int, *, in_two_phases: bool = False, keeps_open: bool = False) -> InitProducerIdResponse:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=1 if in_two_phases else 60_000,
            enable_2pc=in_two_phases,
            keep_prepared_txn=keeps_open,
        )
        return self._wire.call(request, InitProducerIdResponse, version)

    def add(self) -> ErrorCode:
        """Add the partition to the transaction, as clients did before the write itself does it."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer[0],
            v3_and_below_producer_epoch=self.producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self.topic, partitions=[0])],
        )
        (topic,) = self._wire.call(request, AddPartitionsToTxnResponse, 3).results_by_topic_v3_and_below
        return ErrorCode(topic.results_by_partition[0].partition_error_code)

    def produce(self, version: int, *, sequence: int = 0, producer: tuple[int, int] | None = None) -> ErrorCode:
        producer_id, epoch = producer or self.producer
        batch = build_batch(
            numbered([(b"key", b"value")], timestamp_ms=int(time.time() * 1000)),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        request = produce_request(self.topic, batch, acks=-1)
        request.transactional_id = self.transactional_id
        (topic,) = self._wire.call(request, ProduceResponse, version).responses
        return ErrorCode(topic.partition_responses[0].error_code)

    def commit_offset(self, offset: int) -> ErrorCode:
        """Commit how far a group, named like the transactional id, has read the partition."""
        place = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=self.transactional_id,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            topics=[TxnOffsetCommitRequestTopic(name=self.topic, partitions=[place])],
        )
        (topic,) = self._wire.call(request, TxnOffsetCommitResponse, 5).topics
        return ErrorCode(topic.partitions[0].error_code)

    def committed_offset(self, *, stable: bool) -> tuple[int, ErrorCode]:
        topics = [OffsetFetchRequestTopics(name=self.topic, partition_indexes=[0])]
        group = OffsetFetchRequestGroup(group_id=self.transactional_id, topics=topics)
        request = OffsetFetchRequest(groups=[group], require_stable=stable)
        (found,) = self._wire.call(request, OffsetFetchResponse, 8).groups
        place = found.topics[0].partitions[0]
        return place.committed_offset, ErrorCode(place.error_code)

    def end(self, version: int, *, commits: bool = True, producer: tuple[int, int] | None = None) -> EndTxnResponse:
        producer_id, epoch = producer or self.producer
        request = EndTxnRequest(
            transactional_id=self.transactional_id, producer_id=producer_id, producer_epoch=epoch, committed=commits
        )
        return self._wire.call(request, EndTxnResponse, version)

    def ends_at_once(self, *producers: tuple[int, int], commits: bool) -> list[EndTxnResponse]:
        """Send ends without waiting for the answer to the one before."""
        ends = [
            EndTxnRequest(
                transactional_id=self.transactional_id, producer_id=producer, producer_epoch=epoch, committed=commits
            )
            for producer, epoch in producers
        ]
        self._wire.send_bytes(b"".join(frame(end, 5, number) for number, end in enumerate(ends)))
        return [self._wire.receive(EndTxnResponse, 5, number) for number in range(len(ends))]

    @property
    def stable_end(self) -> int:
        """Where readers of committed records stop."""
        partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
        request = ListOffsetsRequest(
            isolation_level=1, topics=[ListOffsetsTopic(name=self.topic, partitions=[partition])]
        )
        return self._wire.call(request, ListOffsetsResponse, 5).topics[0].partitions[0].offset

    @property
    def aborted(self) -> list[tuple[int, int]]:
        """What readers of committed records are told to skip: producer and first offset."""
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
        request = FetchRequest(isolation_level=1, topics=[FetchTopic(topic=self.topic, partitions=[partition])])
        (found,) = self._wire.call(request, FetchResponse, 11).responses
        return [(each.producer_id, each.first_offset) for each in found.partitions[0].aborted_transactions or ()]

    @property
    def state(self) -> str:
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        (found,) = self._wire.call(request, DescribeTransactionsResponse, 0).transaction_states
        return found.transaction_state

    def wait_until(self, state: str) -> None:
        wait_until(lambda: self.state == state, state)


@pytest.fixture
def client(wire: WireClient, topic: str) -> Client:
    return Client(wire, topic)


@pytest.mark.parametrize("commits", [True, False])
def test_a_late_end_does_not_end_the_next_transaction(client: Client, commits: bool) -> None:  # noqa: FBT001 - by name
    """KAFKA-17754: without an epoch for each transaction, it would."""
    first = client.producer
    assert client.produce(12) == ErrorCode.NONE
    answer = client.end(5)
    assert (answer.producer_id, answer.producer_epoch) == (first[0], first[1] + 1)
    client.wait_until("CompleteCommit")
    client.producer = answer.producer_id, answer.producer_epoch
    assert client.produce(12) == ErrorCode.NONE
    assert client.end(5, commits=commits, producer=first).error_code == ErrorCode.PRODUCER_FENCED
    assert client.state == "Ongoing"
    assert client.end(5).error_code == ErrorCode.NONE
    client.wait_until("CompleteCommit")


def test_the_same_end_twice_is_one_end_and_gets_the_same_answer(client: Client) -> None:
    assert client.produce(12) == ErrorCode.NONE
    first = client.end(5)
    client.wait_until("CompleteCommit")
    again = client.end(5)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (0, first.producer_id, first.producer_epoch)
    assert client.end(5, commits=False).error_code in FENCED_OR_LATE


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_that_comes_twice_ends_nothing_more(client: Client, wire: WireClient, committed: bool) -> None:  # noqa: FBT001
    """A coordinator that has missed the answer sends it again."""
    assert client.produce(12) == ErrorCode.NONE
    answer = client.end(5, commits=committed)
    client.wait_until("CompleteCommit" if committed else "CompleteAbort")
    end_offset, aborted = client.stable_end, client.aborted
    marker = WritableTxnMarker(
        producer_id=answer.producer_id,
        producer_epoch=answer.producer_epoch,
        transaction_result=committed,
        topics=[WritableTxnMarkerTopic(name=client.topic, partition_indexes=[0])],
    )
    for _ in range(2):
        (result,) = wire.call(WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse, 1).markers
        assert result.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert client.stable_end == end_offset + 2, "they are in the log, and hold nobody back"
    assert client.aborted == aborted, "readers skip what they skipped before"
    client.producer = answer.producer_id, answer.producer_epoch
    assert client.produce(12) == ErrorCode.NONE
    assert client.end(5).error_code == ErrorCode.NONE
    client.wait_until("CompleteCommit")


@pytest.mark.parametrize("commits", [True, False])
def test_the_next_end_waits_until_the_one_before_is_everywhere(client: Client, commits: bool) -> None:  # noqa: FBT001
    """Both ends in one packet: the second meets a transaction that is still being ended."""
    assert client.produce(12) == ErrorCode.NONE
    producer_id, epoch = client.producer
    first, second = client.ends_at_once((producer_id, epoch), (producer_id, epoch + 1), commits=commits)
    assert first.error_code == ErrorCode.NONE
    assert second.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    client.wait_until("CompleteCommit" if commits else "CompleteAbort")


@pytest.mark.parametrize("commits", [True, False])
def test_an_offset_that_a_transaction_is_about_to_move_is_unstable(
    client: Client,
    wire: WireClient,
    commits: bool,  # noqa: FBT001 - by name
) -> None:
    """Whoever goes on from there must know first how the transaction ends; others are told of the offset before it."""
    wire.call(FindCoordinatorRequest(key=client.transactional_id), FindCoordinatorResponse, 3)
    wait_until(lambda: client.committed_offset(stable=True) == (-1, ErrorCode.NONE), "a group coordinator")
    assert client.commit_offset(7) == ErrorCode.NONE
    assert client.committed_offset(stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert client.committed_offset(stable=False) == (-1, ErrorCode.NONE)
    assert client.end(5, commits=commits).error_code == ErrorCode.NONE
    client.wait_until("CompleteCommit" if commits else "CompleteAbort")
    assert client.committed_offset(stable=True) == (7 if commits else -1, ErrorCode.NONE)


def test_nobody_has_an_empty_id(client: Client) -> None:
    client.transactional_id = ""
    assert client.init(4).error_code == ErrorCode.INVALID_REQUEST
    assert client.add() == ErrorCode.INVALID_REQUEST
    assert client.end(5).error_code == ErrorCode.INVALID_REQUEST


def test_the_end_of_an_empty_transaction_raises_the_epoch_only_for_an_abort(client: Client) -> None:
    assert client.end(5, commits=True).error_code == ErrorCode.INVALID_TXN_STATE
    assert client.end(5, commits=False).producer_epoch == client.producer[1] + 1


@pytest.mark.parametrize(("version", "told"), [(10, "INVALID_TXN_STATE"), (11, "TRANSACTION_ABORTABLE")])
def test_a_batch_outside_of_any_transaction_is_refused(client: Client, version: int, told: str) -> None:
    """It would open one that nobody ends (KIP-890)."""
    assert client.produce(version) == ErrorCode[told]
    assert client.add() == ErrorCode.NONE
    assert client.produce(version) == ErrorCode.NONE
    assert client.end(3).error_code == ErrorCode.NONE
    client.wait_until("CompleteCommit")
    assert client.produce(version, sequence=1) == ErrorCode[told]


def test_a_batch_of_the_transaction_before_is_refused(client: Client) -> None:
    first = client.producer
    assert client.produce(12) == ErrorCode.NONE
    assert client.end(5).error_code == ErrorCode.NONE
    client.wait_until("CompleteCommit")
    assert client.produce(12, sequence=1, producer=first) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_transaction_of_an_outside_coordinator_outlives_everybody_and_is_ended_by_who_has_the_id(
    start_broker: BrokerFactory,
) -> None:
    """KIP-939: its timeout has passed, its producer is gone, and the broker was killed."""
    broker = start_broker(
        {
            "transaction.two.phase.commit.enable": True,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 20,
        }
    )
    maker = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    maker.produce("tea", b"which makes the topic")
    assert maker.flush(PATIENCE_SECONDS) == 0
    with WireClient(broker.bootstrap_servers) as wire:
        client = Client(wire, "tea")
        begun = client.init(6, in_two_phases=True)
        client.producer = begun.producer_id, begun.producer_epoch
        assert client.produce(12) == ErrorCode.NONE
    broker.kill()
    broker.start()
    with WireClient(broker.bootstrap_servers) as wire:
        client.use(wire)
        client.wait_until("Ongoing")
        kept = client.init(6, in_two_phases=True, keeps_open=True)
        assert (kept.ongoing_txn_producer_id, kept.ongoing_txn_producer_epoch) == client.producer
        assert (kept.producer_id, kept.producer_epoch) == (begun.producer_id, begun.producer_epoch + 1)
        assert client.end(5).error_code in FENCED_OR_LATE
        assert client.end(5, producer=(kept.producer_id, kept.producer_epoch)).error_code == ErrorCode.NONE
        client.wait_until("CompleteCommit")
        assert client.init(6, in_two_phases=True, keeps_open=True).ongoing_txn_producer_id == -1


def test_an_outside_coordinator_must_be_allowed(client: Client) -> None:
    assert client.init(6, in_two_phases=True).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
