"""What a task leaves in a Python worker costs the next task nothing, and imports go on working."""

import gc
import importlib
import sys
import zipfile
import zipimport
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater_spark.exactly_once.reuse import sparing


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An archive of modules on the path, as pyspark.zip is on a worker's."""
    path = tmp_path / "modules.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("early_of_zip/__init__.py", "")
        file.writestr("early_of_zip/part.py", "")
        file.writestr("late_of_zip.py", "name = 'late'")
    monkeypatch.syspath_prepend(str(path))
    yield str(path)
    for name in [name for name in sys.modules if name.partition(".")[0].endswith("_of_zip")]:
        del sys.modules[name]
    gc.unfreeze()


def zip_finders() -> list[str]:
    return [path for path, finder in sys.path_importer_cache.items() if isinstance(finder, zipimport.zipimporter)]


def test_no_finder_of_an_archive_is_left_to_be_read_again_and_what_is_imported_is_no_garbage(archive: str) -> None:
    @sparing
    def task(numbers: list[int]) -> Iterator[int]:
        importlib.import_module("early_of_zip.part")
        assert any(path.startswith(archive) for path in zip_finders())
        yield from numbers

    assert list(task([1, 2])) == [1, 2]
    assert zip_finders() == []
    assert gc.get_freeze_count() > 0
    assert importlib.import_module("late_of_zip").name == "late"
    list(task([]))
    assert zip_finders() == []


def test_a_task_that_fails_is_spared_too(archive: str) -> None:
    @sparing
    def task() -> Iterator[int]:
        importlib.import_module("early_of_zip")
        yield 1
        raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        list(task())
    assert not any(path.startswith(archive) for path in zip_finders())
