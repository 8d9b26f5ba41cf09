"""Numbers for people."""

import pytest

from highwater.cli.figures import latency_summary, percentile, short_count


def test_a_percentile_is_the_nearest_rank() -> None:
    ordered = [float(value) for value in range(1, 101)]
    assert percentile(ordered, 50) == 50
    assert percentile(ordered, 99) == 99
    assert percentile(ordered, 99.9) == 100
    assert percentile([7.0], 1) == 7


def test_a_summary_names_what_it_measures() -> None:
    assert latency_summary([3.0, 1.0, 2.0]) == {
        "avg": 2.0,
        "p50": 2.0,
        "p95": 3.0,
        "p99": 3.0,
        "p99.9": 3.0,
        "max": 3.0,
    }


def test_nothing_measured_is_an_empty_summary() -> None:
    assert latency_summary([]) == {}


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (999, "999"), (1_234, "1.23k"), (45_678, "45.7k"), (456_789, "457k"), (2e6, "2.00M")]
)
def test_a_short_count_fits_in_five_characters(count: float, text: str) -> None:
    assert short_count(count) == text
    assert len(text) <= 5
