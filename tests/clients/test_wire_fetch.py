"""Fetch and ListOffsets on the wire: what comes back for an offset, how much, when, and in which session."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from highwater.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from highwater.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from highwater.protocol.messages.produce import ProduceResponse
from highwater.protocol.records.batch import iter_batches
from highwater.protocol.records.compression import Codec
from highwater.protocol.records.record import Record, build_batch, numbered, read_records
from highwater.testing.requests import fetch_request, produce_request
from highwater.testing.waiting import PATIENCE_SECONDS
from highwater.testing.wire import WireClient

NOW_MS = int(time.time() * 1000)
LONG_MS = int(PATIENCE_SECONDS * 1000)
EARLIEST, LATEST, LARGEST_TIMESTAMP = -2, -1, -3


def append(wire: WireClient, topic: str, batch: bytes | bytearray, partition: int = 0) -> int:
    answer = wire.call(produce_request(topic, bytes(batch), partition=partition), ProduceResponse, 8)
    (appended,) = answer.responses[0].partition_responses
    assert appended.error_code == ErrorCode.NONE
    return appended.base_offset


def batch_of(count: int, size: int = 10) -> bytearray:
    return build_batch(numbered([(None, b"x" * size)] * count, timestamp_ms=NOW_MS))


def fetch(wire: WireClient, topic: str, offset: int, version: int = 11, **more: Any) -> PartitionData:
    answer = wire.call(fetch_request(topic, offset, **more), FetchResponse, version)
    ((partition,),) = [found.partitions for found in answer.responses]
    return partition


def batches(partition: PartitionData) -> list[tuple[int, int]]:
    """The base offset and the size of each whole batch of an answer."""
    records = partition.records
    assert isinstance(records, memoryview)
    return [(header.base_offset, header.size) for _, header in iter_batches(records)]


def topic_id_of(wire: WireClient, topic: str) -> bytes:
    metadata = wire.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), MetadataResponse, 12)
    return metadata.topics[0].topic_id


@pytest.mark.parametrize("version", range(4, 13))
def test_every_version_returns_the_stored_bytes(wire: WireClient, topic: str, version: int) -> None:
    """Only the offset and the leader epoch of a batch are the broker's; neither is under the checksum."""
    batch = batch_of(3)
    append(wire, topic, batch)
    read = fetch(wire, topic, 0, version)
    assert (read.error_code, read.high_watermark) == (ErrorCode.NONE, 3)
    assert isinstance(read.records, memoryview)
    assert read.records[16:] == batch[16:]


@pytest.mark.parametrize("version", range(13, 19))
def test_from_version_13_on_topics_go_by_id(wire: WireClient, topic: str, version: int) -> None:
    append(wire, topic, batch_of(1))
    assert batches(fetch(wire, "", 0, version, topic_id=topic_id_of(wire, topic)))
    unknown = fetch(wire, "", 0, version, topic_id=b"no such topic id")
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("offset", [10, 15, 19])
def test_an_offset_inside_a_batch_gets_that_whole_batch(wire: WireClient, topic: str, offset: int) -> None:
    """Skipping it would hang a client at the end of the log."""
    for _ in range(2):
        append(wire, topic, batch_of(10))
    assert [base for base, _ in batches(fetch(wire, topic, offset))] == [10]


def test_the_first_batch_comes_whole_even_when_it_is_larger_than_asked(wire: WireClient, topic: str) -> None:
    """Or a reader could never pass it (KIP-74); it holds for the partition's limit and for the whole answer's."""
    for _ in range(2):
        append(wire, topic, batch_of(1, size=50_000))
    read = fetch(wire, topic, 0, max_bytes=100)
    assert [base for base, _ in batches(read)] == [0]
    whole = fetch_request(topic, 1)
    whole.max_bytes = 1
    answer = wire.call(whole, FetchResponse, 11)
    assert [base for base, _ in batches(answer.responses[0].partitions[0])] == [1]


def test_the_size_asked_for_bounds_all_but_the_first_batch(wire: WireClient, topic: str) -> None:
    size = len(batch_of(1, size=1_000))
    for _ in range(20):
        append(wire, topic, batch_of(1, size=1_000))
    read = fetch(wire, topic, 0, max_bytes=5 * size + 10)
    assert isinstance(read.records, memoryview)
    assert len(read.records) <= 5 * size + 10
    assert [base for base, _ in batches(read)] == [0, 1, 2, 3, 4]


def test_only_the_first_partition_with_data_may_pass_the_answers_limit(
    wire: WireClient, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=2)
    for partition in (0, 1):
        append(wire, topic, batch_of(1, size=50_000), partition)
    asked = fetch_request(topic, 0)
    asked.max_bytes = 100
    second = FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=1 << 20)
    asked.topics[0].partitions.append(second)
    read = wire.call(asked, FetchResponse, 11).responses[0].partitions
    assert [len(part.records or b"") > 0 for part in read] == [True, False]


