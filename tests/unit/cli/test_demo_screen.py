"""The demo's chart."""

from highwater.cli.demo_load import BUSY_PER_SECOND, CALM_PER_SECOND, WAVE_SECONDS, wave
from highwater.cli.demo_screen import draw_curve


def test_a_curve_fills_from_below_in_eighths() -> None:
    assert draw_curve([0.0, 25.0, 50.0, 100.0], height=2, width=6, top=100.0) == ["     █", "   ▄██"]


def test_an_empty_curve_is_blank() -> None:
    assert draw_curve([], height=2, width=3, top=0.0) == ["   ", "   "]


def test_traffic_starts_calm_and_swells() -> None:
    assert wave(0) == CALM_PER_SECOND
    assert wave(WAVE_SECONDS / 2) == BUSY_PER_SECOND
    assert CALM_PER_SECOND < wave(WAVE_SECONDS / 4) < BUSY_PER_SECOND
