"""How long the hot messages take to read and write, beside `kio` on the same bytes in the same run.

python benchmarks/codec.py
"""

import gc
import io
import time
from collections.abc import Callable

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from highwater.protocol import codec
from highwater.protocol.decoding import compile_decoder
from highwater.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from highwater.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from highwater.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from highwater.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from highwater.protocol.schema import Message, Part

ROUNDS = 15
ROUND_SECONDS = 0.02
TOPIC_ID = bytes(range(16))


class Region:
    """Stands for a range of a segment file."""

    def __len__(self) -> int:
        return 16_384


def produce_request() -> ProduceRequest:
    """Return a request with one batch of 16 KB."""
    partition = PartitionProduceData(index=3, records=memoryview(bytes(16_384)))
    return ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name="orders", partition_data=[partition])]
    )


def produce_response() -> ProduceResponse:
    """Return its answer."""
    partition = PartitionProduceResponse(index=3, base_offset=12_345, log_start_offset=0)
    return ProduceResponse(responses=[TopicProduceResponse(name="orders", partition_responses=[partition])])


def fetch_request() -> FetchRequest:
    """Return a request for 100 partitions."""
    partitions = [
        FetchPartition(partition=index, fetch_offset=index * 1000, partition_max_bytes=1 << 20) for index in range(100)
    ]
    topic = FetchTopic(topic="orders", topic_id=TOPIC_ID, partitions=partitions)
    return FetchRequest(max_wait_ms=500, min_bytes=1, topics=[topic])


def fetch_response(records: Part) -> FetchResponse:
    """Return its answer, with the same records for each partition."""
    partitions = [
        PartitionData(partition_index=index, high_watermark=99, last_stable_offset=99, records=records)
        for index in range(100)
    ]
    return FetchResponse(responses=[FetchableTopicResponse(topic="orders", topic_id=TOPIC_ID, partitions=partitions)])


def list_offsets_request() -> ListOffsetsRequest:
    """Return a request for 10 partitions."""
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(10)]
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name="orders", partitions=partitions)])


def metadata_response() -> MetadataResponse:
    """Return a topic of 100 partitions."""
    brokers = [MetadataResponseBroker(node_id=index, host="broker.example", port=9092) for index in range(3)]
    partitions = [
        MetadataResponsePartition(
            partition_index=index, leader_id=0, leader_epoch=1, replica_nodes=[0, 1, 2], isr_nodes=[0, 1, 2]
        )
        for index in range(100)
    ]
    topic = MetadataResponseTopic(name="orders", topic_id=TOPIC_ID, partitions=partitions)
    return MetadataResponse(brokers=brokers, cluster_id="cluster", controller_id=0, topics=[topic])


def microseconds(call: Callable[[], object]) -> float:
    """Return the time of one call in the least disturbed of several rounds."""
    call()
    started = time.perf_counter()
    for _ in range(20):
        call()
    calls = max(1, int(ROUND_SECONDS * 20 / (time.perf_counter() - started)))
    rounds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in range(calls):
            call()
        rounds.append((time.perf_counter() - started) / calls)
    return min(rounds) * 1e6


def time_decoding(name: str, message: Message, version: int) -> None:
    """Time the decoder beside kio's."""
    cls = type(message)
    encoded = codec.encode(message, version)
    view = memoryview(encoded)
    decode = codec.decoder(cls, version)
    load = load_response_schema if cls.IS_RESPONSE else load_request_schema
    read = entity_reader(load(cls.API_KEY or 0, version))
    report(f"read {name} v{version}", microseconds(lambda: decode(view, 0)), microseconds(lambda: read(encoded, 0)))


def time_encoding(name: str, message: Message, version: int, same_with_bytes: Message | None = None) -> None:
    """Time the encoder beside kio's, which needs the records themselves."""
    cls = type(message)
    encode = codec.encoder(cls, version)
    load = load_response_schema if cls.IS_RESPONSE else load_request_schema
    schema = load(cls.API_KEY or 0, version)
    entity, _ = entity_reader(schema)(codec.encode(same_with_bytes or message, version), 0)
    write = entity_writer(schema)
    report(
        f"write {name} v{version}",
        microseconds(lambda: encode(message, [])),
        microseconds(lambda: write(io.BytesIO(), entity)),
    )


def report(what: str, ours: float, theirs: float | None = None) -> None:
    """Print one line."""
    kio = "" if theirs is None else f"   kio {theirs:8.1f} us"
    print(f"{what:<42} {ours:8.1f} us{kio}")


def main() -> None:
    """Time all of them."""
    gc.disable()  # as a broker does, nearly
    for version in (8, 9, 13):
        time_decoding("Produce", produce_request(), version)
    time_encoding("Produce response", produce_response(), 9)
    for version in (11, 12, 17):
        time_decoding("Fetch of 100 partitions", fetch_request(), version)
    for version in (11, 12, 17):
        time_encoding("its response", fetch_response(Region()), version, fetch_response(bytes(16_384)))
    time_decoding("ListOffsets of 10 partitions", list_offsets_request(), 7)
    time_encoding("Metadata response of 100 partitions", metadata_response(), 12)
    header = memoryview(codec.request_header(codec.RequestHeader(0, 9, 1, "producer-1")))
    report("read a request header", microseconds(lambda: codec.read_request_header(header, 0)))
    report("compile the decoder of Fetch v17", microseconds(lambda: compile_decoder(FetchRequest, 17)))


if __name__ == "__main__":
    main()
