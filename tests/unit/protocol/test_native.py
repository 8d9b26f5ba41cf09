"""Native messages and their codec do what the declared ones do: the same tests again, in a process that has them."""

from importlib import import_module
from pathlib import Path

import pytest

from highwater.compiled import building
from highwater.protocol.native.__main__ import NATIVE_MODULES, write_native_modules
from highwater.protocol.native.module import native_source
from highwater.testing.tests_again import ON_COMPILED_MODULES, pass_again

TESTS = Path(__file__).parents[2]
SAME_TESTS = [
    "unit/protocol/test_codec.py",
    "unit/protocol/test_captured_frames.py",
    "property/test_codec_against_kio.py",
    "property/test_damaged_frames.py",
]
HOT = "Produce or Fetch or JoinGroup or SyncGroup or OffsetCommit or Heartbeat or codec.py"
ON_GENERATED_SOURCES = """
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
import highwater.protocol.messages
for path in Path({folder!r}).rglob("*.py"):
    name = f"highwater.protocol.messages.{{path.stem}}"
    spec = spec_from_file_location(name, path)
    sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
"""


def pass_same_tests(preparation: str) -> None:
    pass_again(preparation, [TESTS / path for path in SAME_TESTS], "-k", HOT)


def test_generated_sources_pass_the_tests_of_declared_messages(tmp_path: Path) -> None:
    (tmp_path / "highwater" / "protocol" / "messages").mkdir(parents=True)
    write_native_modules(tmp_path)
    pass_same_tests(ON_GENERATED_SOURCES.format(folder=str(tmp_path)))


@pytest.mark.skipif(bool(building.what_is_missing()), reason=building.what_is_missing())
def test_compiled_modules_pass_the_tests_of_declared_messages() -> None:
    pass_same_tests(ON_COMPILED_MODULES)


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
