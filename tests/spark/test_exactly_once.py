"""The exactly-once sink in anyone's own Spark code, and in pipelines: what it writes, and what it refuses to write."""

import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from highwater_spark.definition.model import Pipeline
from highwater_spark.errors import BrokerAway, ExactlyOnceRefused
from highwater_spark.exactly_once import ExactlyOnceSink, Step
from highwater_spark.exactly_once.brokers import Brokers
from highwater_spark.exactly_once.security import Security
from highwater_spark.exactly_once.transaction import Transactions
from highwater_spark.run.runner import Runner, RunOptions

NewTopicFixture = Callable[..., str]
SendFixture = Callable[..., None]
ReadFixture = Callable[..., list[Message]]
PipelineFixture = Callable[..., Pipeline]


class Job:
    """A streaming query from a topic through the sink, as anyone would write it."""

    def __init__(self, stream: DataStreamReader, source: str, checkpoint: Path, sink: ExactlyOnceSink) -> None:
        self._rows = stream.option("subscribe", source).load()
        self._checkpoint = checkpoint
        self._sink = sink

    def run(self) -> None:
        """Process all that is there; what the sink raises is raised here."""
        raised: list[Exception] = []

        def write(rows: DataFrame, number: int) -> None:
            try:
                self._sink(rows.select("key", "value"), number)
            except Exception as error:
                raised.append(error)
                raise

        writing = self._rows.writeStream.foreachBatch(write).option("checkpointLocation", str(self._checkpoint))
        query = writing.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        except Exception:
            if raised:
                raise raised[0] from None
            raise

    def forget_commit(self, number: int) -> None:
        """Make Spark believe that a micro-batch did not finish: it will run it again."""
        for name in (str(number), f".{number}.crc"):
            (self._checkpoint / "commits" / name).unlink(missing_ok=True)

    def roll_back(self, number: int) -> None:
        """Make Spark believe that a micro-batch never was."""
        self.forget_commit(number)
        for name in (str(number), f".{number}.crc"):
            (self._checkpoint / "offsets" / name).unlink(missing_ok=True)


@pytest.fixture
def topics(new_topic: NewTopicFixture) -> tuple[str, str]:
    return new_topic(partitions=2), new_topic(partitions=3)


@pytest.fixture
def job(kafka_stream: DataStreamReader, bootstrap: str, topics: tuple[str, str], tmp_path: Path) -> Callable[..., Job]:
    """Make a job on the same topics and sink id, on the same checkpoint or another one."""

    def make(checkpoint: str = "checkpoint", **options: object) -> Job:
        source, out = topics
        given = {"sink_id": out, "topics": [out], **options}
        sink = ExactlyOnceSink(bootstrap, **given)  # type: ignore[arg-type]
        return Job(kafka_stream, source, tmp_path / checkpoint, sink)

    return make


def values_of(messages: list[Message]) -> Counter[bytes | None]:
    return Counter(message.value() for message in messages)


def numbered(first: int, count: int) -> list[bytes]:
    return [b"value-%d" % number for number in range(first, first + count)]


def test_a_micro_batch_that_runs_again_is_written_once(
    job: Callable[..., Job], topics: tuple[str, str], send: SendFixture, read_topic: ReadFixture
) -> None:
    """Spark runs a micro-batch again if it crashed after the sink was done: the token says that it is there."""
    source, out = topics
    send(source, numbered(0, 100))
    first = job()
    first.run()
    first.forget_commit(0)
    send(source, numbered(100, 50))
    job().run()
    assert values_of(read_topic(out)) == Counter(numbered(0, 150))


def test_a_checkpoint_that_was_rolled_back_is_refused(
    job: Callable[..., Job], topics: tuple[str, str], send: SendFixture, read_topic: ReadFixture
) -> None:
    source, out = topics
    for first in (0, 10):
        send(source, numbered(first, 10))
        job().run()
    rolled_back = job()
    rolled_back.roll_back(1)
    rolled_back.roll_back(0)
    with pytest.raises(ExactlyOnceRefused, match="the checkpoint is at micro-batch 0, and 1 is already in the topics"):
        rolled_back.run()
    assert values_of(read_topic(out)) == Counter(numbered(0, 20))


