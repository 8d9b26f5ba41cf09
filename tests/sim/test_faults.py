"""Faults keep what they promise about when they strike: what is lost otherwise is not the broker's doing."""

from collections.abc import Callable

from tests.sim.conftest import Scene

from highwater_history.history import Fault
from highwater_sim.coordination import STORE_HOST
from highwater_sim.faults import Faults
from highwater_sim.machine import Machine
from highwater_sim.trace import Trace

SceneFactory = Callable[..., Scene]


def stopping(scene: Scene) -> Machine:
    """Let a closed log be damaged; return the machine whose broker is asked to stop for it."""
    scene.wait_for(scene.all_in_sync)
    scene.write_for_sure()
    Faults(scene.cluster, scene.history, (), trace=Trace(), average_pause_s=1).damage_closed_log()
    [machine] = (machine for machine in scene.cluster.machines if not machine.is_serving)
    return machine


def damages(scene: Scene, machine: Machine) -> list[str]:
    told = (step.what for step in scene.history.steps if isinstance(step, Fault))
    return [what for what in told if what.startswith(f"on {machine.name} ")]


def test_a_log_is_damaged_when_its_broker_has_stopped(scene: SceneFactory) -> None:
    simple = scene()
    machine = stopping(simple)
    simple.wait_for(lambda: machine.starts == 2)
    assert len(damages(simple, machine)) == 1


def test_a_log_is_left_alone_if_its_broker_ran_again_meanwhile(scene: SceneFactory) -> None:
    """All may be far from well by then, and this one the only one that has what was committed."""
    simple = scene()
    machine = stopping(simple)
    while machine.is_up:
        simple.pass_time(0.001)
    machine.start()
    simple.pass_time(0.05)
    machine.kill()
    simple.pass_time(3)
    assert machine.starts == 2
    assert damages(simple, machine) == []


def test_the_session_of_a_broker_that_stops_while_it_cannot_reach_the_store_ends_by_its_timeout(
    scene: SceneFactory,
) -> None:
    simple = scene()
    simple.wait_for(simple.all_in_sync)
    machine, store = simple.leader, simple.cluster.store
    simple.cluster.network.block(machine.name, STORE_HOST)
    machine.stop()
    simple.wait_for(lambda: not machine.is_up)
    stopped_at = simple.cluster.scheduler.now
    assert len(store.sessions) == 3
    simple.wait_for(lambda: len(store.sessions) == 2)
    assert simple.cluster.scheduler.now - stopped_at > 1


def test_no_session_ends_while_the_store_is_away_and_each_has_its_whole_timeout_then(scene: SceneFactory) -> None:
    """As with an ensemble that elects a leader; a broker that died meanwhile is missed that much later."""
    simple = scene()
    simple.wait_for(simple.all_in_sync)
    store = simple.cluster.store
    dead = simple.leader
    store.is_away = True
    dead.kill()
    simple.pass_time(8)
    assert len(store.sessions) == 3
    store.come_back(simple.cluster.scheduler.now)
    simple.pass_time(4)
    assert len(store.sessions) == 3
    simple.pass_time(4)
    assert len(store.sessions) == 2
    assert simple.leader is not dead
