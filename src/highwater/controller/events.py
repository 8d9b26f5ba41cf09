"""What happens to the controller, and what it wants done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from highwater.controller.partition import ControlledPartition, ControlledTopic, Leadership
from highwater.model.ids import BrokerId, TopicPartition

# Events -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TookOver:
    """This broker became the controller and has read all that there is."""

    brokers: Mapping[BrokerId, int]
    """Who is alive, each with the number of its registration: it changes when a broker was gone in between."""
    topics: Mapping[str, ControlledTopic]
    deleting: frozenset[str]


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    """Brokers came or went."""

    brokers: Mapping[BrokerId, int]


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """A topic was written down."""

    topic: ControlledTopic


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """Further partitions of a topic were written down."""

    topic: str
    partitions: Mapping[int, ControlledPartition]


@dataclass(frozen=True, slots=True)
class DeletionDecided:
    """It was written down that a topic is to go."""

    topic: str


@dataclass(frozen=True, slots=True)
class UncleanElectionChanged:
    """A topic now allows, or no longer allows, leaders that are not in sync."""

    topic: str
    allowed: bool


@dataclass(frozen=True, slots=True)
class StatesWritten:
    """How the conditional writes went."""

    written: Mapping[TopicPartition, tuple[Leadership, int]]
    """With the version that each has now."""
    refused: Mapping[TopicPartition, tuple[Leadership, int]]
    """Those that somebody else had written in the meantime: what is there instead."""


@dataclass(frozen=True, slots=True)
class IsrNoticed:
    """Leaders have changed who is in sync."""

    states: Mapping[TopicPartition, tuple[Leadership, int]]


@dataclass(frozen=True, slots=True)
class ReplicasStopped:
    """A broker has deleted its replicas of these partitions."""

    broker: BrokerId
    registration: int
    """Which process of the broker's this is about: the next one may have begun before we get to hear it."""
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class LogDirsFailed:
    """Brokers say that a log dir of theirs has failed; which replicas were in it is to be found out."""

    brokers: frozenset[BrokerId]


@dataclass(frozen=True, slots=True)
class ReplicasFailed:
    """A broker is alive, and cannot serve its replicas of these partitions."""

    broker: BrokerId
    registration: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class ReplicasServed:
    """A broker serves its replicas of these partitions; of some it may have said before that it cannot."""

    broker: BrokerId
    registration: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class ShutdownAsked:
    """A broker wants to stop, and to be relieved first."""

    broker: BrokerId
    registration: int


class ElectionKind(Enum):
    """Which leader is asked for."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class ElectionAsked:
    """Somebody wants leaders to be elected."""

    kind: ElectionKind
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class BalanceDue:
    """It is time to look whether leadership has drifted."""

    tolerated_percent: int


@dataclass(frozen=True, slots=True)
class MovesAsked:
    """Somebody wants partitions on other brokers; None calls a move off."""

    targets: Mapping[TopicPartition, tuple[BrokerId, ...] | None]


Event: TypeAlias = (
    TookOver
    | BrokersChanged
    | TopicCreated
    | PartitionsAdded
    | DeletionDecided
    | UncleanElectionChanged
    | StatesWritten
    | IsrNoticed
    | ReplicasStopped
    | LogDirsFailed
    | ReplicasFailed
    | ReplicasServed
    | ShutdownAsked
    | ElectionAsked
    | BalanceDue
    | MovesAsked
)

# Effects ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WriteStates:
    """Write each, if its version is still the one given; answered by StatesWritten before anything else happens."""

    changes: Mapping[TopicPartition, tuple[Leadership, int]]


@dataclass(frozen=True, slots=True)
class WriteAssignments:
    """Write the assignments of these topics as they are now."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TellReplicas:
    """Tell a broker whom to lead and whom to follow in these partitions, as they are when it is told."""

    broker: BrokerId
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class TellEverybody:
    """Tell every live broker what clients may ask about these partitions, and who is alive."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class TellAll:
    """Tell one broker, which is new, about every partition and every broker."""

    broker: BrokerId


@dataclass(frozen=True, slots=True)
class StopReplicas:
    """Let a broker delete its replicas; answered by ReplicasStopped."""

    broker: BrokerId
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class FinishDeletion:
    """Every replica of a topic is gone: forget it."""

    topic: str


Effect: TypeAlias = (
    WriteStates | WriteAssignments | TellReplicas | TellEverybody | TellAll | StopReplicas | FinishDeletion
)
