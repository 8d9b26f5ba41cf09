"""What is done to a simulated cluster, and undone again: one fault after another, as the seed decides."""

from __future__ import annotations

import errno
from collections import Counter
from typing import TYPE_CHECKING, Final

from highwater.broker.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from highwater.coordination import paths
from highwater.coordination.records import decode_controller
from highwater.model.ids import BrokerId
from highwater_history.history import Fault
from highwater_sim.cluster import CLIENTS
from highwater_sim.coordination import STORE_HOST
from highwater_sim.damage import FlippedBit, damage_a_file, flip_a_bit
from highwater_sim.ends import ProtocolEnd
from highwater_sim.in_sync import has_replicas_elsewhere, out_of_sync

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from highwater_history.history import History
    from highwater_sim.cluster import Cluster
    from highwater_sim.machine import Machine
    from highwater_sim.trace import Trace

COORDINATED: Final = frozenset({TRANSACTIONS_TOPIC, OFFSETS_TOPIC})
DATA_TOPICS: Final = ("orders", "events", "copies")
FASTEST_DELAYS_S: Final = (0.00005, 0.001)
SLOW_DELAYS_S: Final = (0.01, 0.4)
DISK_SECONDS: Final = (0.0001, 0.002)
SLOW_DISK_SECONDS: Final = (0.05, 1.5)


