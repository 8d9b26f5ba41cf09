"""Which connector jars are used, and what is said when they do not fit."""

from pathlib import Path

import pyspark
import pytest

from highwater_spark import connector
from highwater_spark.errors import SetupError

COMPLETE = (
    f"spark-sql-kafka-0-10_2.13-{pyspark.__version__}.jar",
    f"spark-token-provider-kafka-0-10_2.13-{pyspark.__version__}.jar",
    "kafka-clients-3.9.0.jar",
    "commons-pool2-2.12.0.jar",
)


def a_folder(tmp_path: Path, *names: str) -> Path:
    for name in names:
        (tmp_path / name).touch()
    return tmp_path


def test_the_connector_follows_the_installed_pyspark() -> None:
    assert connector.package() == f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"


def test_nothing_local_means_download() -> None:
    assert connector.local_jars(environment={}) == []


def test_a_folder_of_the_environment_stands_for_its_jars(tmp_path: Path) -> None:
    folder = a_folder(tmp_path, *COMPLETE, "README")
    assert {jar.name for jar in connector.local_jars(environment={connector.JARS_VARIABLE: str(folder)})} == set(
        COMPLETE
    )


def test_a_missing_jar_is_named(tmp_path: Path) -> None:
    folder = a_folder(tmp_path, *COMPLETE[:-1])
    with pytest.raises(SetupError, match=r"--jars: no commons-pool2\*\.jar"):
        connector.local_jars([folder])


def test_a_connector_of_another_spark_is_refused(tmp_path: Path) -> None:
    folder = a_folder(tmp_path, "spark-sql-kafka-0-10_2.13-3.5.1.jar", *COMPLETE[1:])
    with pytest.raises(SetupError, match="is for another Spark"):
        connector.local_jars([folder])


def test_an_empty_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=f"no jar at {tmp_path}"):
        connector.local_jars([tmp_path])
