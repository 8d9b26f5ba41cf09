"""How records reach the topics: exactly once by our sink, or at least once by Spark's own."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame

from highwater_spark.definition.model import Delivery, Kafka, Pipeline, Sink, TopicSink
from highwater_spark.exactly_once.sink import ExactlyOnceSink, SourceOffsets
from highwater_spark.flow.outputs import DEAD_LETTERS, SINK
from highwater_spark.kafka.clients import spark_options


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch of a streaming query: the same identity always means the same records."""

    query_id: str
    number: int


class TopicDelivery(Protocol):
    """Writes all records that a micro-batch sends, to all its topics and the dead letters, in one go."""

    def deliver(self, records: DataFrame, batch: Batch) -> Mapping[str, int]:
        """Send records (`topic`, `key`, `value`, `headers`) and return how many each sink (`_sink`) sent.

        They are safe on return. After an error the same micro-batch will be delivered again.
        """


class AtLeastOnce:
    """Spark's own sink: acknowledged records are safe, and a micro-batch that runs again sends its records again."""

    def __init__(self, kafka: Kafka) -> None:
        self._options = spark_options(kafka)

    def deliver(self, records: DataFrame, batch: Batch) -> Mapping[str, int]:  # noqa: ARG002 - it sends regardless
        """Send records by Spark's Kafka sink."""
        records.drop(SINK).write.format("kafka").options(**self._options).save()
        # Spark's sink does not say what it wrote. Counting is cheap: the rows are cached, and only what decides whether
        # there is a record is computed anew, not the record.
        return {row[SINK]: row["count"] for row in records.groupBy(SINK).count().collect()}


class ExactlyOnce:
    """Our sink: the records of a micro-batch are one transaction, and are not sent again if it runs again."""

    def __init__(self, sink: ExactlyOnceSink) -> None:
        self._sink = sink

    def deliver(self, records: DataFrame, batch: Batch) -> Mapping[str, int]:
        """Send records, unless this micro-batch is in the topics already."""
        labelled = records.withColumnRenamed(SINK, "label")
        return self._sink.write(labelled, query=batch.query_id, batch=batch.number).counts


def delivery_of(
    pipeline: Pipeline,
    sinks: Iterable[Sink],
    sink_id: str,
    *,
    source_offsets: SourceOffsets | None = None,
    take_over: bool = False,
    untried_from: int | None = None,
) -> TopicDelivery:
    """Return what delivers the records of some sinks of a pipeline, and its dead letters, as the pipeline asks for it.

    `sink_id` also names the group to which the `source_offsets` of each micro-batch are committed.
    """
    if pipeline.delivery is Delivery.AT_LEAST_ONCE:
        return AtLeastOnce(pipeline.kafka)
    written = [sink for sink in sinks if isinstance(sink, TopicSink)]
    return ExactlyOnce(
        ExactlyOnceSink(
            pipeline.kafka.bootstrap,
            sink_id=sink_id,
            topics=[pipeline.dead_letters, *(topic for sink in written for topic in sink.topics)],
            settings=pipeline.kafka.options,
            group=sink_id if source_offsets is not None else None,
            source_offsets=source_offsets,
            take_over=take_over,
            untried_from=untried_from,
            labels=[DEAD_LETTERS, *(sink.name for sink in written)],
        )
    )
