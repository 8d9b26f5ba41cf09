"""Whatever is killed, and whenever: read_committed output is f(input), no transaction hangs, and no hand is needed.

Every test feeds numbers into a topic, runs drivers (`driver.py`) that double them into two topics, and lets something
die on the way. `make test` runs a part of it on one broker; `make matrix` all of it on all three targets.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyspark
import pytest
from confluent_kafka import Producer
from tests.matrix.driver import JARS, PER_BATCH, Spec
from tests.matrix.targets import TARGETS, Target, await_stable, committed_values

from highwater.testing.ports import free_port
from highwater.testing.waiting import wait_until
from highwater_spark.java import find_java

RUN_SECONDS = 300.0
STEPS = ["LOCATED", "FENCED", "TOKEN_READ", "PARTITIONS_ADDED", "SENT", "CHECKED", "OFFSETS_ADDED", "COMMITTED"]
PYSPARK = Path(pyspark.__file__).parent
DRIVER = Path(__file__).parent / "driver.py"

pytestmark = [pytest.mark.timeout(1500), pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")]
everywhere = [
    "single",
    pytest.param("cluster", marks=pytest.mark.matrix),
    pytest.param("apache", marks=pytest.mark.matrix),
]


@pytest.fixture(scope="module")
def targets() -> Iterator[dict[str, Target]]:
    """Those that were started; each serves all tests."""
    started: dict[str, Target] = {}
    yield started
    for one in started.values():
        one.remove()


@pytest.fixture(params=everywhere)
def target(request: pytest.FixtureRequest, targets: dict[str, Target]) -> Target:
    name = request.param
    if name not in targets:
        for other in list(targets):  # memory and two cores are for one at a time
            targets.pop(other).remove()
        made = TARGETS[name]()
        targets[name] = made
        made.start()
    return targets[name]


@dataclass
class Job:
    """A job with its input, its output, and the drivers that run it."""

    target: Target
    spec: Spec
    numbers: int

    def start(self, **changed: object) -> subprocess.Popen[bytes]:
        """Start a driver."""
        log = (Path(self.spec.folder) / "driver.log").open("ab")
        environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
        command = [sys.executable, str(DRIVER), replace(self.spec, **changed).text()]  # type: ignore[arg-type]
        with log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def run(self, **changed: object) -> int:
        """Run a driver to its end and return how it ended."""
        driver = self.start(**changed)
        try:
            return driver.wait(RUN_SECONDS)
        finally:
            driver.kill()
            driver.wait()

    def finish(self) -> None:
        """Run a driver that nothing happens to, and check that all is as it must be."""
        assert self.run() == 0, self.log()
        await_stable(self.target.bootstrap, self.spec.topics)
        assert Counter(committed_values(self.target.bootstrap, self.spec.topics)) == self.expected(), self.log()

    def check_so_far(self) -> None:
        """Readers see whole micro-batches, each once."""
        found = Counter(committed_values(self.target.bootstrap, self.spec.topics))
        assert not found - self.expected(), "what was never sent, or sent twice"
        assert found.total() % PER_BATCH == 0, "a part of a micro-batch is seen"

    def expected(self) -> Counter[int]:
        return Counter(2 * number for number in range(self.numbers))

    def await_fault(self, batch: int, step: str, fault: str) -> None:
        """Return when the fault of a driver has come."""
        happened = Path(self.spec.folder) / f"fault-{batch}-{step}-{fault}"
        wait_until(happened.exists, f"{step} of micro-batch {batch}", timeout_seconds=RUN_SECONDS)

    def log(self) -> str:
        return (Path(self.spec.folder) / "driver.log").read_text(errors="replace")[-3000:]


def a_job(target: Target, folder: Path, batches: int) -> Job:
    """Make topics and the input of so many micro-batches."""
    name = uuid.uuid4().hex[:8]
    source, *outputs = (f"in-{name}", f"even-{name}", f"odd-{name}")
    for topic, partitions in ((source, 2), (outputs[0], 3), (outputs[1], 1)):
        target.create(topic, partitions)
    numbers = batches * PER_BATCH
    producer = Producer({"bootstrap.servers": target.bootstrap, "linger.ms": 5, "log_level": 0})
    for number in range(numbers):
        producer.produce(source, str(number), partition=number % 2)
    assert producer.flush(120) == 0
    spec = Spec(bootstrap=target.bootstrap, source=source, topics=outputs, sink_id=f"matrix-{name}", folder=str(folder))
    return Job(target, spec, numbers)


def kill_drivers(job: Job, steps: list[str]) -> None:
    """Kill one driver after the other, each in the micro-batch after the one that the last one left half done."""
    for batch, step in enumerate(steps):
        assert job.run(batch=batch, step=step, fault="driver") == -9, job.log()
        job.check_so_far()
    job.finish()


def test_a_driver_killed_where_it_matters_most(target: Target, tmp_path: Path) -> None:
    """Records written and not committed; all but committed; committed, and Spark does not know."""
    kill_drivers(a_job(target, tmp_path, batches=4), ["SENT", "OFFSETS_ADDED", "COMMITTED"])


@pytest.mark.matrix
def test_a_driver_killed_at_every_step(target: Target, tmp_path: Path) -> None:
    kill_drivers(a_job(target, tmp_path, batches=len(STEPS) + 1), STEPS)


def test_a_python_worker_killed_in_the_middle_of_its_task(target: Target, tmp_path: Path) -> None:
    """Spark runs the task again, in a transaction that its first attempt has written to: all is done anew."""
    job = a_job(target, tmp_path, batches=2)
    assert job.run(master="local[2,4]", batch=0, step="SENT", fault="worker") == 0, job.log()
    job.await_fault(0, "SENT", "worker")
    job.finish()


@pytest.mark.parametrize("step", ["SENT", "OFFSETS_ADDED", "COMMITTED"])
@pytest.mark.matrix
def test_a_broker_killed_in_the_middle_of_a_micro_batch(target: Target, tmp_path: Path, step: str) -> None:
    """The leader of an output partition; at `COMMITTED` the coordinator, whose markers may not be out yet."""
    job = a_job(target, tmp_path, batches=3)
    led = "__transaction_state" if step == "COMMITTED" else job.spec.topics[0]
    pid = str(target.pid_of_leader(led))
    driver = job.start(batch=1, step=step, fault=pid)
    try:
        job.await_fault(1, step, pid)
        target.revive()
        driver.wait(RUN_SECONDS)
    finally:
        driver.kill()
        driver.wait()
    job.finish()


@pytest.mark.matrix
def test_a_job_that_is_down_longer_than_its_transaction(target: Target, tmp_path: Path) -> None:
    """The coordinator aborts what the dead driver left, and the next one runs the micro-batch again."""
    job = a_job(target, tmp_path, batches=3)
    assert job.run(batch=1, step="SENT", fault="driver", transaction_timeout_ms=30_000) == -9, job.log()
    await_stable(target.bootstrap, job.spec.topics)
    job.check_so_far()
    job.finish()


@pytest.mark.matrix
def test_a_driver_that_comes_back_from_the_dead(target: Target, tmp_path: Path) -> None:
    """It stood still in the middle of a micro-batch while another one took over: it must not write a record more."""
    job = a_job(target, tmp_path, batches=3)
    zombie = job.start(batch=1, step="SENT", fault="gate")
    try:
        job.await_fault(1, "SENT", "gate")
        job.finish()
        (tmp_path / "go").touch()
        zombie.wait(RUN_SECONDS)
    finally:
        zombie.kill()
        zombie.wait()
    await_stable(target.bootstrap, job.spec.topics)
    assert Counter(committed_values(target.bootstrap, job.spec.topics)) == job.expected()


@pytest.mark.matrix
def test_every_broker_restarted_under_load(target: Target, tmp_path: Path) -> None:
    job = a_job(target, tmp_path, batches=12)
    driver = job.start(batch=1, step="LOCATED", fault="gate")
    try:
        job.await_fault(1, "LOCATED", "gate")
        (tmp_path / "go").touch()
        target.restart_all()
        driver.wait(RUN_SECONDS)
    finally:
        driver.kill()
        driver.wait()
    job.finish()


@pytest.mark.matrix
@pytest.mark.parametrize("fault", ["executor", "worker"])
def test_an_executor_killed_on_a_master_with_workers(target: Target, tmp_path: Path, fault: str) -> None:
    """Its tasks, and what it kept for the shuffle, are gone: Spark runs stages again, and the sink everything."""
    job = a_job(target, tmp_path, batches=3)
    with a_master(tmp_path) as master:
        conf = {"spark.executor.memory": "500m", "spark.executor.cores": "1", "spark.executor.heartbeatInterval": "2s"}
        ended = job.run(master=master, conf=conf, batch=1, step="SENT", fault=fault)
    assert ended == 0, job.log()
    job.await_fault(1, "SENT", fault)
    job.finish()


PIPELINE = """
name: <name>
kafka: {bootstrap: "<bootstrap>"}
sources:
  numbers: {topic: <source>, parse: {json: {n: int not null}}, max_per_trigger: 100}
