"""How records reach the topics: the one place to change for another guarantee."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame

from highwater_spark.definition.model import Kafka
from highwater_spark.flow.outputs import SINK
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
