"""A flush in three steps, so that the slow one can run beside the event loop."""

from collections.abc import Sequence
from pathlib import Path

from highwater.model.errors import StorageError
from highwater.storage import leader_epochs, snapshot
from highwater.storage.files import File, Files
from highwater.storage.segment import Segment


class Flush:
    """The files to sync for all below `end_offset` to be on the disk. `run` touches nothing else: any thread may."""

    __slots__ = ("_files", "_folder", "_names_changed", "_to_sync", "end_offset", "has_run")

    def __init__(
        self, files: Files, folder: Path, segments: Sequence[Segment], *, end_offset: int, names_changed: bool
    ) -> None:
        """`segments` are those that are not on the disk yet, the active one last.

        The indexes of the active segment are left out: recovery builds them anew. So a flush of a log that did not roll
        is one call. `names_changed`: files were made or replaced since the last flush.
        """
        self._files = files
        self._folder = folder
        self._names_changed = names_changed
        self.end_offset = end_offset
        self.has_run = False
        self._to_sync: list[File | Path] = [segment.file for segment in segments]
        for segment in segments[:-1]:
            self._to_sync += segment.index_paths()
        for segment in segments[1:]:
            self._to_sync.append(snapshot.path_of(folder, segment.base_offset))
        if names_changed:
            self._to_sync.append(folder / leader_epochs.FILE_NAME)

    def run(self) -> None:
        """Return when the files are on the disk. Raises StorageError."""
        try:
            for item in self._to_sync:
                if not isinstance(item, Path):
                    item.sync()
                elif self._files.exists(item):
                    self._files.open(item).sync()
            if self._names_changed:
                self._files.sync_folder(self._folder)
        except OSError as error:
            raise StorageError(f"cannot flush {self._folder}: {error}") from error
        self.has_run = True