def test_another_query_with_the_same_sink_id_is_refused_unless_it_takes_over(
    job: Callable[..., Job], topics: tuple[str, str], send: SendFixture, read_topic: ReadFixture
) -> None:
    source, out = topics
    send(source, numbered(0, 10))
    job().run()
    with pytest.raises(ExactlyOnceRefused, match="was of another query"):
        job("another").run()
    assert values_of(read_topic(out)) == Counter(numbered(0, 10))
    job("another", take_over=True).run()
    assert values_of(read_topic(out)) == Counter(2 * numbered(0, 10))


def test_an_output_topic_with_more_partitions_than_before_is_refused(
    job: Callable[..., Job], topics: tuple[str, str], send: SendFixture, admin: AdminClient
) -> None:
    source, out = topics
    send(source, numbered(0, 10))
    job().run()
    admin.create_partitions([NewPartitions(out, 4)])[out].result(30)
    send(source, numbered(10, 10))
    with pytest.raises(ExactlyOnceRefused, match="has 4 partitions and had 3"):
        job().run()


def test_a_micro_batch_that_outlives_its_transaction_is_refused_and_nothing_of_it_is_seen(
    job: Callable[..., Job], topics: tuple[str, str], send: SendFixture, read_topic: ReadFixture, bootstrap: str
) -> None:
    source, out = topics
    send(source, numbered(0, 10))

    def time_out(step: Step) -> None:
        """Do what the coordinator does when the time is over: abort, and raise the epoch."""
        if step is Step.CHECKED:
            with Brokers(bootstrap, Security(), 30) as brokers:
                Transactions(brokers, out, 1000).fence()

    with pytest.raises(ExactlyOnceRefused, match="took longer than the transaction timeout of 1 ms"):
        job(observer=time_out, transaction_timeout_ms=1).run()
    assert read_topic(out) == []
    job().run()
    assert values_of(read_topic(out)) == Counter(numbered(0, 10))


def test_two_drivers_with_one_sink_id_write_each_micro_batch_once(
    spark: SparkSession, bootstrap: str, new_topic: NewTopicFixture, read_topic: ReadFixture
) -> None:
    """Each fences the other; whoever comes second finds the token of the first."""
    out = new_topic(partitions=2)
    rows = spark.range(200).selectExpr("cast(id as string) as value")
    meet = threading.Barrier(2)

    def together(step: Step) -> None:
        if step is Step.PARTITIONS_ADDED and not meet.broken:
            try:
                meet.wait(20)
            except threading.BrokenBarrierError:
                return
            meet.abort()  # they meet once, at the worst moment: both believe to be in the same transaction

    failures: list[Exception] = []

    def drive() -> None:
        sink = ExactlyOnceSink(bootstrap, sink_id=out, topics=[out], observer=Local(together))
        try:
            for number in range(3):
                sink.write(rows, query="q", batch=number)
        except ExactlyOnceRefused as error:
            failures.append(error)

    drivers = [threading.Thread(target=drive) for _ in range(2)]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join(200)
    assert len(failures) < 2, failures
    assert values_of(read_topic(out)) == Counter(3 * [str(number).encode() for number in range(200)])


