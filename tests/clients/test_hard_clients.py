"""Clients that are slow, greedy, many or malicious cost their own connections only; memory stays bounded."""

import contextlib
import socket
import struct
from collections.abc import Iterator
from typing import Final

import pytest

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.api_versions import ApiVersionsRequest
from highwater.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from highwater.protocol.messages.create_topics import CreatableTopicConfig as TopicConfig
from highwater.protocol.messages.fetch import FetchResponse
from highwater.protocol.messages.produce import ProduceResponse
from highwater.protocol.records.batch import read_header
from highwater.protocol.records.compression import Codec, compress
from highwater.protocol.records.record import assemble, build_batch, numbered
from highwater.testing.broker import BrokerProcess
from highwater.testing.plugin import BrokerFactory
from highwater.testing.process import open_files, peak_resident_bytes, resident_bytes
from highwater.testing.requests import fetch_request, produce_request
from highwater.testing.waiting import wait_until
from highwater.testing.wire import ConnectionClosed, WireClient, frame

MEBIBYTE: Final = 1 << 20
TOPIC: Final = "hard"
LONG_MS: Final = 600_000


@pytest.fixture
def broker(start_broker: BrokerFactory) -> Iterator[BrokerProcess]:
    """A broker that must hold a topic, and serve a newcomer when the test is over."""
    running = start_broker()
    create_topic(running, TOPIC)
    yield running
    assert running.is_running
    with WireClient(running.bootstrap_servers) as newcomer:
        assert append(newcomer, batch_of(10)) == ErrorCode.NONE
        answer = newcomer.call(fetch_request(TOPIC, 0), FetchResponse, 11)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE


def create_topic(broker: BrokerProcess, name: str, **config: str) -> None:
    settings = [TopicConfig(name=key.replace("_", "."), value=value) for key, value in config.items()]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=settings)
    with WireClient(broker.bootstrap_servers) as client:
        answer = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), CreateTopicsResponse, 5)
    assert answer.topics[0].error_code == ErrorCode.NONE


def batch_of(size: int) -> bytes:
    return bytes(build_batch(numbered([(b"key", b"x" * size)], timestamp_ms=-1)))


def append(client: WireClient, batch: bytes, topic: str = TOPIC) -> int:
    answer = client.call(produce_request(topic, batch), ProduceResponse, 8)
    return answer.responses[0].partition_responses[0].error_code


@contextlib.contextmanager
def memory_grows_by_at_most(broker: BrokerProcess, limit_bytes: int) -> Iterator[None]:
    """The most that the broker ever holds within the block, over what it held before."""
    before = resident_bytes(broker.pid)
    yield
    grown = peak_resident_bytes(broker.pid) - before
    assert grown <= limit_bytes, f"grew by {grown / MEBIBYTE:.0f} MiB"


def test_ten_thousand_connections_opened_and_dropped_leave_nothing_behind(broker: BrokerProcess) -> None:
    """A hundred at a time: silent ones, half a request, a whole one without waiting for its answer, and resets."""
    request = frame(ApiVersionsRequest(), 0)
    openings = [b"", request[:2], request[:10], request, request * 3]
    before = open_files(broker.pid)
    with memory_grows_by_at_most(broker, 32 * MEBIBYTE):
        for _ in range(100):
            with contextlib.ExitStack() as crowd:
                for number in range(100):
                    client = crowd.enter_context(WireClient(broker.bootstrap_servers))
                    client.send_bytes(openings[number % len(openings)])
                    if number % 3 == 0:  # a reset in the place of a farewell
                        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wait_until(lambda: open_files(broker.pid) <= before, "the end of all connections")


def test_readers_that_never_read_are_not_buffered_for(broker: BrokerProcess) -> None:
    """Thirty of them ask for a gigabyte and a half in all."""
    with WireClient(broker.bootstrap_servers) as client:
        for _ in range(4):
            assert append(client, batch_of(MEBIBYTE - 1000)) == ErrorCode.NONE
        with contextlib.ExitStack() as crowd, memory_grows_by_at_most(broker, 64 * MEBIBYTE):
            asked = frame(fetch_request(TOPIC, 0, max_bytes=MEBIBYTE), 11)
            for _ in range(30):
                stuck = crowd.enter_context(WireClient(broker.bootstrap_servers))
                stuck.send_bytes(asked * 50)
            for offset in range(4):  # someone who does read is served all the while
                answer = client.call(fetch_request(TOPIC, offset, max_bytes=MEBIBYTE), FetchResponse, 11)
                assert len(answer.responses[0].partitions[0].records or b"") >= MEBIBYTE - 1000


