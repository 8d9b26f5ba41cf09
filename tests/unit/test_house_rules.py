"""The house rules that a program can check."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE: Final = sorted(path for path in (ROOT / "src").rglob("*.py") if "built" not in path.parts)
"""Without the copies that are being compiled."""
PYTHON: Final = SOURCE + [path for folder in ("tests", "tools", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
PAGES: Final = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]

MAX_FILE_LINES: Final = 500
MAX_FUNCTION_LINES: Final = 80
LONG_ON_PURPOSE: Final = {
    "src/highwater/app/node.py:_build",  # the whole wiring of a broker, top to bottom, in one place
    "src/highwater/protocol/records/record.py:_parse",  # runs for every record: a call for each field doubles its cost
}
UNFINISHED: Final = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
CLIENT_SIDE: Final = {"cli", "testing"}
TOO_HEAVY_FOR_A_BROKER: Final = {"rich", "typer", "confluent_kafka", "pydantic", "pyspark", "pandas", "pyarrow"}


def name_of(path: Path) -> str:
    """Return a path as people write it."""
    return str(path.relative_to(ROOT))


def text_of(path: Path) -> str:
    """Return what a file holds."""
    return path.read_text(encoding="utf-8")


def functions_in(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function of a file, at any depth."""
    for node in ast.walk(ast.parse(text_of(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def imports_in(path: Path) -> Iterator[str]:
    """Yield every package that a file imports, wherever it does."""
    for node in ast.walk(ast.parse(text_of(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


def test_a_file_holds_one_thing() -> None:
    assert [name_of(path) for path in PYTHON if text_of(path).count("\n") > MAX_FILE_LINES] == []


def test_a_function_fits_on_a_screen() -> None:
    too_long = {
        f"{name_of(path)}:{function.name}"
        for path in SOURCE
        for function in functions_in(path)
        if (function.end_lineno or 0) - function.lineno > MAX_FUNCTION_LINES
    }
    assert too_long - LONG_ON_PURPOSE == set()


def test_nothing_is_left_for_later() -> None:
    assert [name_of(path) for path in SOURCE if UNFINISHED.search(text_of(path))] == []


def test_a_room_of_the_broker_imports_nothing_heavy() -> None:
    package = ROOT / "src" / "highwater"
    rooms = {room for room in package.iterdir() if room.is_dir() and room.name not in CLIENT_SIDE}
    broker = [path for path in SOURCE if rooms.intersection(path.parents)]
    assert broker
    assert [name_of(path) for path in broker if TOO_HEAVY_FOR_A_BROKER.intersection(imports_in(path))] == []


def test_links_between_pages_lead_somewhere() -> None:
    links = [
        (name_of(page), target)
        for page in PAGES
        for target in re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", text_of(page))
        if not (page.parent / target).exists()
    ]
    assert links == []
