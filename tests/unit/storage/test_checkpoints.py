"""Checkpoint files, in Kafka's own text form."""

import contextlib
from pathlib import Path

import pytest

from highwater.model.ids import TopicPartition
from highwater.storage import checkpoints
from highwater.storage.files import OsFiles
from highwater.testing.faulty_files import FaultyFiles, Killed

FILES = OsFiles()


def test_offsets_are_kept_in_kafkas_format(tmp_path: Path) -> None:
    path = tmp_path / checkpoints.RECOVERY_POINTS
    offsets = {TopicPartition("b", 10): 5, TopicPartition("b", 2): 2**40, TopicPartition("a.x_y-z", 0): 0}
    checkpoints.write_offsets(FILES, path, offsets)
    assert path.read_text() == "0\n3\na.x_y-z 0 0\nb 2 1099511627776\nb 10 5\n"
    assert checkpoints.read_offsets(FILES, path) == offsets


def test_a_missing_checkpoint_is_empty(tmp_path: Path) -> None:
    assert checkpoints.read_offsets(FILES, tmp_path / "missing") == {}


@pytest.mark.parametrize(
    "content",
    ["", "0", "1\n0\n", "0\n2\na 0 1\n", "0\n1\na 0\n", "0\n1\na x 1\n", "0\nx\n", "0\n1\na 0 1 2\n", "\xff\n0\n"],
)
def test_a_damaged_checkpoint_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "some-checkpoint"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(checkpoints.DamagedCheckpoint, match="some-checkpoint is damaged"):
        checkpoints.read_offsets(FILES, path)


def test_a_kill_at_any_step_leaves_the_old_checkpoint_or_the_new_one(tmp_path: Path) -> None:
    path, old, new = tmp_path / "checkpoint", {TopicPartition("t", 0): 1}, {TopicPartition("t", 0): 2}
    disk = FaultyFiles()
    checkpoints.write_offsets(disk, path, old)
    steps = disk.steps
    assert steps > 3
    for step in range(1, steps + 1):
        checkpoints.write_offsets(disk, path, old)
        disk.kill_at = disk.steps + step
        with contextlib.suppress(Killed):
            checkpoints.write_offsets(disk, path, new)
        disk.kill_at = None
        assert checkpoints.read_offsets(disk, path) in (old, new)
