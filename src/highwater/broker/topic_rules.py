"""What a topic may be called, and how many partitions and replicas it may have: checks without any waiting."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import BrokerId

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

MAX_NAME_LENGTH: Final = 249
"""A partition's folder is named after its topic, and file systems allow 255 bytes."""
MAX_PARTITIONS_AT_ONCE: Final = 10_000
"""Apache Kafka refuses more in one request too: nobody means it, and it would hold up everybody else."""
BROKERS_CHOICE: Final = -1
"""Leaves a count to the broker."""

_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


@dataclass(frozen=True, slots=True)
class NewTopic:
    """What is asked for in a topic that is to be."""

    name: str
    partition_count: int = BROKERS_CHOICE
    replication_factor: int = BROKERS_CHOICE
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """The brokers of each partition, when the caller chooses them."""
    configs: Mapping[str, str | None] = field(default_factory=dict)


def check_name(name: str) -> None:
    """Refuse what cannot be the name of a topic."""
    reason = None
    if not name:
        reason = "a topic's name must not be empty"
    elif name in {".", ".."}:
        reason = f"a topic cannot be called {name!r}"
    elif len(name) > MAX_NAME_LENGTH:
        reason = f"a topic's name has at most {MAX_NAME_LENGTH} characters, not {len(name)}"
    elif not _NAME.fullmatch(name):
        reason = f"a topic's name consists of letters, digits, '.', '_' and '-'; {name!r} does not"
    if reason is not None:
        raise KafkaError(reason, code=ErrorCode.INVALID_TOPIC_EXCEPTION)


def check_partition_count(count: int) -> None:
    """Refuse a number of partitions that cannot be."""
    if count < 1:
        raise KafkaError(f"a topic has at least one partition, not {count}", code=ErrorCode.INVALID_PARTITIONS)
    if count > MAX_PARTITIONS_AT_ONCE:
        raise KafkaError(
            f"at most {MAX_PARTITIONS_AT_ONCE} partitions can be made at once, not {count}",
            code=ErrorCode.POLICY_VIOLATION,
        )


def check_replication_factor(factor: int, live_brokers: int) -> None:
    """Refuse a number of replicas that cannot be."""
    if factor < 1:
        raise KafkaError(
            f"a partition has at least one replica, not {factor}", code=ErrorCode.INVALID_REPLICATION_FACTOR
        )
    if factor > live_brokers:
        raise KafkaError(
            f"{factor} replicas need as many brokers, and {live_brokers} are alive",
            code=ErrorCode.INVALID_REPLICATION_FACTOR,
        )


def checked_assignments(
    assignments: Mapping[int, Sequence[int]], *, first_partition: int, live: Collection[BrokerId]
) -> list[tuple[BrokerId, ...]]:
    """Return the brokers of each partition from `first_partition` on, as the caller chose them, or refuse them."""
    expected = range(first_partition, first_partition + len(assignments))
    if sorted(assignments) != list(expected):
        raise _bad_assignment(
            f"partitions {expected.start} to {expected.stop - 1} must be assigned, each once, not {sorted(assignments)}"
        )
    checked = [tuple(BrokerId(broker) for broker in assignments[index]) for index in expected]
    for index, brokers in zip(expected, checked, strict=True):
        if not brokers:
            raise _bad_assignment(f"partition {index} is assigned to no broker")
        if len(set(brokers)) != len(brokers):
            raise _bad_assignment(f"partition {index} is assigned to a broker twice")
        if strangers := [broker for broker in brokers if broker not in live]:
            raise _bad_assignment(f"partition {index} is assigned to broker {strangers[0]}, which is not alive")
        if len(brokers) != len(checked[0]):
            raise _bad_assignment("every partition must have the same number of replicas")
    return checked


def _bad_assignment(reason: str) -> KafkaError:
    return KafkaError(reason, code=ErrorCode.INVALID_REPLICA_ASSIGNMENT)
