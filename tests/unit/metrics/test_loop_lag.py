"""The loop lag probe."""

import asyncio

from highwater.metrics.declared import LOOP_LAG_SECONDS
from highwater.metrics.process import LoopLag
from highwater.metrics.registry import Registry


class LateLoop(asyncio.SelectorEventLoop):
    """A loop on which every timer rings at once, and three seconds late by its clock."""

    offset = 0.0

    def time(self) -> float:
        return super().time() + self.offset


def test_how_late_a_timer_rings_is_counted() -> None:
    loop = LateLoop()
    registry = Registry()
    lag = LoopLag(registry, loop)
    loop.offset = 3.5

    loop.call_soon(loop.stop)
    try:
        loop.run_forever()  # one round: the timer is due
    finally:
        lag.stop()
        loop.close()
    assert 3_000_000 <= registry.histogram(LOOP_LAG_SECONDS).total_us < 4_000_000
