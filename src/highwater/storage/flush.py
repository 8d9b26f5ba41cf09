"""A flush in three steps, so that the slow one can run beside the event loop."""

from collections.abc import Sequence
from pathlib import Path

from highwater.model.errors import StorageError
from highwater.storage import leader_epochs, snapshot
from highwater.storage.disk_health import DiskHealth
from highwater.storage.files import File, Files
from highwater.storage.segment import Segment


class Flush:
    """The files to sync for all below `end_offset` to be on the disk. `run` touches nothing else: any thread may."""

    __slots__ = ("_files", "_folder", "_health", "_to_sync", "end_offset", "has_failed", "has_run")

    def __init__(self, files: Files, folder: Path, end_offset: int, health: DiskHealth) -> None:
        self._files = files
        self._folder = folder
        self._health = health
        self._to_sync: list[File | Path] = []
        self.end_offset = end_offset
        self.has_run = False
        self.has_failed = False

    def __len__(self) -> int:
        return len(self._to_sync)

    def add_segments(self, segments: Sequence[Segment], *, with_last_indexes: bool) -> None:
        """Sync batches and indexes. Those of the active segment may stay out as long as recovery builds them anew."""
        for segment in segments:
            self._to_sync.append(segment.file)
            if with_last_indexes or segment is not segments[-1]:
                self._to_sync += segment.index_paths()
        for segment in segments[1:]:
            self.add_snapshot(segment.base_offset)

    def add_snapshot(self, offset: int) -> None:
        """Sync the snapshot at an offset, if there is one."""
        self._to_sync.append(snapshot.path_of(self._folder, offset))

    def add_names(self) -> None:
        """Sync which files there are, and the leader epochs, which are replaced as a file."""
        self._to_sync += (self._folder / leader_epochs.FILE_NAME, self._folder)

    def add_folder(self) -> None:
        """Sync that there is this folder: its own name is one of the log dir's."""
        self._to_sync.append(self._folder.parent)

    def run(self) -> None:
        """Return when the files are on the disk. Raises StorageError."""
        try:
            for item in self._to_sync:
                if not isinstance(item, Path):
                    item.sync()
                elif item in {self._folder, self._folder.parent}:
                    self._files.sync_folder(item)
                elif self._files.exists(item):
                    self._files.open(item).sync()
        except OSError as error:
            self.has_failed = True
            self._health.noticed(error)
            raise StorageError(f"cannot flush {self._folder}: {error}") from error
        self.has_run = True
