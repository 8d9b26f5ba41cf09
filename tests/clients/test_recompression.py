"""Topics that say how their batches are compressed, whatever their producers chose (A12)."""

from collections.abc import Callable

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.fetch import FetchResponse
from highwater.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from highwater.protocol.records.batch import BatchHeader, checksum, iter_batches
from highwater.protocol.records.compression import Codec
from highwater.protocol.records.record import build_batch, numbered, read_records
from highwater.testing.log_bench import a_batch
from highwater.testing.requests import fetch_request, produce_request
from highwater.testing.waiting import PATIENCE_SECONDS
from highwater.testing.wire import WireClient

Read = Callable[..., list[Message]]
NewTopic = Callable[..., str]

SOURCES = ["none", "gzip", "snappy", "lz4", "zstd"]
TARGETS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


def stored(wire: WireClient, topic: str) -> list[tuple[BatchHeader, bytes]]:
    """Every batch of a topic as it lies in the log, each with a checksum that is right."""
    found: list[tuple[BatchHeader, bytes]] = []
    offset, high_watermark = 0, 1
    while offset < high_watermark:
        answer = wire.call(fetch_request(topic, offset, max_bytes=10 << 20), FetchResponse, 11)
        partition = answer.responses[0].partitions[0]
        assert partition.error_code == ErrorCode.NONE
        high_watermark = partition.high_watermark
        view = partition.records
        assert isinstance(view, memoryview)
        for position, header in iter_batches(view):
            assert checksum(view, position, header.size) == header.crc
            found.append((header, bytes(view[position : position + header.size])))
            offset = header.next_offset
    return found


def produce(wire: WireClient, topic: str, batch: bytes | bytearray, *, acks: int = 1) -> PartitionProduceResponse:
    answer = wire.call(produce_request(topic, batch, acks=acks), ProduceResponse, 8)
    return answer.responses[0].partition_responses[0]


@pytest.mark.parametrize("target", list(TARGETS))
def test_a_topics_codec_wins_over_the_producers(
    bootstrap: str, wire: WireClient, new_topic: NewTopic, read: Read, target: str
) -> None:
    """Pipelined by idempotent producers: small batches and large ones stay in order, and none comes twice."""
    topic = new_topic(config={"compression.type": target})
    values = [f"{number} ".encode() * (1 + number % 700) for number in range(1000)]
    for source in SOURCES:
        settings = {"bootstrap.servers": bootstrap, "compression.type": source, "enable.idempotence": True}
        producer = Producer(settings | {"linger.ms": 1, "batch.num.messages": 50})
        for value in values:
            producer.produce(topic, value, key=source, headers=[("h", b"1")])
            producer.poll(0)
        assert producer.flush(PATIENCE_SECONDS) == 0
    records = read(topic, len(values) * len(SOURCES))
    for source in SOURCES:
        assert [record.value() for record in records if record.key() == source.encode()] == values
    assert {header.codec for header, _ in stored(wire, topic)} == {TARGETS[target]}


def test_everything_else_in_a_batch_stays(wire: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic(config={"compression.type": "gzip", "compression.gzip.level": "9"})
    times = [1_700_000_000_000, 1_700_000_000_007, 1_700_000_000_003]
    batch = a_batch(b"a" * 5000, b"b" * 5000, b"c", timestamps=times, codec=Codec.ZSTD, producer_id=9, sequence=0)
    assert produce(wire, topic, batch).error_code == ErrorCode.NONE
    ((header, data),) = stored(wire, topic)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 0, 0)
    assert (header.record_count, header.last_offset_delta) == (3, 2)
    assert (header.base_timestamp, header.max_timestamp) == (times[0], times[1])
    assert [(record.timestamp, record.value) for record in read_records(data)] == list(
        zip(times, [b"a" * 5000, b"b" * 5000, b"c"], strict=True)
    )


def test_a_batch_that_comes_again_is_known(wire: WireClient, new_topic: NewTopic) -> None:
    """Both on their way at once: the second is recognised though the first was not in the log when it came."""
    topic = new_topic(config={"compression.type": "zstd"})
    batch = a_batch(b"once" * 20_000, producer_id=11, sequence=0)
    sent = [wire.send(produce_request(topic, batch), 8) for _ in range(3)]
    answers = [wire.receive(ProduceResponse, 8, correlation_id) for correlation_id in sent]
    receipts = [answer.responses[0].partition_responses[0] for answer in answers]
    assert [(receipt.error_code, receipt.base_offset) for receipt in receipts] == [(ErrorCode.NONE, 0)] * 3
    assert len(stored(wire, topic)) == 1


