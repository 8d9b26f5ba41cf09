"""Writes native modules into a copy of the package: `python -m highwater.protocol.native FOLDER`.

FOLDER holds the package `highwater`; modules there are overwritten.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Final

from highwater.protocol.native.module import native_source

NATIVE_MODULES: Final = {
    "highwater.protocol.messages.fetch": (range(11, 19), range(16, 17)),
    "highwater.protocol.messages.heartbeat": (range(3, 5), range(0)),
    "highwater.protocol.messages.join_group": (range(5, 10), range(0)),
    "highwater.protocol.messages.offset_commit": (range(7, 11), range(0)),
    "highwater.protocol.messages.produce": (range(8, 14), range(0)),
    "highwater.protocol.messages.sync_group": (range(3, 6), range(0)),
}
"""The hot messages: the versions that clients of the last years send, and those that a follower asks its leader in."""


def write_native_modules(folder: Path) -> None:
    """Put native modules in the place of declared ones."""
    for name, (served, asked) in NATIVE_MODULES.items():
        path = folder.joinpath(*name.split(".")).with_suffix(".py")
        path.write_text(native_source(import_module(name), served=served, asked=asked), encoding="utf-8")


if __name__ == "__main__":
    write_native_modules(Path(sys.argv[1]))
