"""Replication within a rate."""

import pytest

from highwater.replication.throttle import WINDOW_MS, Throttle, is_throttled


@pytest.mark.parametrize(
    ("replicas", "expected"), [((), False), (("*",), True), (("0:1", "3:2"), True), (("3:1", "0:2"), False)]
)
def test_replicas_are_named_by_partition_and_broker(replicas: tuple[str, ...], *, expected: bool) -> None:
    assert is_throttled(replicas, partition=3, broker=2) is expected


def test_what_is_taken_over_a_long_time_keeps_to_the_rate() -> None:
    throttle, now_ms, taken = Throttle(), 0, 0
    while now_ms < 60_000:
        if not throttle.is_over(now_ms=now_ms):
            throttle.took(70_000, bytes_per_s=100_000, now_ms=now_ms)
            taken += 70_000
        now_ms += 10
    assert taken == pytest.approx(60 * 100_000, rel=0.05)


def test_a_quiet_hour_does_not_pay_for_a_burst() -> None:
    throttle = Throttle()
    throttle.took(1000, bytes_per_s=1000, now_ms=3_600_000)
    assert not throttle.is_over(now_ms=3_600_000), "a second's worth is free at once"
    throttle.took(1000, bytes_per_s=1000, now_ms=3_600_000)
    assert throttle.is_over(now_ms=3_600_000 + WINDOW_MS - 1)
    assert not throttle.is_over(now_ms=3_600_000 + WINDOW_MS)
