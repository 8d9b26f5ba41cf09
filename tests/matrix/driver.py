"""A driver to be killed: a streaming query through the exactly-once sink, with faults at chosen steps.

Run as `python driver.py SPEC`, where SPEC is the JSON of a `Spec`. Not a test by itself.
"""

import json
import os
import signal
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from highwater_spark.exactly_once import ExactlyOnceSink, Step, checkpoint_offsets
from highwater_spark.session import session

JARS = Path(__file__).parents[2] / ".tools" / "spark"
GATE_SECONDS = 240.0
PER_BATCH = 200
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"  # it is started often and does not live long


class Fault(NamedTuple):
    """What happens once, after a step of a micro-batch."""

    batch: int
    step: str
    what: str  # driver, worker, executor: is killed; a number: that process is; gate: wait until told to go on

    def trace(self, folder: str) -> Path:
        """Return the file that says that it has happened."""
        return Path(folder) / f"fault-{self.batch}-{self.step}-{self.what}"


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What to run, and what to do to it."""

    bootstrap: str
    source: str
    topics: list[str]
    sink_id: str
    folder: str
    master: str = "local[2]"
    conf: dict[str, str] = field(default_factory=dict)
    transaction_timeout_ms: int = 120_000
    faults: list[Fault] = field(default_factory=list)

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> Self:
        told = json.loads(text)
        return cls(**{**told, "faults": [Fault(*fault) for fault in told["faults"]]})


class Faults:
    """The faults, as the sink's observer."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self.batch = -1

    def __call__(self, step: Step) -> None:
        for fault in self._spec.faults:
            if (fault.batch, fault.step) == (self.batch, step.name):
                try:
                    fault.trace(self._spec.folder).touch(exist_ok=False)
                except FileExistsError:
                    continue
                self._happen(fault.what)

    def _happen(self, fault: str) -> None:
        if fault == "driver":
            kill_driver()
        elif fault == "worker":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault == "executor":
            assert TaskContext.get() is not None, "only a task has an executor"
            os.kill(parent_of(os.getppid()), signal.SIGKILL)  # our parent is PySpark's daemon, its parent the JVM
        elif fault == "gate":
            deadline = time.monotonic() + GATE_SECONDS
            while not (Path(self._spec.folder) / "go").exists() and time.monotonic() < deadline:
                time.sleep(0.02)
        else:
            os.kill(int(fault), signal.SIGKILL)


def kill_driver() -> None:
    """Kill the JVM and ourselves, from wherever in the driver's family of processes we are."""
    folder = os.environ["MATRIX_PIDS"]
    for pid in Path(folder).read_text().split():
        os.kill(int(pid), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def main(spec: Spec) -> None:
    folder = Path(spec.folder)
    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "600m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.executor.extraJavaOptions": JAVA_OPTIONS,
        "spark.ui.enabled": "false",
        **spec.conf,
    }
    pids = folder / f"pids-{os.getpid()}"
    os.environ["MATRIX_PIDS"] = str(pids)
    spark = session(app_name="matrix", master=spec.master, jars=[JARS], conf=conf, log_file=folder / "spark.log")
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    pids.write_text(f"{jvm.java.lang.ProcessHandle.current().pid()} {os.getpid()}")
    faults = Faults(spec)
    checkpoint = folder / "checkpoint"
    sink = ExactlyOnceSink(
        spec.bootstrap,
        sink_id=spec.sink_id,
        topics=spec.topics,
        transaction_timeout_ms=spec.transaction_timeout_ms,
        patience_seconds=120,
        group=f"{spec.sink_id}.group",
        source_offsets=checkpoint_offsets(spark, str(checkpoint)),
        observer=faults,
    )

    def write(rows: DataFrame, number: int) -> None:
        faults.batch = number
        sink(rows, number)

    query = results(spark, spec).writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
    query.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


def results(spark: SparkSession, spec: Spec) -> DataFrame:
    """Return what is written: each number, doubled, in the topic that it chooses."""
    stream = spark.readStream.format("kafka").options(
        **{"kafka.bootstrap.servers": spec.bootstrap, "kafka.isolation.level": "read_committed"},
        subscribe=spec.source,
        startingOffsets="earliest",
        maxOffsetsPerTrigger=str(PER_BATCH),
    )
    choice = " ".join(f"WHEN n % {len(spec.topics)} = {place} THEN '{name}'" for place, name in enumerate(spec.topics))
    numbers = stream.load().selectExpr("cast(cast(value as string) as bigint) AS n")
    return numbers.selectExpr(
        f"CASE {choice} END AS topic", "cast(n as string) AS key", "cast(2 * n as string) AS value"
    )


if __name__ == "__main__":
    main(Spec.read(sys.argv[1]))
