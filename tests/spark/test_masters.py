"""The same pipeline file on a real Spark master with two workers, by `spark-submit` and by `--master` (row P7)."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pyspark
import pytest
from confluent_kafka import Message

import highwater_spark.__main__ as entry
from highwater.testing.ports import free_port
from highwater.testing.waiting import wait_until
from highwater_spark.java import find_java

JARS = Path(__file__).parent.parent.parent / ".tools" / "spark"
PATIENCE_SECONDS = 400
SMALL = ["-Xmx384m", "-XX:TieredStopAtLevel=1"]
PYSPARK = Path(pyspark.__file__).parent
NewTopic = Callable[..., str]
Send = Callable[..., None]
Read = Callable[..., list[Message]]

SQUARES = """
name: squares
kafka: {bootstrap: <bootstrap>}
sources:
  numbers: {topic: <source>, parse: {json: {n: int not null}}}
transforms:
  squared: {python: "functions.py:squared", inputs: numbers}
sinks:
  out: {from: squared, topic: <out>}
  table: {from: squared, table: <folder>/table}
checkpoint: <folder>/checkpoint
"""
FUNCTIONS = """
from pyspark.sql import functions as F

@F.udf("int")
def square(n):
    return n * n

def squared(numbers):
    return numbers.select("n", square("n").alias("square"))
"""


@pytest.fixture
def environment() -> dict[str, str]:
    return os.environ | {
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(PYSPARK),
        "SPARK_SCALA_VERSION": "2.13",  # workers guess it from a build tree otherwise
    }


@pytest.fixture
def master(environment: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """A standalone master with two workers, in three processes of their own."""
    address = f"spark://127.0.0.1:{free_port()}"
    port = address.rsplit(":", 1)[1]
    log = (tmp_path / "cluster.log").open("wb")
    java = [str(find_java().home / "bin" / "java"), *SMALL, "-cp", f"{PYSPARK}/jars/*"]
    deploy = "org.apache.spark.deploy"
    web = ["--webui-port", "0"]
    commands = [[*java, f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", port, *web]]
    for number in (1, 2):
        work = str(tmp_path / f"worker-{number}")
        options = ["--cores", "1", "--memory", "600m", "--host", "127.0.0.1", "--work-dir", work, *web]
        commands.append([*java, f"{deploy}.worker.Worker", *options, address])
    processes: list[subprocess.Popen[bytes]] = []
    try:
        processes += [
            subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=tmp_path) for command in commands
        ]
        wait_until(
            lambda: (tmp_path / "cluster.log").read_text().count("Successfully registered with master") == 2,
            "two workers",
            timeout_seconds=PATIENCE_SECONDS,
        )
        yield address
    finally:
        for process in processes:
            process.kill()
            process.wait()
        log.close()


def squares(folder: Path) -> list[int]:
    """Return what the pipeline has written to its table."""
    return sorted(pd.read_parquet(folder / "table")["square"])


@pytest.mark.timeout(900)
def test_a_pipeline_runs_on_a_cluster_as_it_does_at_home(
    master: str,
    environment: dict[str, str],
    bootstrap: str,
    new_topic: NewTopic,
    send: Send,
    read_topic: Read,
    tmp_path: Path,
) -> None:
    source, out = new_topic(partitions=2), new_topic()
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    file = tmp_path / "squares.yaml"
    text = SQUARES.replace("<bootstrap>", bootstrap).replace("<source>", source).replace("<out>", out)
    file.write_text(text.replace("<folder>", str(tmp_path)))
    conf = {
        "spark.executor.memory": "500m",
        "spark.executor.cores": "1",
        "spark.driver.memory": "500m",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",  # not the 200 that a cluster has by default
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }
    given = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]

    def run(command: list[str]) -> str:
        ended = subprocess.run(
            command,
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-4000:]
        return ended.stderr

    for partition in (0, 1):
        send(source, [json.dumps({"n": 10 * partition + n}) for n in range(3)], partition=partition)
    jars = ",".join(str(jar) for jar in sorted(JARS.glob("*.jar")))
    submit = [str(PYSPARK / "bin" / "spark-submit"), "--master", master, "--jars", jars, *given]
    logged = run([*submit, str(entry.__file__), "run", str(file), "--once"])
    assert "MicroBatchExecution" not in logged, "a run is not drowned in Spark's log of every step"
    assert squares(tmp_path) == [0, 1, 4, 100, 121, 144]
    executors = [path for number in (1, 2) for path in (tmp_path / f"worker-{number}").glob("app-*/*")]
    assert len({path.parent.parent for path in executors}) == 2, "both workers took part"

    send(source, [json.dumps({"n": 5})])
    given += ["--conf", "spark.cores.max=1"]  # one executor is enough to show that --master does the same
    command = [
        sys.executable,
        "-m",
        "highwater_spark",
        "run",
        str(file),
        "--master",
        master,
        "--jars",
        str(JARS),
        *given,
    ]
    running = subprocess.Popen(
        command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        wait_until(lambda: 25 in squares(tmp_path) or running.poll() is not None, timeout_seconds=PATIENCE_SECONDS)
        running.send_signal(signal.SIGINT)  # Ctrl-C
        told, _ = running.communicate(timeout=PATIENCE_SECONDS)
    finally:
        running.kill()
    assert running.returncode == 0, told[-4000:]
    assert "squares: done in" in told
    assert "Traceback" not in told
    assert squares(tmp_path) == [0, 1, 4, 25, 100, 121, 144]
    assert {json.loads(message.value() or b"")["n"] for message in read_topic(out)} == {0, 1, 2, 10, 11, 12, 5}
