"""What a follower says of partitions that it cannot fetch."""

import pytest

from highwater.broker.replica_fetcher import FIRST_PAUSE_S, is_worth_a_line
from highwater.model.errors import ErrorCode


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH])
def test_a_leader_that_has_not_heard_of_its_role_yet_is_no_news(code: ErrorCode) -> None:
    """There was a line for each of the partitions that a dead broker had led, some of them several times."""
    assert not is_worth_a_line(code, FIRST_PAUSE_S, longest_pause_s=1.0)
    assert is_worth_a_line(code, 0.64, longest_pause_s=1.0), "it should have heard by now"
    assert is_worth_a_line(code, 0.1, longest_pause_s=0.1), "however short the pauses are"


def test_damage_is_told_at_once() -> None:
    assert is_worth_a_line(ErrorCode.CORRUPT_MESSAGE, FIRST_PAUSE_S, longest_pause_s=1.0)
