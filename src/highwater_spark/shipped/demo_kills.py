"""The last act of the demo: a pipeline on a cluster, a broker and the driver killed under it, and exact totals."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console

from highwater_spark.errors import RunFailed

TRANSFERS: Final = "transfers"
BOOKED: Final = "transfers.booked"
DEAD_LETTERS: Final = "transfers.dead-letters"
PIPELINE: Final = f"""
name: booking
sources:
  transfers: {{topic: {TRANSFERS}, parse: {{json: {{id: bigint not null, amount: bigint not null}}}}}}
sinks:
  booked: {{from: transfers, topic: {BOOKED}, key: id}}
dead_letters: {DEAD_LETTERS}
checkpoint: <folder>/checkpoint
trigger: 1 second
"""
PER_SECOND: Final = 500
PARTITIONS: Final = 2
ANSWER_SECONDS: Final = 30.0
PATIENCE_SECONDS: Final = 180.0
STOP_SECONDS: Final = 60.0


def run_under_kills(console: Console, bootstrap: str, folder: Path, kill_leader: Callable[[str], int]) -> None:
    """Run a pipeline on a cluster and kill what it runs on; raises unless every transfer is booked exactly once.

    `kill_leader` ends the broker that leads a topic's first partition, at once, and returns its number.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    asked = [NewTopic(topic, PARTITIONS, 3) for topic in (TRANSFERS, BOOKED, DEAD_LETTERS)]
    for made in admin.create_topics(asked).values():
        made.result(ANSWER_SECONDS)
    (folder / "booking.yaml").write_text(PIPELINE.replace("<folder>", str(folder)), encoding="utf-8")
    console.print("[green]✓[/] pipeline booking on the cluster: transfers in, each booked once; starting Spark")
    with _transfers(bootstrap) as transfers, _booked(bootstrap) as booked:
        with _driver(bootstrap, folder) as driver:
            booked.read_until(lambda: booked.count > 0, driver)
            number = kill_leader(BOOKED)
            before = booked.count
            booked.read_until(lambda: booked.count > before, driver)
            console.print(f"[green]✓[/] broker {number} killed (kill -9) under the pipeline, which goes on")
            driver.kill()
        console.print(f"[green]✓[/] its driver killed (kill -9) after {booked.count:,} transfers, and started again")
        with _driver(bootstrap, folder) as driver:
            before = booked.count
            booked.read_until(lambda: booked.count > before, driver)
            transfers.finish()
            booked.read_until(lambda: booked.count >= transfers.count, driver)
            driver.stop()
        _prove(console, transfers, booked)


def _prove(console: Console, transfers: "_Transfers", booked: "_Booked") -> None:
    twice = [number for number, times in booked.times.items() if times > 1]
    if twice or sorted(booked.times) != list(range(transfers.count)) or booked.amount != transfers.amount:
        raise RunFailed(
            f"{transfers.count:,} transfers of {transfers.amount:,} were sent, but {booked.count:,} of "
            f"{booked.amount:,} are booked, {len(twice)} of them more than once"
        )
    console.print(
        f"[green]✓[/] {transfers.count:,} transfers sent, {transfers.amount:,} in all: each is booked once, "
        "and the totals are equal"
    )


class _Transfers:
    """Sends transfers at a steady rate, and remembers what it sent."""

    def __init__(self, bootstrap: str) -> None:
        self.count = self.amount = 0
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._enough.wait(1 / PER_SECOND):
            amount = 1 + 7919 * self.count % 1000
            self._producer.produce(TRANSFERS, json.dumps({"id": self.count, "amount": amount}), str(self.count))
            self.count, self.amount = self.count + 1, self.amount + amount
            self._producer.poll(0)

    def finish(self) -> None:
        """Send no more; return when all are acknowledged."""
        self._enough.set()
        self._thread.join()
        if self._producer.flush(ANSWER_SECONDS):
            raise RunFailed("the cluster did not acknowledge all transfers")


@contextmanager
def _transfers(bootstrap: str) -> Iterator[_Transfers]:
    sending = _Transfers(bootstrap)
    try:
        yield sending
    finally:
        sending.finish()


class _Booked:
    """What is booked, as a reader of committed records sees it."""

    def __init__(self, consumer: Consumer) -> None:
        self.times: Counter[int] = Counter()
        self.amount = 0
        self._consumer = consumer

    @property
    def count(self) -> int:
        """How many are booked."""
        return self.times.total()

    def read_until(self, condition: Callable[[], bool], driver: "_Driver") -> None:
        """Take in what is new until something is so."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            driver.check()
            if time.monotonic() > deadline:
                raise RunFailed(f"after {PATIENCE_SECONDS:.0f} s only {self.count:,} transfers are booked")
            for message in self._consumer.consume(10_000, 0.2):
                if message.error() is None:
                    transfer = json.loads(message.value() or b"")
                    self.times[transfer["id"]] += 1
                    self.amount += transfer["amount"]


@contextmanager
def _booked(bootstrap: str) -> Iterator[_Booked]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "demo", "isolation.level": "read_committed", "log_level": 0}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(BOOKED, partition, 0) for partition in range(PARTITIONS)])
    try:
        yield _Booked(consumer)
    finally:
        consumer.close()


class _Driver:
    """The command that runs the pipeline, as a process with a JVM below it."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    def check(self) -> None:
        """Raise if it has ended."""
        if self._process.poll() is not None:
            told = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise RunFailed(f"the pipeline ended by itself: {told[-1] if told else 'it said nothing'}")

    def stop(self) -> None:
        """Let it finish what it is at."""
        self._process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)

    def kill(self) -> None:
        """End it and its JVM at once."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@contextmanager
def _driver(bootstrap: str, folder: Path) -> Iterator[_Driver]:
    """Run the pipeline; whatever of it still runs at the end is killed."""
    command = [sys.executable, "-m", "highwater_spark", "run", str(folder / "booking.yaml"), "--bootstrap", bootstrap]
    command += ["--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2"]
    command += ["--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"]
    log = folder / "driver.log"
    with log.open("ab") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)  # noqa: S603 - our own
    driver = _Driver(process, log)
    try:
        yield driver
    finally:
        driver.kill()