transforms:
  doubled: {sql: "SELECT 2 * n AS value FROM numbers"}
sinks:
  out: {from: doubled, topic: <out>, value: value}
dead_letters: <out>.dead
checkpoint: <folder>/checkpoint
"""


@pytest.mark.matrix
def test_a_pipeline_killed_again_and_again(target: Target, tmp_path: Path) -> None:
    """The shipped command, process and JVM killed while it works; results and dead letters are there once."""
    name = uuid.uuid4().hex[:8]
    names = {"name": name, "source": f"in-{name}", "out": f"out-{name}", "folder": str(tmp_path)}
    for topic in (names["source"], names["out"], f"{names['out']}.dead"):
        target.create(topic, 2)
    text = PIPELINE.replace("<bootstrap>", target.bootstrap)
    for word, meant in names.items():
        text = text.replace(f"<{word}>", meant)
    (tmp_path / "pipeline.yaml").write_text(text)
    producer = Producer({"bootstrap.servers": target.bootstrap, "log_level": 0})
    for number in range(2000):
        producer.produce(
            names["source"], json.dumps({"n": number}) if number % 10 else str(number), partition=number % 2
        )
    assert producer.flush(120) == 0
    command = [sys.executable, "-m", "highwater_spark", "run", str(tmp_path / "pipeline.yaml"), "--once"]
    command += ["--master", "local[2]", "--jars", str(JARS), "--conf", "spark.driver.memory=600m"]

    def run(kill_at: int | None) -> int:
        """Run the pipeline, and kill all of it once so many results are there."""
        with (tmp_path / "run.log").open("ab") as log:
            running = subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path, start_new_session=True)
        try:
            if kill_at is not None:
                wait_until(
                    lambda: len(committed_values(target.bootstrap, [names["out"]])) >= kill_at,
                    f"{kill_at} results",
                    timeout_seconds=RUN_SECONDS,
                )
                os.killpg(running.pid, signal.SIGKILL)
            return running.wait(RUN_SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()

    for kill_at in (1, 500, 1000):
        run(kill_at)
    assert run(None) == 0, (tmp_path / "run.log").read_text()[-3000:]
    await_stable(target.bootstrap, [names["out"]])
    found = Counter(committed_values(target.bootstrap, [names["out"]]))
    assert found == Counter(2 * number for number in range(2000) if number % 10)
    dead = Counter(committed_values(target.bootstrap, [f"{names['out']}.dead"]))
    assert dead == Counter(range(0, 2000, 10))


@contextlib.contextmanager
def a_master(folder: Path) -> Iterator[str]:
    """Run a standalone Spark master with two workers."""
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    environment = os.environ | {
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(PYSPARK),
        "SPARK_SCALA_VERSION": "2.13",  # workers guess it from a build tree otherwise
    }
    small = ["-Xmx256m", "-XX:TieredStopAtLevel=1"]
    java = [str(find_java().home / "bin" / "java"), *small, "-cp", f"{PYSPARK}/jars/*"]
    deploy, web = "org.apache.spark.deploy", ["--webui-port", "0"]
    commands = [[*java, f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), *web]]
    for number in (1, 2):
        options = ["--cores", "1", "--memory", "600m", "--host", "127.0.0.1", "--work-dir", str(folder / f"w{number}")]
        commands.append([*java, f"{deploy}.worker.Worker", *options, *web, address])
    log = folder / "master.log"
    processes: list[subprocess.Popen[bytes]] = []
    try:
        with log.open("wb") as file:
            processes += [subprocess.Popen(command, stdout=file, stderr=file, env=environment) for command in commands]
        registered = "Successfully registered with master"
        wait_until(lambda: log.read_text().count(registered) == 2, "two workers", timeout_seconds=RUN_SECONDS)
        yield address
    finally:
        for process in processes:
            process.kill()
            process.wait()
