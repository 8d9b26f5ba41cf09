"""Which Java is picked, and what is said when none fits."""

from pathlib import Path

import pytest

from highwater_spark.errors import SetupError
from highwater_spark.java import find_java


def a_java(folder: Path, version: str) -> Path:
    home = folder / f"jdk-{version}"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch(mode=0o755)
    (home / "release").write_text(f'IMPLEMENTOR="Test"\nJAVA_VERSION="{version}"\n')
    return home


def test_java_home_comes_first(tmp_path: Path) -> None:
    chosen, other = a_java(tmp_path, "21.0.2"), a_java(tmp_path, "17.0.15")
    java = find_java({"JAVA_HOME": str(chosen), "PATH": str(other / "bin")}, places=())
    assert (java.home, java.major) == (chosen, 21)


def test_a_java_home_that_is_too_old_is_passed_over_for_one_that_fits(tmp_path: Path) -> None:
    old, fitting = a_java(tmp_path, "1.8.0_392"), a_java(tmp_path, "17.0.15")
    assert find_java({"JAVA_HOME": str(old), "PATH": str(fitting / "bin")}, places=()).home == fitting


def test_the_usual_places_are_searched_last(tmp_path: Path) -> None:
    fitting = a_java(tmp_path, "17.0.15")
    assert find_java({"PATH": ""}, places=(f"{tmp_path}/*",)).home == fitting


def test_only_unfit_versions_are_named_with_their_place(tmp_path: Path) -> None:
    """Java 25 is newer than what Spark 4.0 starts on, which is as fatal as one that is too old."""
    too_old, too_new = a_java(tmp_path, "11.0.2"), a_java(tmp_path, "25")
    with pytest.raises(SetupError, match=r"found only Java 11 in .*, Java 25 in ") as failure:
        find_java({"PATH": ""}, places=(str(too_old), str(too_new)))
    assert "\n" not in str(failure.value)


def test_no_java_at_all_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="none was found: install one"):
        find_java({"PATH": "", "JAVA_HOME": str(tmp_path)}, places=())
