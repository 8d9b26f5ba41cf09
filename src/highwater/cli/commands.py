"""All commands on one app, and how their errors reach the user: one line, never a traceback for a mistake."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from highwater import __version__
from highwater.cli import (
    balance,
    compile,  # noqa: A004 - the command is called so
    config,
    consume,
    demo,
    dump,
    elect_leaders,
    group,
    local_cluster,
    offsets,
    perf,
    pipeline,
    produce,
    reassign,
    records,
    serve,
    topic,
    txn,
)
from highwater.cli.failures import CommandFailed, told_in_a_line

app = typer.Typer(
    help="Highwater: a commit-log broker that speaks Kafka's protocol, and tools for any Kafka cluster.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - the signature that typer calls
    if wanted:
        print(f"highwater {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None: ...


for module in (
    serve,
    local_cluster,
    topic,
    produce,
    consume,
    offsets,
    config,
    records,
    group,
    txn,
    elect_leaders,
    reassign,
    balance,
    perf,
    dump,
    pipeline,
    demo,
    compile,
):
    module.register(app)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return the exit code: 0, 1 for a failure, 2 for wrong usage, 130 when interrupted."""
    try:
        outcome = app(arguments, prog_name="highwater", standalone_mode=False)
    except typer.TyperException as error:
        return _report(error)
    except typer.Abort:
        return _report(CommandFailed("nothing was done"))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output (`| head`) has what it wanted; what is left in the buffer has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        line = told_in_a_line(error)
        if line is None:
            raise
        return _report(CommandFailed(line))
    return outcome if isinstance(outcome, int) else 0


def _report(error: typer.TyperException) -> int:
    where = getattr(getattr(error, "ctx", None), "command_path", "highwater")
    if not error.format_message():  # a command without its arguments: typer has shown the help instead
        return error.exit_code
    advice = f" (see `{where} --help`)" if error.exit_code == 2 else ""
    print(f"{where}: {error.format_message().rstrip('.')}{advice}", file=sys.stderr)
    return error.exit_code
