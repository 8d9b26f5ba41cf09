"""A pipeline that keeps running: brokers that go away, a second run, and being asked to stop."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from highwater.testing.plugin import BrokerFactory
from highwater.testing.ports import free_port
from highwater.testing.waiting import wait_until
from highwater_spark.definition.load import load
from highwater_spark.errors import BrokerAway, StateError
from highwater_spark.run.lock import only_run
from highwater_spark.run.progress import Snapshot
from highwater_spark.run.runner import Runner, RunOptions

COPY = """
name: copy
kafka: {bootstrap: <bootstrap>}
sources:
  lines:
    topic: lines
    options:                               # a broker that is away is noticed in seconds instead of a minute
      kafka.request.timeout.ms: 2000
      kafka.default.api.timeout.ms: 4000
      fetchOffset.numRetries: 1
sinks:
  copied: {from: lines, topic: copied}
checkpoint: <folder>/checkpoint
"""
PATIENCE_SECONDS = 180.0


@dataclass
class Recorder:
    """A display that keeps what it was told."""

    snapshots: list[Snapshot] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def show(self, snapshot: Snapshot) -> None:
        self.snapshots.append(snapshot)

    def say(self, text: str) -> None:
        self.said.append(text)

    @property
    def waiting(self) -> str | None:
        return self.snapshots[-1].waiting if self.snapshots else None

    @property
    def copied(self) -> int:
        return self.snapshots[-1].rows_out.get("copied", 0) if self.snapshots else 0


def until(condition: Callable[[], bool]) -> None:
    wait_until(condition, timeout_seconds=PATIENCE_SECONDS)


def test_a_broker_that_is_away_at_the_start_or_goes_away_is_waited_for_and_nothing_is_lost(
    spark: SparkSession, highwater_broker_factory: BrokerFactory, tmp_path: Path
) -> None:
    broker = highwater_broker_factory()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic("lines", 1, 1)])["lines"].result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    path = tmp_path / "copy.yaml"
    path.write_text(COPY.replace("<bootstrap>", broker.bootstrap_servers).replace("<folder>", str(tmp_path)))
    recorder, stop = Recorder(), threading.Event()
    runner = Runner(spark, load(path), RunOptions(stop=stop, patience_seconds=PATIENCE_SECONDS), recorder)
    producer.produce("lines", "before")
    assert producer.flush(30) == 0
    broker.stop()
    thread = threading.Thread(target=runner.run)
    thread.start()
    try:
        until(lambda: "no broker answers at" in (recorder.waiting or ""))
        broker.start()
        until(lambda: recorder.copied == 1)
        broker.stop()
        until(lambda: recorder.waiting is not None)
        assert "no broker answers at" in (recorder.waiting or "")
        broker.start()
        producer.produce("lines", "after")
        assert producer.flush(60) == 0
        until(lambda: recorder.copied >= 2)
        assert recorder.waiting is None
    finally:
        stop.set()
        thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive()
    assert recorder.copied == 2


def test_a_broker_that_never_comes_is_given_up_with_the_reason(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "copy.yaml"
    address = f"127.0.0.1:{free_port()}"
    path.write_text(COPY.replace("<bootstrap>", address).replace("<folder>", str(tmp_path)))
    recorder = Recorder()
    with pytest.raises(BrokerAway, match=rf"no broker answers at {address}: .*gave up after"):
        Runner(spark, load(path), RunOptions(patience_seconds=4), recorder).run()
    assert "waiting for" in (recorder.waiting or "")


def test_a_second_run_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    with only_run(checkpoint, "copy"):
        holder = json.loads((tmp_path / "checkpoint" / "lock").read_text())
        second = only_run(checkpoint, "copy")
        with pytest.raises(StateError, match=f"'copy' is already running: process {holder['pid']} on "):
            second.__enter__()
    with only_run(checkpoint, "copy"):
        pass