class Local:
    """An observer that stays on the driver: tasks get one that does nothing."""

    def __init__(self, observe: Callable[[Step], None] | None) -> None:
        self._observe = observe

    def __call__(self, step: Step) -> None:
        if self._observe is not None:
            self._observe(step)

    def __reduce__(self) -> tuple[type["Local"], tuple[None]]:
        return Local, (None,)


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_records_are_what_the_columns_say(
    spark: SparkSession,
    bootstrap: str,
    new_topic: NewTopicFixture,
    read_topic: ReadFixture,
    compression: str,
) -> None:
    """Keys go where the Java client would send them; given partitions, headers, nulls and topics are kept."""
    one, other, theirs = new_topic(partitions=5), new_topic(partitions=2), new_topic(partitions=5)
    rows: list[tuple[object, ...]] = [
        (one, b"key-%d" % number, b"value-%d" % number, None, [("n", b"%d" % number), ("none", None)])
        for number in range(40)
    ]
    rows += [(other, None, None, 1, None), (other, b"", b"empty key", 0, []), (one, None, b"anywhere", None, None)]
    schema = "topic string, key binary, value binary, partition int, headers array<struct<key: string, value: binary>>"
    sink = ExactlyOnceSink(bootstrap, sink_id=one, topics=[one, other], compression=compression)
    delivered = sink.write(spark.createDataFrame(rows, schema), query="q", batch=0)
    assert delivered.records == 43

    java = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    expected: dict[bytes | None, int | None] = {}
    for number in range(40):
        java.produce(
            theirs,
            key=b"key-%d" % number,
            on_delivery=lambda _, message: expected.update({message.key(): message.partition()}),
        )
    java.flush(30)
    ours = read_topic(one)
    found = {message.key(): message for message in ours if message.key() is not None}
    assert {key: message.partition() for key, message in found.items()} == expected
    assert found[b"key-7"].headers() == [("n", b"7"), ("none", None)]
    assert {message.value() for message in ours} == {*(b"value-%d" % number for number in range(40)), b"anywhere"}
    assert {(message.key(), message.value(), message.partition()) for message in read_topic(other)} == {
        (None, None, 1),
        (b"", b"empty key", 0),
    }


