"""What clients are told when the coordinator of their transaction has something to say to another broker."""

import pytest

from highwater.model.errors import ErrorCode
from highwater.server.transactional_errors import refused_commit


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.PRODUCER_FENCED, ErrorCode.PRODUCER_FENCED),
    ],
)
def test_a_client_waits_for_what_goes_away_and_looks_elsewhere_for_what_may_not(
    said: ErrorCode, told: ErrorCode
) -> None:
    """A coordinator that is cut off must not make clients wait for as long as it is."""
    assert refused_commit(said) is told
