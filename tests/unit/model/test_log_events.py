"""Log lines as events."""

import logging

import pytest

from highwater.model.log_events import EventLog, set_up_logging


def test_one_event_is_one_line_with_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    EventLog("broker").warning("partition_offline", topic="orders", partition=3, reason='disk "a" is\nfull', empty="")
    assert caplog.messages == [r'partition_offline topic=orders partition=3 reason="disk \"a\" is\nfull" empty=""']


def test_what_is_not_wanted_is_not_even_formatted(caplog: pytest.LogCaptureFixture) -> None:
    class Unprintable:
        def __str__(self) -> str:
            raise AssertionError

    with caplog.at_level(logging.INFO, logger="highwater"):
        EventLog("broker").debug("ignored", value=Unprintable())
    assert caplog.messages == []


def test_lines_go_to_standard_error_with_time_and_level(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger("highwater")
    before = (root.handlers[:], root.level, root.propagate)
    try:
        set_up_logging()
        EventLog("app").debug("hidden")
        EventLog("app").info("ready", address="127.0.0.1:9092")
    finally:
        root.handlers[:], root.level, root.propagate = before
    line = capsys.readouterr().err
    assert line.endswith(" INFO ready address=127.0.0.1:9092\n")
    assert line.count("\n") == 1


def test_a_bug_brings_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    EventLog("server").error("request_failed", cause=AssertionError("illegal move"), api="Fetch")
    assert "illegal move" in caplog.text
