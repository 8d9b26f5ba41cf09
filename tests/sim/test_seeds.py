"""A few seeds for every run of the tests; `make sim` runs two hundred."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from highwater.compiled import building, loading
from highwater.coordination import paths
from highwater.coordination.records import PartitionStateRecord
from highwater_history.checks import check
from highwater_history.history import Drain, Fault, History, Place, Poll, Send
from highwater_sim.command import main
from highwater_sim.faults import COORDINATED, KINDS
from highwater_sim.profile import ANYWHERE, BOUNCE, LAZY, STORE_AWAY, SYNCED, Profile
from highwater_sim.simulation import GROWING, TOPICS, Simulation

SECONDS = 10.0


@pytest.mark.parametrize("seed", range(1, 9))
def test_no_invariant_is_violated(seed: int) -> None:
    profile = Profile.drawn(seed, seconds=SECONDS)
    report = Simulation(seed, profile).run()
    assert report.violations == (), f"python -m highwater_sim --seed {seed} --minutes {SECONDS / 60:.6g}"
    assert report.requests > 100


def test_every_broker_loses_power_at_once_and_nothing_that_was_synced_is_lost() -> None:
    cuts = 0
    for seed in (1, 2, 3):
        report = Simulation(seed, Profile.drawn(seed, faults=("power", "kill"), seconds=SECONDS)).run()
        assert report.violations == ()
        cuts += sum("power cut" in step.what for step in report.history.steps if isinstance(step, Fault))
    assert cuts > 2


def test_partitions_that_are_added_are_written_and_read_like_all_others() -> None:
    grown = Place(GROWING, TOPICS[GROWING])
    profile = replace(Profile.drawn(1, faults=("reset", "expire", "slow-network"), seconds=SECONDS), grows=True)
    report = Simulation(1, profile).run()
    assert report.violations == ()
    steps = report.history.steps
    acknowledged = {step.value for step in steps if isinstance(step, Send) and step.place == grown and step.offset >= 0}
    drained = {value for step in steps if isinstance(step, Drain) and step.place == grown for _, value in step.records}
    assert acknowledged
    assert acknowledged <= drained


def test_a_broker_that_joins_is_given_what_there_is_also_what_coordinators_write() -> None:
    """Replicas and leaders move there and away again while everything else goes on."""
    drawn = Profile.drawn(1, faults=("kill", "reset"))
    simulation = Simulation(1, replace(drawn, adds_broker=True, has_administrator=True))
    led: set[str] = set()

    def state_written(kind: str, path: str) -> None:
        topic = path.removeprefix(f"{paths.TOPICS}/").partition("/")[0]
        node = simulation.cluster.store.find(path)
        if kind == "node" and node is not None and path.endswith("/state"):
            led.update({topic} if PartitionStateRecord.decode(path, node.data).leader == 4 else ())

    simulation.cluster.store.on_change.append(state_written)
    assert simulation.run().violations == ()
    assert led & set(TOPICS)
    assert led & COORDINATED


def test_every_kind_of_fault_is_drawn_by_some_profile() -> None:
    assert set(KINDS) == {*SYNCED, *LAZY, BOUNCE, STORE_AWAY}
    assert set(ANYWHERE) == set(SYNCED) & set(LAZY)


def test_a_failing_seed_says_how_to_see_it_again(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace, history = tmp_path / "trace.html", tmp_path / "history.jsonl"
    arguments = ["--seed", "1", "--faults", "kill", "--minutes", "0.1", "--bug", "same-epoch"]
    assert main([*arguments, "--trace", str(trace), "--history", str(history)]) == 1
    told = capsys.readouterr().out
    assert "seed 1 violates one-leader-per-epoch" in told
    assert "again: python -m highwater_sim --seed 1" in told
    assert "kill -9" in told
    assert "VIOLATED" in trace.read_text(encoding="utf-8")
    assert {"Send", "Poll", "Fault"} <= {json.loads(line)["kind"] for line in history.read_text().splitlines()}


def test_a_fault_that_there_is_not_is_said_so() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "highwater_sim", "--faults", "earthquake"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "there is no fault 'earthquake'" in done.stderr


@pytest.mark.skipif(bool(building.what_is_missing()), reason=building.what_is_missing())
def test_the_compiled_broker_does_what_the_sources_say() -> None:
    """The same seeds have the same timelines, turn by turn, in Python and in C."""
    in_python, in_c = _digests(compiled="0"), _digests(compiled="1")
    assert "compiled" not in in_python[-1]
    assert "compiled" in in_c[-1], "the sources have changed: run `make compiled`"
    assert in_python[:2] == in_c[:2]
    assert all(line.startswith("seed ") for line in in_c[:2])


def _digests(*, compiled: str) -> list[str]:
    command = [sys.executable, "-m", "highwater_sim", "--seeds", "2", "--minutes", "0.1", "--digest"]
    done = subprocess.run(
        command, env={**os.environ, loading.SWITCH: compiled}, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_a_history_can_be_written_and_read(tmp_path: Path) -> None:
    place = Place("t", 0)
    history = History(
        [
            Send("p", 1.0, place, "p.1", acks=-1, outcome="ok", offset=0),
            Poll("c", 2.0, place, 0, [(0, "p.1"), (1, "p.9")], high_watermark=2),
        ]
    )
    history.write(tmp_path / "history")
    again = History.read(tmp_path / "history")
    assert again == history
    assert [violation.invariant for violation in check(again)] == ["unknown-value"]