@pytest.mark.parametrize("offset", [-1, 4, 2**62])
def test_an_offset_outside_the_log_is_out_of_range(wire: WireClient, topic: str, offset: int) -> None:
    append(wire, topic, batch_of(3))
    assert fetch(wire, topic, offset).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_end_of_the_log_is_empty_and_no_error(wire: WireClient, topic: str) -> None:
    append(wire, topic, batch_of(3))
    read = fetch(wire, topic, 3, max_wait_ms=1)
    assert (read.error_code, len(read.records or b"")) == (ErrorCode.NONE, 0)


def test_an_unknown_topic_or_partition_is_an_error_of_its_own(wire: WireClient, topic: str, topic_name: str) -> None:
    append(wire, topic, batch_of(1))
    asked = fetch_request(topic, 0)
    asked.topics[0].partitions.append(FetchPartition(partition=9, fetch_offset=0, partition_max_bytes=100))
    asked.topics.append(fetch_request(topic_name, 0).topics[0])
    answer = wire.call(asked, FetchResponse, 11)
    codes = [(part.partition_index, part.error_code) for found in answer.responses for part in found.partitions]
    assert sorted(codes) == [
        (0, 0),
        (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]


def test_a_reader_that_knows_a_later_leader_than_we_do_is_told_so(wire: WireClient, topic: str) -> None:
    append(wire, topic, batch_of(1))
    assert fetch(wire, topic, 0, leader_epoch=1_000).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert fetch(wire, topic, 0, leader_epoch=0).error_code == ErrorCode.NONE


def test_a_fetch_that_waits_is_woken_by_the_append(wire: WireClient, bootstrap: str, topic: str) -> None:
    correlation_id = wire.send(fetch_request(topic, 0, max_wait_ms=LONG_MS), 11)
    with WireClient(bootstrap) as other:
        append(other, topic, batch_of(2))
    answer = wire.receive(FetchResponse, 11, correlation_id)
    assert batches(answer.responses[0].partitions[0])


def test_a_fetch_waits_until_there_is_as_much_as_it_asked_for(wire: WireClient, bootstrap: str, topic: str) -> None:
    batch = batch_of(1, size=1_000)
    asked = fetch_request(topic, 0, max_wait_ms=LONG_MS, min_bytes=3 * len(batch))
    correlation_id = wire.send(asked, 11)
    with WireClient(bootstrap) as other:
        for _ in range(3):
            append(other, topic, batch)
    answer = wire.receive(FetchResponse, 11, correlation_id)
    assert len(batches(answer.responses[0].partitions[0])) == 3


def test_a_fetch_that_waits_too_long_comes_back_empty(wire: WireClient, topic: str) -> None:
    append(wire, topic, batch_of(1))
    read = fetch(wire, topic, 0, max_wait_ms=50, min_bytes=1 << 20)
    assert [base for base, _ in batches(read)] == [0]
    assert len(fetch(wire, topic, 1, max_wait_ms=50).records or b"") == 0


def test_answers_keep_the_order_of_the_requests_around_a_fetch_that_waits(wire: WireClient, topic: str) -> None:
    waiting = wire.send(fetch_request(topic, 0, max_wait_ms=200), 11)
    behind = wire.send(MetadataRequest(topics=[]), 9)
    assert wire.receive(FetchResponse, 11, waiting).error_code == ErrorCode.NONE
    assert wire.receive(MetadataResponse, 9, behind).topics == []


class TestSessions:
    """Incremental fetch sessions (KIP-227): after the first fetch only changes travel, both ways."""

    def ask(
        self, wire: WireClient, session_id: int, epoch: int, topics: list[FetchTopic], *, max_wait_ms: int = 0
    ) -> FetchResponse:
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=session_id,
            session_epoch=epoch,
            topics=topics,
        )
        return wire.call(request, FetchResponse, 11)

    def test_only_partitions_with_news_come_back(self, wire: WireClient, new_topic: Callable[..., str]) -> None:
        topic = new_topic(partitions=3)
        wanted = [FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1 << 20) for number in range(3)]
        opened = self.ask(wire, 0, 0, [FetchTopic(topic=topic, partitions=wanted)])
        assert opened.session_id != 0
        assert len(opened.responses[0].partitions) == 3
        assert self.ask(wire, opened.session_id, 1, []).responses == []
        append(wire, topic, batch_of(2), partition=1)
        news = self.ask(wire, opened.session_id, 2, [], max_wait_ms=LONG_MS)
        ((changed,),) = [found.partitions for found in news.responses]
        assert (changed.partition_index, changed.high_watermark) == (1, 2)

    def test_a_session_moves_on_with_the_offset_it_is_told(self, wire: WireClient, topic: str) -> None:
        append(wire, topic, batch_of(2))
        first = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        opened = self.ask(wire, 0, 0, [FetchTopic(topic=topic, partitions=[first])])
        moved = FetchPartition(partition=0, fetch_offset=2, partition_max_bytes=1 << 20)
        assert self.ask(wire, opened.session_id, 1, [FetchTopic(topic=topic, partitions=[moved])]).responses == []
        append(wire, topic, batch_of(1))
        news = self.ask(wire, opened.session_id, 2, [], max_wait_ms=LONG_MS)
        assert [base for base, _ in batches(news.responses[0].partitions[0])] == [2]

    def test_an_unknown_session_and_a_wrong_epoch_are_errors(self, wire: WireClient, topic: str) -> None:
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        opened = self.ask(wire, 0, 0, [FetchTopic(topic=topic, partitions=[partition])])
        assert self.ask(wire, opened.session_id, 5, []).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert self.ask(wire, 123_456_789, 1, []).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def test_a_closed_session_is_gone(self, wire: WireClient, topic: str) -> None:
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        opened = self.ask(wire, 0, 0, [FetchTopic(topic=topic, partitions=[partition])])
        closed = self.ask(wire, opened.session_id, -1, [])
        assert (closed.error_code, closed.session_id) == (ErrorCode.NONE, 0)
        assert self.ask(wire, opened.session_id, 1, []).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


