"""The bytes of the raw generator, made once: requests, and where in their answers the error code lies."""

import struct
import time
from dataclasses import dataclass
from typing import Final

from highwater.protocol import codec
from highwater.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from highwater.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from highwater.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from highwater.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from highwater.protocol.records.record import build_batch, numbered
from highwater.protocol.schema import Message
from highwater.testing.requests import fetch_request, produce_request
from highwater.testing.wire import frame

PRODUCE_VERSION: Final = 11
FETCH_VERSION: Final = 11
LIST_OFFSETS_VERSION: Final = 7
OFFSET_COMMIT_VERSION: Final = 9
LENGTH_BYTES: Final = 4
BATCH_HEADER_BYTES: Final = 61
ERROR: Final = -1


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request, and how its answer looks when all is well."""

    request: bytes
    answer_bytes: int  # with its length; of a fetch: up to the records
    error_at: int  # the position of the two bytes that must be zero


def batch_of(size_bytes: int) -> bytes:
    """Return a batch of one record that is `size_bytes` long, stamped now: old records fall to retention."""
    overhead = len(build_batch(numbered([(None, b"x" * size_bytes)], timestamp_ms=0))) - size_bytes
    value = bytes(index * 37 % 251 for index in range(size_bytes - overhead))
    batch = build_batch(numbered([(None, value)], timestamp_ms=int(time.time() * 1000)))
    assert abs(len(batch) - size_bytes) < BATCH_HEADER_BYTES
    return bytes(batch)


def produce_exchange(topic: str, partition: int, batch: bytes, acks: int) -> Exchange:
    """Return a Produce of one batch to one partition, and its answer."""
    request = produce_request(topic, batch, partition=partition, acks=acks)

    def answer(error_code: int) -> bytes:
        told = PartitionProduceResponse(index=partition, error_code=error_code, log_start_offset=0)
        topics = [TopicProduceResponse(name=topic, partition_responses=[told])]
        return _answer(ProduceResponse(responses=topics), PRODUCE_VERSION)

    return Exchange(frame(request, PRODUCE_VERSION), len(answer(0)), _first_difference(answer(0), answer(ERROR)))


def fetch_exchange(topic: str, partition: int, offset: int, max_bytes: int) -> Exchange:
    """Return a Fetch from one partition outside any session, and the part of its answer before the records."""
    request = fetch_request(topic, offset, partition=partition, max_bytes=max_bytes)

    def answer(error_code: int) -> bytes:
        told = PartitionData(partition_index=partition, error_code=error_code, aborted_transactions=None, records=b"")
        topics = [FetchableTopicResponse(topic=topic, partitions=[told])]
        return _answer(FetchResponse(responses=topics), FETCH_VERSION)

    return Exchange(frame(request, FETCH_VERSION), len(answer(0)), _first_difference(answer(0), answer(ERROR)))


def offset_by_time_exchange(topic: str, partition: int, timestamp: int) -> Exchange:
    """Return a ListOffsets for one timestamp, and its answer."""
    asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])

    def answer(error_code: int) -> bytes:
        told = ListOffsetsPartitionResponse(partition_index=partition, error_code=error_code)
        topics = [ListOffsetsTopicResponse(name=topic, partitions=[told])]
        return _answer(ListOffsetsResponse(topics=topics), LIST_OFFSETS_VERSION)

    return Exchange(frame(request, LIST_OFFSETS_VERSION), len(answer(0)), _first_difference(answer(0), answer(ERROR)))


def commit_exchange(topic: str, group: str) -> Exchange:
    """Return an OffsetCommit of one partition by a group without members, and its answer."""
    asked = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    request = OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[asked])])

    def answer(error_code: int) -> bytes:
        told = OffsetCommitResponsePartition(partition_index=0, error_code=error_code)
        topics = [OffsetCommitResponseTopic(name=topic, partitions=[told])]
        return _answer(OffsetCommitResponse(topics=topics), OFFSET_COMMIT_VERSION)

    return Exchange(frame(request, OFFSET_COMMIT_VERSION), len(answer(0)), _first_difference(answer(0), answer(ERROR)))


def _answer(response: Message, version: int) -> bytes:
    assert response.API_KEY is not None
    body = codec.response_header(response.API_KEY, version, correlation_id=0) + codec.encode(response, version)
    return struct.pack(">i", len(body)) + body


def _first_difference(one: bytes, other: bytes) -> int:
    return next(position for position, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1])
