"""Step by step changes of a set of configs, as IncrementalAlterConfigs asks for them."""

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from highwater.config.setting import Setting, WireType
from highwater.model.errors import ErrorCode, KafkaError


class EditKind(IntEnum):
    """What to do with one config. The numbers are the wire's."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Edit(NamedTuple):
    """One step."""

    name: str
    kind: EditKind
    value: str | None


def edited(
    stored: Mapping[str, str],
    edits: Iterable[Edit],
    *,
    known: Mapping[str, Setting[Any]],
    in_force: Callable[[Setting[Any]], str],
) -> dict[str, str]:
    """Return the configs after all `edits`; what they come to is checked by whoever stores them.

    APPEND and SUBTRACT begin with the value `in_force` when none is stored: adding compact to a topic that deletes by
    the broker's default gives delete,compact.
    """
    result = dict(stored)
    for name, kind, value in edits:
        if kind is EditKind.DELETE:
            result.pop(name, None)
            continue
        if value is None:
            raise KafkaError(f"{name} needs a value", code=ErrorCode.INVALID_REQUEST)
        if kind is EditKind.SET:
            result[name] = value
            continue
        setting = known.get(name)
        if setting is None or setting.parse.wire_type is not WireType.LIST:
            raise KafkaError(
                f"{name} is not a list: it can be set, but not appended to or subtracted from",
                code=ErrorCode.INVALID_CONFIG,
            )
        words = _words(result[name] if name in result else in_force(setting))
        changed = _words(value)
        if kind is EditKind.APPEND:
            words += [word for word in changed if word not in words]
        else:
            words = [word for word in words if word not in changed]
        result[name] = ",".join(words)
    return result


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
