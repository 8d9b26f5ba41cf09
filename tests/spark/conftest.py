"""Real Spark against a running broker.

One Spark session serves the whole folder: it takes longer to start than most tests to run.
`HIGHWATER_TEST_BOOTSTRAP=host:port` points the tests at another broker than the one they start, such as Apache Kafka.
"""

import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from highwater.testing.broker import BrokerProcess
from highwater_spark.definition.load import load
from highwater_spark.definition.model import Pipeline
from highwater_spark.session import session

ORACLE = os.environ.get("HIGHWATER_TEST_BOOTSTRAP")
PATIENCE_SECONDS = 60.0
JARS = Path(__file__).parent.parent.parent / ".tools" / "spark"

NewTopicFixture = Callable[..., str]
SendFixture = Callable[..., None]
ReadFixture = Callable[..., list[Message]]
PipelineFixture = Callable[..., Pipeline]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Py4J leaves its sockets to the garbage collector; that is neither ours nor a leak."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The address of the broker under test."""
    if ORACLE is not None:
        return ORACLE
    broker: BrokerProcess = request.getfixturevalue("highwater_session_broker")
    return broker.bootstrap_servers


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of this folder, with the connector that `make setup` fetched."""
    folder = tmp_path_factory.mktemp("spark")
    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # tests are over before the optimiser pays
    }
    started = session(app_name="tests", master="local[2]", jars=[JARS], conf=conf, log_file=folder / "spark.log")
    yield started
    started.stop()


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> AdminClient:
    """An admin client of the broker under test."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


@pytest.fixture
def new_topic(admin: AdminClient, request: pytest.FixtureRequest) -> NewTopicFixture:
    """Make a topic that no other test uses and return its name."""

    def make(partitions: int = 1, config: Mapping[str, str] | None = None, prefix: str = "") -> str:
        name = f"{prefix}{request.node.originalname[:60]}-{uuid.uuid4().hex[:8]}"
        asked = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        admin.create_topics([asked])[name].result(PATIENCE_SECONDS)
        return name

    return make


@pytest.fixture(scope="session")
def send(bootstrap: str) -> SendFixture:
    """Send values to a topic, to one partition if given, and wait until all are acknowledged."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 2, "log_level": 0})

    def send_all(
        topic: str,
        values: list[str | bytes | None],
        *,
        partition: int = -1,
        key: str | None = None,
        timestamp_ms: int = 0,
        headers: Mapping[str, bytes] | None = None,
    ) -> None:
        failures: list[str] = []
        for value in values:
            producer.produce(
                topic,
                value,
                key,
                partition=partition,
                timestamp=timestamp_ms,
                headers=list((headers or {}).items()),
                on_delivery=lambda error, _: failures.append(str(error)) if error else None,
            )
        assert producer.flush(PATIENCE_SECONDS) == 0
        assert not failures, failures[0]

    return send_all


@pytest.fixture(scope="session")
def read_topic(bootstrap: str) -> ReadFixture:
    """Return everything that is in a topic now."""

    def read(topic: str) -> list[Message]:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        try:
            partitions = consumer.list_topics(topic, timeout=PATIENCE_SECONDS).topics[topic].partitions
            consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
            found: list[Message] = []
            left = set(partitions)
            while left:
                message = consumer.poll(PATIENCE_SECONDS)
                assert message is not None, f"{topic}: no end of partitions {left} in {PATIENCE_SECONDS} s"
                if message.error() is None:
                    found.append(message)
                else:
                    left.discard(message.partition())
            return found
        finally:
            consumer.close()

    return read


@pytest.fixture
def kafka_reader(spark: SparkSession, bootstrap: str) -> DataFrameReader:
    """A batch reader of the broker under test."""
    return spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)


@pytest.fixture
def kafka_stream(spark: SparkSession, bootstrap: str) -> DataStreamReader:
    """A streaming reader of the broker under test."""
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("startingOffsets", "earliest")
    )


@pytest.fixture
def a_pipeline(bootstrap: str, tmp_path: Path) -> PipelineFixture:
    """Write a pipeline file and load it; `<name>` in the text is replaced by the keyword of that name."""

    def make(text: str, **names: str) -> Pipeline:
        for name, value in {"folder": str(tmp_path), **names}.items():
            text = text.replace(f"<{name}>", value)
        path = tmp_path / "pipeline.yaml"
        path.write_text(text)
        return load(path, bootstrap=bootstrap, environment={})

    return make
