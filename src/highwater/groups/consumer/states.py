"""The states of a consumer group and of its members.

A group's state follows from its epochs; a member moves like this:

    STABLE                 it has what the target of its epoch says
    UNREVOKED_PARTITIONS   it was told to give up some partitions and has not said yet that it did
    UNRELEASED_PARTITIONS  it is at the newest epoch and waits for partitions that others have not given up yet
"""

from enum import IntEnum, StrEnum
from typing import Final


class ConsumerGroupState(StrEnum):
    """A state, by the name that Kafka's tools show."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"  # the group's epoch is ahead of its target assignment
    RECONCILING = "Reconciling"  # some member does not have what the target says
    STABLE = "Stable"


class MemberState(IntEnum):
    """How far a member is on its way to the target; the numbers are those of the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


_NUMBERS: Final = frozenset(state.value for state in MemberState)


def member_state(number: int) -> MemberState:
    """Return the state that a record names. One from the future means: look again at what there is to do."""
    return MemberState(number) if number in _NUMBERS else MemberState.UNRELEASED_PARTITIONS
