"""Dead letters: reading them, and sending chosen ones back to where they came from."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaException, Message, Producer, TopicPartition

from highwater_spark.definition.model import Kafka
from highwater_spark.errors import BrokerAway, ClusterError
from highwater_spark.flow.headers import Header
from highwater_spark.kafka.clients import librdkafka_settings

ANSWER_SECONDS: Final = 15.0
REPLAYS: Final = "__highwater.replays"  # how often a record was sent back


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A record that could not be used, and why."""

    partition: int  # of the dead-letter topic
    offset: int
    dead_since_ms: int
    topic: str | None  # where the record came from; rows refused by routing have none
    source_partition: int
    source_offset: int
    timestamp_ms: int
    stage: str
    error: str
    replays: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]  # the record's own


def read_dead_letters(kafka: Kafka, topic: str) -> Iterator[DeadLetter]:
    """Return all dead letters that are there now, partition by partition in their order."""
    settings = librdkafka_settings(kafka) | {"group.id": "highwater-dead-letters", "enable.auto.commit": False}
    consumer = Consumer(settings | {"enable.partition.eof": True})
    try:
        yield from (_letter(message) for message in _messages(consumer, kafka, topic))
    finally:
        consumer.close()


def _messages(consumer: Consumer, kafka: Kafka, topic: str) -> Iterator[Message]:
    try:
        found = consumer.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic]
    except KafkaException as error:
        raise BrokerAway(f"no broker answers at {kafka.bootstrap}: {error.args[0].str()}") from error
    if found.error is not None:
        raise ClusterError(f"no dead-letter topic {topic!r} on {kafka.bootstrap}; has the pipeline run?")
    left = set(found.partitions)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
    while left:
        message = consumer.poll(ANSWER_SECONDS)
        if message is None:
            raise BrokerAway(f"{kafka.bootstrap} sends nothing more of {topic!r}")
        problem = message.error()
        if problem is None:
            yield message
        elif problem.name() == "_PARTITION_EOF":
            left.discard(message.partition() or 0)
        else:
            raise ClusterError(f"{topic}: {problem.str()}")


def _letter(message: Message) -> DeadLetter:
    headers = [(str(header[0]), _bytes(header[1])) for header in message.headers() or ()]
    told = {name: value.decode(errors="replace") for name, value in headers}
    kind, timestamp_ms = message.timestamp()
    return DeadLetter(
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        dead_since_ms=timestamp_ms if kind != TIMESTAMP_NOT_AVAILABLE else 0,
        topic=told.get(Header.TOPIC),
        source_partition=int(told.get(Header.PARTITION, -1)),
        source_offset=int(told.get(Header.OFFSET, -1)),
        timestamp_ms=int(told.get(Header.TIMESTAMP, 0)),
        stage=told.get(Header.STAGE, ""),
        error=told.get(Header.ERROR, ""),
        replays=int(told.get(REPLAYS, 0)),
        key=message.key(),
        value=message.value(),
        headers=tuple((n, v) for n, v in headers if not n.startswith(Header.PREFIX) and n != REPLAYS),
    )


def _bytes(value: str | bytes | None) -> bytes:
    return value.encode() if isinstance(value, str) else value or b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which dead letters are meant; what is not given does not matter."""

    stage: str | None = None
    error: str | None = None
    topic: str | None = None
    since_ms: int | None = None
    places: frozenset[tuple[int, int]] = frozenset()

    def __call__(self, letter: DeadLetter) -> bool:
        """Return whether a dead letter is meant."""
        return (
            (self.stage is None or letter.stage == self.stage)
            and (self.error is None or self.error.lower() in letter.error.lower())
            and (self.topic is None or letter.topic == self.topic)
            and (self.since_ms is None or letter.dead_since_ms >= self.since_ms)
            and (not self.places or (letter.partition, letter.offset) in self.places)
        )


def send_back(kafka: Kafka, letters: Iterable[DeadLetter]) -> int:
    """Send records back to their topic and partition, as they came; return how many are acknowledged.

    Rows that were refused by routing are left out: they are results, not records of a source.
    """
    producer = Producer(librdkafka_settings(kafka) | {"acks": "all", "enable.idempotence": True})
    failures: list[str] = []
    sent = 0
    for letter in letters:
        if letter.topic is None:
            continue
        producer.produce(
            letter.topic,
            letter.value,
            letter.key,
            partition=letter.source_partition,
            timestamp=letter.timestamp_ms,
            headers=[*letter.headers, (REPLAYS, str(letter.replays + 1).encode())],
            on_delivery=lambda error, _: failures.append(error.str()) if error else None,
        )
        producer.poll(0)
        sent += 1
    deadline = time.monotonic() + ANSWER_SECONDS
    while producer.flush(1.0) and time.monotonic() < deadline:
        pass
    lost = len(producer) + len(failures)
    if lost:
        raise ClusterError(f"{lost} of {sent} records were not sent back: {failures[0] if failures else 'no answer'}")
    return sent
