"""`highwater serve`: one broker in the foreground, from its settings to a clean stop.

This module stays small on purpose: it runs in the broker's own process, where every import costs memory for as long as
the broker lives.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from highwater.app.node import CannotStart, Node
from highwater.app.world import World
from highwater.config.broker_config import BrokerConfig
from highwater.config.properties import ConfigError
from highwater.model.log_events import EventLog, set_up_logging

USAGE: Final = "usage: highwater serve [SERVER.PROPERTIES] [--set KEY=VALUE]... [--log-level LEVEL]"
SWITCH_INTERVAL_S: Final = 0.0005
"""How long a thread may hold the interpreter while the loop wants it."""
GC_THRESHOLDS: Final = (100_000, 50, 100)
"""Rare collections: a full one over many objects is a pause that every client sees."""


events = EventLog("app")


class UsageError(Exception):
    """The command line makes no sense."""


def main(arguments: Sequence[str], world: World | None = None) -> int:
    """Run a broker until it is told to stop; return the process's exit code."""
    try:
        path, overrides, level = parse(arguments)
    except UsageError as error:
        print(f"{error}\n{USAGE}", file=sys.stderr)
        return 2
    set_up_logging(level)
    try:
        config = BrokerConfig.load(path, overrides)
        for warning in config.warnings:
            print(f"warning: {warning}", file=sys.stderr)
        return run(config, world)
    except (ConfigError, CannotStart) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def run(config: BrokerConfig, world: World | None = None) -> int:
    """Run a broker with these settings on an event loop of its own."""
    import uvloop

    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.set_threshold(*GC_THRESHOLDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(config, world))


async def _serve(config: BrokerConfig, world: World | None) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.set_exception_handler(_tell_loop_error)
    node = Node(loop, config, world)
    exit_code = 0

    def no_disk_left() -> None:
        nonlocal exit_code
        exit_code = 1
        print("error: the disk of every log dir has failed", file=sys.stderr)
        stop.set()

    node.on_all_log_dirs_failed = no_disk_left
    try:
        await node.start()
        gc.collect()
        gc.freeze()
        print(f"highwater ready {node.addresses} broker.id={node.broker_id}", flush=True)
        await stop.wait()
    finally:
        await node.stop()
    return exit_code


def _tell_loop_error(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what nothing else caught; the broker goes on."""
    error = context.get("exception")
    if isinstance(error, OSError) and error.errno == errno.EBADF:
        return  # a connection was reset: uvloop stops watching it and says so; the sweep of connections closes it
    events.error("loop_error", cause=error, what=context.get("message", ""))


def parse(arguments: Sequence[str]) -> tuple[Path | None, dict[str, str], str]:
    """Return the properties file, the settings given one by one, and the level of log lines."""
    path: Path | None = None
    overrides: dict[str, str] = {}
    level = "WARNING"
    rest = iter(arguments)
    for argument in rest:
        option, equals, inline = argument.partition("=")
        if option in {"--set", "--override", "--log-level"}:
            value = inline if equals else next(rest, None)
            if value is None:
                raise UsageError(f"{option} needs a value")
            if option == "--log-level":
                level = _level(value)
                continue
            key, separator, setting = value.partition("=")
            if not separator or not key.strip():
                raise UsageError(f"{option} takes KEY=VALUE, not {value!r}")
            overrides[key.strip()] = setting.strip()
        elif argument.startswith("-"):
            raise UsageError(f"unknown option {argument}")
        elif path is not None:
            raise UsageError(f"one properties file at most, not {path} and {argument}")
        else:
            path = Path(argument)
    return path, overrides, level


def _level(text: str) -> str:
    if text.upper() not in {"DEBUG", "INFO", "WARNING", "ERROR"}:
        raise UsageError(f"--log-level takes debug, info, warning or error, not {text!r}")
    return text.upper()
