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
from tests.matrix.driver import JARS, PER_BATCH, Fault, Spec
from tests.matrix.targets import TARGETS, Cluster, Target, await_stable, committed_values

from highwater.testing.ports import free_port
from highwater.testing.waiting import wait_until
from highwater_spark.java import find_java

RUN_SECONDS = 300.0
LEFT_DOWN_MS = 60_000  # the transaction of a driver that does not come back; its first micro-batch must fit in it
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
    found = targets[name]
    if isinstance(found, Cluster):
        found.await_whole()
    return found


@dataclass
class Job:
    """A job with its input, its output, and the drivers that run it."""

    target: Target
    spec: Spec
    numbers: int

    def start(self, *faults: Fault, **changed: object) -> subprocess.Popen[bytes]:
        """Start a driver to which something happens."""
        log = (Path(self.spec.folder) / "driver.log").open("ab")
        environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
        spec = replace(self.spec, faults=list(faults), **changed)  # type: ignore[arg-type]
        command = [sys.executable, str(DRIVER), spec.text()]
        with log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def run(self, *faults: Fault, **changed: object) -> int:
        """Run a driver to its end and return how it ended; a fault that did not come is an error."""
        with self.running(*faults, **changed) as driver:
            ended = driver.wait(RUN_SECONDS)
        for fault in faults:
            assert fault.trace(self.spec.folder).exists(), self.log()
        return ended

    @contextlib.contextmanager
    def running(self, *faults: Fault, **changed: object) -> Iterator[subprocess.Popen[bytes]]:
        """Run a driver beside the test, which is over with it."""
        driver = self.start(*faults, **changed)
        try:
            yield driver
        finally:
            driver.kill()
            driver.wait()

    def finish(self) -> None:
        """Run a driver that nothing happens to, and check that all is as it must be."""
        assert self.run() == 0, self.log()
        self.check_all()

    def check_all(self) -> None:
        """Readers see the whole result, each record once, and nothing is undecided."""
        await_stable(self.target.bootstrap, self.spec.topics)
        assert Counter(committed_values(self.target.bootstrap, self.spec.topics)) == self.expected(), self.log()

    def check_so_far(self) -> None:
        """Readers see whole micro-batches, each once."""
        found = Counter(committed_values(self.target.bootstrap, self.spec.topics))
        assert not found - self.expected(), "what was never sent, or sent twice"
        assert found.total() % PER_BATCH == 0, "a part of a micro-batch is seen"

    def expected(self) -> Counter[int]:
        return Counter(2 * number for number in range(self.numbers))

    def await_fault(self, fault: Fault, driver: subprocess.Popen[bytes]) -> None:
        """Return when a fault of a driver has come."""
        came = fault.trace(self.spec.folder)
        what = f"{fault.step} of micro-batch {fault.batch}"
        wait_until(lambda: came.exists() or driver.poll() is not None, what, timeout_seconds=RUN_SECONDS)
        assert came.exists(), self.log()

    def open_gate(self) -> None:
        """Let a driver go on that waits at its gate."""
        (Path(self.spec.folder) / "go").touch()

    def log(self) -> str:
        return (Path(self.spec.folder) / "driver.log").read_text(errors="replace")[-3000:]


def a_job(target: Target, folder: Path, batches: int, sources: int = 2) -> Job:
    """Make topics and the input of so many micro-batches, spread over so many partitions."""
    name = uuid.uuid4().hex[:8]
    source, *outputs = (f"in-{name}", f"even-{name}", f"odd-{name}")
    for topic, partitions in ((source, sources), (outputs[0], 3), (outputs[1], 1)):
        target.create(topic, partitions)
    numbers = batches * PER_BATCH
    producer = Producer({"bootstrap.servers": target.bootstrap, "linger.ms": 5, "log_level": 0})
    for number in range(numbers):
        producer.produce(source, str(number), partition=number % sources)
    assert producer.flush(120) == 0
    spec = Spec(bootstrap=target.bootstrap, source=source, topics=outputs, sink_id=f"matrix-{name}", folder=str(folder))
    return Job(target, spec, numbers)


def kill_drivers(job: Job, steps: list[str]) -> None:
    """Kill one driver after the other, each in the micro-batch after the one that the last one left half done."""
    for batch, step in enumerate(steps):
        assert job.run(Fault(batch, step, "driver")) == -9, job.log()
        job.check_so_far()


def test_a_driver_killed_where_it_matters_most(target: Target, tmp_path: Path) -> None:
    """Records written and not committed; all but committed; committed, and Spark does not know."""
    job = a_job(target, tmp_path, batches=3)
    kill_drivers(job, ["SENT", "OFFSETS_ADDED", "COMMITTED"])
    job.finish()


@pytest.mark.matrix
def test_a_driver_killed_at_every_step_and_left_down_longer_than_its_transaction(
    target: Target, tmp_path: Path
) -> None:
    """In the end the coordinator aborts what a dead driver left, and the next one runs the micro-batch again."""
    job = a_job(target, tmp_path, batches=len(STEPS) + 2)
    kill_drivers(job, STEPS)
    assert job.run(Fault(len(STEPS), "SENT", "driver"), transaction_timeout_ms=LEFT_DOWN_MS) == -9, job.log()
    await_stable(target.bootstrap, job.spec.topics)
    job.check_so_far()
    job.finish()


