"""Which Kafka connector belongs to the installed PySpark, and where its jars are."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pyspark

from highwater_spark.errors import SetupError

JARS_VARIABLE: Final = "HIGHWATER_SPARK_JARS"
SOURCE_CLASS: Final = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
CARRIED: Final = (  # what the connector asks for and PySpark's wheel has: most of what a download would fetch
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.slf4j:slf4j-api",
    "org.lz4:lz4-java",
    "org.xerial.snappy:snappy-java",
    "com.google.code.findbugs:jsr305",
)
_NEEDED: Final = ("spark-sql-kafka-0-10", "spark-token-provider-kafka-0-10", "kafka-clients", "commons-pool2")


def package() -> str:
    """Return the Maven coordinates of the connector for this PySpark and its Scala."""
    return f"org.apache.spark:spark-sql-kafka-0-10_{_scala()}:{pyspark.__version__}"


def local_jars(given: Sequence[Path] | None = None, environment: Mapping[str, str] | None = None) -> list[Path]:
    """Return the jars to use instead of downloading: those given, or named by `HIGHWATER_SPARK_JARS`, or none."""
    environment = os.environ if environment is None else environment
    places = [Path(place) for place in environment.get(JARS_VARIABLE, "").split(os.pathsep) if place]
    origin = JARS_VARIABLE
    if given is not None:
        places, origin = list(given), "--jars"
    jars: list[Path] = []
    for place in places:
        found = sorted(place.glob("*.jar")) if place.is_dir() else [place]
        if not found or not found[0].is_file():
            raise SetupError(f"{origin}: no jar at {place}")
        jars += found
    if jars:
        _check_complete(jars, origin)
    return jars


def _check_complete(jars: Sequence[Path], origin: str) -> None:
    names = [jar.name for jar in jars]
    missing = [needed for needed in _NEEDED if not any(name.startswith(needed) for name in names)]
    if missing:
        raise SetupError(
            f"{origin}: no {missing[0]}*.jar among the jars; the connector is {package()} and what it needs"
        )
    connector = next(name for name in names if name.startswith(_NEEDED[0]))
    if not connector.endswith(f"-{pyspark.__version__}.jar"):
        raise SetupError(f"{origin}: {connector} is for another Spark; PySpark {pyspark.__version__} needs {package()}")


def _scala() -> str:
    """Return the Scala version that PySpark was built with: it is in its jars' names."""
    jars = Path(pyspark.__file__).parent / "jars"
    for jar in jars.glob("scala-library-*.jar"):
        if stated := re.match(r"scala-library-(\d+\.\d+)", jar.name):
            return stated[1]
    return "2.13"