class Faults:
    """Does harm from `start` to `stop`; afterwards everything is as good as it can be again."""

    def __init__(
        self, cluster: Cluster, history: History, kinds: Collection[str], *, trace: Trace, average_pause_s: float
    ) -> None:
        self._cluster = cluster
        self._trace = trace
        self._scheduler = cluster.scheduler
        self._random = cluster.scheduler.random
        self._history = history
        self._kinds = sorted(kinds)
        self._average_pause_s = average_pause_s
        self._is_running = False
        self._waits_for_health = False
        self._flipped: FlippedBit | None = None
        self._slow_readers: list[ProtocolEnd] = []
        self.struck: Counter[str] = Counter()
        """How often each kind was tried."""

    def start(self) -> None:
        """Begin."""
        self._is_running = True
        self._next()

    def stop(self) -> None:
        """End, and repair everything."""
        self._is_running = False
        self._note("all faults end")
        cluster = self._cluster
        self._repair_bit()
        self._read_on()
        cluster.network.heal()
        self._store_returns()
        cluster.network.delay_s = FASTEST_DELAYS_S
        for machine in cluster.machines:
            machine.disk.before_change = lambda: None
            machine.resume()
            if machine.disk.fails_with is not None or machine.disk.capacity_bytes is not None:
                machine.disk.fails_with = machine.disk.capacity_bytes = None
                machine.kill()
            self._set_disk_speed(machine, DISK_SECONDS)
            self._start(machine)

    def _next(self) -> None:
        pause = self._random.expovariate(1 / self._average_pause_s)
        self._scheduler.after(pause, self._strike)

    def _strike(self) -> None:
        if not self._is_running:
            return
        if self._flipped is None and (not self._waits_for_health or self._is_healthy()):
            self._waits_for_health = False
            if self._kinds:
                kind = self._random.choice(self._kinds)
                self.struck[kind] += 1
                KINDS[kind](self)
        self._next()

    def _note(self, what: str) -> None:
        self._history.add(Fault(self._scheduler.now, what))
        self._trace.note(self._scheduler.now, what)

    def _later(self, low_s: float, high_s: float, action: Callable[[], None]) -> None:
        self._scheduler.after(self._scheduler.between(low_s, high_s), action)

    def _machine(self) -> Machine | None:
        """Return a machine whose broker runs, if there is one."""
        up = [machine for machine in self._cluster.machines if machine.is_up and not machine.is_paused]
        return self._random.choice(up) if up else None

    def _start(self, machine: Machine) -> None:
        if not machine.is_up:
            self._note(f"start {machine.name}")
            machine.start()

    def _is_healthy(self) -> bool:
        """Return whether every broker serves and will go on, and every replica of everything is in sync.

        A broker whose disk is full or broken, or that dies at one of its next writes, may be in sync still.
        """
        machines = self._cluster.machines
        return (
            not self._cluster.store.is_away
            and all(machine.is_serving and not machine.is_paused and not machine.is_doomed for machine in machines)
            and all(machine.disk.fails_with is None and machine.disk.capacity_bytes is None for machine in machines)
            and not out_of_sync(self._cluster)
        )

    def join(self) -> None:
        """Let brokers join that have not run until now."""
        for machine in self._cluster.machines:
            if not machine.starts:
                self._start(machine)

    # Processes ------------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        """Kill a broker, and start it again soon or late."""
        machine = self._machine()
        if machine is not None:
            self._note(f"kill -9 {machine.name}")
            machine.kill()
            self._later(0.05, 9.0, lambda: self._start(machine))

    def kill_all(self) -> None:
        """Kill every broker at once."""
        self._note("kill -9 of all brokers")
        for machine in self._cluster.machines:
            machine.kill()
            self._later(0.05, 4.0, lambda machine=machine: self._start(machine))  # type: ignore[misc]

    def stop_cleanly(self) -> None:
        """Ask a broker to stop, and start it again when it has."""
        machine = self._machine()
        if machine is None or not machine.is_serving:
            return
        self._note(f"stop {machine.name}")
        machine.stop()

        def start_again() -> None:
            if machine.is_up and not machine.is_serving:
                self._later(0.5, 2.0, start_again)
            else:
                self._start(machine)

        self._later(0.5, 6.0, start_again)

    def die_while_writing(self) -> None:
        """Let a broker die between two changes of its disk."""
        machine = self._machine()
        if machine is not None:
            self._note(f"kill -9 {machine.name} while it writes")
            machine.dies_within(self._random.randrange(30))
            self._later(1.0, 9.0, lambda: self._start(machine))

    def kill_coordinator(self) -> None:
        """Let the coordinator of some transactions die between two of the next steps that it writes down."""
        leaders = [
            machine
            for machine in self._cluster.machines
            if machine.node is not None
            and not machine.is_paused
            and any(partition.leads and partition.name.topic in COORDINATED for partition in machine.node.partitions)
        ]
        if leaders:
            machine = self._random.choice(leaders)
            self._note(f"kill -9 of coordinator {machine.name} within a few steps")
            machine.dies_within(self._random.randrange(8))
            self._later(1.0, 9.0, lambda: self._start(machine))

    def pause(self) -> None:
        """Stop a broker's process for a while, perhaps longer than its session lives."""
        machine = self._machine()
        if machine is not None:
            self._note(f"pause {machine.name}")
            machine.pause()
            self._later(0.2, 12.0, lambda: self._resume(machine))

    def _resume(self, machine: Machine) -> None:
        if machine.is_paused:
            self._note(f"resume {machine.name}")
            machine.resume()

    # The network ----------------------------------------------------------------------------------------------------

    def partition(self) -> None:
        """Cut some hosts off from others: fully, in one direction, or only between two."""
        names = [machine.name for machine in self._cluster.machines]
        self._random.shuffle(names)
        one, two, *_ = names
        pairs = {
            "isolated": [(one, other) for other in (*names[1:], STORE_HOST)],
            "cut off from brokers": [(one, other) for other in names[1:]],
            "cut off from one": [(one, two)],
            "cut off from clients": [(one, CLIENTS)],
        }
        kind = self._random.choice(sorted(pairs))
        directions = self._random.choice(("both", "from", "to"))
        self._note(f"{one} {kind} ({two if kind == 'cut off from one' else 'all'}, {directions})")
        for sender, receiver in pairs[kind]:
            if directions != "to":
                self._cluster.network.block(sender, receiver)
            if directions != "from":
                self._cluster.network.block(receiver, sender)
        self._later(0.3, 12.0, self._heal)

    def cut_off_from_store(self) -> None:
        """Cut one broker off from the cluster's memory only."""
        machine = self._random.choice(self._cluster.machines)
        directions = self._random.choice(("both", "from", "to"))
        self._note(f"{machine.name} cut off from the store ({directions})")
        if directions != "to":
            self._cluster.network.block(machine.name, STORE_HOST)
        if directions != "from":
            self._cluster.network.block(STORE_HOST, machine.name)
        self._later(0.3, 12.0, self._heal)

    def _heal(self) -> None:
        if self._cluster.network.blocked:
            self._note("heal the network")
            self._cluster.network.heal()

    def reset_connections(self) -> None:
        """Break some connections, with what is under way in them."""
        connections = self._cluster.network.connections
        chosen = self._random.sample(connections, min(len(connections), self._random.randint(1, 5)))
        self._note(f"reset {len(chosen)} connections")
        for connection in chosen:
            connection.reset(self._random.random())

    def slow_readers(self) -> None:
        """Let some who asked something take no answers for a while."""
        connections = self._cluster.network.connections
        chosen = self._random.sample(connections, min(len(connections), self._random.randint(1, 4)))
        readers = [end for connection in chosen if isinstance(end := connection.ends[0], ProtocolEnd)]
        self._note(f"{len(readers)} readers take nothing")
        for reader in readers:
            reader.read_slowly()
            self._slow_readers.append(reader)
        self._later(0.2, 6.0, self._read_on)

    def _read_on(self) -> None:
        readers, self._slow_readers = self._slow_readers, []
        for reader in readers:
            reader.read_on()

    def slow_network(self) -> None:
        """Let everything take long."""
        self._note("slow network")
        self._cluster.network.delay_s = SLOW_DELAYS_S

        def fast() -> None:
            self._cluster.network.delay_s = FASTEST_DELAYS_S

        self._later(0.5, 6.0, fast)

    # The store ------------------------------------------------------------------------------------------------------

    def expire_session(self) -> None:
        """End a session of which its broker believes that it lives."""
        sessions = sorted(self._cluster.store.sessions)
        if sessions:
            session = self._random.choice(sessions)
            self._note(f"session {session} expires")
            self._cluster.store.end_session(session)

    def store_away(self) -> None:
        """Let the ensemble be without a leader for a while: nobody reads or writes, and no session ends meanwhile."""
        store = self._cluster.store
        if not store.is_away:
            self._note("the store is away")
            store.is_away = True
            self._later(0.1, 9.0, self._store_returns)

    def _store_returns(self) -> None:
        store = self._cluster.store
        if store.is_away:
            self._note("the store is back")
            store.come_back(self._scheduler.now)

    def replace_controller(self) -> None:
        """Let another take the controller's place while what it had to tell is still under way, and it unaware."""
        store, network = self._cluster.store, self._cluster.network
        node, session = store.find(paths.CONTROLLER), store.owner_of(paths.CONTROLLER)
        if node is None or session is None:
            return
        controller = self._cluster.machine(decode_controller(paths.CONTROLLER, node.data))
        others = [machine for machine in self._cluster.machines if machine is not controller]
        other = self._random.choice(others)
        self._note(f"{other.name} seems gone; controller {controller.name} is replaced before anybody hears from it")
        for machine in others:
            network.block(controller.name, machine.name)
        if (gone := store.owner_of(paths.broker(BrokerId(other.broker_id)))) is not None:
            store.end_session(gone)

        def replace() -> None:
            controller.pause()
            store.end_session(session)
            self._later(0.02, 1.0, self._heal)
            self._later(0.02, 3.0, lambda: self._resume(controller))

        self._later(0.0, 0.05, replace)

    # Clocks ---------------------------------------------------------------------------------------------------------

    def jump_clock(self) -> None:
        """Set a machine's clock forward or back."""
        machine = self._random.choice(self._cluster.machines)
        machine.clock_error_ms = int(self._random.choice((-1, 1)) * 10 ** self._random.uniform(0, 4))
        self._note(f"the clock of {machine.name} is {machine.clock_error_ms} ms off")

    # Disks ----------------------------------------------------------------------------------------------------------

    def lose_power(self) -> None:
        """Cut the power of one machine or of all: for logs that are synced before anything is acknowledged."""
        machines = list(self._cluster.machines)
        if self._random.random() < 0.6:
            machines = [self._random.choice(machines)]
        self._note(f"power cut of {', '.join(machine.name for machine in machines)}")
        for machine in machines:
            machine.lose_power()
            self._later(0.05, 6.0, lambda machine=machine: self._start(machine))  # type: ignore[misc]

    def lose_power_of_one(self) -> None:
        """Cut the power of one machine while all is well, and leave the others alone until all is well again."""
        if self._is_healthy() and not self._cluster.network.blocked:
            machine = self._random.choice(self._cluster.machines)
            self._note(f"power cut of {machine.name}")
            self._waits_for_health = True
            machine.lose_power()
            self._later(0.05, 6.0, lambda: self._start(machine))

    def bounce(self) -> None:
        """Kill a broker while all is well, and another that is about to lead in its place.

        That one loses what it had not synced, and is there again before anybody has missed it.
        """
        if not self._is_healthy() or self._cluster.network.blocked:
            return
        first, second = self._random.sample(self._cluster.machines, 2)
        if not has_replicas_elsewhere(self._cluster, {first.broker_id, second.broker_id}):
            return  # what was committed would be in nobody's log
        self._note(f"kill -9 {first.name}")
        self._waits_for_health = True
        first.kill()
        self._later(0.2, 3.0, lambda: self._start(first))

        def bounce() -> None:
            self._note(f"kill -9 {second.name}, lose its last writes, and start it at once")
            second.kill()
            second.disk.lose_power()
            self._later(0.0, 0.01, lambda: self._start(second))

        self._later(0.0, 0.1, bounce)

    def wipe_disk(self) -> None:
        """Give one machine a new disk while all is well, and leave the others alone until all is well again."""
        if self._is_healthy() and not self._cluster.network.blocked:
            machine = self._random.choice(self._cluster.machines)
            self._note(f"new disk for {machine.name}")
            self._waits_for_health = True
            machine.kill()
            machine.disk.wipe()
            self._later(0.05, 6.0, lambda: self._start(machine))

    def flip_bit(self) -> None:
        """Turn over a bit of a log while all is well, and put it right later; nothing else strikes meanwhile.

        Until then its broker may be restarted, or another may get a new disk and has to copy everything.
        """
        if not self._is_healthy() or self._cluster.network.blocked:
            return
        machine = self._random.choice(self._cluster.machines)
        flipped = self._flipped = flip_a_bit(machine.disk, DATA_TOPICS, self._random)
        if flipped is None:
            return
        self._note(f"a bit of {machine.name}{flipped.path} turns over")
        self._waits_for_health = True
        others = [other for other in self._cluster.machines if other is not machine]
        victim = self._random.choice([None, machine, self._random.choice(others)])
        if victim is not None:
            self._note(f"kill -9 {victim.name}" + ("" if victim is machine else ", which gets a new disk"))
            victim.kill()
            if victim is not machine:
                victim.disk.wipe()
            self._later(0.05, 1.0, lambda: self._start(victim))
        self._later(1.0, 6.0, self._repair_bit)

    def _repair_bit(self) -> None:
        if self._flipped is not None:
            self._note("the bit is put right")
            self._flipped.repair()
            self._flipped = None

    def damage_closed_log(self) -> None:
        """Cut short or lose a file of a broker that was stopped in an orderly way, while all is well."""
        machine = self._random.choice(self._cluster.machines)
        if not self._is_healthy() or self._cluster.network.blocked:
            return
        self._note(f"stop {machine.name}")
        self._waits_for_health = True
        machine.stop()
        starts = machine.starts

        def damage() -> None:
            if machine.starts != starts:
                return  # Somebody else had it started; it may have gone on since, and need not be well any more.
            if machine.is_up:
                self._later(0.2, 0.5, damage)
            else:
                self._note(f"on {machine.name} {damage_a_file(machine.disk, self._random)}")
                self._start(machine)

        self._later(0.2, 0.5, damage)

    def fill_disk(self) -> None:
        """Let a disk be full for a while; its broker is started again when there is room."""
        self._fail_disk(errno.ENOSPC)

    def break_disk(self) -> None:
        """Let a disk answer every change with an error for a while."""
        self._fail_disk(errno.EIO)

    def _fail_disk(self, number: int) -> None:
        machine = self._machine()
        if machine is None or machine.disk.fails_with is not None or machine.disk.capacity_bytes is not None:
            return
        where = self._random.choice(machine.log_dirs) if len(machine.log_dirs) > 1 else ""
        self._note(f"the disk of {machine.name} fails with {errno.errorcode[number]} {where}")
        if number == errno.ENOSPC:
            machine.disk.capacity_bytes = machine.disk.used_bytes() + self._random.randrange(2000)
        else:
            machine.disk.fails_with, machine.disk.fails_in = number, where.strip("/")

        def repair() -> None:
            if not self._is_running:
                return  # It was repaired with everything else.
            self._note(f"the disk of {machine.name} works again, and it is started anew")
            machine.disk.fails_with = machine.disk.capacity_bytes = None
            machine.kill()
            self._start(machine)

        self._later(0.5, 6.0, repair)

    def slow_disk(self) -> None:
        """Let what waits for a disk wait long."""
        machine = self._machine()
        if machine is not None:
            self._note(f"slow disk of {machine.name}")
            self._set_disk_speed(machine, SLOW_DISK_SECONDS)
            self._later(0.5, 8.0, lambda: self._set_disk_speed(machine, DISK_SECONDS))

    def _set_disk_speed(self, machine: Machine, seconds: tuple[float, float]) -> None:
        if machine.loop is not None:
            machine.loop.thread_seconds = seconds


KINDS: Final[dict[str, Callable[[Faults], None]]] = {
    "kill": Faults.kill,
    "kill-all": Faults.kill_all,
    "stop": Faults.stop_cleanly,
    "die-writing": Faults.die_while_writing,
    "kill-coordinator": Faults.kill_coordinator,
    "pause": Faults.pause,
    "partition": Faults.partition,
    "store-cut": Faults.cut_off_from_store,
    "reset": Faults.reset_connections,
    "slow-network": Faults.slow_network,
    "slow-readers": Faults.slow_readers,
    "expire": Faults.expire_session,
    "store-away": Faults.store_away,
    "usurp": Faults.replace_controller,
    "clock": Faults.jump_clock,
    "power": Faults.lose_power,
    "power-one": Faults.lose_power_of_one,
    "bounce": Faults.bounce,
    "wipe": Faults.wipe_disk,
    "bit-flip": Faults.flip_bit,
    "damage": Faults.damage_closed_log,
    "disk-full": Faults.fill_disk,
    "disk-broken": Faults.break_disk,
    "slow-disk": Faults.slow_disk,
}
"""Every fault by its name."""
