"""What a user is told when a command cannot do its job."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import KafkaError

NO_ANSWER: Final = "the broker did not answer in time; look at its log, or try again"
LOST: Final = "the connection to the broker was lost; is it still running?"
UNREACHABLE: Final = frozenset({"_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE"})
UNANSWERED: Final = frozenset({"_TIMED_OUT", "_MSG_TIMED_OUT", "_TIMED_OUT_QUEUE"})
ADVICE: Final = {
    "NON_EMPTY_GROUP": "stop its members first",
    "MSG_SIZE_TOO_LARGE": "the client's message.max.bytes and the topic's max.message.bytes set the limit",
    "REQUEST_TIMED_OUT": "not every replica has done it yet; `highwater topic describe` shows which are in sync",
    "NOT_ENOUGH_REPLICAS": "too few replicas are in sync; `highwater topic describe` shows them",
    "UNSUPPORTED_VERSION": "this broker does not offer it",
    "_UNSUPPORTED_FEATURE": "this broker does not offer it",
}


class CommandFailed(typer.TyperException):
    """The command cannot be done: one line that says why and what to do about it. Exit code 1."""


def no_such(kind: str, name: str, known: Iterable[str], advice: str = "") -> CommandFailed:
    """Return the error for a name that does not exist, with the closest ones that do."""
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else advice
    return CommandFailed(f"there is no {kind} {name!r}" + (f"; {hint}" if hint else ""))


def told_in_a_line(error: Exception) -> str | None:
    """Return the line for an error that a user may cause or cure, None for a bug of ours."""
    from confluent_kafka import KafkaException

    if isinstance(error, KafkaException):
        return meaning(error.args[0])
    if isinstance(error, TimeoutError):
        return NO_ANSWER
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else (error.strerror or str(error))
    return None


def meaning(error: KafkaError) -> str:
    """Return what a client library's error means to the user."""
    name = error.name()
    if name in UNREACHABLE:
        return LOST
    if name in UNANSWERED:
        return NO_ANSWER
    text = str(error.str() or name).rstrip(".")
    if name in ADVICE:
        return f"{text} ({name}); {ADVICE[name]}"
    if name == "_INVALID_ARG":
        return f"the client library refuses this: {text}"
    return text if name.startswith("_") else f"{text} ({name})"