class TestListOffsets:
    def ask(
        self, wire: WireClient, topic: str, timestamp: int, version: int = 7, **more: Any
    ) -> ListOffsetsPartitionResponse:
        asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp, **more)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
        return wire.call(request, ListOffsetsResponse, version).topics[0].partitions[0]

    @pytest.fixture(params=list(Codec), ids=lambda codec: codec.name.lower())
    def stamped(self, request: pytest.FixtureRequest, wire: WireClient, topic: str) -> str:
        """Two batches; inside them timestamps repeat, and the second begins before the first ends."""
        stamps = [[0, 10, 10, 20], [15, 30, 30, 25]]
        for batch in stamps:
            records = [Record(offset, NOW_MS + stamp, None, b"v") for offset, stamp in enumerate(batch)]
            append(wire, topic, build_batch(records, codec=request.param))
        return topic

    @pytest.mark.parametrize(
        ("timestamp", "expected"),
        [(0, (0, 0)), (1, (1, 10)), (10, (1, 10)), (11, (3, 20)), (16, (3, 20)), (21, (5, 30)), (30, (5, 30))],
    )
    def test_the_first_record_at_or_after_a_time_is_found_inside_its_batch(
        self, wire: WireClient, stamped: str, timestamp: int, expected: tuple[int, int]
    ) -> None:
        found = self.ask(wire, stamped, NOW_MS + timestamp)
        assert (found.offset, found.timestamp - NOW_MS) == expected

    def test_after_the_last_record_there_is_none(self, wire: WireClient, stamped: str) -> None:
        found = self.ask(wire, stamped, NOW_MS + 31)
        assert (found.error_code, found.offset, found.timestamp) == (ErrorCode.NONE, -1, -1)

    def test_the_largest_timestamp_is_the_first_record_that_has_it(self, wire: WireClient, stamped: str) -> None:
        found = self.ask(wire, stamped, LARGEST_TIMESTAMP)
        assert (found.offset, found.timestamp - NOW_MS) == (5, 30)

    @pytest.mark.parametrize("version", range(1, 11))
    def test_every_version_finds_both_ends(self, wire: WireClient, topic: str, version: int) -> None:
        append(wire, topic, batch_of(5))
        ends = [self.ask(wire, topic, end, version) for end in (EARLIEST, LATEST)]
        assert [(end.error_code, end.offset) for end in ends] == [(0, 0), (0, 5)]

    def test_a_reader_that_knows_a_later_leader_than_we_do_is_told_so(self, wire: WireClient, topic: str) -> None:
        found = self.ask(wire, topic, LATEST, current_leader_epoch=1_000)
        assert found.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_what_was_read_holds_the_records_that_were_sent(wire: WireClient, topic: str) -> None:
    sent = [Record(0, NOW_MS, b"k", b"v", (("h", b"1"),)), Record(1, NOW_MS + 1, None, None)]
    append(wire, topic, build_batch(sent, codec=Codec.ZSTD))
    read = fetch(wire, topic, 0)
    assert isinstance(read.records, memoryview)
    assert [record._replace(headers=tuple(record.headers)) for record in read_records(read.records)] == sent
