"""The shipped pipelines with their generators: what comes out adds up to what went in (row P2)."""

import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

from highwater.testing.broker import BrokerProcess
from highwater_spark.definition.load import load
from highwater_spark.definition.model import Pipeline
from highwater_spark.run.runner import Runner, RunOptions
from highwater_spark.shipped.catalog import find_pipeline
from highwater_spark.shipped.generators import GENERATORS, Ledger, Sender

EVENTS = 3000


def generated(name: str, broker: BrokerProcess, folder: Path) -> tuple[Pipeline, Ledger]:
    pipeline = load(find_pipeline(name), bootstrap=broker.bootstrap_servers).moved_to(folder)
    sender = Sender(pipeline.kafka, GENERATORS[name], rate=1_000_000, seed=7)
    sender.prepare()
    return pipeline, sender.run(threading.Event(), events=EVENTS)


def rows_of(broker: BrokerProcess, *topics: str) -> list[dict[str, Any]]:
    """All values of topics, in the order of each partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "unused",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    try:
        partitions = [
            TopicPartition(topic, partition, 0)
            for topic in topics
            for partition in consumer.list_topics(topic, timeout=30).topics[topic].partitions
        ]
        consumer.assign(partitions)
        rows: list[dict[str, Any]] = []
        left = len(partitions)
        while left:
            message = consumer.poll(30)
            assert message is not None, f"no end of {topics}"
            if message.error() is None:
                rows.append(json.loads(message.value() or b"null"))
            else:
                left -= 1
        return rows
    finally:
        consumer.close()


def test_activity_counts_every_view_and_search(
    spark: SparkSession, highwater_broker: BrokerProcess, tmp_path: Path
) -> None:
    pipeline, ledger = generated("activity", highwater_broker, tmp_path)
    snapshot = Runner(spark, pipeline, RunOptions(once=True)).run()

    counts = {(row["minute"], row["page"]): row for row in rows_of(highwater_broker, "activity.page-counts")}
    assert sum(row["views"] for row in counts.values()) == ledger.sent["views"]
    views = pd.read_parquet(tmp_path / "tables/activity/page_views")
    assert len(views) == ledger.sent["views"]
    assert snapshot.dead_letters == ledger.sent["broken"] > 0
    assert rows_of(highwater_broker, "activity.traffic") == [], "no minute is final before the watermark has passed it"

    _end_the_minutes(highwater_broker)
    Runner(spark, pipeline, RunOptions(once=True)).run()

    traffic = pd.read_parquet(tmp_path / "tables/activity/traffic")
    assert traffic["views"].sum() == ledger.sent["views"]
    assert traffic["searches"].sum() == ledger.sent["searches"]
    assert sum(row["views"] for row in rows_of(highwater_broker, "activity.traffic")) == ledger.sent["views"]
    for minute in rows_of(highwater_broker, "activity.top-pages"):
        of_minute = Counter({page: row["views"] for (at, page), row in counts.items() if at == minute["minute"]})
        assert [page["views"] for page in minute["pages"]] == [views for _, views in of_minute.most_common(10)]


def _end_the_minutes(broker: BrokerProcess) -> None:
    """Send one event of each kind from ten minutes ahead, which moves the watermark past all others."""
    ahead = (pd.Timestamp.now("UTC") + pd.Timedelta(minutes=10)).isoformat()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    producer.produce("page-views", json.dumps({"user_id": "last", "page": "/", "viewed_at": ahead}))
    producer.produce("searches", json.dumps({"user_id": "last", "query": "x", "searched_at": ahead}))
    assert producer.flush(30) == 0


def test_logs_are_routed_by_level_and_service_and_raise_alerts(
    spark: SparkSession, highwater_broker: BrokerProcess, tmp_path: Path
) -> None:
    pipeline, ledger = generated("logs", highwater_broker, tmp_path)
    snapshot = Runner(spark, pipeline, RunOptions(once=True)).run()

    for level in ("debug", "info", "warn", "error"):
        rows = rows_of(highwater_broker, f"logs.level.{level}")
        assert len(rows) == ledger.sent[level]
        assert {row["level"] for row in rows} == {level}
    by_service = {
        service: rows_of(highwater_broker, f"logs.service.{service}")
        for service in ("checkout", "payment", "search", "catalog", "login")
    }
    assert sum(map(len, by_service.values())) == ledger.total - ledger.sent["broken"]
    assert all({row["service"] for row in rows} == {service} for service, rows in by_service.items())
    assert {row["team"] for row in by_service["checkout"]} == {"payments"}
    assert len(pd.read_parquet(tmp_path / "tables/logs/entries")) == ledger.total - ledger.sent["broken"]
    assert snapshot.dead_letters == ledger.sent["broken"] > 0
    alerts = rows_of(highwater_broker, "logs.alerts")
    assert alerts
    assert all(alert["error_rate"] > 0.1 for alert in alerts)
