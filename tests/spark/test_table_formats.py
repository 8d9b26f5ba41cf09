"""Delta and Iceberg as table formats, by jars that the user adds; in a process of its own, which has them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

TOOLS = Path(__file__).parent.parent.parent / ".tools"
PATIENCE_SECONDS = 400
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

    def run(*options: str) -> str:
        command = [sys.executable, "-m", "highwater_spark", "run", str(file), "--once", "--master", "local[2]"]
        ended = subprocess.run(
            [*command, *jars, *conf, *options],
            env=os.environ,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-4000:]
        return ended.stdout

    send(source, [json.dumps({"n": n, "at": "2026-01-31T12:00:00Z"}) for n in range(3)])
    run()
    send(source, [json.dumps({"n": 3, "at": "2026-02-01T12:00:00Z"})])
    assert "1 to delta, 1 to iceberg" in run()
    assert numbers_in(tmp_path / "delta") == [0, 1, 2, 3]
    assert (tmp_path / "delta" / "_delta_log").is_dir()
    assert numbers_in(tmp_path / "lake" / "db" / "numbers" / "data") == [0, 1, 2, 3]


def numbers_in(folder: Path) -> list[int]:
    return sorted(n for path in folder.rglob("*.parquet") for n in pq.read_table(path, columns=["n"])["n"].to_pylist())
