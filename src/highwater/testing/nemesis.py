"""Breaks a cluster of real processes in many ways, one after another, and mends it again.

Every fault leaves two brokers of three whole, or takes all of them at once with their disks intact: what was
acknowledged with acks=all and min.insync.replicas=2 must survive each.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from highwater.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from highwater.testing.network import ZOOKEEPER
from highwater.testing.skewed_clock import set_clock
from highwater.testing.small_disk import full_disk
from highwater.testing.waiting import wait_until
from highwater.testing.wire import ConnectionClosed, WireClient

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from highwater.testing.broker import BrokerProcess
    from highwater.testing.cluster import ClusterProcesses
    from highwater.testing.network import Network

SETTINGS: Final = {
    "min.insync.replicas": 2,
    "zookeeper.session.timeout.ms": 3000,
    "replica.lag.time.max.ms": 2000,
    "replica.socket.timeout.ms": 2000,
    "controller.socket.timeout.ms": 2000,
    "leader.imbalance.check.interval.seconds": 5,
    "log.message.timestamp.after.max.ms": 7 * 86_400_000,
}
"""Short times, so that a fault has its consequences soon. And timestamps may be days ahead: a leader whose clock is a
day behind takes all that comes for such, and would refuse it."""

_METADATA_VERSION: Final = 12
_ASK_SECONDS: Final = 2.0
_MEND_SECONDS: Final = 120.0
_FILL_SECONDS: Final = 30.0
_SHOWN_BYTES: Final = 32
_LAST_BATCHES: Final = 20
_LENGTH_PREFIX_BYTES: Final = 12
_LEADER_EPOCH_BYTES: Final = range(12, 16)
_FULL_BYTES: Final = 32 * 1024
_JUMPS_SECONDS: Final = (-86_400, -3_600, -5, 5, 3_600, 86_400)


class Seen(NamedTuple):
    """A topic as one broker sees it."""

    controller: int
    leaders: dict[int, int]
    isr: dict[int, list[int]]


class Nemesis:
    """Breaks one thing at a time. `faults` are methods by name; each returns when all is whole again."""

    def __init__(
        self,
        cluster: ClusterProcesses,
        network: Network,
        topic: str,
        *,
        dice: random.Random,
        while_broken: Callable[[], None],
        damage_seconds: float = 4.0,
    ) -> None:
        """`while_broken` is called while a fault lasts that a cluster with a majority survives."""
        self._cluster = cluster
        self._network = network
        self._topic = topic
        self._dice = dice
        self._while_broken = while_broken
        self._damage_seconds = damage_seconds
        self._paused: set[int] = set()

    # Processes ------------------------------------------------------------------------------------------------------

    def kill_a_leader(self) -> None:
        """End the process of a partition's leader."""
        with self._dead(self._some_leader()):
            self._while_broken()

    def kill_the_controller(self) -> None:
        """End the controller's process."""
        with self._dead(self.look().controller):
            self._while_broken()

    def kill_all_at_once(self) -> None:
        """End every process; what was acknowledged is on disks."""
        for broker in self._cluster.brokers.values():
            broker.kill()
        for broker in self._cluster.brokers.values():
            broker.start()
        self._mend()

    def stop_a_broker(self) -> None:
        """Stop a broker as an operator does."""
        broker = self._cluster.brokers[self._some_broker()]
        broker.stop()
        self._while_broken()
        broker.start()
        self._mend()

    def pause_a_leader(self) -> None:
        """Freeze a leader for longer than its session lasts: it wakes up and believes that it still leads."""
        self._pause(self._some_leader())

    def pause_the_controller(self) -> None:
        """Freeze the controller for longer than its session lasts."""
        self._pause(self.look().controller)

    def restart_zookeeper(self) -> None:
        """End ZooKeeper's process and start it again."""
        self._cluster.zookeeper.kill()
        self._while_broken()
        self._cluster.zookeeper.start()
        self._mend()

    # The network ----------------------------------------------------------------------------------------------------

    def cut_a_leader_from_its_followers(self) -> None:
        """Let a leader reach clients and ZooKeeper, and no other broker."""
        leader = self._one_leader_of_several()
        self._cut((leader, other) for other in self._others(leader))

    def cut_a_broker_from_zookeeper(self) -> None:
        """Let a leader reach clients and the other brokers, and not ZooKeeper."""
        self._cut([(self._some_leader(), ZOOKEEPER)])

    def cut_a_broker_off(self) -> None:
        """Let a broker reach clients only."""
        broker = self._some_broker()
        self._cut([*((broker, other) for other in self._others(broker)), (broker, ZOOKEEPER)])

    def cut_two_brokers_apart(self) -> None:
        """Let two brokers meet only at the third."""
        broker = self._some_broker()
        self._cut([(broker, self._dice.choice(self._others(broker)))])

    def cut_one_way(self) -> None:
        """Let the others hear nothing of a leader, which hears them."""
        leader = self._one_leader_of_several()
        self._cut(((leader, other) for other in self._others(leader)), both_ways=False)

    # Disks ----------------------------------------------------------------------------------------------------------

    def wipe_a_disk(self) -> None:
        """Take everything from a broker: it comes back empty, and fills up again."""
        number = self._some_broker()
        with self._dead(number):
            shutil.rmtree(self._cluster.brokers[number].data_dir)

    def tear_the_last_writes(self) -> None:
        """Take the last bytes of every log of a broker that was killed, as a power cut may."""
        number = self._some_broker()
        with self._dead(number):
            for log in self._files(number, "*.log"):
                size = log.stat().st_size
                with log.open("r+b") as file:
                    file.truncate(max(0, size - self._dice.randrange(1, 2000)))

    def damage_the_last_writes(self) -> None:
        """Change a byte of a batch near the end of every log of a broker that was killed.

        It is any byte but those of the leader epoch, which Kafka's format leaves out of the checksum.
        """
        number = self._some_broker()
        with self._dead(number):
            for log in self._files(number, "*.log"):
                content = bytearray(log.read_bytes())
                batches = _batches(content)[-_LAST_BATCHES:]
                if batches:
                    batch = self._dice.choice(batches)
                    changeable = [at for at in batch if at - batch.start not in _LEADER_EPOCH_BYTES]
                    content[self._dice.choice(changeable)] ^= self._dice.randrange(1, 256)
                    log.write_bytes(content)

    def lose_what_can_be_rebuilt(self) -> None:
        """Take indexes, snapshots and checkpoints of a broker that was killed."""
        number = self._some_broker()
        with self._dead(number):
            for pattern in ("*.index", "*.timeindex", "*.snapshot", "leader-epoch-checkpoint"):
                for file in self._files(number, pattern):
                    file.unlink()
            for file in self._cluster.brokers[number].data_dir.glob("*-checkpoint"):
                file.unlink()

    def fill_a_disk(self) -> None:
        """Let a broker run until its disk has no room left; later it gets room, and starts again."""
        broker = self._cluster.brokers[self._some_broker()]
        broker.kill()
        with full_disk(broker) as free_bytes:
            deadline = time.monotonic() + _FILL_SECONDS
            while free_bytes() > _FULL_BYTES and time.monotonic() < deadline:
                self._while_broken()
            self._while_broken()
        broker.start()
        self._mend()

    # Clocks ---------------------------------------------------------------------------------------------------------

    def set_a_clock_wrong(self) -> None:
        """Let a leader's clock jump, ahead or back, and later back to where it was."""
        broker = self._cluster.brokers[self._some_leader()]
        set_clock(broker.data_dir, seconds=self._dice.choice(_JUMPS_SECONDS))
        for _ in range(3):
            self._while_broken()
        set_clock(broker.data_dir, seconds=0)
        self._mend()

    # Looking and mending --------------------------------------------------------------------------------------------

    def look(self) -> Seen:
        """Return the topic as most brokers see it that answer: one that was away may be behind."""
        views = self._views()
        controllers = Counter(view.controller for view in views)
        newest = controllers.most_common(1)[0][0] if controllers else -1
        return next((view for view in views if view.controller == newest), Seen(-1, {}, {}))

    def _views(self) -> list[Seen]:
        views = []
        for number, broker in self._cluster.brokers.items():
            if broker.is_running and number not in self._paused:
                with suppress(OSError, ConnectionClosed):
                    views.append(seen_by(broker, self._topic))
        return views

    def logs_are_equal(self) -> bool:
        """Return whether all replicas hold the same bytes."""
        return not self.differences()

    def differences(self) -> list[str]:
        """Return where replicas do not hold the same bytes as the first one."""
        folders = {log.parent.name for number in self._cluster.brokers for log in self._files(number, "*.log")}
        found = []
        for folder in sorted(folders):
            contents = {number: _content(broker.data_dir / folder) for number, broker in self._cluster.brokers.items()}
            first, *others = contents
            found += [
                f"{folder} of brokers {first} and {other}: {difference}"
                for other in others
                if (difference := _first_difference(contents[first], contents[other]))
            ]
        return found

    def _mend(self) -> None:
        wait_until(self.is_whole, "all replicas are in sync again", timeout_seconds=_MEND_SECONDS)

    def is_whole(self) -> bool:
        """Return whether all brokers see the same, and every replica in sync."""
        views = self._views()
        everybody = set(self._cluster.brokers)
        seen = views[0] if len(views) == len(everybody) and views.count(views[0]) == len(views) else Seen(-1, {}, {})
        return (
            bool(seen.isr) and -1 not in seen.leaders.values() and all(everybody == set(i) for i in seen.isr.values())
        )

    @contextmanager
    def _dead(self, number: int) -> Iterator[None]:
        broker = self._cluster.brokers[number]
        broker.kill()
        yield
        broker.start()
        self._mend()

    def _pause(self, number: int) -> None:
        broker = self._cluster.brokers[number]
        broker.pause()
        self._paused.add(number)
        try:
            wait_until(lambda: number not in {self.look().controller, *self.look().leaders.values()}, "others lead")
            self._while_broken()
        finally:
            broker.resume()
            self._paused.discard(number)
        self._mend()

    def _cut(self, ways: Iterator[tuple[int, object]] | list[tuple[int, object]], *, both_ways: bool = True) -> None:
        for one, other in ways:
            self._network.cut(one, other, both_ways=both_ways)
        time.sleep(self._damage_seconds)  # a cut is felt when time-outs are over, and not all at once
        self._while_broken()
        self._network.heal()
        self._mend()

    def _some_leader(self) -> int:
        leaders = [leader for leader in self.look().leaders.values() if leader >= 0]
        return self._dice.choice(leaders)

    def _one_leader_of_several(self) -> int:
        """Whoever keeps its session and loses its followers goes on to lead and takes no writes: others must."""
        wait_until(lambda: len(set(self.look().leaders.values()) - {-1}) > 1, "more than one broker leads")
        return self._some_leader()

    def _some_broker(self) -> int:
        return self._dice.choice(list(self._cluster.brokers))

    def _others(self, number: int) -> list[int]:
        return [other for other in self._cluster.brokers if other != number]

    def _files(self, number: int, pattern: str) -> list[Path]:
        return sorted(self._cluster.brokers[number].data_dir.glob(f"{self._topic}-*/{pattern}"))


