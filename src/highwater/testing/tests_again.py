"""Runs tests once more, in a process of their own that was prepared in another way: on compiled modules, for one."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ON_COMPILED_MODULES: Final = """
from highwater.compiled.loading import use_compiled
assert use_compiled(), "the sources have changed: run `make compiled`"
"""
_RUN: Final = """
import sys, pytest
loaded_already = "ignore::pytest.PytestAssertRewriteWarning"
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", loaded_already, *sys.argv[1:]]))
"""
_TIMEOUT_SECONDS: Final = 300


def pass_again(preparation: str, paths: Iterable[Path], *options: str) -> None:
    """Run `preparation`, then the tests at `paths` with pytest's `options`; AssertionError unless they pass."""
    result = subprocess.run(
        [sys.executable, "-c", preparation + _RUN, *options, *map(str, paths)],
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_SECONDS,
    )
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
    assert " passed" in result.stdout
