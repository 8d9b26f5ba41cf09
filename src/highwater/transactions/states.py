"""The life of a transaction.

Empty: the id has a producer, and nothing is open. Ongoing: partitions have been added. Prepare: the outcome is decided
and in the log; from here on it completes, whatever dies. Complete: a marker is in every partition, and the next
transaction may begin. Dead: nobody has used the id for long, and it is forgotten.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class State(IntEnum):
    """Where a transaction is. The numbers are those of the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7
    """Passed through and never written: the record that fences a producer is the one that prepares the abort."""

    @property
    def label(self) -> str:
        """The name that Kafka's tools show: `PrepareCommit`."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided and not everywhere yet."""
        return self in {State.PREPARE_COMMIT, State.PREPARE_ABORT}

    @property
    def is_settled(self) -> bool:
        """Whether nothing is open."""
        return self in {State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT}


BY_LABEL: Final[Mapping[str, State]] = {state.label: state for state in State}

_BETWEEN_TRANSACTIONS: Final = frozenset(
    {
        State.EMPTY,  # by InitProducerId
        State.ONGOING,
        State.PREPARE_ABORT,  # of a transaction that has added nothing yet (KIP-890)
        State.DEAD,
    }
)

LEGAL_MOVES: Final[Mapping[State, frozenset[State]]] = {
    State.EMPTY: _BETWEEN_TRANSACTIONS,
    State.ONGOING: frozenset({State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT, State.PREPARE_EPOCH_FENCE}),
    State.PREPARE_EPOCH_FENCE: frozenset({State.PREPARE_ABORT}),
    State.PREPARE_COMMIT: frozenset({State.COMPLETE_COMMIT}),
    State.PREPARE_ABORT: frozenset({State.COMPLETE_ABORT}),
    State.COMPLETE_COMMIT: _BETWEEN_TRANSACTIONS,
    State.COMPLETE_ABORT: _BETWEEN_TRANSACTIONS,
    State.DEAD: frozenset(),
}


def moved(current: State, target: State) -> State:
    """Return `target`, or stop: an illegal move is our bug, never the client's."""
    assert target in LEGAL_MOVES[current], f"illegal transaction move {current.label} -> {target.label}"
    return target