def test_a_small_micro_batch_is_sent_in_one_stage_if_it_comes_from_few_partitions(
    spark: SparkSession,
    bootstrap: str,
    new_topic: NewTopicFixture,
    read_topic: ReadFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """How large it is, the one before tells; however it is sent, all of it comes, each partition in its order."""
    as_in_streams = spark.newSession()
    as_in_streams.conf.set("spark.sql.adaptive.enabled", "false")
    jobs = spark.sparkContext.statusTracker()
    for partitions, patience_seconds, expected in ((2, 1e9, [2, 1, 1]), (2, 0, [2, 1, 2]), (8, 1e9, [2, 2, 2])):
        monkeypatch.setattr("highwater_spark.exactly_once.sink.ALONE_SECONDS", patience_seconds)
        topic = new_topic(partitions=3)
        sink = ExactlyOnceSink(bootstrap, sink_id=topic, topics=[topic])
        columns = "cast(id % 7 as string) AS key", "cast(id as string) AS value"
        rows = as_in_streams.range(400, numPartitions=partitions).selectExpr(*columns)
        stages: list[int] = []
        for number in range(3):
            spark.sparkContext.setJobGroup(f"{topic}-{number}", "a micro-batch")
            assert sink.write(rows, query="q", batch=number).records == 400
            (job,) = jobs.getJobIdsForGroup(f"{topic}-{number}")
            ran = jobs.getJobInfo(job)
            assert ran is not None, "Spark forgets no job so soon"
            stages.append(len(ran.stageIds))
        assert stages == expected
        found: dict[tuple[int, int], list[int]] = {}
        for message in read_topic(topic):
            value = int(message.value() or b"")
            found.setdefault((value % 7, value * partitions // 400), []).append(value)
        assert sum(map(len, found.values())) == 3 * 400
        assert all(values == 3 * sorted(set(values)) for values in found.values())


def test_rows_that_have_nowhere_to_go_are_told_and_nothing_is_written(
    spark: SparkSession, bootstrap: str, new_topic: NewTopicFixture, read_topic: ReadFixture
) -> None:
    topic = new_topic(partitions=2)
    sink = ExactlyOnceSink(bootstrap, sink_id=topic, topics=[topic, new_topic()])
    rows = spark.range(3).selectExpr(
        "CASE WHEN id = 1 THEN 'elsewhere' ELSE '" + topic + "' END AS topic", "'v' AS value"
    )
    with pytest.raises(ExactlyOnceRefused, match=r"1 records name a topic or partition .*: topic elsewhere"):
        sink.write(rows, query="q", batch=0)
    astray = spark.range(1).selectExpr(f"'{topic}' AS topic", "'v' AS value", "9 AS partition")
    with pytest.raises(ExactlyOnceRefused, match=f"topic {topic}, partition 9"):
        sink.write(astray, query="q", batch=0)
    with pytest.raises(ExactlyOnceRefused, match="need a column 'topic'"):
        sink.write(spark.range(1).selectExpr("'v' AS value"), query="q", batch=0)
    with pytest.raises(ExactlyOnceRefused, match="no column 'value'; they have id"):
        sink.write(spark.range(1), query="q", batch=0)
    assert read_topic(topic) == []


def test_what_cannot_be_promised_is_refused_at_the_start(spark: SparkSession, bootstrap: str) -> None:
    sink = ExactlyOnceSink(bootstrap, sink_id="any", topics=["any"])
    with pytest.raises(ExactlyOnceRefused, match="this is no micro-batch of a streaming query"):
        sink(spark.range(1), 0)
    settings = spark.sparkContext._conf
    settings.set("spark.speculation", "true")
    try:
        with pytest.raises(ExactlyOnceRefused, match=r"spark\.speculation runs tasks twice"):
            sink.write(spark.range(1), query="q", batch=0)
    finally:
        settings.set("spark.speculation", "false")
    away = ExactlyOnceSink("127.0.0.1:9", sink_id="any", topics=["any"], patience_seconds=0.2)
    with pytest.raises(BrokerAway, match=r"Connection refused; tried for 0\.2 s"):
        away.write(spark.range(1).selectExpr("'v' AS value"), query="q", batch=0)


COPY = """
name: <name>
sources:
  lines: {topic: <source>, parse: {json: {n: int not null}}}
sinks:
  copied: {from: lines, topic: <out>, key: n}
dead_letters: <out>.dead
checkpoint: <folder>/<name>
"""


def test_chained_pipelines_stay_exact_and_their_lag_shows_in_their_groups(
    spark: SparkSession,
    a_pipeline: PipelineFixture,
    bootstrap: str,
    new_topic: NewTopicFixture,
    send: SendFixture,
    read_topic: ReadFixture,
    admin: AdminClient,
) -> None:
    """The second reads what the first has committed, and nothing else that is in the topic between them."""
    source, between, out = new_topic(partitions=2), new_topic(partitions=2), new_topic()
    first = a_pipeline(COPY, name=f"first-{source}", source=source, out=between)
    second = a_pipeline(COPY, name=f"second-{source}", source=between, out=out)
    expected: Counter[int] = Counter()
    for round_number in range(2):
        numbers = list(range(100 * round_number, 100 * round_number + 100))
        send(source, [json.dumps({"n": number}) for number in numbers] + ["no json"])
        expected.update(numbers)
        Runner(spark, first, RunOptions(once=True)).run()
        leave_aborted_records(bootstrap, between)
        Runner(spark, second, RunOptions(once=True)).run()
    found = [json.loads(message.value() or b"") for message in read_topic(out)]
    assert Counter(row["n"] for row in found) == expected
    assert values_of(read_topic(f"{between}.dead")) == Counter({b"no json": 2})
    for pipeline, topic in ((first, source), (second, between)):
        asked = ConsumerGroupTopicPartitions(pipeline.name)
        committed = admin.list_consumer_group_offsets([asked])[pipeline.name].result(30).topic_partitions or []
        assert {(place.topic, place.partition) for place in committed} == {(topic, 0), (topic, 1)}
        assert lag_of(bootstrap, committed) == 0


def leave_aborted_records(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"aborts-{topic}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(20):
        producer.produce(topic, json.dumps({"n": 1_000_000 + number}))
    producer.flush(30)
    producer.abort_transaction(30)


def lag_of(bootstrap: str, committed: list[TopicPartition]) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": "read_committed"})
    try:
        return sum(consumer.get_watermark_offsets(place, timeout=30)[1] - place.offset for place in committed)
    finally:
        consumer.close()
