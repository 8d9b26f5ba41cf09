"""Spark's own Kafka source and sink, unchanged, on the broker (row P1): every option of theirs that users lean on."""

import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from highwater.testing.waiting import wait_until

PATIENCE_SECONDS = 120
NewTopic = Callable[..., str]
Send = Callable[..., None]
Read = Callable[..., list[Message]]


def values_of(rows: DataFrame) -> list[str]:
    return sorted(row[0] for row in rows.selectExpr("cast(value as string)").collect())


def run_available_now(stream: DataFrame, folder: Path) -> list[list[str]]:
    """Process all that is there and return the values of each micro-batch."""
    batches: list[list[str]] = []
    query = (
        stream.writeStream.foreachBatch(lambda rows, _: batches.append(values_of(rows)))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(PATIENCE_SECONDS)
    finally:
        query.stop()
    return batches


def flat(batches: list[list[str]]) -> list[str]:
    return list(chain.from_iterable(batches))


def write_kept_and_dropped(bootstrap: str, topic: str) -> None:
    """Write a transaction that is committed, and one that is aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"id-of-{topic}"})
    producer.init_transactions(PATIENCE_SECONDS)
    for value, ends in (("kept", producer.commit_transaction), ("dropped", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value, headers=[("trace", b"seen")])
        assert producer.flush(PATIENCE_SECONDS) == 0
        ends(PATIENCE_SECONDS)


class TestBatchSource:
    def test_a_topic_is_read_whole_with_all_columns(
        self, kafka_reader: DataFrameReader, new_topic: NewTopic, send: Send
    ) -> None:
        topic = new_topic(partitions=2)
        send(topic, ["a"], partition=0, key="k", timestamp_ms=1_700_000_000_123)
        send(topic, [None], partition=1)
        rows = kafka_reader.option("subscribe", topic).load().orderBy("partition").collect()
        first, second = rows
        assert (bytes(first.key), bytes(first.value), first.topic) == (b"k", b"a", topic)
        assert (first.partition, first.offset, first.timestampType) == (0, 0, 0)
        assert first.timestamp.timestamp() == pytest.approx(1_700_000_000.123)
        assert (second.key, second.value, second.partition) == (None, None, 1)

    def test_two_topics_by_name(self, kafka_reader: DataFrameReader, new_topic: NewTopic, send: Send) -> None:
        one, two, other = new_topic(prefix="wanted-"), new_topic(prefix="wanted-"), new_topic(prefix="other-")
        for number, topic in enumerate((one, two, other)):
            send(topic, [str(number)])
        assert values_of(kafka_reader.option("subscribe", f"{one},{two}").load()) == ["0", "1"]

    def test_a_pattern_selects_topics(self, kafka_reader: DataFrameReader, new_topic: NewTopic, send: Send) -> None:
        one, two, other = new_topic(prefix="wanted-"), new_topic(prefix="wanted-"), new_topic(prefix="other-")
        for number, topic in enumerate((one, two, other)):
            send(topic, [str(number)])
        stem = one.rsplit("-", 1)[0].removeprefix("wanted-")
        assert values_of(kafka_reader.option("subscribePattern", f"wanted-{stem}-.*").load()) == ["0", "1"]

    def test_chosen_partitions_are_assigned(
        self, kafka_reader: DataFrameReader, new_topic: NewTopic, send: Send
    ) -> None:
        topic = new_topic(partitions=3)
        for partition in range(3):
            send(topic, [f"p{partition}"], partition=partition)
        rows = kafka_reader.option("assign", json.dumps({topic: [0, 2]})).load()
        assert values_of(rows) == ["p0", "p2"]

    def test_a_range_of_offsets(self, kafka_reader: DataFrameReader, new_topic: NewTopic, send: Send) -> None:
        """In Spark's JSON -2 is the earliest offset and -1 the latest."""
        topic = new_topic(partitions=2)
        send(topic, [f"a{n}" for n in range(5)], partition=0)
        send(topic, [f"b{n}" for n in range(5)], partition=1)
        rows = (
            kafka_reader.option("subscribe", topic)
            .option("startingOffsets", json.dumps({topic: {"0": 3, "1": -2}}))
            .option("endingOffsets", json.dumps({topic: {"0": -1, "1": 2}}))
            .load()
        )
        assert values_of(rows) == ["a3", "a4", "b0", "b1"]

    def test_a_range_of_times(self, kafka_reader: DataFrameReader, new_topic: NewTopic, send: Send) -> None:
        """A time means the first record at or after it; the end is exclusive."""
        topic = new_topic()
        for second in range(5):
            send(topic, [str(second)], timestamp_ms=1_700_000_000_000 + 1000 * second)
        by_topic = (
            kafka_reader.option("subscribe", topic)
            .option("startingOffsetsByTimestamp", json.dumps({topic: {"0": 1_700_000_001_000}}))
            .option("endingOffsetsByTimestamp", json.dumps({topic: {"0": 1_700_000_003_500}}))
        )
        assert values_of(by_topic.load()) == ["1", "2", "3"]

    def test_one_starting_time_for_all_partitions(
        self, kafka_reader: DataFrameReader, new_topic: NewTopic, send: Send
    ) -> None:
        topic = new_topic(partitions=2)
        for second in range(4):
            send(topic, [str(second)], partition=second % 2, timestamp_ms=1_700_000_000_000 + 1000 * second)
        rows = kafka_reader.option("subscribe", topic).option("startingTimestamp", "1700000001500").load()
        assert values_of(rows) == ["2", "3"]

    def test_one_range_of_times_for_all_partitions(
        self, kafka_reader: DataFrameReader, new_topic: NewTopic, send: Send
    ) -> None:
        topic = new_topic(partitions=2)
        for second in range(6):
            send(topic, [str(second)], partition=second % 2, timestamp_ms=1_700_000_000_000 + 1000 * second)
        rows = kafka_reader.option("subscribe", topic).option("startingTimestamp", "1700000001500")
        assert values_of(rows.option("endingTimestamp", "1700000004000").load()) == ["2", "3"]

    def test_a_time_after_the_last_record_is_an_error_or_the_end_as_asked(
        self, kafka_reader: DataFrameReader, new_topic: NewTopic, send: Send
    ) -> None:
        """The broker says -1, "no such offset", and Spark does what `startingOffsetsByTimestampStrategy` says."""
        topic = new_topic()
        send(topic, ["a"], timestamp_ms=1_700_000_000_000)
        late = kafka_reader.option("subscribe", topic).option("startingTimestamp", "1700000009000")
        with pytest.raises(Exception, match="No offset matched from request"):
            values_of(late.load())
        assert values_of(late.option("startingOffsetsByTimestampStrategy", "latest").load()) == []

    def test_a_large_partition_is_split_by_its_number_of_records(
        self, kafka_reader: DataFrameReader, new_topic: NewTopic, send: Send
    ) -> None:
        """Spark 4.0 looks at offsets as they are given: "earliest" and "latest" are never too far apart for it."""
        topic = new_topic()
        send(topic, [f"{n:03}" for n in range(100)])
        reader = kafka_reader.option("subscribe", topic).option("maxRecordsPerPartition", "30")
        reader = reader.option("startingOffsets", json.dumps({topic: {"0": 0}}))
        rows = reader.option("endingOffsets", json.dumps({topic: {"0": 100}})).load()
        assert rows.rdd.getNumPartitions() == 4
        assert values_of(rows) == [f"{n:03}" for n in range(100)]

    def test_records_that_were_deleted_stop_a_reader_unless_it_does_not_mind(
        self, kafka_reader: DataFrameReader, admin: AdminClient, new_topic: NewTopic, send: Send
    ) -> None:
        topic = new_topic()
        send(topic, [str(n) for n in range(6)])
        admin.delete_records([KafkaPartition(topic, 0, 4)])[KafkaPartition(topic, 0)].result(PATIENCE_SECONDS)
        reader = kafka_reader.option("subscribe", topic).option("startingOffsets", json.dumps({topic: {"0": 1}}))
        with pytest.raises(Exception, match=r"(?i)data may have been lost|OffsetOutOfRange|DATA_LOSS"):
            values_of(reader.load())
        assert values_of(reader.option("failOnDataLoss", "false").load()) == ["4", "5"]

    def test_more_spark_partitions_than_topic_partitions(
        self, kafka_reader: DataFrameReader, new_topic: NewTopic, send: Send
    ) -> None:
        topic = new_topic()
        send(topic, [f"{n:03}" for n in range(100)])
        rows = kafka_reader.option("subscribe", topic).option("minPartitions", "4").load()
        assert rows.rdd.getNumPartitions() == 4
        assert values_of(rows) == [f"{n:03}" for n in range(100)]

    def test_headers_are_read(self, kafka_reader: DataFrameReader, new_topic: NewTopic, send: Send) -> None:
        topic = new_topic()
        send(topic, ["a"], headers={"trace": b"\x00\xff"})
        [row] = kafka_reader.option("subscribe", topic).option("includeHeaders", "true").load().collect()
        assert [(header.key, bytes(header.value)) for header in row.headers] == [("trace", b"\x00\xff")]


class TestBatchSink:
    def test_keys_values_headers_and_a_topic_per_row(
        self, spark: SparkSession, bootstrap: str, new_topic: NewTopic, read_topic: Read
    ) -> None:
        one, two = new_topic(partitions=2), new_topic()
        rows = spark.createDataFrame([(one, "k", "a"), (two, None, "b")], "topic string, key string, value string")
        headers = F.array(F.struct(F.lit("h").alias("key"), F.lit("x").cast("binary").alias("value")))
        rows = rows.withColumn("headers", headers)
        sink = rows.write.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        sink.option("includeHeaders", "true").save()
        [sent] = read_topic(one)
        assert (sent.key(), sent.value(), sent.headers()) == (b"k", b"a", [("h", b"x")])
        assert [(message.key(), message.value()) for message in read_topic(two)] == [(None, b"b")]

    def test_a_chosen_partition(
        self, spark: SparkSession, bootstrap: str, new_topic: NewTopic, read_topic: Read
    ) -> None:
        topic = new_topic(partitions=3)
        rows = spark.range(6).selectExpr("cast(id as string) as value", "cast(id % 3 as int) as partition")
        rows.write.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("topic", topic).save()
        assert {(message.partition(), message.value()) for message in read_topic(topic)} == {
            (number % 3, str(number).encode()) for number in range(6)
        }

    @pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
    def test_every_compression(
        self,
        spark: SparkSession,
        bootstrap: str,
        kafka_reader: DataFrameReader,
        new_topic: NewTopic,
        codec: str,
    ) -> None:
        topic = new_topic()
        sink = spark.range(200).selectExpr("repeat(cast(id as string), 20) as value").write.format("kafka")
        sink = sink.option("kafka.bootstrap.servers", bootstrap).option("kafka.compression.type", codec)
        sink.option("topic", topic).save()
        rows = kafka_reader.option("subscribe", topic).load()
        assert values_of(rows) == sorted(str(number) * 20 for number in range(200))


class TestStream:
    def test_available_now_takes_what_is_there_and_goes_on_from_the_checkpoint(
        self, kafka_stream: DataStreamReader, new_topic: NewTopic, send: Send, tmp_path: Path
    ) -> None:
        topic = new_topic(partitions=2)
        stream = kafka_stream.option("subscribe", topic).load()
        send(topic, ["a", "b", "c"])
        assert sorted(flat(run_available_now(stream, tmp_path))) == ["a", "b", "c"]
        send(topic, ["d"])
        assert flat(run_available_now(stream, tmp_path)) == ["d"]

    def test_a_batch_is_no_larger_than_asked(
        self, kafka_stream: DataStreamReader, new_topic: NewTopic, send: Send, tmp_path: Path
    ) -> None:
        topic = new_topic()
        send(topic, [f"{n:02}" for n in range(10)])
        stream = kafka_stream.option("subscribe", topic).option("maxOffsetsPerTrigger", "4").load()
        batches = run_available_now(stream, tmp_path)
        assert flat(batches) == [f"{n:02}" for n in range(10)]
        assert max(len(batch) for batch in batches) <= 4

    def test_a_micro_batch_waits_for_enough_records_but_not_for_ever(
        self, kafka_stream: DataStreamReader, new_topic: NewTopic, send: Send, tmp_path: Path
    ) -> None:
        topic = new_topic()
        stream = kafka_stream.option("subscribe", topic).option("minOffsetsPerTrigger", "1000")
        batches: list[list[str]] = []
        query = (
            stream.option("maxTriggerDelay", "1s")
            .load()
            .writeStream.foreachBatch(lambda rows, _: batches.append(values_of(rows)))
            .option("checkpointLocation", str(tmp_path))
            .start()
        )
        try:
            send(topic, ["a", "b"])
            wait_until(lambda: sorted(flat(batches)) == ["a", "b"], timeout_seconds=PATIENCE_SECONDS)
        finally:
            query.stop()

    def test_a_stream_splits_partitions_reads_headers_and_only_what_is_committed(
        self, kafka_stream: DataStreamReader, bootstrap: str, new_topic: NewTopic, tmp_path: Path
    ) -> None:
        """`minPartitions`, `includeHeaders` and `kafka.isolation.level`, as a stream has them."""
        topic = new_topic()
        write_kept_and_dropped(bootstrap, topic)
        stream = kafka_stream.option("subscribe", topic).option("kafka.isolation.level", "read_committed")
        stream = stream.option("includeHeaders", "true").option("minPartitions", "2")
        found: list[tuple[str, str]] = []
        tasks: list[int] = []

        def take(rows: DataFrame, _: int) -> None:
            tasks.append(rows.rdd.getNumPartitions())
            picked = rows.selectExpr("string(value)", "string(headers[0].value)")
            found.extend((row[0], row[1]) for row in picked.collect())

        query = stream.load().writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path))
        assert query.trigger(availableNow=True).start().awaitTermination(PATIENCE_SECONDS)
        assert found == [("kept", "seen")]
        assert tasks == [2]

    def test_a_stream_that_starts_at_the_latest_offset_takes_only_what_comes_after(
        self, kafka_stream: DataStreamReader, new_topic: NewTopic, send: Send, tmp_path: Path
    ) -> None:
        topic = new_topic()
        send(topic, ["old"])
        stream = kafka_stream.option("subscribe", topic).option("startingOffsets", "latest").load()
        assert flat(run_available_now(stream, tmp_path)) == []
        send(topic, ["new"])
        assert flat(run_available_now(stream, tmp_path)) == ["new"]

    def test_a_stream_runs_continuously_without_micro_batches(
        self,
        kafka_stream: DataStreamReader,
        bootstrap: str,
        new_topic: NewTopic,
        send: Send,
        read_topic: Read,
        tmp_path: Path,
    ) -> None:
        """Spark's low-latency mode: long-lived tasks that poll, and offsets that are noted by epochs."""
        source, target = new_topic(), new_topic()
        sink = kafka_stream.option("subscribe", source).load().select("value").writeStream.format("kafka")
        sink = sink.option("kafka.bootstrap.servers", bootstrap).option("topic", target)
        query = sink.option("checkpointLocation", str(tmp_path)).trigger(continuous="1 second").start()
        try:
            send(source, ["a", "b"])
            wait_until(
                lambda: [message.value() for message in read_topic(target)] == [b"a", b"b"],
                timeout_seconds=PATIENCE_SECONDS,
            )
        finally:
            query.stop()

    def test_a_stream_starts_at_a_time(
        self, kafka_stream: DataStreamReader, new_topic: NewTopic, send: Send, tmp_path: Path
    ) -> None:
        topic = new_topic()
        for second in range(4):
            send(topic, [str(second)], timestamp_ms=1_700_000_000_000 + 1000 * second)
        start = json.dumps({topic: {"0": 1_700_000_002_000}})
        stream = kafka_stream.option("subscribe", topic).option("startingOffsetsByTimestamp", start).load()
        assert flat(run_available_now(stream, tmp_path)) == ["2", "3"]

    def test_a_stream_starts_at_an_offset_of_assigned_partitions(
        self, kafka_stream: DataStreamReader, new_topic: NewTopic, send: Send, tmp_path: Path
    ) -> None:
        topic = new_topic(partitions=2)
        send(topic, ["a0", "a1", "a2"], partition=0)
        send(topic, ["b0"], partition=1)
        stream = kafka_stream.option("assign", json.dumps({topic: [0]}))
        stream = stream.option("startingOffsets", json.dumps({topic: {"0": 1}}))
        assert flat(run_available_now(stream.load(), tmp_path)) == ["a1", "a2"]

    def test_records_that_arrive_while_it_runs_go_from_topic_to_topic(
        self,
        kafka_stream: DataStreamReader,
        bootstrap: str,
        new_topic: NewTopic,
        send: Send,
        read_topic: Read,
        tmp_path: Path,
    ) -> None:
        source, target = new_topic(partitions=2), new_topic()
        shouted = kafka_stream.option("subscribe", source).load().selectExpr("key", "upper(string(value)) as value")
        sink = shouted.writeStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        query = sink.option("topic", target).option("checkpointLocation", str(tmp_path)).start()
        try:
            send(source, ["a", "b"])
            query.processAllAvailable()
            send(source, ["c"])
            query.processAllAvailable()
        finally:
            query.stop()
        assert sorted(message.value() or b"" for message in read_topic(target)) == [b"A", b"B", b"C"]

    def test_a_pattern_picks_up_a_topic_made_while_it_runs(
        self, kafka_stream: DataStreamReader, new_topic: NewTopic, send: Send, tmp_path: Path
    ) -> None:
        first = new_topic(prefix="growing-")
        send(first, ["old"])
        stem = first.rsplit("-", 1)[0]
        stream = kafka_stream.option("subscribePattern", f"{stem}-.*").option("kafka.metadata.max.age.ms", "500").load()
        assert flat(run_available_now(stream, tmp_path)) == ["old"]
        send(new_topic(prefix="growing-"), ["new"])
        assert flat(run_available_now(stream, tmp_path)) == ["new"]


class TestTransactions:
    def test_read_committed_leaves_out_what_was_aborted(
        self, kafka_reader: DataFrameReader, bootstrap: str, new_topic: NewTopic
    ) -> None:
        topic = new_topic()
        write_kept_and_dropped(bootstrap, topic)
        committed = kafka_reader.option("subscribe", topic).option("kafka.isolation.level", "read_committed").load()
        assert values_of(committed) == ["kept"]
        everything = kafka_reader.option("subscribe", topic).option("kafka.isolation.level", "read_uncommitted").load()
        assert values_of(everything) == ["dropped", "kept"]
