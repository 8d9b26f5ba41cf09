"""Dead letters: reading them, and sending chosen ones back to where they came from."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaException, Message, Producer, TopicPartition

from highwater_spark.definition.model import Kafka
from highwater_spark.errors import BrokerAway, ClusterError
from highwater_spark.flow.headers import Header
from highwater_spark.kafka.clients import librdkafka_settings

ANSWER_SECONDS: Final = 15.0
TRANSACTION_SECONDS: Final = 60.0
REPLAYS: Final = "__highwater.replays"  # how often a record was sent back
SENT_BACK: Final = "__highwater.sent-back"  # marks a note in the dead-letter topic: the letter at this offset was

Place = tuple[int, int]  # partition and offset in the dead-letter topic


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
    is_note: bool  # not a dead letter, but the note that the one at `source_offset` was sent back


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay of dead letters did."""

    chosen: int
    sent: int


class DeadLetters:
    """All dead letters that are there now, partition by partition in their order.

    `sent_back` has the places of those that were sent back, once all are read.
    """

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self._kafka = kafka
        self._topic = topic
        self.sent_back: set[Place] = set()

    def __iter__(self) -> Iterator[DeadLetter]:
        settings = librdkafka_settings(self._kafka) | {"group.id": "highwater-dead-letters"}
        consumer = Consumer(settings | {"enable.auto.commit": False, "enable.partition.eof": True})
        try:
            for message in _messages(consumer, self._kafka, self._topic):
                letter = _letter(message)
                if letter.is_note:
                    self.sent_back.add((letter.partition, letter.source_offset))
                else:
                    yield letter
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
        is_note=SENT_BACK in told,
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


def send_back(
    kafka: Kafka, topic: str, choice: Callable[[DeadLetter], bool], *, again: bool = False, dry_run: bool = False
) -> Replayed:
    """Send chosen dead letters back to their topic and partition, as they came, each exactly once.

    One transaction holds the records and, in the dead-letter topic, a note for each that it was sent back; those that
    have one are left out, unless they are meant to be sent `again`. Rows that were refused by routing are left out too:
    they are results, not records of a source.
    """
    settings = {"transactional.id": f"{topic}.replay", "transaction.timeout.ms": int(TRANSACTION_SECONDS * 1000)}
    producer = Producer(librdkafka_settings(kafka) | settings)
    try:
        # Before the letters are read: whoever else is sending them back can no longer finish.
        producer.init_transactions(ANSWER_SECONDS)
        letters = DeadLetters(kafka, topic)
        chosen = [letter for letter in letters if choice(letter)]
        due = [
            letter
            for letter in chosen
            if letter.topic is not None and (again or (letter.partition, letter.offset) not in letters.sent_back)
        ]
        if due and not dry_run:
            producer.begin_transaction()
            for letter in due:
                _send(producer, topic, letter)
            producer.commit_transaction(TRANSACTION_SECONDS)
    except KafkaException as error:
        raise ClusterError(f"nothing was sent back: {error.args[0].str()}") from error
    return Replayed(len(chosen), len(due))


def _send(producer: Producer, topic: str, letter: DeadLetter) -> None:
    """Send a letter back, and the note that it was."""
    assert letter.topic is not None, "it came from somewhere"
    headers = [*letter.headers, (REPLAYS, str(letter.replays + 1).encode())]
    record = {"value": letter.value, "key": letter.key, "timestamp": letter.timestamp_ms, "headers": headers}
    _produce(producer, letter.topic, letter.source_partition, record)
    place = (Header.OFFSET, str(letter.offset).encode())
    _produce(producer, topic, letter.partition, {"headers": [(SENT_BACK, b"yes"), place]})


def _produce(producer: Producer, topic: str, partition: int, record: Mapping[str, Any]) -> None:
    deadline = time.monotonic() + TRANSACTION_SECONDS
    while True:
        try:
            producer.produce(topic, partition=partition, **record)
        except BufferError as error:  # the queue is full, and empties as acknowledgements come in
            if time.monotonic() > deadline:
                raise ClusterError(f"nothing was sent back: {topic} does not take the records") from error
            producer.poll(0.1)
        else:
            producer.poll(0)
            return