@pytest.mark.parametrize("acks", [1, -1])
def test_small_batches_do_not_overtake_large_ones(wire: WireClient, new_topic: NewTopic, acks: int) -> None:
    topic = new_topic(config={"compression.type": "gzip"})
    batches = [
        a_batch(b"%d" % number * (200_000 if number % 3 == 0 else 10), producer_id=12, sequence=number)
        for number in range(9)
    ]
    sent = [wire.send(produce_request(topic, batch, acks=acks), 8) for batch in batches]
    for number, correlation_id in enumerate(sent):
        receipt = wire.receive(ProduceResponse, 8, correlation_id).responses[0].partition_responses[0]
        assert (receipt.error_code, receipt.base_offset) == (ErrorCode.NONE, number)
    assert [header.base_sequence for header, _ in stored(wire, topic)] == list(range(9))


def test_nobody_waits_for_acks_0_and_everything_arrives(wire: WireClient, new_topic: NewTopic) -> None:
    topic = new_topic(config={"compression.type": "lz4"})
    for number in range(5):
        wire.send(produce_request(topic, a_batch(b"%d" % number * 50_000), acks=0), 8)
    assert produce(wire, topic, a_batch(b"last")).base_offset == 5


def test_a_batch_that_grows_over_the_limit_is_refused(wire: WireClient, new_topic: NewTopic) -> None:
    """It is small as it comes and too large as it would be stored, which is what max.message.bytes is about."""
    topic = new_topic(config={"compression.type": "uncompressed", "max.message.bytes": "100000"})
    records = numbered([(None, b"x" * 200_000)], timestamp_ms=1_700_000_000_000)
    assert produce(wire, topic, build_batch(records, codec=Codec.ZSTD)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert produce(wire, topic, a_batch(b"good", codec=Codec.ZSTD)).error_code == ErrorCode.NONE
    assert len(stored(wire, topic)) == 1


def test_the_setting_takes_effect_at_run_time(
    bootstrap: str, admin: AdminClient, wire: WireClient, new_topic: NewTopic
) -> None:
    topic = new_topic()
    for value in ("producer", "zstd", "snappy"):
        entry = ConfigEntry("compression.type", value, incremental_operation=AlterConfigOpType.SET)
        change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        for future in admin.incremental_alter_configs([change]).values():
            future.result(PATIENCE_SECONDS)
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "lz4"})
        producer.produce(topic, b"x" * 1000)
        assert producer.flush(PATIENCE_SECONDS) == 0
    assert [header.codec for header, _ in stored(wire, topic)] == [Codec.LZ4, Codec.ZSTD, Codec.SNAPPY]


def test_levels_are_followed(wire: WireClient, new_topic: NewTopic) -> None:
    data = b"".join(b"%d " % (number * number % 9973) for number in range(30_000))
    for codec, low, high in (("gzip", 1, 9), ("zstd", -7, 19), ("lz4", 1, 12)):
        sizes = []
        for level in (low, high):
            topic = new_topic(config={"compression.type": codec, f"compression.{codec}.level": str(level)})
            assert produce(wire, topic, a_batch(data)).error_code == ErrorCode.NONE
            sizes.append(stored(wire, topic)[0][0].size)
        assert sizes[1] < sizes[0], codec


def test_a_batch_that_cannot_be_decompressed_is_the_producers_mistake(wire: WireClient, new_topic: NewTopic) -> None:
    """Apache Kafka answers UNKNOWN_SERVER_ERROR, which says nothing."""
    topic = new_topic(config={"compression.type": "gzip"})
    lying = build_batch(numbered([(None, b"not zstd at all")], timestamp_ms=1))
    lying[22] |= Codec.ZSTD
    lying[17:21] = checksum(memoryview(lying), 0, len(lying)).to_bytes(4, "big")
    receipt = produce(wire, topic, lying)
    assert receipt.error_code == ErrorCode.INVALID_RECORD
    assert receipt.error_message is not None
    assert "cannot be decompressed" in receipt.error_message
    assert produce(wire, topic, a_batch(b"good")).base_offset == 0
