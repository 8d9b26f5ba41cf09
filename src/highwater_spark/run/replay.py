"""Replay: a stretch of the past once more, into the same or another target, beside the running pipeline.

A replay reads a bounded stretch as one batch and keeps no state: the running pipeline's checkpoint is not touched, and
windows need no watermark to be complete.
"""

import dataclasses
import re
import time
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from highwater_spark.definition.model import Mode, Pipeline, Sink, TableSink
from highwater_spark.errors import ClusterError, PipelineError, RunFailed, did_you_mean
from highwater_spark.flow.delivery import Batch, delivery_of
from highwater_spark.flow.outputs import DEAD_LETTERS
from highwater_spark.flow.plan import QueryPlan, plan_of
from highwater_spark.flow.sources import Stretch, batch_of, reads
from highwater_spark.kafka.cluster import Cluster
from highwater_spark.run.batches import BatchWriter, mixed_records
from highwater_spark.run.failures import Kind, failure_of
from highwater_spark.run.offsets import Ranges
from highwater_spark.run.progress import Display, QueryProgress, Snapshot
from highwater_spark.run.quarantine import Search, without
from highwater_spark.run.tally import Tally
from highwater_spark.table.formats import table_of

_PLACE: Final = re.compile(r"(?:(?:(?P<topic>[^:]+):)?(?P<partition>\d+):)?(?P<offset>\d+)")


def parse_offsets(texts: Sequence[str], pipeline: Pipeline, *, otherwise: int) -> dict[str, dict[int, int]]:
    """Return an offset for every partition of the sources: those given, `otherwise` for the rest.

    A text is `offset` (all partitions), `partition:offset` (if there is one topic) or `topic:partition:offset`.
    """
    if not texts:
        return {}
    there = Cluster(pipeline.kafka).partitions_of_topics()
    read = {name: count for name, count in there.items() if any(reads(source, name) for source in pipeline.sources)}
    offsets = {topic: dict.fromkeys(range(count), otherwise) for topic, count in read.items()}
    for text in texts:
        found = _PLACE.fullmatch(text)
        if found is None:
            raise PipelineError(f"{text!r} is not an offset: write 100, 0:100 or topic:0:100")
        topics = [found["topic"]] if found["topic"] else list(read)
        if found["partition"] and len(topics) != 1:
            raise PipelineError(f"{text!r}: the pipeline reads {len(topics)} topics; write topic:{text}")
        for topic in topics:
            if topic not in offsets:
                raise ClusterError(f"{text!r}: the pipeline reads no topic {topic!r}{did_you_mean(topic, offsets)}")
            partitions = [int(found["partition"])] if found["partition"] else list(offsets[topic])
            if partitions[-1] not in offsets[topic]:
                raise ClusterError(f"{text!r}: topic {topic!r} has only {len(offsets[topic])} partitions")
            offsets[topic] |= dict.fromkeys(partitions, int(found["offset"]))
    return offsets


def retargeted(pipeline: Pipeline, targets: Mapping[str, str]) -> Pipeline:
    """Return the pipeline with only the named sinks, each writing to another topic or table; all if none is named."""
    if not targets:
        return pipeline
    known = {sink.name: sink for sink in pipeline.sinks}
    for name in targets:
        if name not in known:
            raise PipelineError(f"--to {name}: no such sink{did_you_mean(name, known) or ': ' + ', '.join(known)}")
    return dataclasses.replace(pipeline, sinks=tuple(_moved(known[name], to) for name, to in targets.items()))


def _moved(sink: Sink, target: str) -> Sink:
    if isinstance(sink, TableSink):
        return dataclasses.replace(sink, path=target)
    if sink.is_routed:
        raise PipelineError(f"--to {sink.name}: its rows name their topics ({sink.topic}), so it has no other target")
    return dataclasses.replace(sink, topic=target, topics=(target,))


def replay(spark: SparkSession, pipeline: Pipeline, stretch: Stretch, display: Display) -> Snapshot:
    """Run a stretch through the pipeline once; return what was written."""
    started = time.monotonic()
    plan = plan_of(spark, pipeline)
    Cluster(pipeline.kafka).prepare(pipeline)
    identity = f"replay-{int(time.time() * 1000)}"
    tables = {
        sink.name: table_of(spark, sink, f"{pipeline.name}.{sink.name}.{identity}") for sink in pipeline.table_sinks
    }
    for sink in pipeline.table_sinks:
        tables[sink.name].check(plan.views[sink.view])
    everything = QueryPlan("replay", None, Mode.APPEND, pipeline.sinks, frozenset(plan.views))
    tally = Tally()
    delivery = delivery_of(pipeline, pipeline.sinks, f"{pipeline.name}.{identity}")
    writer = BatchWriter(pipeline, everything, delivery, tables, tally)
    raw = {source.name: batch_of(spark, pipeline.kafka, source, stretch) for source in pipeline.sources}
    display.say(f"replaying {', '.join(source.subscription for source in pipeline.sources)}")
    batch = Batch(identity, 0)
    try:
        writer.write(mixed_records(pipeline, raw), batch)
    except PySparkException as error:
        places = _set_aside(Search(spark, pipeline, everything, _ranges(raw)), pipeline, batch, error, display)
        tally.add(DEAD_LETTERS, len(places))
        writer.write(mixed_records(pipeline, {name: without(frame, places) for name, frame in raw.items()}), batch)
    return Snapshot(pipeline, (QueryProgress("replay", batch=0),), tally.totals(), None, time.monotonic() - started)


def _set_aside(
    search: Search, pipeline: Pipeline, batch: Batch, error: PySparkException, display: Display
) -> list[list[Any]]:
    """Make dead letters of the records that a transform cannot take, as the pipeline does; return their places."""
    failure = failure_of(error)
    if failure.kind is not Kind.OTHER:
        raise RunFailed(f"replay: {failure.text}") from error
    display.say("the replay failed on a record; looking for it")
    try:
        culprits = search.culprits(())
        if not culprits:
            raise RunFailed(f"replay: {failure.text}") from error
        delivery = delivery_of(pipeline, (), f"{pipeline.name}.{batch.query_id}.set-aside")
        delivery.deliver(search.dead_letters(culprits), batch)
    finally:
        search.close()
    for culprit in culprits:
        display.say(f"set aside {culprit}")
    return [list(culprit.place) for culprit in culprits]


def _ranges(raw: Mapping[str, DataFrame]) -> Ranges:
    """Return which offsets there are."""
    records = reduce(DataFrame.unionByName, raw.values()).groupBy("topic", "partition")
    found = records.agg(F.min("offset").alias("first"), F.max("offset").alias("last")).collect()
    return {(row["topic"], row["partition"]): (row["first"], row["last"] + 1) for row in found}
