"""What a user sees: help, one-line errors, exit codes. No broker is needed here."""

import io
import socket
import subprocess
import sys

import pytest

from highwater.cli.commands import run

LEAVES = [
    ["serve"],
    *(["topic", name] for name in ("create", "list", "describe", "alter", "delete")),
    ["produce"],
    ["consume"],
    ["offsets"],
    *(["config", name] for name in ("describe", "alter")),
    ["records", "delete"],
    *(["group", name] for name in ("list", "describe", "delete", "reset-offsets")),
    *(["perf", name] for name in ("produce", "consume")),
    ["dump"],
]


@pytest.fixture
def nobody() -> str:
    """An address where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@pytest.mark.parametrize("command", LEAVES, ids=" ".join)
def test_every_command_has_help(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command, "--help"]) == 0
    assert f"highwater {' '.join(command)}" in capsys.readouterr().out


@pytest.mark.parametrize("command", [leaf for leaf in LEAVES if leaf != ["serve"]], ids=" ".join)
def test_every_command_can_write_json(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command, "--help"]) == 0
    assert "--json" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["topc", "list"], "No such command 'topc'"),
        (["topic", "create"], "Missing argument 'TOPIC...'"),
        (["topic", "create", "a", "--partitions", "many"], "--partitions"),
        (["topic", "create", "a", "--partitions", "0"], "greater than or equal to 1"),
        (["topic", "create", "a", "--set", "retention.ms"], "'retention.ms' is not KEY=VALUE"),
        (["topic", "list", "--bootstrap", "nowhere"], "'nowhere' is not an address like 127.0.0.1:9092"),
        (["topic", "list", "--bootstrap", "host:99999"], "'host:99999' is not an address"),
        (["topic", "alter", "a"], "say what to change"),
        (["consume", "a", "--from", "yesterday"], "'yesterday' is none of: earliest"),
        (["consume", "a", "--group", "g", "--partition", "0"], "leave out --partition or --group"),
        (["produce", "a", "--key", "k", "--key-separator", ":"], "not both"),
        (["config", "describe", "user", "a"], "topic|broker"),
        (["group", "reset-offsets", "g"], "either --to or --shift"),
        (["group", "reset-offsets", "g", "--to", "latest", "--partition", "1"], "exactly one --topic"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    said = capsys.readouterr()
    assert told in said.err
    assert said.err.count("\n") == 1
    assert not said.out


@pytest.mark.parametrize(
    "command",
    [
        ["topic", "list"],
        ["topic", "create", "a"],
        ["topic", "delete", "a", "--yes"],
        ["produce", "a"],
        ["consume", "a"],
        ["offsets", "a"],
        ["config", "describe", "topic", "a"],
        ["records", "delete", "a", "--before", "latest", "--yes"],
        ["group", "list"],
        ["perf", "produce", "a"],
        ["perf", "consume", "a"],
    ],
    ids=" ".join,
)
def test_a_broker_that_is_away_is_told_in_one_line_with_what_to_do(
    command: list[str], nobody: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, "--bootstrap", nobody]) == 1
    said = capsys.readouterr().err
    assert f"no broker answers at {nobody} (connection refused); start one with `highwater serve`" in said
    assert said.count("\n") == 1


def test_the_address_comes_from_the_environment_too(
    nobody: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HIGHWATER_BOOTSTRAP", nobody)
    assert run(["topic", "list"]) == 1
    assert f"no broker answers at {nobody}" in capsys.readouterr().err


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("highwater ")


def test_a_bug_is_not_dressed_up_as_a_users_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> None:
        raise AssertionError("a bug")

    monkeypatch.setattr("highwater.cli.cluster.Cluster.topics", broken)
    with pytest.raises(AssertionError, match="a bug"):
        run(["topic", "list"])


def test_serving_loads_nothing_of_the_other_commands() -> None:
    """A broker must be up in a blink and stay small."""
    script = (
        "import sys; from highwater.cli.main import main; sys.argv = ['highwater', 'serve', '--nonsense'];"
        "code = main(); heavy = {'typer', 'rich', 'confluent_kafka', 'pydantic', 'click'} & set(sys.modules);"
        "sys.exit(f'loaded {heavy}' if heavy or code != 2 else 0)"
    )
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert outcome.returncode == 0, outcome.stderr


def test_a_question_answered_with_no_does_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("highwater.cli.cluster.Cluster.topics", lambda _: {"orders": None})
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    assert run(["topic", "delete", "orders"]) == 1
    said = capsys.readouterr().err
    assert "Delete orders and all records in it?" in said
    assert "nothing was done" in said
