"""The life cycle of a classic group, as a table.

EMPTY                  no members; only offsets, or nothing yet
PREPARING_REBALANCE    members are expected to (re)join; JoinGroups wait
COMPLETING_REBALANCE   the generation is set; SyncGroups wait for the leader's assignment
STABLE                 every member can have its assignment
DEAD                   deleted or moved away; whoever still holds the object must look again
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class GroupState(StrEnum):
    """A state, by the name that Kafka's tools show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


LEGAL_MOVES: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD},
    ),
    GroupState.COMPLETING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD},
    ),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset(),
}


def moved(current: GroupState, target: GroupState) -> GroupState:
    """Return `target`, or stop: an illegal move is our bug, never the client's."""
    assert target in LEGAL_MOVES[current], f"illegal group move {current} -> {target}"
    return target
