"""Letting a Python worker of Spark begin its next task sooner.

Before each task, a worker that is used again invalidates its import caches, and each package that it once imported from
pyspark.zip has a cache that is then read again in full: a tenth of a second, for nothing. After each task it collects
garbage among all that it has imported. Both are spared here; a finder that is missing is made anew when it is needed.
"""

import functools
import gc
import sys
import zipimport
from collections.abc import Callable, Iterable, Iterator
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def sparing(task: Callable[P, Iterable[T]]) -> Callable[P, Iterator[T]]:
    """Make what a task leaves behind cheap for the task that follows it in the same process."""

    @functools.wraps(task)
    def run(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        try:
            yield from task(*args, **kwargs)
        finally:
            _forget_zip_finders()
            _exempt_what_is_imported()

    return run


def _forget_zip_finders() -> None:
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimport.zipimporter):
            del sys.path_importer_cache[path]


@functools.cache
def _exempt_what_is_imported() -> None:
    gc.collect()
    gc.freeze()
