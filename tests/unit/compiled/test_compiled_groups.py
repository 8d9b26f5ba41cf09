"""The compiled modules of groups do what the plain ones do: the same tests again, in a process that has them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from highwater.compiled import building

TESTS = Path(__file__).parents[2]
SAME_TESTS = ["unit/groups", "unit/broker/groups", "unit/broker/test_pending_answer.py"]
AS_COMPILED = """
from highwater.compiled.loading import use_compiled
assert use_compiled(), "the sources have changed: run `make compiled`"
import sys, pytest
loaded_already = "ignore::pytest.PytestAssertRewriteWarning"
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", loaded_already, *sys.argv[1:]]))
"""


@pytest.mark.skipif(bool(building.what_is_missing()), reason=building.what_is_missing())
def test_compiled_modules_pass_the_tests_of_groups() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    result = subprocess.run(
        [sys.executable, "-c", AS_COMPILED, *(str(TESTS / path) for path in SAME_TESTS)],
        cwd=TESTS.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
    assert " passed" in result.stdout
