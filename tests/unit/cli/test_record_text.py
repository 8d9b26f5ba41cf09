"""Records as text, in both directions."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.cli.failures import CommandFailed
from highwater.cli.record_text import as_json_value, from_json_value


@given(st.none() | st.binary())
def test_what_consume_writes_is_what_produce_reads(data: bytes | None) -> None:
    assert from_json_value(as_json_value(data)) == data


def test_text_stays_readable() -> None:
    assert as_json_value("naïve".encode()) == "naïve"


@pytest.mark.parametrize(("value", "data"), [(3, b"3"), ({"a": [1]}, b'{"a": [1]}'), (True, b"true")])
def test_other_json_is_sent_as_its_text(value: Any, data: bytes) -> None:
    assert from_json_value(value) == data


def test_broken_base64_is_refused() -> None:
    with pytest.raises(CommandFailed, match="not base64"):
        from_json_value({"base64": "%%"})
