"""Write the parts of the documentation that the code knows best: rooms, APIs, settings, metrics, commands, life cycles.

    python tools/generate_docs.py             write them (`make docs`)

A test compares what this would write with what is there, so these pages cannot drift from the code.
"""

import importlib
import inspect
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from highwater.cli.commands import app
from highwater.config import ignored
from highwater.config.catalogue import THEMES, settings_of
from highwater.config.not_yet import NOT_YET, REFUSED
from highwater.config.setting import Setting, Update
from highwater.groups.classic.states import LEGAL_MOVES as GROUP_MOVES
from highwater.metrics import declared
from highwater.metrics.metric import Metric
from highwater.server.api_table import API_TABLE, Api
from highwater.transactions.states import LEGAL_MOVES as TRANSACTION_MOVES

ROOT: Final = Path(__file__).resolve().parent.parent
GENERATED: Final = "<!-- made by `make docs`; do not edit -->"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def page(title: str, *parts: str) -> str:
    """Return a whole generated page."""
    return "\n\n".join((f"# {title}", GENERATED, *parts)) + "\n"


def docstring_of(module: str) -> str:
    """Return what a module says about itself."""
    return inspect.cleandoc(importlib.import_module(module).__doc__ or "")


def rooms() -> str:
    """Return the staircase of rooms as import-linter keeps it, each with its own first line."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers: list[str] = pyproject["tool"]["importlinter"]["contracts"][0]["layers"]
    steps = [[room.strip() for room in layer.split("|")] for layer in layers]
    rows = [
        (str(step), f"`{room}`", docstring_of(f"highwater.{room}").splitlines()[0])
        for step, step_rooms in enumerate(steps, start=1)
        for room in step_rooms
    ]
    return table(("step", "room", "its job"), rows)


def protocol() -> str:
    """Return the page of all APIs served, each as its handler's note describes it."""
    overview = table(
        ("key", "API", "versions"),
        [(str(api.key), f"[{api.name}](#{api.name.lower()})", _versions(api)) for api in API_TABLE],
    )
    notes = [_api_note(api) for api in API_TABLE]
    introduction = (
        "Every API of Kafka's protocol that the broker serves, from the table that ApiVersions is answered from. A "
        "client that asks for anything else is disconnected, as Apache Kafka does it."
    )
    return page("Protocol", introduction, overview, *notes)


def _versions(api: Api) -> str:
    return f"{api.versions.start}-{api.latest_version}" if len(api.versions) > 1 else str(api.versions.start)


def _api_note(api: Api) -> str:
    summary, _, rest = docstring_of(f"highwater.server.handlers.{api.handler_module}").partition("\n")
    title = re.sub(r"^[^:]*: *", "", summary)
    return f"## {api.name}\n\n{title[0].upper()}{title[1:]}" + (f"\n\n```\n{rest.strip()}\n```" if rest.strip() else "")


def settings() -> str:
    """Return the page of all settings, by theme."""
    introduction = (
        "Kafka's names in a Kafka `server.properties`, or `--set name=value` on the command line. A topic or a "
        "consumer group may override those that have a name there. Settings that can change at run time are changed "
        "with `highwater config alter`. "
        "A setting that is not in effect yet says so, and setting it brings a warning. [What works](features.md) says "
        "which features are there already."
    )
    parts = []
    for theme in THEMES:
        name = theme.__name__.rpartition(".")[2]
        rows = [_setting_row(setting) for setting in settings_of(theme)]
        header = ("setting", "default", "takes", "on a topic or group", "changes", "what it does")
        parts.append(
            f"## {name.capitalize()}\n\n{docstring_of(theme.__name__).splitlines()[0]}\n\n{table(header, rows)}"
        )
    rows = [(f"`{name}`", reason) for name, reason in sorted({**ignored.BY_NAME, **_by_prefix()}.items())]
    kafka_only = "## Read and ignored\n\nFiles may carry these settings of Apache Kafka; they mean nothing here.\n\n"
    return page("Settings", introduction, *parts, kafka_only + table(("setting", "because"), rows))


def _by_prefix() -> dict[str, str]:
    return {f"{prefix}*": reason for prefix, reason in ignored.BY_PREFIX.items()}


