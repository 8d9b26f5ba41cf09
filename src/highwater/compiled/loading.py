"""Finds the compiled modules, and lets the import system prefer them when they fit the installed sources."""

import hashlib
import os
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Final

from highwater.compiled.modules import HOT_MODULES

PACKAGE: Final = Path(__file__).parent.parent
BUILT: Final = PACKAGE / "compiled" / "built" / str(sys.implementation.cache_tag)
"""Where this interpreter's build is: extension modules in folders like those of the package, and the fingerprint."""
FINGERPRINT: Final = BUILT / "fingerprint"
SWITCH: Final = "HIGHWATER_COMPILED"
"""The environment variable that turns them off when it is 0."""


def source_fingerprint(package: Path = PACKAGE) -> str:
    """Return a text that changes with any source file of the package: its names, sizes and times of change.

    Of all files, not only those that are compiled: these were compiled for what the others declare.
    """
    found = hashlib.sha256(f"{sys.version}".encode())
    for folder, folders, names in os.walk(package):
        folders[:] = sorted(name for name in folders if name not in {"__pycache__", "built"})
        for name in sorted(names):
            if name.endswith(".py"):
                status = os.stat(os.path.join(folder, name))  # noqa: PTH116, PTH118 - half the time, at every start
                found.update(f"{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return found.hexdigest()


def is_up_to_date() -> bool:
    """Return whether there is a build, and it is of the sources as they are."""
    try:
        return FINGERPRINT.read_text(encoding="ascii") == source_fingerprint()
    except OSError:
        return False


def use_compiled() -> bool:
    """Import compiled modules from now on, if they may be used; return whether that is so.

    To be called before any of them is imported: a mixture would not work.
    """
    if os.environ.get(SWITCH) == "0" or any(name in sys.modules for name in HOT_MODULES) or not is_up_to_date():
        return False
    if find_spec("librt") is None:
        return False  # what compiled modules call in C; it came with the compiler, and has gone with it
    sys.path.append(str(BUILT))  # for the library that they share
    sys.meta_path.insert(0, _CompiledFinder())
    return True


def in_use() -> bool:
    """Return whether this process runs on compiled modules."""
    return any(isinstance(finder, _CompiledFinder) for finder in sys.meta_path)


class _CompiledFinder:
    """Finds the extension module of a hot module; of anything else it knows nothing."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if name not in HOT_MODULES:
            return None
        location = str(BUILT.joinpath(*name.split("."))) + EXTENSION_SUFFIXES[0]
        return spec_from_file_location(name, location, loader=ExtensionFileLoader(name, location))
