"""The offset index and the time index by themselves."""

import struct
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.storage.files import OsFiles
from highwater.storage.offset_index import OffsetIndex
from highwater.storage.time_index import TimeIndex

BASE = 1000


def an_offset_index(folder: Path, *, size: int = 0, max_bytes: int = 10_000) -> OffsetIndex:
    return OffsetIndex(OsFiles(), folder, BASE, size=size, max_bytes=max_bytes)


def a_time_index(folder: Path, *, size: int = 0, max_bytes: int = 10_000) -> TimeIndex:
    return TimeIndex(OsFiles(), folder, BASE, size=size, max_bytes=max_bytes)


def test_an_offset_index_has_kafkas_layout(tmp_path: Path) -> None:
    index = an_offset_index(tmp_path)
    index.append(BASE + 7, 0)
    index.append(BASE + 300, 4321)
    index.close(keep_file=True)
    assert (tmp_path / "00000000000000001000.index").read_bytes() == struct.pack(">IIII", 7, 0, 300, 4321)


def test_a_time_index_has_kafkas_layout(tmp_path: Path) -> None:
    index = a_time_index(tmp_path)
    index.append(1_700_000_000_000, BASE + 7)
    index.close(keep_file=True)
    assert (tmp_path / "00000000000000001000.timeindex").read_bytes() == struct.pack(">qI", 1_700_000_000_000, 7)


def test_an_index_that_was_never_written_has_no_file(tmp_path: Path) -> None:
    index = an_offset_index(tmp_path)
    assert index.lookup(BASE + 5) == (BASE, 0)
    assert index.last_entry() == (BASE, 0)
    index.close(keep_file=False)
    assert list(tmp_path.iterdir()) == []


def test_an_index_goes_on_after_it_was_closed(tmp_path: Path) -> None:
    index = an_offset_index(tmp_path)
    index.append(BASE + 1, 10)
    index.close(keep_file=True)
    index.append(BASE + 2, 20)
    index.close(keep_file=True)
    again = an_offset_index(tmp_path, size=16)
    assert [again.entry(number) for number in range(again.entry_count)] == [(BASE + 1, 10), (BASE + 2, 20)]
    again.append(BASE + 3, 30)
    assert again.last_entry() == (BASE + 3, 30)


def test_an_index_knows_how_many_entries_fit(tmp_path: Path) -> None:
    index = an_offset_index(tmp_path, max_bytes=30)
    assert index.free_entries == 3
    for number in range(3):
        index.append(BASE + number, number)
    assert index.free_entries == 0


def test_entries_cross_the_pages_that_are_reserved(tmp_path: Path) -> None:
    index = a_time_index(tmp_path, max_bytes=20_000)
    for number in range(1600):
        index.append(number, BASE + number)
    assert [index.entry(number).timestamp for number in range(1600)] == list(range(1600))


def test_time_that_stands_still_makes_no_entry(tmp_path: Path) -> None:
    index = a_time_index(tmp_path)
    for timestamp, offset in ((-1, 0), (5, 1), (5, 2), (4, 3), (6, 4)):
        index.append(timestamp, BASE + offset)
    assert [index.entry(number) for number in range(index.entry_count)] == [(5, BASE + 1), (6, BASE + 4)]


def test_entries_that_cannot_be_true_are_not_sane(tmp_path: Path) -> None:
    (tmp_path / "00000000000000001000.index").write_bytes(struct.pack(">IIII", 5, 100, 9, 50_000))
    assert not an_offset_index(tmp_path, size=16).is_sane(log_bytes=200)
    assert an_offset_index(tmp_path, size=16).is_sane(log_bytes=60_000)
    (tmp_path / "00000000000000001000.timeindex").write_bytes(struct.pack(">qIqI", 50, 1, 40, 2))
    assert not a_time_index(tmp_path, size=24).is_sane()


@settings(max_examples=50, deadline=None)
@given(
    entries=st.lists(st.tuples(st.integers(0, 500), st.integers(0, 10_000)), max_size=40, unique_by=lambda e: e[0]),
    asked=st.lists(st.integers(-5, 510), min_size=1),
)
def test_lookups_find_the_largest_entry_at_or_below(entries: list[tuple[int, int]], asked: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        index, times = an_offset_index(Path(folder)), a_time_index(Path(folder))
        for relative, position in sorted(entries):
            index.append(BASE + relative, position)
            times.append(relative, BASE + position)
        for offset in asked:
            assert index.lookup(BASE + offset) == _largest_below(entries, offset)
            earlier = [(relative, BASE + position) for relative, position in sorted(entries) if relative <= offset]
            assert times.lookup(offset) == (earlier[-1] if earlier else (-1, BASE))
        index.cut(BASE + asked[0])
        entries = [entry for entry in entries if entry[0] < asked[0]]
        assert index.entry_count == len(entries)
        for offset in asked:
            assert index.lookup(BASE + offset) == _largest_below(entries, offset)
        index.append(BASE + 600, 20_000)
        for offset in (*asked, 599, 600, 601):
            assert index.lookup(BASE + offset) == _largest_below([*entries, (600, 20_000)], offset)
        index.reset(at_least_entries=1)
        for offset in asked:
            assert index.lookup(BASE + offset) == (BASE, 0)
        index.close(keep_file=False)
        times.close(keep_file=False)


def _largest_below(entries: list[tuple[int, int]], offset: int) -> tuple[int, int]:
    below = [(BASE + relative, position) for relative, position in sorted(entries) if relative <= offset]
    return below[-1] if below else (BASE, 0)
