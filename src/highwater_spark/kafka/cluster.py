"""The cluster as a pipeline sees it: is a broker there, which topics, how many partitions, which offset at a time."""

import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from highwater_spark.definition.model import Kafka, Pipeline, Source
from highwater_spark.errors import BrokerAway, ClusterError, did_you_mean
from highwater_spark.kafka.clients import librdkafka_settings

ANSWER_SECONDS: Final = 10.0
PROBE_SECONDS: Final = 3.0
PAUSE_SECONDS: Final = 1.0
DEFAULT: Final = -1  # the brokers' own default number of partitions and replicas


class Cluster:
    """An admin's view of the brokers."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka
        self._last_error = ""
        settings = librdkafka_settings(kafka)
        settings["error_cb"] = self._remember
        try:
            self._admin = AdminClient(settings)
        except KafkaException as error:
            raise ClusterError(f"kafka options: {_text(error)}") from error

    def _remember(self, error: KafkaError) -> None:
        self._last_error = error.str()

    def partitions_of_topics(self, timeout_seconds: float = ANSWER_SECONDS) -> dict[str, int]:
        """Return every topic with its number of partitions; raises `BrokerAway` if nobody answers."""
        try:
            found = self._admin.list_topics(timeout=timeout_seconds).topics
        except KafkaException as error:
            self._admin.poll(0)  # lets librdkafka tell why
            reason = self._last_error or _text(error)
            raise BrokerAway(f"no broker answers at {self.kafka.bootstrap}: {reason}") from error
        return {name: len(topic.partitions) for name, topic in found.items() if topic.error is None}

    def wait_until_there(
        self, patience_seconds: float, on_wait: Callable[[str], None], stop: threading.Event | None = None
    ) -> None:
        """Return once a broker answers, telling `on_wait` why we wait; raises `BrokerAway` when patience ends.

        `stop` ends the wait early.
        """
        started = time.monotonic()
        stop = stop or threading.Event()
        while not stop.is_set():
            try:
                self.partitions_of_topics(PROBE_SECONDS)
            except BrokerAway as away:
                waited = time.monotonic() - started
                if waited >= patience_seconds:
                    raise BrokerAway(f"{away}; gave up after {waited:.0f} s") from away
                on_wait(f"{away}; waiting for {waited:.0f} s of {patience_seconds:.0f} s")
                stop.wait(PAUSE_SECONDS)
            else:
                return

    def prepare(self, pipeline: Pipeline) -> dict[str, int]:
        """Check that every source is there, create what is missing of the outputs; return the outputs' partitions."""
        there = self.partitions_of_topics()
        for source in pipeline.sources:
            self._check_source(pipeline, source, there)
        missing = {topic: wanted for topic, wanted in pipeline.output_topics.items() if topic not in there}
        self._create(missing)
        created = self.partitions_of_topics() if missing else there
        return {topic: created.get(topic, 1) for topic in pipeline.output_topics}

    def _check_source(self, pipeline: Pipeline, source: Source, there: Mapping[str, int]) -> None:
        for topic in source.topics:
            if topic not in there:
                hint = did_you_mean(topic, there)
                said = f"source {source.name!r}: no topic {topic!r} on {self.kafka.bootstrap}{hint}"
                raise ClusterError(pipeline.at(source.line, said))
        if source.pattern is not None and not any(re.fullmatch(source.pattern, topic) for topic in there):
            said = f"source {source.name!r}: no topic on {self.kafka.bootstrap} matches {source.pattern!r}"
            raise ClusterError(pipeline.at(source.line, said))

    def create_topics(self, topics: Mapping[str, int | None]) -> None:
        """Create those topics that are not there."""
        there = self.partitions_of_topics()
        self._create({name: partitions for name, partitions in topics.items() if name not in there})

    def _create(self, topics: Mapping[str, int | None]) -> None:
        if not topics:
            return
        asked = [
            NewTopic(name, num_partitions=partitions or DEFAULT, replication_factor=DEFAULT)
            for name, partitions in topics.items()
        ]
        for name, answer in self._admin.create_topics(asked, operation_timeout=ANSWER_SECONDS).items():
            try:
                answer.result(ANSWER_SECONDS)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise ClusterError(f"topic {name!r} cannot be created: {_text(error)}") from error

    def end_offsets(self, topics: Mapping[str, int]) -> dict[tuple[str, int], int]:
        """Return the offset that each partition's next record will get."""
        consumer = Consumer(librdkafka_settings(self.kafka) | {"group.id": "highwater-spark"})
        try:
            return {
                (topic, partition): consumer.get_watermark_offsets(
                    TopicPartition(topic, partition), timeout=ANSWER_SECONDS
                )[1]
                for topic, partitions in topics.items()
                for partition in range(partitions)
            }
        except KafkaException as error:
            raise BrokerAway(f"{self.kafka.bootstrap}: {_text(error)}") from error
        finally:
            consumer.close()


def _text(error: KafkaException) -> str:
    inner = error.args[0]
    return str(inner.str()) if isinstance(inner, KafkaError) else str(inner)
