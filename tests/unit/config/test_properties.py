"""The properties reader, against the rules that java.util.Properties documents."""

from pathlib import Path

import pytest

from highwater.config.properties import ConfigError, Property, parse_properties, read_properties


def pairs(content: str) -> dict[str, str]:
    return {key: value for key, value, _ in parse_properties(content)}


@pytest.mark.parametrize("line", ["a=b", "a:b", "a b", "  a = b", "a\t:\tb", "a\\\n  =b", "a=\\\n   b"])
def test_separators_and_blanks_around_them_do_not_matter(line: str) -> None:
    assert pairs(line) == {"a": "b"}


def test_comments_and_blank_lines_are_skipped() -> None:
    assert pairs("# one\n\n   ! two\nkey=value # not a comment\n") == {"key": "value # not a comment"}


def test_only_an_odd_number_of_backslashes_continues_a_line() -> None:
    assert pairs("a=1\\\\\nb=2") == {"a": "1\\", "b": "2"}
    assert pairs("a=1\\\n# 2\nb=3") == {"a": "1# 2", "b": "3"}


def test_escapes() -> None:
    assert pairs(r"a\:b\=c\ d=x\ty\u0041\q") == {"a:b=c d": "x\tyAq"}


def test_a_key_without_a_value_is_empty() -> None:
    assert pairs("lonely\nalso=") == {"lonely": "", "also": ""}


def test_lines_are_counted_where_the_key_starts() -> None:
    assert list(parse_properties("\r\na=\\\r\n1\rb=2")) == [Property("a", "1", 2), Property("b", "2", 4)]


def test_a_continuation_at_the_end_of_the_file_is_no_error() -> None:
    assert pairs("a=b\\") == {"a": "b"}


def test_a_file_that_cannot_be_read_is_one_line_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.properties: cannot be read: No such file"):
        read_properties(tmp_path / "gone.properties")


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"a=1\nb=\xff\n", r":2: not UTF-8"), (b"a=1\n\nb=\\u00zz\n", r":3: \\u must"), (b"#" * 2**20 + b"\n", "larger")],
)
def test_a_broken_file_says_where(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=says):
        read_properties(path)
