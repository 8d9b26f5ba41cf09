"""Bytes that are no request end their own connection, and nobody else notices."""

import struct
from collections.abc import Iterator

import pytest

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from highwater.protocol.messages.fetch import FetchResponse
from highwater.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from highwater.protocol.records.record import build_batch, numbered
from highwater.testing.requests import fetch_request, produce_request
from highwater.testing.wire import WireClient, frame, with_length

SOCKET_REQUEST_MAX_BYTES = 100 * 1024 * 1024
PRODUCE, FETCH, METADATA, CREATE_TOPICS = 0, 1, 3, 19
MANY = struct.pack(">i", 0x7FFFFFFF)
MANY_COMPACT = b"\xff\xff\xff\xff\x07"


@pytest.fixture(autouse=True)
def _others_are_still_served(bootstrap: str) -> Iterator[None]:
    """Whatever a test sent, a client that was there before and one that comes later are both answered."""
    with WireClient(bootstrap) as before:
        yield
        assert is_served(before)
    with WireClient(bootstrap) as later:
        assert is_served(later)


def is_served(client: WireClient) -> bool:
    return client.call(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
        b"\xff" * 64,
        bytes(64),
        bytes(range(256)) * 16,
    ],
    ids=["http", "tls", "ones", "zeros", "counting"],
)
def test_garbage_ends_the_connection(wire: WireClient, garbage: bytes) -> None:
    wire.send_bytes(garbage + bytes(1 << 16))
    wire.wait_for_close()


@pytest.mark.parametrize("size", [-(2**31), -1, 0, 1, 7, SOCKET_REQUEST_MAX_BYTES + 1, 2**31 - 1])
def test_a_frame_of_impossible_size_ends_the_connection(wire: WireClient, size: int) -> None:
    wire.send_bytes(struct.pack(">i", size) + bytes(8))
    wire.wait_for_close()


def test_a_frame_cut_off_anywhere_by_its_sender_is_forgotten(bootstrap: str, topic: str) -> None:
    whole = frame(produce_request(topic, b"never to be whole"), 9)
    for size in range(len(whole)):
        with WireClient(bootstrap) as client:
            client.send_bytes(whole[:size])


@pytest.mark.parametrize("version", [1, 8, 9, 12])
def test_a_request_shorter_than_its_fields_ends_the_connection(bootstrap: str, version: int) -> None:
    """Cut at every byte; only the length says that it is whole."""
    whole = frame(MetadataRequest(topics=[MetadataRequestTopic(name="topic")]), version)[4:]
    for size in range(8, len(whole)):
        with WireClient(bootstrap) as client:
            client.send_bytes(with_length(whole[:size]))
            client.wait_for_close()


@pytest.mark.parametrize(
    ("api_key", "version", "body"),
    [
        (METADATA, 1, MANY),
        (METADATA, 12, b"\x00" + MANY_COMPACT),
        (METADATA, 1, struct.pack(">ih", 1, 0x7FFF)),
        (METADATA, 9, b"\x00\x02" + MANY_COMPACT),
        (PRODUCE, 3, struct.pack(">hhi", -1, 1, 1000) + MANY),
        (PRODUCE, 3, struct.pack(">hhiih1siii", -1, 1, 1000, 1, 1, b"t", 1, 0, 0x7FFFFFFF)),
        (PRODUCE, 9, b"\x00\x00" + struct.pack(">hi", 1, 1000) + MANY_COMPACT),
        (FETCH, 4, struct.pack(">iiiib", -1, 0, 0, 100, 0) + MANY),
        (FETCH, 12, b"\x00" + struct.pack(">iiiibii", -1, 0, 0, 100, 0, 0, 0) + MANY_COMPACT),
        (CREATE_TOPICS, 2, MANY),
        (CREATE_TOPICS, 5, b"\x00" + MANY_COMPACT),
        (METADATA, 9, b"\x00\x01\x00\x00\x00" + MANY_COMPACT),
        (METADATA, 9, b"\x00\x01\x00\x00\x00\x01\x00" + MANY_COMPACT),
        (METADATA, 9, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
    ],
    ids=[
        *(
            "topics",
            "compact topics",
            "string",
            "compact string",
            "produce topics",
            "records",
            "compact produce topics",
        ),
        *("fetch topics", "compact fetch topics", "new topics", "compact new topics"),
        *("tagged fields", "tagged field size", "endless varint"),
    ],
)
def test_a_hostile_count_costs_nothing_and_ends_the_connection(
    wire: WireClient, api_key: int, version: int, body: bytes
) -> None:
    """Every length is compared with what is left of the frame before anything is allocated for it."""
    header = struct.pack(">hhihc", api_key, version, 1, 1, b"x")
    wire.send_bytes(with_length(header + body))
    wire.wait_for_close()


def test_a_good_request_before_a_bad_one_is_answered(wire: WireClient) -> None:
    """Sent in one piece: the answer leaves before the connection does."""
    good = frame(ApiVersionsRequest(), 0, correlation_id=1)
    wire.send_bytes(good + with_length(b"\x7f\xff\x00\x00" + bytes(8)))
    assert wire.receive(ApiVersionsResponse, 0, 1).error_code == ErrorCode.NONE
    wire.wait_for_close()


def test_a_client_that_sends_byte_by_byte_is_answered_and_holds_up_nobody(wire: WireClient, bootstrap: str) -> None:
    whole = frame(ApiVersionsRequest(), 0, correlation_id=3)
    with WireClient(bootstrap) as other:
        for position in range(len(whole)):
            wire.send_bytes(whole[position : position + 1])
            assert is_served(other)
    assert wire.receive(ApiVersionsResponse, 0, 3).error_code == ErrorCode.NONE


def test_an_append_is_not_lost_to_a_client_that_leaves_before_the_answer(
    wire: WireClient, bootstrap: str, topic: str
) -> None:
    batch = build_batch(numbered([(None, b"last words")], timestamp_ms=-1))
    with WireClient(bootstrap) as leaver:
        leaver.send(produce_request(topic, batch), 8)
    read = wire.call(fetch_request(topic, 0, max_wait_ms=30_000), FetchResponse, 11)
    assert len(read.responses[0].partitions[0].records or b"") == len(batch)
