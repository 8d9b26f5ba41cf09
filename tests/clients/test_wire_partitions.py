"""The APIs about what is in partitions, in every version: what clients do not show of them."""

import pytest
from confluent_kafka import Producer

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from highwater.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from highwater.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from highwater.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from highwater.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from highwater.testing.waiting import wait_until
from highwater.testing.wire import WireClient


@pytest.fixture
def ten_records(producer: Producer, topic: str) -> str:
    """A topic with ten records, each in a batch of its own."""
    for number in range(10):
        producer.produce(topic, b"%d" % number)
        producer.flush()
    return topic


def delete(
    wire: WireClient, topic: str, offset: int, *, version: int = 2, index: int = 0
) -> DeleteRecordsPartitionResult:
    asked = DeleteRecordsPartition(partition_index=index, offset=offset)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[asked])], timeout_ms=10_000)
    return wire.call(request, DeleteRecordsResponse, version).topics[0].partitions[0]


@pytest.mark.parametrize("version", range(3))
def test_every_version_deletes_records(wire: WireClient, ten_records: str, version: int) -> None:
    for offset, low_watermark in ((4, 4), (2, 4), (10, 10), (-1, 10)):
        result = delete(wire, ten_records, offset, version=version)
        assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, low_watermark)


@pytest.mark.parametrize(
    ("offset", "index", "code"),
    [
        (11, 0, ErrorCode.OFFSET_OUT_OF_RANGE),
        (-2, 0, ErrorCode.OFFSET_OUT_OF_RANGE),
        (1, 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (1, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_records_that_cannot_be_deleted(
    wire: WireClient, ten_records: str, offset: int, index: int, code: ErrorCode
) -> None:
    result = delete(wire, ten_records, offset, index=index)
    assert (result.error_code, result.low_watermark) == (code, -1)


@pytest.mark.parametrize("version", range(1, 5))
def test_every_version_describes_the_log_dirs(wire: WireClient, ten_records: str, version: int) -> None:
    asked = [DescribableLogDirTopic(topic=ten_records, partitions=[0, 9])]
    answer = wire.call(DescribeLogDirsRequest(topics=asked), DescribeLogDirsResponse, version)
    found = [
        (partition.partition_index, partition.partition_size > 0, partition.offset_lag, partition.is_future_key)
        for log_dir in answer.results
        for topic in log_dir.topics
        for partition in topic.partitions
    ]
    assert found == [(0, True, 0, False)]
    assert all(log_dir.error_code == ErrorCode.NONE for log_dir in answer.results)
    if version >= 4:
        assert all(0 < log_dir.usable_bytes <= log_dir.total_bytes for log_dir in answer.results)


def test_all_partitions_of_all_log_dirs(wire: WireClient, ten_records: str) -> None:
    answer = wire.call(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, 4)
    assert ten_records in {topic.name for log_dir in answer.results for topic in log_dir.topics}


@pytest.mark.parametrize("version", range(6))
def test_every_version_gives_out_producer_ids_that_nobody_has(wire: WireClient, version: int) -> None:
    given: set[int] = set()

    def one_more() -> bool:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        answer = wire.call(request, InitProducerIdResponse, version)
        if answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:  # Apache Kafka, while it fetches a block of ids
            return False
        assert (answer.error_code, answer.producer_epoch) == (ErrorCode.NONE, 0)
        assert answer.producer_id not in given
        given.add(answer.producer_id)
        return len(given) == 3

    wait_until(one_more, "three producer ids")


def test_an_empty_transactional_id_is_none(wire: WireClient) -> None:
    request = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=60_000)
    assert wire.call(request, InitProducerIdResponse, 5).error_code == ErrorCode.INVALID_REQUEST


def test_an_idempotent_producer_is_remembered(wire: WireClient, bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})
    for _ in range(3):
        producer.produce(topic, b"value", timestamp=1_700_000_000_000)
        producer.flush()
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0, 5])])
    present, missing = wire.call(request, DescribeProducersResponse, 0).topics[0].partitions
    (state,) = present.active_producers
    assert state.producer_id >= 0
    assert (state.producer_epoch, state.last_sequence, state.current_txn_start_offset) == (0, 2, -1)
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def end_of_epoch(
    wire: WireClient, topic: str, epoch: int, *, known: int = -1, index: int = 0, version: int = 4
) -> EpochEndOffset:
    asked = OffsetForLeaderPartition(partition=index, current_leader_epoch=known, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])])
    return wire.call(request, OffsetForLeaderEpochResponse, version).topics[0].partitions[0]


@pytest.mark.parametrize("version", range(2, 5))
def test_every_version_finds_the_end_of_an_epoch(wire: WireClient, ten_records: str, version: int) -> None:
    found = end_of_epoch(wire, ten_records, 0, known=0, version=version)
    assert (found.error_code, found.leader_epoch, found.end_offset) == (ErrorCode.NONE, 0, 10)


def test_an_epoch_that_has_not_been_is_not_found(wire: WireClient, ten_records: str) -> None:
    found = end_of_epoch(wire, ten_records, 5)
    assert (found.error_code, found.leader_epoch, found.end_offset) == (ErrorCode.NONE, -1, -1)


def test_who_knows_another_leader_epoch_is_told(wire: WireClient, ten_records: str) -> None:
    assert end_of_epoch(wire, ten_records, 0, known=3).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert end_of_epoch(wire, ten_records, 0, index=3).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
