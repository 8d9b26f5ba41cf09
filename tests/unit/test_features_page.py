"""`docs/features.md` says of every feature whether it works and which tests show it: so it must be true."""

import ast
import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "docs" / "features.md").read_text(encoding="utf-8")
ROWS_OF: Final = {"A": 13, "B": 6, "C": 15, "D": 8, "E": 3, "F": 7, "G": 6, "H": 5, "P": 7}
EVERY_ROW: Final = [f"{letter}{number}" for letter, count in ROWS_OF.items() for number in range(1, count + 1)]
THROUGH_CLIENTS: Final = ("tests/clients/", "tests/scenarios/", "tests/spark/", "tests/cluster/")

LINES: Final = dict(re.findall(r"^\| ([A-Z]\d+) \| (.*) \|$", PAGE, flags=re.MULTILINE))
NAMED_TESTS: Final = sorted(set(re.findall(r"`(tests/[^`:]+)::(\w+)`", PAGE)))


def names_of_tests(path: Path) -> set[str]:
    """Return the names of the tests that a file defines, at any depth."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {function.name for function in functions if function.name.startswith("test_")}


def test_every_row_is_there_once_and_in_order() -> None:
    assert re.findall(r"^\| ([A-Z]\d+) \|", PAGE, flags=re.MULTILINE) == EVERY_ROW


@pytest.mark.parametrize("row", EVERY_ROW)
def test_a_row_has_a_state_a_sentence_and_for_what_works_a_test_through_a_client(row: str) -> None:
    state, sentence, shown_by = LINES[row].split(" | ")
    assert state in {"works", "partly", "not yet"}
    assert sentence.endswith(".")
    if state == "works":
        assert any(place in shown_by for place in THROUGH_CLIENTS)
    if state == "partly":
        assert "::test_" in shown_by


@pytest.mark.parametrize(("file", "test"), NAMED_TESTS, ids=lambda part: part.rpartition("/")[2])
def test_a_test_that_is_named_exists(file: str, test: str) -> None:
    assert test in names_of_tests(ROOT / file)
