"""One log dir: a folder on one disk, locked by one broker, with a folder for each partition replica."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from highwater.model.errors import StorageError
from highwater.model.ids import TopicId, TopicPartition
from highwater.storage import checkpoints
from highwater.storage.disk_health import DiskHealth, is_disk_failure
from highwater.storage.files import Entry, Files, Lock, Space, replace_file
from highwater.storage.flush import Flush
from highwater.storage.log import Log
from highwater.storage.log_config import LogConfig
from highwater.storage.recovery_messages import RecoveryJob
from highwater.storage.segment import LOG_SUFFIX
from highwater.storage.topic_identity import read_topic_id, write_topic_id

LOCK_FILE: Final = ".lock"
CLEAN_STOP_MARKER: Final = ".kafka_cleanshutdown"
DELETED_FOLDER_SUFFIX: Final = "-delete"
FUTURE_FOLDER_SUFFIX: Final = "-future"
"""Of a log that is being copied here from another log dir (KIP-113)."""
STRAY_FOLDER_SUFFIX: Final = "-stray"
"""Of a log that is of another topic than the one that has its name: it is kept, and nobody looks at it again."""
MOVED_FOLDER_SUFFIX: Final = "-moved"
"""Of a log whose copy takes its place; see `settled_moves.py`."""
_MANY_FILES: Final = 100
"""From how many files on it is cheaper to sync the whole file system than each of them."""
_PARTITION_FOLDER: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>\d+)")
_SET_ASIDE: Final = re.compile(
    rf"{_PARTITION_FOLDER.pattern}\.\d+(?P<suffix>{FUTURE_FOLDER_SUFFIX}|{MOVED_FOLDER_SUFFIX})"
)


class LogDirInUse(StorageError):
    """Another broker holds the lock of this log dir."""


class LogDir:
    """The partitions in one folder, and the checkpoints that tell a restart how far to trust them."""

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self._lock: Lock | None = None
        self.path = path
        self.health = DiskHealth()
        self.is_readable = False
        """Whether it could be read when the broker started: then it is known which partitions lie here."""
        self.was_stopped_cleanly = False
        self._names: set[TopicPartition] = set()
        self._recovered: set[TopicPartition] = set()
        """What was checked since a stop that was not clean."""
        self.expected: set[TopicPartition] = set()
        """What was being copied to this log dir when the broker stopped."""
        self.moved_away: dict[TopicPartition, list[Path]] = {}
        """What had been set aside, but not removed, when the broker stopped; by more than one move, perhaps."""
        self._deleted = 0
        self.notes: list[str] = []
        """One sentence for each checkpoint that could not be read."""
        self._recovery_points: dict[TopicPartition, int] = {}
        self._log_starts: dict[TopicPartition, int] = {}
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._first_dirty: dict[TopicPartition, int] = {}

    @classmethod
    def open(cls, files: Files, path: Path) -> "LogDir":
        """Make the folder if it is missing, lock it and see what is there. Raises StorageError, LogDirInUse.

        A disk that does not work is no error: its log dir is there, failed.
        """
        log_dir = cls(files, path)
        try:
            log_dir._load()
        except OSError as error:
            if not is_disk_failure(error):
                raise StorageError(f"cannot use log dir {path}: {error.strerror or error}") from error
            log_dir.health.noticed(error)
        return log_dir

    def _load(self) -> None:
        files, path = self._files, self.path
        if not files.exists(path):
            files.make_folder(path)
            files.sync_folder(path.parent)  # all else that is synced is below this name
        self._lock = files.lock(path / LOCK_FILE)
        if self._lock is None:
            raise LogDirInUse(f"log dir {path} is in use by another broker")
        self.was_stopped_cleanly = files.exists(path / CLEAN_STOP_MARKER)
        self._recovery_points = self._read_checkpoint(checkpoints.RECOVERY_POINTS)
        self._log_starts = self._read_checkpoint(checkpoints.LOG_START_OFFSETS)
        self._high_watermarks = self._read_checkpoint(checkpoints.HIGH_WATERMARKS)
        self._first_dirty = self._read_checkpoint(checkpoints.CLEANED_OFFSETS)
        self._find_partitions()
        self.is_readable = True

    @property
    def is_online(self) -> bool:
        """Whether its disk has not failed."""
        return self.health.failure is None

    def _read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoints.read_offsets(self._files, self.path / name)
        except checkpoints.DamagedCheckpoint as error:
            self.notes.append(f"{error}; everything is checked instead")
            self.was_stopped_cleanly = False
            return {}

    def _find_partitions(self) -> None:
        for entry in self._files.list(self.path):
            if not entry.is_folder:
                continue
            if entry.name.endswith(DELETED_FOLDER_SUFFIX):
                self.remove_detached(self.path / entry.name)
            elif match := _SET_ASIDE.fullmatch(entry.name):
                self._find_set_aside(match)
            elif match := _PARTITION_FOLDER.fullmatch(entry.name):
                self._names.add(TopicPartition(match["topic"], int(match["partition"])))

    def _find_set_aside(self, match: re.Match[str]) -> None:
        name, folder = TopicPartition(match["topic"], int(match["partition"])), self.path / match[0]
        if match["suffix"] == MOVED_FOLDER_SUFFIX:
            self.moved_away.setdefault(name, []).append(folder)
        else:
            self.expected.add(name)
            self.remove_detached(folder)

    @property
    def partition_count(self) -> int:
        """How many partitions lie here."""
        return len(self._names)

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """Which partitions lie here."""
        return frozenset(self._names)

    def holds(self, name: TopicPartition) -> bool:
        """Return whether this partition lies here."""
        return name in self._names

    def high_watermark(self, name: TopicPartition) -> int:
        """Return how far a partition was known to be committed when this was last written down."""
        return self._high_watermarks.get(name, 0)

    def space(self) -> Space:
        """Return how large the disk of this log dir is. Raises OSError."""
        return self._files.space(self.path)

    def serving(self) -> None:
        """Take the mark of a clean stop away: from now on, a stop is unclean until we say otherwise.

        For good: a mark that came back with the power would have the next start believe what is there.
        """
        try:
            if self._files.exists(self.path / CLEAN_STOP_MARKER):
                self._files.remove(self.path / CLEAN_STOP_MARKER)
                self._files.sync_folder(self.path)
        except OSError as error:
            self.health.noticed(error)
            if self.is_online:
                raise StorageError(f"cannot write to log dir {self.path}: {error.strerror or error}") from error

    def topic_of(self, name: TopicPartition) -> TopicId | None:
        """Return which topic a partition here is of: one that had its name before, perhaps; None if it does not say."""
        with self._disk_may_fail(f"read {name} in"):
            return read_topic_id(self._files, self.path / str(name))

    def open_log(self, name: TopicPartition, config: LogConfig, *, now_ms: int, topic_id: TopicId | None = None) -> Log:
        """Open a partition's log, or begin one; have its folder say which topic it is of. Raises StorageError."""
        if self.health.failure is not None:
            raise StorageError(f"{name} is in log dir {self.path}, whose disk failed: {self.health.failure}")
        try:
            log = Log.open(
                self._files,
                self.path / str(name),
                config,
                now_ms=now_ms,
                clean=self.was_stopped_cleanly or name not in self._names or name in self._recovered,
                recovery_point=self._recovery_points.get(name, 0),
                log_start_offset=self._log_starts.get(name, 0),
                first_dirty_offset=self._first_dirty.get(name, 0),
                health=self.health,
            )
            if topic_id is not None and read_topic_id(self._files, log.directory) is None:
                write_topic_id(self._files, log.directory, topic_id)
        except OSError as error:
            self.health.noticed(error)
            raise StorageError(f"cannot open the log of {name} in {self.path}: {error.strerror or error}") from error
        self._names.add(name)
        if config.syncs_appends:
            log.flush()  # what a killed process left in the page cache counts, for us and for our leader
        return log

    def recovery_job(self, name: TopicPartition, config: LogConfig, *, now_ms: int) -> RecoveryJob | None:
        """Return what it takes to check a log after a crash; None if there is nothing to check, or no way."""
        if self.was_stopped_cleanly or not self.is_online:
            return None
        recovery_point = self._recovery_points.get(name, 0)
        try:
            unchecked_bytes = _bytes_from(self._files.list(self.path / str(name)), recovery_point)
        except OSError as error:
            self.health.noticed(error)
            return None
        if not unchecked_bytes:
            return None
        return RecoveryJob(
            self.path / str(name),
            config,
            now_ms,
            recovery_point,
            self._log_starts.get(name, 0),
            self._first_dirty.get(name, 0),
            unchecked_bytes,
        )

    def recovered(self, name: TopicPartition) -> None:
        """Believe a log from now on: it was checked, and closed as by a clean stop."""
        self._recovered.add(name)

    def detach(self, name: TopicPartition) -> Path:
        """Rename a partition's folder so that no restart finds it; return the new path, for `remove_detached`."""
        with self._disk_may_fail(f"delete {name} in"):
            return self._set_aside(name, DELETED_FOLDER_SUFFIX)

    def _set_aside(self, name: TopicPartition, suffix: str) -> Path:
        folder = self._free_folder(name, suffix)
        self._files.rename(self.path / str(name), folder)
        self._names.discard(name)
        for checkpoint in (self._recovery_points, self._log_starts, self._high_watermarks, self._first_dirty):
            checkpoint.pop(name, None)
        return folder

    def _free_folder(self, name: TopicPartition, suffix: str) -> Path:
        while True:
            self._deleted += 1
            folder = self.path / f"{name}.{self._deleted}{suffix}"
            if not self._files.exists(folder):
                return folder

    # Moves between log dirs

    def begin_copy(
        self, name: TopicPartition, config: LogConfig, *, start_offset: int, now_ms: int, topic_id: TopicId
    ) -> Log:
        """Begin a copy of a log that lies in another log dir. Raises StorageError."""
        folder = self._free_folder(name, FUTURE_FOLDER_SUFFIX)
        with self._disk_may_fail(f"copy {name} to"):
            copy = Log.open(
                self._files,
                folder,
                config,
                now_ms=now_ms,
                clean=True,
                log_start_offset=start_offset,
                health=self.health,
            )
            write_topic_id(self._files, folder, topic_id)
        return copy

    def keep_as_stray(self, name: TopicPartition) -> Path:
        """Make way for a partition of the same name, and keep what is there under another. Raises StorageError."""
        with self._disk_may_fail(f"set {name} aside in"):
            return self._set_aside(name, STRAY_FOLDER_SUFFIX)

    def set_aside(self, name: TopicPartition) -> Path:
        """Make way for a copy in another log dir; `restore` takes it back. Raises StorageError."""
        with self._disk_may_fail(f"set {name} aside in"):
            return self._set_aside(name, MOVED_FOLDER_SUFFIX)

    def restore(self, name: TopicPartition, folder: Path) -> None:
        """Put back what was set aside. Raises StorageError."""
        with self._disk_may_fail(f"put {name} back in"):
            self._files.rename(folder, self.path / str(name))
        self._names.add(name)

    def adopt_copy(self, name: TopicPartition, copy: Log, *, flushed_to: int, now_ms: int) -> Log:
        """Give a finished copy its name, and open it as the partition's log. Raises StorageError."""
        with self._disk_may_fail(f"adopt {name} in"):
            copy.close()
            self._files.rename(copy.directory, self.path / str(name))
            log = Log.open(
                self._files,
                self.path / str(name),
                copy.config,
                now_ms=now_ms,
                clean=True,
                log_start_offset=copy.log_start_offset,
                health=self.health,
            )
        log.recovery_point = min(log.recovery_point, flushed_to)
        log.folder_was_renamed()
        self._names.add(name)
        return log

    def sync_names(self) -> None:
        """Return when the names of the folders are on the disk. Raises StorageError."""
        with self._disk_may_fail("sync"):
            self._files.sync_folder(self.path)

    def extent(self, name: TopicPartition, folder: Path | None = None) -> tuple[int, int]:
        """Return the base offset and the size of a log's last segment: of two copies, the larger is the newer.

        `folder` is where it lies if it was set aside.
        """
        return max(_segments(self._files.list(folder or self.path / str(name))), default=(0, 0))

    @contextmanager
    def _disk_may_fail(self, action: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.health.noticed(error)
            raise StorageError(f"cannot {action} {self.path}: {error.strerror or error}") from error

    def remove_detached(self, folder: Path) -> None:
        """Remove a detached folder and all in it."""
        for entry in self._files.list(folder):
            if entry.is_folder:
                self.remove_detached(folder / entry.name)
            else:
                self._files.remove(folder / entry.name)
        self._files.remove_folder(folder)

    def write_checkpoint(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace one of the checkpoint files. Raises StorageError."""
        with self._disk_may_fail(f"write {name} in"):
            checkpoints.write_offsets(self._files, self.path / name, offsets)

    def close(self, *, clean: bool, flushes: Sequence[Flush] = ()) -> None:
        """Let go of the folder; `clean` says that every log in it was closed well. Raises StorageError.

        `flushes` are what closing the logs left to be synced. The mark of a clean stop is made when that is done.
        """
        try:
            if clean and self.is_online:
                self._sync(flushes)
                replace_file(self._files, self.path / CLEAN_STOP_MARKER, b"")
        except OSError as error:
            raise StorageError(f"cannot close log dir {self.path}: {error.strerror or error}") from error
        finally:
            if self._lock is not None:
                self._lock.release()

    def _sync(self, flushes: Sequence[Flush]) -> None:
        if sum(map(len, flushes)) > _MANY_FILES:
            self._files.sync_all(self.path)
            return
        for flush in flushes:
            flush.run()


def _segments(entries: Sequence[Entry]) -> list[tuple[int, int]]:
    """Return the base offset and size of every segment."""
    return [
        (int(entry.name.removesuffix(LOG_SUFFIX)), entry.size)
        for entry in entries
        if entry.name.endswith(LOG_SUFFIX) and entry.name.removesuffix(LOG_SUFFIX).isdecimal()
    ]


def _bytes_from(entries: Sequence[Entry], recovery_point: int) -> int:
    """Return the bytes of the segment that holds the recovery point, and of those after it."""
    segments = _segments(entries)
    first = max((base_offset for base_offset, _ in segments if base_offset <= recovery_point), default=0)
    return sum(size for base_offset, size in segments if base_offset >= first)
