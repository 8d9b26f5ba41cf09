"""Whose data a log dir holds."""

from pathlib import Path

import pytest

from highwater.model.errors import StorageError
from highwater.storage.files import OsFiles
from highwater.storage.log_dir_owner import Owner, check_owner, claim, read_owner

FILES = OsFiles()


def test_a_new_folder_is_nobodys_until_it_is_claimed(tmp_path: Path) -> None:
    assert read_owner(FILES, tmp_path) is None
    assert check_owner(FILES, [tmp_path], 1) is None
    claim(FILES, [tmp_path], Owner(1, "some-cluster"))
    assert read_owner(FILES, tmp_path) == Owner(1, "some-cluster")
    assert check_owner(FILES, [tmp_path], 1) == "some-cluster"


def test_a_folder_that_is_added_later_is_claimed_and_the_others_are_left_alone(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
    claim(FILES, [old], Owner(1, "ours"))
    before = (old / "meta.properties").stat().st_mtime_ns
    assert check_owner(FILES, [old, new], 1) == "ours"
    claim(FILES, [old, new], Owner(1, "ours"))
    assert read_owner(FILES, new) == Owner(1, "ours")
    assert (old / "meta.properties").stat().st_mtime_ns == before


def test_another_brokers_folder_is_refused(tmp_path: Path) -> None:
    claim(FILES, [tmp_path], Owner(1, "ours"))
    with pytest.raises(StorageError, match=r"holds the data of broker 1, and broker\.id is 2"):
        check_owner(FILES, [tmp_path], 2)


def test_folders_of_two_clusters_are_refused(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        claim(FILES, [folder], Owner(1, folder.name))
    with pytest.raises(StorageError, match="different clusters: one, two"):
        check_owner(FILES, [one, two], 1)


def test_what_another_has_claimed_is_not_claimed_again(tmp_path: Path) -> None:
    claim(FILES, [tmp_path], Owner(1, "theirs"))
    with pytest.raises(
        StorageError, match="belongs to broker 1 of cluster theirs, and this is broker 1 of cluster ours"
    ):
        claim(FILES, [tmp_path], Owner(1, "ours"))


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot write"):
        claim(FILES, [tmp_path / "missing"], Owner(1, "ours"))


def test_a_folder_of_apache_kafka_in_kraft_mode_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("#\nnode.id=3\nversion=1\ncluster.id=theirs\ndirectory.id=x\n")
    assert read_owner(FILES, tmp_path) == Owner(3, "theirs")


@pytest.mark.parametrize("content", [b"", b"broker.id=one\ncluster.id=x\n", b"broker.id=1\n", b"\xff\xfe"])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "meta.properties").write_bytes(content)
    with pytest.raises(StorageError, match=r"meta\.properties is damaged"):
        check_owner(FILES, [tmp_path], 1)
