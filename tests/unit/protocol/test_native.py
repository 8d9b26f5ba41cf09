"""Native messages and their codec do what the declared ones do: the same tests again, in a process that has them."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from highwater.compiled import building
from highwater.protocol.native.__main__ import NATIVE_MODULES, write_native_modules
from highwater.protocol.native.module import native_source

TESTS = Path(__file__).parents[2]
SAME_TESTS = [
    "unit/protocol/test_codec.py",
    "unit/protocol/test_captured_frames.py",
    "property/test_codec_against_kio.py",
    "property/test_damaged_frames.py",
]
RUN_TESTS = """
import sys, pytest
HOT = "Produce or Fetch or JoinGroup or SyncGroup or OffsetCommit or Heartbeat or codec.py"
loaded_already = "ignore::pytest.PytestAssertRewriteWarning"
options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", loaded_already, "-k", HOT]
sys.exit(pytest.main(options + sys.argv[2:]))
"""
AS_GENERATED = (
    """
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
import highwater.protocol.messages
for path in Path(sys.argv[1]).rglob("*.py"):
    name = f"highwater.protocol.messages.{path.stem}"
    spec = spec_from_file_location(name, path)
    sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
"""
    + RUN_TESTS
)
AS_COMPILED = (
    """
from highwater.compiled.loading import use_compiled
assert use_compiled(), "the sources have changed: run `make compiled`"
"""
    + RUN_TESTS
)


def run_same_tests(program: str, folder: Path) -> None:
    paths = [str(TESTS / path) for path in SAME_TESTS]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    result = subprocess.run(
        [sys.executable, "-c", program, str(folder), *paths],
        cwd=TESTS.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
    assert " passed" in result.stdout


def test_generated_sources_pass_the_tests_of_declared_messages(tmp_path: Path) -> None:
    (tmp_path / "highwater" / "protocol" / "messages").mkdir(parents=True)
    write_native_modules(tmp_path)
    run_same_tests(AS_GENERATED, tmp_path)


@pytest.mark.skipif(bool(building.what_is_missing()), reason=building.what_is_missing())
def test_compiled_modules_pass_the_tests_of_declared_messages(tmp_path: Path) -> None:
    run_same_tests(AS_COMPILED, tmp_path)


@pytest.mark.parametrize("name", NATIVE_MODULES)
def test_every_declared_name_is_there_natively(name: str) -> None:
    module = import_module(name)
    served, asked = NATIVE_MODULES[name]
    source = native_source(module, served=served, asked=asked)
    declared = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == name]
    assert declared
    for key in declared:
        assert f"class {key}(NativeStruct):" in source


def test_versions_with_the_same_bytes_share_a_function() -> None:
    module = import_module("highwater.protocol.messages.produce")
    source = native_source(module, served=range(9, 13), asked=range(0))
    assert source.count("def read_ProduceRequest_") == 1
    assert source.count("def encode_ProduceResponse_") == 2  # from 10 on it names leaders
