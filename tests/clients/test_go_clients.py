"""franz-go and sarama: programs in `tests/clients/go`, each with a scenario for every part of what a client does."""

import subprocess
from pathlib import Path

import pytest

from highwater.testing.waiting import PATIENCE_SECONDS

PROGRAMS = Path(__file__).parents[2] / ".tools" / "go-clients"


@pytest.mark.parametrize("scenario", ["records", "groups", "transactions", "admin"])
@pytest.mark.parametrize("client", ["franz", "sarama"])
def test_a_go_client_works_unchanged(bootstrap: str, client: str, scenario: str) -> None:
    program = PROGRAMS / client
    assert program.exists(), "the Go clients are not built: `make setup` says why"
    done = subprocess.run(
        [program, bootstrap, scenario], capture_output=True, text=True, timeout=2 * PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
