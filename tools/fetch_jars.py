"""Fetch the Java artifacts that tests and benchmarks need into `.tools/<set>/*.jar`.

    python tools/fetch_jars.py [SET ...]      (default: every set)

Maven is used when it is installed; otherwise Ivy, which PySpark's wheel carries. A set that is already there is left
alone, so running this again costs nothing. A set appears whole or not at all.
"""

import argparse
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

TOOLS: Final = Path(__file__).resolve().parent.parent / ".tools"
TIMEOUT_SECONDS: Final = 900
STAMP: Final = ".fetched"


class FetchFailed(Exception):
    """A set could not be fetched; the text says what to do."""


@dataclass(frozen=True, slots=True)
class JarSet:
    """Artifacts (`group:name:version`) that end up together in one folder, with all that they need at run time."""

    name: str
    artifacts: tuple[str, ...]
    without: tuple[str, ...] = ()  # `group:name` patterns that are of no use, with all that only they need

    @property
    def folder(self) -> Path:
        """Where the jars are."""
        return TOOLS / self.name

    @property
    def fingerprint(self) -> str:
        """What the stamp file says once the set is complete."""
        return "\n".join((*self.artifacts, *(f"without {name}" for name in self.without))) + "\n"

    def is_there(self) -> bool:
        """Whether this very set was fetched before."""
        stamp = self.folder / STAMP
        return stamp.is_file() and stamp.read_text(encoding="utf-8") == self.fingerprint


KAFKA: Final = JarSet(
    "kafka",  # Apache Kafka's broker, clients and command-line tools, with the logging back end it ships
    (
        "org.apache.kafka:kafka_2.13:4.1.0",
        "org.apache.kafka:kafka-tools:4.1.0",
        "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3",
    ),
)
STREAMS: Final = JarSet(
    "streams",  # Kafka Streams, whose exactly-once tests run on our brokers; the clients are in the set `kafka`
    ("org.apache.kafka:kafka-streams:4.1.0",),
    without=("org.apache.kafka:kafka-clients",),
)
SPARK: Final = JarSet(
    "spark",  # Spark's Kafka connector; Hadoop is already in PySpark's wheel
    ("org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",),
    without=("org.apache.hadoop:*", "org.scala-lang:*", "org.slf4j:*"),
)
TABLES: Final = JarSet(
    "tables",  # table formats that a pipeline can write to when the user adds them
    ("io.delta:delta-spark_2.13:4.0.0", "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0"),
    without=("org.apache.spark:*", "org.apache.hadoop:*", "org.scala-lang:*", "org.slf4j:*", "org.antlr:*"),
)
SETS: Final = {jar_set.name: jar_set for jar_set in (KAFKA, STREAMS, SPARK, TABLES)}


def pom_of(jar_set: JarSet) -> str:
    """Return a Maven project that depends on the set and is nothing else."""
    project = ET.Element("project")
    for tag, text in (("modelVersion", "4.0.0"), ("groupId", "jars"), ("artifactId", jar_set.name), ("version", "1")):
        ET.SubElement(project, tag).text = text
    dependencies = ET.SubElement(project, "dependencies")
    for artifact in jar_set.artifacts:
        dependency = ET.SubElement(dependencies, "dependency")
        for tag, text in zip(("groupId", "artifactId", "version"), artifact.split(":"), strict=True):
            ET.SubElement(dependency, tag).text = text
        exclusions = ET.SubElement(dependency, "exclusions")
        for pattern in jar_set.without:
            exclusion = ET.SubElement(exclusions, "exclusion")
            for tag, text in zip(("groupId", "artifactId"), pattern.split(":"), strict=True):
                ET.SubElement(exclusion, tag).text = text
    return ET.tostring(project, encoding="unicode")


def ivy_file_of(jar_set: JarSet) -> str:
    """Return an Ivy module that depends on the set and is nothing else."""
    module = ET.Element("ivy-module", version="2.0")
    ET.SubElement(module, "info", organisation="jars", module=jar_set.name)
    dependencies = ET.SubElement(module, "dependencies")
    for artifact in jar_set.artifacts:
        group, name, version = artifact.split(":")
        ET.SubElement(dependencies, "dependency", org=group, name=name, rev=version, conf="default->default")
    for pattern in jar_set.without:
        group, name = pattern.split(":")
        ET.SubElement(dependencies, "exclude", org=group, module=name)
    return ET.tostring(module, encoding="unicode")


