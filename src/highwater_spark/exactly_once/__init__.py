"""Exactly once from Spark to topics of any Kafka: `ExactlyOnceSink`."""

from highwater_spark.exactly_once.checkpoint import checkpoint_offsets
from highwater_spark.exactly_once.sink import Delivered, ExactlyOnceSink, Step

__all__ = ["Delivered", "ExactlyOnceSink", "Step", "checkpoint_offsets"]
