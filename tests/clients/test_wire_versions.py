"""Which APIs and versions are offered, and what happens to a client that asks for others."""

import struct

import pytest

from highwater.model.errors import ErrorCode
from highwater.protocol.codec import RequestHeader, decode, request_header
from highwater.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from highwater.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from highwater.testing.wire import WireClient, frame, with_length

API_VERSIONS = 18
SERVED_BY_KAFKA_4_1 = {
    0: (0, 13),  # served from 3 on, but advertised from 0 (KAFKA-18659)
    1: (4, 18),
    2: (1, 10),
    3: (0, 13),
    18: (0, 4),
    19: (2, 7),
    20: (1, 6),
    21: (0, 2),
    23: (2, 4),
    32: (1, 4),
    33: (0, 2),
    35: (1, 4),
    37: (0, 3),
    44: (0, 1),
    60: (0, 2),
    61: (0, 0),
    75: (0, 0),
}
"""The APIs of a single broker and the versions of each; InitProducerId is left out, as we do not serve its newest."""


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_api_versions_offers_the_ranges_of_kafka_4_1(wire: WireClient, version: int) -> None:
    asked = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
    answer = wire.call(asked, ApiVersionsResponse, version)
    offered = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    assert {key: offered.get(key) for key in SERVED_BY_KAFKA_4_1} == SERVED_BY_KAFKA_4_1


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(wire: WireClient, version: int) -> None:
    """The client reads in it which versions there are, and asks again on the same connection (KIP-511)."""
    wire.send_bytes(with_length(struct.pack(">hhih", API_VERSIONS, version, 7, -1) + b"\x00\x01\x02"))
    answer = wire.receive_frame()
    assert answer[:4] == struct.pack(">i", 7)
    body = decode(ApiVersionsResponse, 0, answer[4:])
    assert body.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert (API_VERSIONS, 0, 4) in {(api.api_key, api.min_version, api.max_version) for api in body.api_keys}
    assert wire.call(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("api_key", "version"),
    [(0, 0), (0, 2), (0, 14), (1, 3), (1, 99), (3, -1), (200, 0), (-1, 0), (32767, 32767)],
)
def test_what_is_not_served_ends_the_connection(wire: WireClient, api_key: int, version: int) -> None:
    """There is no answer that such a client could be known to read."""
    wire.send_bytes(with_length(struct.pack(">hhih", api_key, version, 1, -1) + bytes(20)))
    wire.wait_for_close()


@pytest.mark.parametrize("software", ["", "name with spaces", "ünïcode"])
def test_a_client_with_an_odd_software_name_is_refused_in_words(wire: WireClient, software: str) -> None:
    """Version 3 and later name the client's software, in a form that can be a metric's label (KIP-511)."""
    odd = ApiVersionsRequest(client_software_name=software, client_software_version="1.0")
    assert wire.call(odd, ApiVersionsResponse, 3).error_code == ErrorCode.INVALID_REQUEST
    plain = ApiVersionsRequest(client_software_name="a-plain.name", client_software_version="1.0")
    assert wire.call(plain, ApiVersionsResponse, 3).error_code == ErrorCode.NONE


def test_unknown_tagged_fields_are_skipped(wire: WireClient) -> None:
    """Newer clients may say more than we know (KIP-482): in the header, and at the end of the request."""
    header = RequestHeader(api_key=3, api_version=9, correlation_id=5, client_id="newer")
    head = request_header(header)
    assert head[-1:] == b"\x00"
    two_tagged_fields = b"\x02" + b"\x07\x03abc" + b"\x88\x27\x01x"
    no_topics_and_three_flags = b"\x01\x00\x00\x00"
    wire.send_bytes(with_length(head[:-1] + two_tagged_fields + no_topics_and_three_flags + two_tagged_fields))
    answer = memoryview(wire.receive_frame())
    assert bytes(answer[:5]) == struct.pack(">ix", 5)
    assert decode(MetadataResponse, 9, answer[5:]).topics == []


def test_a_client_without_a_name_is_served(wire: WireClient) -> None:
    wire.send_bytes(frame(MetadataRequest(topics=[]), 12, correlation_id=9, client_id=None))
    assert wire.receive(MetadataResponse, 12, 9).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", range(14))
def test_every_version_of_metadata_names_the_topic_and_its_leader(wire: WireClient, topic: str, version: int) -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    answer = wire.call(asked, MetadataResponse, version)
    (found,) = answer.topics
    assert (found.name, found.error_code) == (topic, ErrorCode.NONE)
    assert found.partitions[0].leader_id in {broker.node_id for broker in answer.brokers}


def test_metadata_of_all_topics_is_asked_by_an_empty_list_once_and_by_null_later(wire: WireClient, topic: str) -> None:
    def names(answer: MetadataResponse) -> set[str | None]:
        return {found.name for found in answer.topics}

    assert topic in names(wire.call(MetadataRequest(topics=[]), MetadataResponse, 0))
    assert topic in names(wire.call(MetadataRequest(topics=None), MetadataResponse, 1))
    assert names(wire.call(MetadataRequest(topics=[]), MetadataResponse, 1)) == set()


def test_metadata_by_id_finds_the_name(wire: WireClient, topic: str) -> None:
    by_name = wire.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), MetadataResponse, 12)
    topic_id = by_name.topics[0].topic_id
    by_id = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic_id)])
    assert wire.call(by_id, MetadataResponse, 12).topics[0].name == topic
    unknown = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=b"no such topic id")])
    assert wire.call(unknown, MetadataResponse, 12).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_metadata_creates_an_unknown_topic_only_when_the_client_allows_it(wire: WireClient, topic_name: str) -> None:
    wanted = [MetadataRequestTopic(name=topic_name)]
    refused = wire.call(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), MetadataResponse, 4)
    assert refused.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    allowed = MetadataRequest(topics=wanted, allow_auto_topic_creation=True)
    transient = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE}
    while (found := wire.call(allowed, MetadataResponse, 4).topics[0]).error_code in transient:
        pass
    assert (found.error_code, len(found.partitions)) == (ErrorCode.NONE, 1)


def test_metadata_of_an_impossible_name_is_an_error_and_creates_nothing(wire: WireClient) -> None:
    answer = wire.call(MetadataRequest(topics=[MetadataRequestTopic(name="no/such name")]), MetadataResponse, 9)
    assert answer.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