def maven_command(jar_set: JarSet, scratch: Path, target: Path) -> list[str]:
    """Return the command by which Maven copies the set to `target`."""
    pom = scratch / "pom.xml"
    pom.write_text(pom_of(jar_set), encoding="utf-8")
    goal = "dependency:copy-dependencies"
    return ["mvn", "--batch-mode", "-q", "-f", str(pom), goal, "-DincludeScope=runtime", f"-DoutputDirectory={target}"]


def ivy_command(jar_set: JarSet, scratch: Path, target: Path) -> list[str]:
    """Return the command by which Ivy copies the set to `target`."""
    ivy_file = scratch / "ivy.xml"
    ivy_file.write_text(ivy_file_of(jar_set), encoding="utf-8")
    pattern = f"{target}/[artifact]-[revision](-[classifier]).[ext]"
    options = ["-retrieve", pattern, "-types", "jar", "bundle", "-cache", str(scratch / "cache"), "-warn"]
    return ["java", "-jar", str(ivy_jar()), "-ivy", str(ivy_file), *options]


def ivy_jar() -> Path:
    """Return the Ivy that PySpark's wheel carries."""
    pyspark = importlib.util.find_spec("pyspark")
    places = pyspark.submodule_search_locations if pyspark else None
    found = [jar for place in places or () for jar in Path(place).glob("jars/ivy-*.jar")]
    if not found:
        raise FetchFailed("neither Maven nor PySpark is installed: run `make setup`, or install Maven")
    return found[0]


def run(command: Sequence[str]) -> None:
    """Run a fetching command to its end; its output matters only when it fails."""
    try:
        outcome = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise FetchFailed(f"{command[0]} gave no result in {TIMEOUT_SECONDS} s; check the network") from error
    if outcome.returncode != 0:
        lines = [line.strip() for line in outcome.stdout.splitlines() if line.strip()]
        told = next((line for line in lines if "ERROR" in line or "UNRESOLVED" in line), lines[-1] if lines else "")
        raise FetchFailed(f"{command[0]} ended with {outcome.returncode}: {told}")


def fetch(jar_set: JarSet) -> None:
    """Fetch a set by the first means that works, then move it into place in one step."""
    if shutil.which("java") is None:
        raise FetchFailed("`java` is not on the PATH: install a Java 17 runtime (Debian: openjdk-17-jre-headless)")
    means = [maven_command, ivy_command] if shutil.which("mvn") else [ivy_command]
    TOOLS.mkdir(exist_ok=True)
    failures = []
    for command_of in means:
        with tempfile.TemporaryDirectory(dir=TOOLS, prefix=f"{jar_set.name}-part-") as scratch:
            target = Path(scratch, "jars")
            target.mkdir()
            try:
                run(command_of(jar_set, Path(scratch), target))
            except FetchFailed as failure:
                failures.append(str(failure))
                continue
            target.joinpath(STAMP).write_text(jar_set.fingerprint, encoding="utf-8")
            shutil.rmtree(jar_set.folder, ignore_errors=True)
            target.rename(jar_set.folder)
            return
    raise FetchFailed("; ".join(failures))


def main(arguments: Sequence[str]) -> int:
    """Fetch the named sets; return the exit code."""
    parser = argparse.ArgumentParser(description="Fetch Java artifacts into .tools/<set>/*.jar")
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"one of: {', '.join(SETS)} (default: all)")
    names: list[str] = parser.parse_args(arguments).sets
    for name in names or SETS:
        if name not in SETS:
            parser.error(f"no set {name!r}; there are: {', '.join(SETS)}")
    for jar_set in (SETS[name] for name in names or SETS):
        if jar_set.is_there():
            continue
        print(f"fetching {jar_set.name}: {', '.join(jar_set.artifacts)}", flush=True)
        try:
            fetch(jar_set)
        except FetchFailed as failure:
            print(f"fetch_jars: {jar_set.name}: {failure}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