FAULTS: Final = tuple(
    name
    for name in vars(Nemesis)
    if not name.startswith("_") and name not in {"look", "is_whole", "logs_are_equal", "differences"}
)
"""Every fault there is, by the name of its method."""


def _content(folder: Path) -> bytes:
    return b"".join(log.read_bytes() for log in sorted(folder.glob("*.log")))


def _batches(log: bytearray) -> list[range]:
    """Return where the whole batches of a log lie."""
    found, start = [], 0
    while start + _LENGTH_PREFIX_BYTES <= len(log):
        end = start + _LENGTH_PREFIX_BYTES + int.from_bytes(log[start + 8 : start + 12])
        if end > len(log):
            break
        found.append(range(start, end))
        start = end
    return found


def _first_difference(one: bytes, other: bytes) -> str:
    """Return where two logs part, with what is there; empty if nowhere."""
    if one == other:
        return ""
    at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    around = slice(max(0, at - _SHOWN_BYTES), at + _SHOWN_BYTES)
    return f"byte {at} of {len(one)} and {len(other)}, {one[around].hex()} and {other[around].hex()}"


def seen_by(broker: BrokerProcess, topic: str) -> Seen:
    """Return a topic as this broker sees it: librdkafka would ask any broker it knows, one that is frozen included."""
    with WireClient(broker.bootstrap_servers, timeout_seconds=_ASK_SECONDS) as client:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        answer = client.call(asked, MetadataResponse, _METADATA_VERSION)
    partitions = answer.topics[0].partitions
    return Seen(
        answer.controller_id,
        {partition.partition_index: partition.leader_id for partition in partitions},
        {partition.partition_index: list(partition.isr_nodes) for partition in partitions},
    )
