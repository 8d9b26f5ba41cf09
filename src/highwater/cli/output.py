"""How commands speak: tables for people, JSON for programs, questions before something is lost."""

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import typer
from rich import box
from rich.console import Console
from rich.table import Table

PIPE_WIDTH: Final = 10_000  # nothing is folded or cut when a program reads a table


def console(*, stderr: bool = False) -> Console:
    """Return the terminal, or a plain stream as wide as needed when the output goes elsewhere."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, highlight=False, soft_wrap=False, width=None if stream.isatty() else PIPE_WIDTH)


def show_json(document: Any) -> None:
    """Write one JSON document, indented when a person looks at it."""
    print(json.dumps(document, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """Write rows under their column names; columns of numbers are aligned to the right."""
    cells = [list(row) for row in rows]
    out = console()
    table = Table(box=box.SIMPLE_HEAD if out.is_terminal else None, title=title, title_justify="left", pad_edge=False)
    for position, name in enumerate(columns):
        numbers = bool(cells) and all(isinstance(row[position], int | float | None) for row in cells)
        table.add_column(name, justify="right" if numbers else "left", overflow="fold")
    for row in cells:
        table.add_row(*(_cell(value) for value in row))
    out.print(table)


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.1f}"
        case list() | tuple():
            return ",".join(map(str, value)) or "-"
        case _:
            return str(value).replace("[", r"\[")


def counted(count: int, noun: str) -> str:
    """Return `1 record`, `2 records`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def say(sentence: str) -> None:
    """Tell a person what was done; programs read stdout, so this goes to stderr."""
    print(sentence, file=sys.stderr)


def confirm(question: str, *, yes: bool) -> None:
    """Go on only when the user agreed, on the command line or when asked."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter("nobody is there to be asked: add --yes", param_hint="'--yes'")
    typer.confirm(question, abort=True, err=True)


def time_text(timestamp_ms: int) -> str:
    """Return a record's timestamp as ISO 8601 in UTC, to the millisecond."""
    moment = datetime.fromtimestamp(timestamp_ms / 1000, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
