"""Delta and Iceberg as table formats, by jars that the user adds; in a process of its own, whose Spark has them."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

TOOLS = Path(__file__).parent.parent.parent / ".tools"
NewTopic = Callable[..., str]
Send = Callable[..., None]

BOTH = """
name: both
kafka: {bootstrap: <bootstrap>}
sources:
  numbers: {topic: <source>, parse: {json: {n: int not null, at: timestamp}}}
sinks:
  delta: {from: numbers, table: <folder>/delta, format: delta, partition_by: day(at)}
  iceberg: {from: numbers, table: lake.db.numbers, format: iceberg, partition_by: day(at)}
checkpoint: <folder>/checkpoint
"""
SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.driver.memory": "1g",
}


RUN_AT_EACH_LINE = """
import sys
from highwater_spark.app import app

for _ in sys.stdin:
    if code := app(sys.argv[1:], standalone_mode=False):
        sys.exit(code)
"""
"""Runs are the command's own, but share a JVM: Spark takes longer to start than to run."""


@pytest.mark.timeout(900)
def test_delta_and_iceberg_tables_take_each_record_once(
    bootstrap: str, new_topic: NewTopic, send: Send, tmp_path: Path
) -> None:
    source = new_topic()
    file = tmp_path / "both.yaml"
    text = BOTH.replace("<bootstrap>", bootstrap).replace("<source>", source).replace("<folder>", str(tmp_path))
    file.write_text(text)
    settings = SETTINGS | {"spark.sql.catalog.lake.warehouse": str(tmp_path / "lake")}
    conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    jars = [word for name in ("spark", "tables") for word in ("--jars", str(TOOLS / name))]

    options = ["run", str(file), "--once", "--master", "local[2]", *jars, *conf]
    send(source, [json.dumps({"n": n, "at": "2026-01-31T12:00:00Z"}) for n in range(3)])
    with (tmp_path / "told").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", RUN_AT_EACH_LINE, *options],
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    with process:
        assert "3 to delta, 3 to iceberg" in next_run(process), (tmp_path / "told").read_text()[-4000:]
        send(source, [json.dumps({"n": 3, "at": "2026-02-01T12:00:00Z"})])
        assert "1 to delta, 1 to iceberg" in next_run(process), (tmp_path / "told").read_text()[-4000:]
    assert numbers_in(tmp_path / "delta") == [0, 1, 2, 3]
    assert (tmp_path / "delta" / "_delta_log").is_dir()
    assert numbers_in(tmp_path / "lake" / "db" / "numbers" / "data") == [0, 1, 2, 3]


def next_run(process: subprocess.Popen[str]) -> str:
    """Let the command run once more and return its last line, or nothing if it failed."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return next((line for line in process.stdout if "done in" in line), "")


def numbers_in(folder: Path) -> list[int]:
    return sorted(n for path in folder.rglob("*.parquet") for n in pq.read_table(path, columns=["n"])["n"].to_pylist())