def test_a_python_worker_killed_in_the_middle_of_its_task(target: Target, tmp_path: Path) -> None:
    """Spark runs the task again, in a transaction that its first attempt has written to: all is done anew."""
    job = a_job(target, tmp_path, batches=2)
    assert job.run(Fault(0, "SENT", "worker"), Fault(1, "SENT", "worker"), master="local[2,4]") == 0, job.log()
    job.check_all()


@pytest.mark.parametrize("step", ["SENT", "OFFSETS_ADDED", "COMMITTED"])
@pytest.mark.matrix
def test_a_broker_killed_in_the_middle_of_a_micro_batch(target: Target, tmp_path: Path, step: str) -> None:
    """The leader of an output partition; at `COMMITTED` the coordinator, whose markers may not be out yet."""
    job = a_job(target, tmp_path, batches=3)
    chosen = job.spec
    pid = target.pid_of_coordinator(chosen.sink_id) if step == "COMMITTED" else target.pid_of_leader(chosen.topics[0])
    fault = Fault(1, step, str(pid))
    with job.running(fault) as driver:
        job.await_fault(fault, driver)
        target.revive()
        assert driver.wait(RUN_SECONDS) == 0, job.log()
    job.check_all()


@pytest.mark.matrix
@pytest.mark.parametrize("target", ["cluster"], indirect=True)
def test_a_coordinator_killed_between_its_decision_and_the_markers(target: Cluster, tmp_path: Path) -> None:
    """It cannot reach the leader of an output partition: it decides, and dies before it can tell."""
    job = a_job(target, tmp_path, batches=3)
    gate = Fault(1, "OFFSETS_ADDED", "gate")
    with job.running(gate) as driver:
        job.await_fault(gate, driver)
        coordinator = target.coordinator(job.spec.sink_id)
        unreachable = target.cut_from_a_leader(coordinator, job.spec.topics[0])
        job.open_gate()
        target.kill_after_decision(coordinator, unreachable)
        target.revive()
        assert driver.wait(RUN_SECONDS) == 0, job.log()
    job.check_all()


@pytest.mark.matrix
@pytest.mark.parametrize("target", ["cluster"], indirect=True)
def test_a_leader_that_loses_its_zookeeper_session(target: Cluster, tmp_path: Path) -> None:
    """It still answers clients, and others lead in its place: the micro-batch goes on with them."""
    job = a_job(target, tmp_path, batches=3)
    gate = Fault(1, "PARTITIONS_ADDED", "gate")
    with job.running(gate) as driver:
        job.await_fault(gate, driver)
        target.lose_session(job.spec.topics[0])
        job.open_gate()
        assert driver.wait(RUN_SECONDS) == 0, job.log()
    target.await_whole()
    job.check_all()


@pytest.mark.matrix
def test_a_driver_that_comes_back_from_the_dead(target: Target, tmp_path: Path) -> None:
    """It stood still in the middle of a micro-batch while another one took over: it must not write a record more."""
    job = a_job(target, tmp_path, batches=3)
    gate = Fault(1, "SENT", "gate")
    with job.running(gate) as zombie:
        job.await_fault(gate, zombie)
        job.finish()
        job.open_gate()
        zombie.wait(RUN_SECONDS)
    job.check_all()


@pytest.mark.matrix
def test_every_broker_restarted_under_load(target: Target, tmp_path: Path) -> None:
    job = a_job(target, tmp_path, batches=12)
    gate = Fault(1, "LOCATED", "gate")
    with job.running(gate) as driver:
        job.await_fault(gate, driver)
        job.open_gate()
        target.restart_all()
        assert driver.wait(RUN_SECONDS) == 0, job.log()
    job.check_all()


@pytest.mark.matrix
def test_executors_killed_on_a_master_with_workers(target: Target, tmp_path: Path) -> None:
    """Its tasks, and what it kept for the shuffle, are gone: Spark runs stages again, and the sink everything."""
    job = a_job(target, tmp_path, batches=3, sources=5)  # more than one task would compute: there is a shuffle
    faults = [Fault(0, "SENT", "executor"), Fault(1, "SENT", "worker"), Fault(2, "SENT", "executor")]
    with a_master(tmp_path) as master:
        conf = {"spark.executor.memory": "500m", "spark.executor.cores": "1", "spark.executor.heartbeatInterval": "2s"}
        assert job.run(*faults, master=master, conf=conf) == 0, job.log()
    retried = "FetchFailed" in (tmp_path / "spark.log").read_text(errors="replace")
    assert retried, "no stage was run again"
    job.check_all()


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
    name = f"p{uuid.uuid4().hex[:8]}"  # a letter first
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
                    lambda: (
                        running.poll() is not None or len(committed_values(target.bootstrap, [names["out"]])) >= kill_at
                    ),
                    f"{kill_at} results",
                    timeout_seconds=RUN_SECONDS,
                )
                assert running.poll() is None, (tmp_path / "run.log").read_text()[-3000:]
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