def test_small_answers_that_nobody_reads_are_not_piled_up(broker: BrokerProcess) -> None:
    """The requests that would cause more of them are not read either: the sender is the one who has to wait."""
    with WireClient(broker.bootstrap_servers) as stuck, memory_grows_by_at_most(broker, 32 * MEBIBYTE):
        stuck.socket.settimeout(1.0)
        with pytest.raises(TimeoutError):
            stuck.send_bytes(frame(ApiVersionsRequest(), 0) * 2_000_000)


def test_long_polls_piled_up_by_one_client_are_bounded(broker: BrokerProcess) -> None:
    with WireClient(broker.bootstrap_servers) as patient, memory_grows_by_at_most(broker, 32 * MEBIBYTE):
        patient.socket.settimeout(1.0)
        with contextlib.suppress(TimeoutError):
            patient.send_bytes(frame(fetch_request(TOPIC, 0, max_wait_ms=LONG_MS), 11) * 50_000)


def test_a_frame_that_is_only_announced_costs_nothing(broker: BrokerProcess) -> None:
    """Two hundred clients announce 20 GB and send a few bytes of it."""
    with contextlib.ExitStack() as crowd, memory_grows_by_at_most(broker, 32 * MEBIBYTE):
        for _ in range(200):
            client = crowd.enter_context(WireClient(broker.bootstrap_servers))
            client.send_bytes(struct.pack(">i", 100 * MEBIBYTE) + bytes(1_000))
        with WireClient(broker.bootstrap_servers) as other:
            assert append(other, batch_of(10)) == ErrorCode.NONE


def test_memory_for_a_large_request_is_given_back(broker: BrokerProcess) -> None:
    before = resident_bytes(broker.pid)
    with WireClient(broker.bootstrap_servers) as client:
        assert append(client, batch_of(50 * MEBIBYTE)) == ErrorCode.MESSAGE_TOO_LARGE
        assert append(client, batch_of(10)) == ErrorCode.NONE
    wait_until(lambda: resident_bytes(broker.pid) - before < 16 * MEBIBYTE, "the return of the memory")


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD], ids=lambda codec: codec.name.lower())
def test_a_batch_that_unpacks_to_half_a_gigabyte_is_refused(broker: BrokerProcess, codec: Codec) -> None:
    """A compacted topic's batches must be looked into: each record needs a key."""
    create_topic(broker, "compacted", cleanup_policy="compact")
    header = read_header(batch_of(10))._replace(attributes=int(codec))
    bomb = assemble(header, compress(codec, bytes(512 * MEBIBYTE)))
    with WireClient(broker.bootstrap_servers) as client, memory_grows_by_at_most(broker, 256 * MEBIBYTE):
        assert append(client, bytes(bomb), "compacted") in {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD}


def test_a_request_of_countless_elements_does_not_hold_the_broker(broker: BrokerProcess) -> None:
    """A frame of 1 MB can name 350,000 empty topics; it is not worth reading."""
    empty_topics = struct.pack(">hhihi", 3, 1, 1, -1, 350_000) + struct.pack(">h", 0) * 350_000
    with WireClient(broker.bootstrap_servers) as client:
        client.send_bytes(struct.pack(">i", len(empty_topics)) + empty_topics)
        client.wait_for_close()


def test_an_idle_connection_is_closed_in_the_end(start_broker: BrokerFactory) -> None:
    broker = start_broker({"connections.max.idle.ms": 200})
    with WireClient(broker.bootstrap_servers) as client:
        client.wait_for_close()


def test_connections_over_the_limit_are_closed_and_the_others_stay(start_broker: BrokerFactory) -> None:
    broker = start_broker({"max.connections": 5})
    with contextlib.ExitStack() as crowd:
        first = [crowd.enter_context(WireClient(broker.bootstrap_servers)) for _ in range(5)]
        for client in first:
            client.send(ApiVersionsRequest(), 0)
            client.receive_frame()
        over = crowd.enter_context(WireClient(broker.bootstrap_servers))
        over.wait_for_close()
        first.pop().close()

        def is_let_in() -> bool:
            newcomer = crowd.enter_context(WireClient(broker.bootstrap_servers))
            try:
                newcomer.send(ApiVersionsRequest(), 0)
                newcomer.receive_frame()
            except ConnectionClosed:
                return False
            return True

        wait_until(is_let_in, "a place for a newcomer")
