"""A log in a temporary folder."""

from pathlib import Path

import pytest

from highwater.testing.log_bench import LogBench


@pytest.fixture
def bench(tmp_path: Path) -> LogBench:
    """A log that is open, empty, and has the default settings."""
    return LogBench(tmp_path / "topic-0")
