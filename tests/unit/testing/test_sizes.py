"""Sizes of files that come and go."""

from pathlib import Path

from highwater.testing.sizes import bytes_of


def test_a_file_that_is_gone_since_it_was_listed_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"four")
    assert bytes_of([tmp_path / "there", tmp_path / "gone"]) == 4
