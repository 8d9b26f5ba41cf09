"""Produce on the wire: what is accepted, what is refused and with which code, and sequences of idempotent producers.

The codes are what Apache Kafka 4.1 answers to the same bytes.
"""

import struct
import time
from collections.abc import Callable
from typing import Any

import pytest

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from highwater.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from highwater.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from highwater.protocol.records.batch import patch_checksum
from highwater.protocol.records.compression import Codec
from highwater.protocol.records.record import build_batch, numbered
from highwater.testing.requests import produce_request
from highwater.testing.wire import WireClient

MAGIC_AT = 16
LAST_OFFSET_DELTA_AT = 23
RECORD_COUNT_AT = 57

Batch = Callable[[bytearray], bytes]


def batch_of(count: int = 3, **fields: Any) -> bytearray:
    return build_batch(numbered([(b"key", b"value")] * count, timestamp_ms=int(time.time() * 1000)), **fields)


def produce(
    wire: WireClient, topic: str, batch: bytes | None, version: int = 8, **more: Any
) -> PartitionProduceResponse:
    answer = wire.call(produce_request(topic, batch, **more), ProduceResponse, version)
    ((partition,),) = [topic.partition_responses for topic in answer.responses]
    return partition


def changed(position: int, form: str, value: int, *, checksum: bool = True) -> Batch:
    """A good batch with one field changed, and its checksum made good again."""

    def change(batch: bytearray) -> bytes:
        struct.pack_into(form, batch, position, value)
        if checksum:
            patch_checksum(batch)
        return bytes(batch)

    return change


@pytest.mark.parametrize("version", range(3, 13))
def test_every_version_appends_and_tells_the_base_offset(wire: WireClient, topic: str, version: int) -> None:
    offsets = [produce(wire, topic, bytes(batch_of(3)), version).base_offset for _ in range(2)]
    assert offsets == [0, 3]


def test_version_13_goes_by_topic_id(wire: WireClient, topic: str) -> None:
    metadata = wire.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), MetadataResponse, 12)
    topic_id = metadata.topics[0].topic_id
    assert produce(wire, "", bytes(batch_of()), 13, topic_id=topic_id).error_code == ErrorCode.NONE
    unknown = produce(wire, "", bytes(batch_of()), 13, topic_id=b"no such topic id")
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda batch: bytes(batch[:-1]) + b"?", ErrorCode.CORRUPT_MESSAGE),
        (changed(MAGIC_AT, ">b", 0, checksum=False), ErrorCode.INVALID_RECORD),
        (changed(MAGIC_AT, ">b", 1, checksum=False), ErrorCode.INVALID_RECORD),
        (changed(MAGIC_AT, ">b", 9, checksum=False), ErrorCode.CORRUPT_MESSAGE),
        (changed(RECORD_COUNT_AT, ">i", 4), ErrorCode.INVALID_RECORD),
        (changed(RECORD_COUNT_AT, ">i", -1), ErrorCode.INVALID_RECORD),
        (changed(LAST_OFFSET_DELTA_AT, ">i", 7), ErrorCode.INVALID_RECORD),
        (lambda batch: bytes(batch + batch), ErrorCode.INVALID_RECORD),
        (lambda batch: bytes(batch[:-5]), ErrorCode.INVALID_RECORD),
        (lambda batch: bytes(batch[:30]), ErrorCode.INVALID_RECORD),
        (lambda _: b"", ErrorCode.INVALID_RECORD),
        (lambda _: bytes(batch_of(is_control=True)), ErrorCode.INVALID_RECORD),
    ],
    ids=[
        *("crc", "magic 0", "magic 1", "magic 9", "count", "negative count", "last offset"),
        *("two batches", "cut", "half a header", "empty", "control batch"),
    ],
)
def test_a_bad_batch_is_refused_and_the_connection_goes_on(
    wire: WireClient, topic: str, spoil: Batch, code: ErrorCode
) -> None:
    assert produce(wire, topic, spoil(batch_of())).error_code == code
    good = produce(wire, topic, bytes(batch_of()))
    assert (good.error_code, good.base_offset) == (ErrorCode.NONE, 0)


