"""What a pipeline remembers between runs, in its checkpoint beside what Spark remembers there."""

import json
import uuid
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from pyspark.sql import SparkSession

from highwater_spark.definition.model import Pipeline
from highwater_spark.errors import StateError

_FILE: Final = "pipeline.json"
_KNOWN_ENTRIES: Final = frozenset({_FILE, "lock", "queries", "replays", "spark.log"})


class Folder:
    """A folder on any file system that Spark can reach: local, HDFS, an object store."""

    def __init__(self, spark: SparkSession, place: str) -> None:
        jvm = spark.sparkContext._jvm  # noqa: SLF001 - Hadoop's file systems are reached through the JVM
        assert jvm is not None, "a running session has a JVM"
        self._spark = spark
        self._jvm = jvm
        self.path: Any = jvm.org.apache.hadoop.fs.Path(place)
        self._files = self.path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())  # noqa: SLF001
        self.path = self._files.makeQualified(self.path)

    def place(self, name: str) -> str:
        """Return where something in this folder is."""
        return f"{self.path.toString()}/{name}"

    def folder(self, name: str) -> "Folder":
        """Return a folder in this one."""
        return Folder(self._spark, self.place(name))

    def names(self) -> list[str]:
        """Return what is in the folder, or nothing if it is not there."""
        if not self._files.exists(self.path):
            return []
        return sorted(status.getPath().getName() for status in self._files.listStatus(self.path))

    def read(self, name: str) -> str | None:
        """Return the text of a small file, or nothing if it is not there."""
        hadoop = self._jvm.org.apache.hadoop.fs
        # A crash between the two steps of `write` leaves only the new file, and leaves it whole.
        for path in (hadoop.Path(self.path, name), hadoop.Path(self.path, f".{name}.new")):
            if self._files.exists(path):
                stream = self._files.open(path)
                try:
                    return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
                finally:
                    stream.close()
        return None

    def write(self, name: str, text: str) -> None:
        """Replace a small file; whoever reads it finds the old text or the new one."""
        hadoop = self._jvm.org.apache.hadoop.fs
        fresh, final = hadoop.Path(self.path, f".{name}.new"), hadoop.Path(self.path, name)
        stream = self._files.create(fresh, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self._files.delete(final, False)
        self._files.rename(fresh, final)

    def remove(self, name: str) -> None:
        """Remove a file or a folder with all that is in it."""
        self._files.delete(self._jvm.org.apache.hadoop.fs.Path(self.path, name), True)


@dataclass(slots=True)
class RunState:
    """The pipeline's own notes."""

    pipeline: str
    outputs: dict[str, int] = field(default_factory=dict)  # the partitions of each output topic when it last ran
    quarantine: list[list[Any]] = field(default_factory=list)  # [topic, partition, offset] of records left out
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)  # of all runs on this checkpoint


class StateStore:
    """The checkpoint of a pipeline: ours to use, or an error."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline, place: str | None = None) -> None:
        self.folder = Folder(spark, place or pipeline.checkpoint)
        self._pipeline = pipeline
        self.state = self._load()

    def _load(self) -> RunState:
        text = self.folder.read(_FILE)
        if text is None:
            foreign = [name for name in self.folder.names() if name not in _KNOWN_ENTRIES and not name.startswith(".")]
            if foreign:
                raise StateError(f"checkpoint {self.folder.path}: it holds {foreign[0]!r}, which no pipeline put there")
            return RunState(self._pipeline.name)
        state = RunState(**json.loads(text))
        if state.pipeline != self._pipeline.name:
            raise StateError(
                f"checkpoint {self.folder.path} belongs to pipeline {state.pipeline!r}, not {self._pipeline.name!r}"
            )
        return state

    def save(self) -> None:
        """Write the notes."""
        self.folder.write(_FILE, json.dumps(asdict(self.state), indent=1))

    def check_outputs(self, partitions: dict[str, int]) -> None:
        """Refuse an output topic that lost partitions: it was made anew, and each key would move to another place."""
        for topic, now in partitions.items():
            before = self.state.outputs.get(topic, 0)
            if now < before:
                raise StateError(
                    f"output topic {topic!r} has {now} partitions and had {before} when this pipeline last ran; "
                    "--full-refresh starts anew"
                )
        self.state.outputs.update(partitions)
        self.save()

    def query_place(self, query: str) -> str:
        """Return where Spark keeps the state of a query."""
        return self.folder.place(f"queries/{query}")

    def has_run(self, query: str) -> bool:
        """Return whether a query has committed or begun a micro-batch before."""
        return bool(self.folder.folder(f"queries/{query}/offsets").names())

    def forget(self) -> None:
        """Remove all that is remembered, for a full refresh."""
        for name in ("queries", _FILE):
            self.folder.remove(name)
        self.state = RunState(self._pipeline.name)
