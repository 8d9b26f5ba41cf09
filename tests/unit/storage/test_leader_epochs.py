"""Leader epochs (KIP-101): who wrote from where on."""

from pathlib import Path

import pytest

from highwater.storage.checkpoints import DamagedCheckpoint
from highwater.storage.files import OsFiles
from highwater.storage.leader_epochs import LeaderEpochs


@pytest.fixture
def epochs(tmp_path: Path) -> LeaderEpochs:
    """Epochs 2, 4 and 7, from offsets 0, 10 and 30 on."""
    epochs = LeaderEpochs(OsFiles(), tmp_path)
    for epoch, start_offset in ((2, 0), (4, 10), (7, 30)):
        epochs.assign(epoch, start_offset)
    return epochs


def test_the_file_is_kafkas_and_read_again(epochs: LeaderEpochs, tmp_path: Path) -> None:
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n3\n2 0\n4 10\n7 30\n"
    again = LeaderEpochs.load(OsFiles(), tmp_path)
    assert again.entries == epochs.entries
    assert again.latest == 7


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(7, (7, 50)), (8, (-1, -1)), (-1, (-1, -1)), (4, (4, 30)), (5, (4, 30)), (6, (4, 30)), (2, (2, 10)), (1, (1, 0))],
)
def test_an_epoch_ends_where_the_next_one_begins(epochs: LeaderEpochs, asked: int, answer: tuple[int, int]) -> None:
    assert epochs.end_offset(asked, log_end_offset=50) == answer


def test_a_log_without_epochs_knows_nothing(tmp_path: Path) -> None:
    epochs = LeaderEpochs.load(OsFiles(), tmp_path)
    assert epochs.latest == -1
    assert epochs.earliest is None
    assert epochs.end_offset(0, log_end_offset=0) == (-1, -1)
    assert epochs.epoch_at(0) == -1


def test_the_epoch_of_an_offset_is_known(epochs: LeaderEpochs) -> None:
    assert [epochs.epoch_at(offset) for offset in (-1, 0, 9, 10, 29, 30, 99)] == [-1, 2, 2, 4, 4, 7, 7]


def test_a_new_epoch_drives_out_what_contradicts_it(epochs: LeaderEpochs) -> None:
    epochs.assign(9, 20)
    assert list(epochs.entries) == [(2, 0), (4, 10), (9, 20)]
    epochs.assign(3, 40)
    assert list(epochs.entries) == [(2, 0), (3, 40)]


def test_an_epoch_that_is_known_is_not_written_again(epochs: LeaderEpochs) -> None:
    epochs.is_unsynced = False
    epochs.assign(7, 35)
    assert list(epochs.entries)[-1] == (7, 30)
    assert not epochs.is_unsynced


def test_an_epoch_that_has_begun_is_known_at_once_and_written_with_its_first_batch(
    epochs: LeaderEpochs, tmp_path: Path
) -> None:
    """A broker that became the leader of hundreds of partitions wrote as many files while their writers waited."""
    written = LeaderEpochs.load(OsFiles(), tmp_path).entries
    epochs.begin(9, 40)
    assert (epochs.latest, epochs.recorded) == (9, 7)
    assert epochs.end_offset(7, log_end_offset=40) == (7, 40)
    assert epochs.end_offset(9, log_end_offset=40) == (9, 40)
    assert LeaderEpochs.load(OsFiles(), tmp_path).entries == written
    epochs.assign(9, 40)
    assert (epochs.latest, epochs.recorded) == (9, 9)
    assert LeaderEpochs.load(OsFiles(), tmp_path).entries == (*written, (9, 40)) == epochs.entries


def test_epochs_without_records_leave_no_trace(epochs: LeaderEpochs, tmp_path: Path) -> None:
    written = epochs.entries
    epochs.begin(9, 40)
    epochs.begin(11, 40)
    assert list(epochs.entries)[-2:] == [(7, 30), (11, 40)]
    epochs.cut_end(40)
    assert epochs.entries == written
    assert (epochs.latest, epochs.recorded) == (7, 7)
    assert LeaderEpochs.load(OsFiles(), tmp_path).entries == written


@pytest.mark.parametrize(("end", "left"), [(31, [2, 4, 7]), (30, [2, 4]), (11, [2, 4]), (10, [2]), (1, [2]), (0, [])])
def test_epochs_after_the_end_are_forgotten(epochs: LeaderEpochs, end: int, left: list[int]) -> None:
    epochs.cut_end(end)
    assert [entry.epoch for entry in epochs.entries] == left
    assert epochs.latest == (left[-1] if left else -1)


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (0, [(2, 0), (4, 10), (7, 30)]),
        (5, [(2, 5), (4, 10), (7, 30)]),
        (10, [(4, 10), (7, 30)]),
        (29, [(4, 29), (7, 30)]),
        (40, [(7, 40)]),
    ],
)
def test_epochs_before_the_start_are_forgotten(
    epochs: LeaderEpochs, start: int, left: list[tuple[int, int]], tmp_path: Path
) -> None:
    epochs.cut_start(start)
    assert list(epochs.entries) == left
    assert list(LeaderEpochs.load(OsFiles(), tmp_path).entries) == left


@pytest.mark.parametrize("content", ["0\n1\n1\n", "0\n2\n2 0\n1 5\n", "0\n2\n1 5\n2 4\n", "0\n1\na b\n"])
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_text(content)
    with pytest.raises(DamagedCheckpoint, match="leader-epoch-checkpoint"):
        LeaderEpochs.load(OsFiles(), tmp_path)
