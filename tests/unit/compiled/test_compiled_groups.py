"""The compiled modules of groups do what the plain ones do: the same tests again, in a process that has them."""

from pathlib import Path

import pytest

from highwater.compiled import building
from highwater.testing.tests_again import ON_COMPILED_MODULES, pass_again

UNIT = Path(__file__).parents[1]
SAME_TESTS = [UNIT / "groups", UNIT / "broker" / "groups", UNIT / "broker" / "test_pending_answer.py"]


@pytest.mark.skipif(bool(building.what_is_missing()), reason=building.what_is_missing())
def test_compiled_modules_pass_the_tests_of_groups() -> None:
    pass_again(ON_COMPILED_MODULES, SAME_TESTS)