def test_zstd_needs_a_client_that_knows_it(wire: WireClient, topic: str) -> None:
    """Before version 7 of Produce a consumer might not be able to read it (KIP-110)."""
    batch = bytes(batch_of(codec=Codec.ZSTD))
    assert produce(wire, topic, batch, 6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert produce(wire, topic, batch, 7).error_code == ErrorCode.NONE


def test_a_timestamp_too_far_ahead_is_refused_with_the_record_at_fault(wire: WireClient, topic: str) -> None:
    """More than an hour ahead by default: such a record would keep its segment from ever being deleted."""
    tomorrow_ms = int(time.time() * 1000) + 86_400_000
    refused = produce(wire, topic, bytes(build_batch(numbered([(b"k", b"v")], timestamp_ms=tomorrow_ms))))
    assert refused.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in refused.record_errors] == [0]


def test_acks_must_be_minus_one_zero_or_one(wire: WireClient, topic: str) -> None:
    assert produce(wire, topic, bytes(batch_of()), acks=2).error_code == ErrorCode.INVALID_REQUIRED_ACKS


@pytest.mark.parametrize("partition", [1, -1, 2**31 - 1])
def test_an_unknown_partition_is_refused(wire: WireClient, topic: str, partition: int) -> None:
    refused = produce(wire, topic, bytes(batch_of()), partition=partition)
    assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_acks_0_gets_no_answer_and_the_next_request_does(wire: WireClient, topic: str) -> None:
    wire.send(produce_request(topic, bytes(batch_of()), acks=0), 8)
    assert produce(wire, topic, bytes(batch_of())).base_offset == 3


def test_a_bad_batch_with_acks_0_ends_the_connection(wire: WireClient, topic: str) -> None:
    """There is no answer to carry the error, and the client must learn of it somehow."""
    wire.send(produce_request(topic, bytes(batch_of())[:-1] + b"?", acks=0), 8)
    wire.wait_for_close()


def test_pipelined_requests_are_answered_in_order(wire: WireClient, topic: str) -> None:
    batch = bytes(batch_of(1))
    correlation_ids = [wire.send(produce_request(topic, batch, acks=number % 2 or -1), 8) for number in range(200)]
    for number, correlation_id in enumerate(correlation_ids):
        answer = wire.receive(ProduceResponse, 8, correlation_id)
        assert answer.responses[0].partition_responses[0].base_offset == number


class TestSequences:
    """An idempotent producer's batches are numbered for each partition; the last five are remembered (E2)."""

    @pytest.fixture
    def send(self, wire: WireClient, topic: str) -> Callable[..., tuple[int, int]]:
        asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        given = wire.call(asked, InitProducerIdResponse, 4)
        assert (given.error_code, given.producer_epoch) == (ErrorCode.NONE, 0)

        def send_batch(sequence: int, *, epoch: int = 0, count: int = 3) -> tuple[int, int]:
            batch = batch_of(count, producer_id=given.producer_id, producer_epoch=epoch, base_sequence=sequence)
            answer = produce(wire, topic, bytes(batch))
            return answer.error_code, answer.base_offset

        return send_batch

    def test_a_duplicate_gets_the_first_answer_again(self, send: Callable[..., tuple[int, int]]) -> None:
        firsts = [send(sequence) for sequence in (0, 3, 6, 9, 12)]
        assert firsts == [(0, offset) for offset in (0, 3, 6, 9, 12)]
        assert [send(sequence) for sequence in (0, 3, 6, 9, 12)] == firsts
        assert send(15) == (0, 15)

    def test_a_duplicate_older_than_five_batches_is_out_of_order(self, send: Callable[..., tuple[int, int]]) -> None:
        for sequence in range(0, 18, 3):
            send(sequence)
        assert send(0) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        assert send(3) == (ErrorCode.NONE, 3)

    def test_a_gap_is_refused_and_nothing_is_appended(self, send: Callable[..., tuple[int, int]]) -> None:
        send(0)
        assert send(4) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        assert send(3) == (ErrorCode.NONE, 3)

    def test_a_batch_of_another_length_is_no_duplicate(self, send: Callable[..., tuple[int, int]]) -> None:
        send(0)
        assert send(0, count=2) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)

    def test_a_new_epoch_starts_from_0_and_fences_the_old_one(self, send: Callable[..., tuple[int, int]]) -> None:
        send(0)
        assert send(3, epoch=1) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        assert send(0, epoch=1) == (ErrorCode.NONE, 3)
        assert send(3, epoch=0) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)

    def test_sequences_wrap_around_after_the_largest(self, send: Callable[..., tuple[int, int]]) -> None:
        """A producer that the broker does not know yet may start anywhere: its records may have expired."""
        assert send(2**31 - 2) == (ErrorCode.NONE, 0)
        assert send(1) == (ErrorCode.NONE, 3)
        assert send(2**31 - 2) == (ErrorCode.NONE, 0)