def _setting_row(setting: Setting[Any]) -> tuple[str, ...]:
    default = "" if setting.default is None else setting.show(setting.default)
    changes = {Update.READ_ONLY: "at start", Update.PER_BROKER: "per broker", Update.CLUSTER_WIDE: "at run time"}
    name = "" if setting.topic_only else f"`{setting.name}`"
    own_name = setting.topic_name or setting.group_name
    topic_name = f"`{own_name}`" if own_name else ""
    shown = f"`{default}`" if default else ""
    reason = NOT_YET.get(setting) or REFUSED.get(setting)
    doc = f"{setting.doc} **Not in effect: {reason}.**" if reason else setting.doc
    return name, shown, setting.parse.allowed, topic_name, changes[setting.update], doc


def metrics() -> str:
    """Return the page of all metrics."""
    introduction = "What `metrics.listener` answers with, in Prometheus's text format. It is off unless set."
    found = [value for value in vars(declared).values() if isinstance(value, Metric)]
    rows = [(f"`{metric.name}`", metric.kind.value, ", ".join(metric.labels), metric.doc) for metric in found]
    return page("Metrics", introduction, table(("metric", "kind", "labels", "what it says"), rows))


def life_cycles() -> str:
    """Return the page of state machines, drawn from the tables that the code obeys."""
    groups = {state.value: [target.value for target in targets] for state, targets in GROUP_MOVES.items()}
    transactions = {state.label: [target.label for target in targets] for state, targets in TRANSACTION_MOVES.items()}
    return page(
        "Life cycles",
        "## A classic consumer group",
        *_life_cycle("highwater.groups.classic.states", groups),
        "## A transaction",
        *_life_cycle("highwater.transactions.states", transactions),
    )


def _life_cycle(module: str, moves: Mapping[str, Iterable[str]]) -> Iterator[str]:
    yield f"```\n{docstring_of(module)}\n```"
    arrows = [f"    {state} --> {target}" for state, targets in moves.items() for target in sorted(targets)]
    diagram = "\n".join(["stateDiagram-v2", *arrows])
    yield f"```mermaid\n{diagram}\n```"


def commands() -> str:
    """Return the page of all commands with their options."""
    introduction = (
        "Every command that talks to a cluster takes `--bootstrap HOST:PORT` (or `HIGHWATER_BOOTSTRAP`, default "
        "127.0.0.1:9092) and `--json`. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted."
    )
    return page("Command line", introduction, *_command_notes("highwater", typer_command(), ()))


def typer_command() -> Any:
    """Return the command tree that typer builds from the app."""
    from typer.main import get_command

    return get_command(app)


def _command_notes(path: str, command: Any, seen: tuple[str, ...]) -> Iterable[str]:
    if children := getattr(command, "commands", None):
        for name, child in children.items():
            yield from _command_notes(f"{path} {name}", child, (*seen, name))
        return
    rows = []
    for parameter in command.params:
        if parameter.name == "help":
            continue
        names = (
            ", ".join((*parameter.opts, *parameter.secondary_opts))
            if parameter.opts[0][0] == "-"
            else _metavar(parameter)
        )
        rows.append((f"`{names}`", (getattr(parameter, "help", None) or "").replace("\n", " ")))
    yield f"## {path}\n\n{inspect.cleandoc(command.help or '')}\n\n{table(('option', 'what it does'), rows)}"


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name)


PAGES: Final[dict[str, Callable[[], str]]] = {
    "docs/protocol.md": protocol,
    "docs/settings.md": settings,
    "docs/metrics.md": metrics,
    "docs/life-cycles.md": life_cycles,
    "docs/command-line.md": commands,
}
SECTIONS: Final[dict[str, dict[str, Callable[[], str]]]] = {"docs/architecture.md": {"rooms": rooms}}


def generated() -> dict[Path, str]:
    """Return every file that is generated, whole or in part, with what it should hold."""
    files = {ROOT / name: make() for name, make in PAGES.items()}
    for name, sections in SECTIONS.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        for section, make in sections.items():
            begin, end = f"<!-- {section}: {GENERATED.removeprefix('<!-- ')}", f"<!-- end of {section} -->"
            assert begin in text, f"{name} has no place for {section}: {begin}"
            before, _, rest = text.partition(begin)
            _, _, after = rest.partition(end)
            text = f"{before}{begin}\n\n{make()}\n\n{end}{after}"
        files[ROOT / name] = text
    return files


def main() -> int:
    """Write what differs."""
    for path, text in generated().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
