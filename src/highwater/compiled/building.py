"""Compiles the hot modules with mypyc, in a process of its own: `python -m highwater.compiled.building FOLDER`.

mypyc prints what it thinks and works in another folder; a child process lets it, without touching ours.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Final

from highwater.compiled.loading import BUILT, FINGERPRINT, PACKAGE, source_fingerprint
from highwater.compiled.modules import HOT_MODULES

TIMEOUT_S: Final = 1200
GENERATOR: Final = "highwater.protocol.native"
"""What puts native messages in the place of declared ones; run, not imported: this room imports nothing."""


class CannotCompile(Exception):
    """What is missing, or what the compiler said."""


def build() -> None:
    """Compile everything and put it in the place of an earlier build; raise CannotCompile if that is impossible."""
    missing = what_is_missing()
    if missing:
        raise CannotCompile(missing)
    fingerprint = source_fingerprint()
    BUILT.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILT.parent, prefix="building-") as scratch:
        result = subprocess.run(
            [sys.executable, "-m", "highwater.compiled.building", scratch],
            cwd=PACKAGE.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if result.returncode:
            raise CannotCompile(f"the compiler failed:\n{result.stdout[-4000:]}")
        shutil.rmtree(BUILT, ignore_errors=True)
        (Path(scratch) / "lib").rename(BUILT)
    FINGERPRINT.write_text(fingerprint, encoding="ascii")


def what_is_missing() -> str:
    """Return one line on what this machine lacks; an empty one if it lacks nothing."""
    if importlib.util.find_spec("mypyc") is None or importlib.util.find_spec("setuptools") is None:
        return "mypy and setuptools are needed: pip install 'highwater-broker[compile]'"
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return f"a C compiler is needed, and there is no {compiler}"
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        return "the C headers of Python are needed (in Debian the package python3-dev)"
    if not os.access(PACKAGE / "compiled", os.W_OK):
        return f"{PACKAGE / 'compiled'} is not writable: run this as the user who installed the package"
    return ""


def compile_into(folder: Path) -> None:
    """Run mypyc and the C compiler on a copy of the package with native messages; leave them in `folder / "lib"`."""
    from mypyc.build import mypycify
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    tree = folder / "source"
    shutil.copytree(PACKAGE, tree / PACKAGE.name, ignore=shutil.ignore_patterns("built", "__pycache__"))
    subprocess.run([sys.executable, "-m", GENERATOR, tree], check=True)
    os.chdir(tree)  # mypyc wants to see modules by their path from the working directory
    sources = [name.replace(".", "/") + ".py" for name in HOT_MODULES]
    options = [
        "--config-file=",
        "--ignore-missing-imports",
        "--follow-imports=silent",
        f"--cache-dir={folder / 'mypy'}",
    ]
    extensions = mypycify([*options, *sources], opt_level="2", debug_level="0", target_dir=str(folder / "c"))
    command = build_ext(Distribution({"name": "highwater", "ext_modules": extensions}))
    command.build_lib, command.build_temp = str(folder / "lib"), str(folder / "objects")
    command.ensure_finalized()
    command.run()


if __name__ == "__main__":
    compile_into(Path(sys.argv[1]))
