"""When compiled modules are used, and what may be compiled."""

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from highwater.compiled import loading
from highwater.compiled.modules import HOT_MODULES


def source_of(module: str) -> Path:
    found = importlib.util.find_spec(module)
    assert found is not None, f"there is no {module}"
    assert found.origin is not None
    return Path(found.origin)


@pytest.mark.parametrize("module", HOT_MODULES)
def test_a_hot_module_defines_no_error(module: str) -> None:
    """A compiled class that sets `code = ...` anew for an error of ours would lose it, and tell clients -1."""
    tree = ast.parse(source_of(module).read_text(encoding="utf-8"))
    for definition in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        named_for_an_error = [
            base for base in map(ast.unparse, definition.bases) if base.endswith(("Error", "Exception"))
        ]
        assert not named_for_an_error, f"{definition.name} belongs into a module that is not compiled"


def test_any_change_of_the_sources_changes_the_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "one.py").write_text("x = 1\n", encoding="utf-8")
    before = loading.source_fingerprint(tmp_path)
    assert loading.source_fingerprint(tmp_path) == before
    (tmp_path / "room" / "one.py").write_text("x = 12\n", encoding="utf-8")
    changed = loading.source_fingerprint(tmp_path)
    (tmp_path / "room" / "two.py").write_text("", encoding="utf-8")
    assert len({before, changed, loading.source_fingerprint(tmp_path)}) == 3


def test_what_was_built_from_other_sources_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "FINGERPRINT", tmp_path / "fingerprint")
    assert not loading.is_up_to_date()
    (tmp_path / "fingerprint").write_text("of yesterday", encoding="ascii")
    assert not loading.is_up_to_date()
    (tmp_path / "fingerprint").write_text(loading.source_fingerprint(), encoding="ascii")
    assert loading.is_up_to_date()


def run_python(program: str, **environment: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ | environment
    )
    return result.stdout.strip()


def test_nothing_is_mixed_with_modules_that_are_loaded_already() -> None:
    program = (
        "import highwater.storage.log; from highwater.compiled import loading; "
        "loading.is_up_to_date = lambda: True; print(loading.use_compiled(), loading.in_use())"
    )
    assert run_python(program) == "False False"


def test_an_environment_variable_turns_it_off() -> None:
    program = (
        "from highwater.compiled import loading; loading.is_up_to_date = lambda: True; "
        "print(loading.use_compiled(), loading.in_use())"
    )
    assert run_python(program, HIGHWATER_COMPILED="0") == "False False"
    assert run_python(program, HIGHWATER_COMPILED="1") == "True True"
