"""One simulation from one seed: a cluster, clients, faults, then peace, a last reading, and the verdict."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import warnings
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import process_time
from typing import TYPE_CHECKING, Final

from highwater.model.errors import KafkaError
from highwater.model.ids import TopicPartition
from highwater.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from highwater_history.checks import check
from highwater_history.history import ALL, Copied, History, Place, Trim
from highwater_history.violation import Violation
from highwater_sim.administrator import Administrator
from highwater_sim.agreement import disagreements
from highwater_sim.client import PAUSE_S
from highwater_sim.cluster import COORDINATOR_PARTITIONS, Cluster
from highwater_sim.consumer import Consumer
from highwater_sim.faults import COORDINATED, Faults
from highwater_sim.group_member import GroupMember
from highwater_sim.in_sync import out_of_sync
from highwater_sim.log_dir_mover import LogDirMover
from highwater_sim.machine import LOG_DIRS
from highwater_sim.modern_member import ModernMember
from highwater_sim.nearby_consumer import NearbyConsumer
from highwater_sim.producer import Producer
from highwater_sim.replica_checks import ReplicaChecks
from highwater_sim.rest import unrest
from highwater_sim.trace import Trace
from highwater_sim.transactional import TransactionalProducer
from highwater_sim.transformer import Transformer, committed_position
from highwater_sim.trimmer import Trimmer
from highwater_sim.violation import Violated

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from highwater_sim.profile import Profile

TOPICS: Final = {"orders": 2, "events": 1}
"""Topics, and their partitions."""
GROWING: Final = "orders"
MOST_PARTITIONS: Final = 5
GROWTH_PAUSE_S: Final = 1.0
SOURCE: Final = Place("events", 0)
COPIES: Final = Place("copies", 0)
"""Where transformers copy `SOURCE` to; they alone write there."""
COPIERS: Final = "copiers"
TRIMMED: Final = Place("trimmed", 0)
"""Whose older records are deleted, by an administrator, for their age or because there are many."""
COMPACTED: Final = Place("compacted", 0)
COMPACTION: Final = {"cleanup.policy": "compact", "segment.bytes": "1024", "min.cleanable.dirty.ratio": "0.01"}
KEYS: Final = {COMPACTED: tuple("abcdefghij")}
"""Of the records there; of each the last must be there in the end."""
BROKERS: Final = 3
JOINS_WITHIN: Final = 0.5
"""Of the time in which faults strike: then a fourth broker joins."""
START_S: Final = 60.0
HEAL_S: Final = 120.0
DRAIN_S: Final = 120.0
SETTLE_S: Final = 15.0
"""How long clients are gone before everything is read: transactions that they left open have timed out by the clocks of
two coordinators, one after the other."""
REST_S: Final = 1.0
"""Whatever is under way then, because a leader changes or a timeout has come, has gone on after that."""
CALM_EPOCHS: Final = 2
"""Leaders that are given back what they should lead begin so many epochs meanwhile, at most."""


@dataclass(frozen=True, slots=True)
class Report:
    """What became of one seed."""

    seed: int
    violations: tuple[Violation, ...]
    history: History
    trace: Trace
    virtual_seconds: float
    real_seconds: float
    events: int
    requests: int
    faults: Counter[str]
    """How often each kind of fault struck."""

    @property
    def passed(self) -> bool:
        """Whether no invariant was violated."""
        return not self.violations


class Simulation:
    """Everything of one seed."""

    def __init__(self, seed: int, profile: Profile, *, keep_trace: bool = False) -> None:
        self.seed = seed
        self.profile = profile
        self.history = History()
        self.trace = Trace(keep=keep_trace)
        log_dirs = {"log.dirs": ",".join(LOG_DIRS)} if profile.has_two_log_dirs else {}
        brokers = BROKERS + profile.adds_broker
        self.cluster = Cluster(seed, brokers=brokers, settings={**profile.settings, **log_dirs})
        self.cluster.on_bug = self._bug
        self.places = [Place(topic, index) for topic, count in TOPICS.items() for index in range(count)]
        topics = frozenset({*TOPICS, COPIES.topic, TRIMMED.topic})
        self._producing: list[asyncio.Task[None]] = []
        self._consuming: list[asyncio.Task[None]] = []
        self.checks = ReplicaChecks(self.cluster, compared_topics=topics, trace=self.trace)
        self.faults = Faults(
            self.cluster, self.history, profile.faults, trace=self.trace, average_pause_s=profile.average_pause_s
        )

    def run(self, *, is_last: bool = False) -> Report:
        """Run to the end, or to the first violation; `is_last` leaves what remains to the end of the process."""
        began = process_time()
        violations: tuple[Violation, ...] = ()
        with _errors_as_bugs(self.cluster), without_collector(None if is_last else self._dispose):
            try:
                self._start()
                self._be_faulty()
                self._calm_down()
                violations = tuple(check(self.history))
            except Violated as violated:
                violations = (violated.violation,)
        for violation in violations:
            self.trace.note(self.cluster.scheduler.now, f"VIOLATED {violation}")
        return Report(
            seed=self.seed,
            violations=violations,
            history=self.history,
            trace=self.trace,
            virtual_seconds=self.cluster.scheduler.now,
            real_seconds=process_time() - began,
            events=self.cluster.scheduler.events_run,
            requests=self.cluster.client_requests,
            faults=self.faults.struck,
        )

    def _dispose(self) -> None:
        """Let go of every broker and client, whose end is collected then."""
        self.cluster.dispose()
        self.checks.forget()
        self._producing, self._consuming = [], []

    def _bug(self, what: str) -> None:
        raise Violated(Violation("no-internal-error", what, self.cluster.scheduler.now))

    # The three parts ------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        cluster = self.cluster
        cluster.start(but_for=len(cluster.machines) - BROKERS)
        self._finish(cluster.spawn(self._make_topics()), START_S, "cluster-starts")

    def _be_faulty(self) -> None:
        self._begin_writing()
        self._begin_reading()
        changing = self._begin_changing()
        self.faults.start()
        if self.profile.adds_broker:
            scheduler = self.cluster.scheduler
            scheduler.after(scheduler.between(0, JOINS_WITHIN * self.profile.seconds), self.faults.join)
        self.cluster.scheduler.run_until(self.cluster.scheduler.now + self.profile.seconds)
        self.faults.stop()
        for task in changing:
            task.cancel()

    def _begin_writing(self) -> None:
        cluster, profile = self.cluster, self.profile
        producers = (
            Producer(cluster, "all", self.history, acks=ALL),
            Producer(cluster, "idempotent", self.history, acks=ALL, is_idempotent=True),
            Producer(cluster, "leader", self.history, acks=1),
            Producer(cluster, "none", self.history, acks=0),
        )
        transactional = [
            TransactionalProducer(
                cluster,
                name,
                self.history,
                transactional_id=transactional_id,
                transaction_version=profile.transaction_version,
                keys=KEYS,
            )
            for name, transactional_id in profile.transactional_producers
        ]
        self._producing = [
            cluster.spawn(producer.run(self.places, pause_s=profile.request_pause_s)) for producer in producers
        ]
        in_transactions = [*self.places, COMPACTED] if profile.compacts else self.places
        self._producing += [
            cluster.spawn(producer.run(in_transactions, pause_s=profile.request_pause_s)) for producer in transactional
        ]
        self._producing += [
            cluster.spawn(self._transformer(number).run([COPIES], pause_s=profile.request_pause_s))
            for number in range(profile.transformers)
        ]

    def _begin_reading(self) -> None:
        cluster, profile = self.cluster, self.profile
        self._consuming = [
            cluster.spawn(Consumer(cluster, "reader", self.history).run(self.places)),
            cluster.spawn(Consumer(cluster, "careful", self.history, only_committed=True).run(self.places)),
        ]
        self._consuming += [
            cluster.spawn(
                GroupMember(cluster, f"member{number}", self.history, group="group", places=self.places).run_as_member()
            )
            for number in range(profile.group_members)
        ]
        self._consuming += [
            cluster.spawn(
                ModernMember(
                    cluster, f"modern{number}", self.history, group="modern", topics=list(TOPICS)
                ).run_as_member()
            )
            for number in range(profile.modern_members)
        ]
        if profile.reads_nearby:
            self._consuming += [
                cluster.spawn(
                    NearbyConsumer(
                        cluster,
                        f"near{machine.name}",
                        self.history,
                        rack=machine.name,
                        only_committed=machine is not cluster.machines[0],
                    ).run(self.places)
                )
                for machine in cluster.machines
            ]

    def _begin_changing(self) -> list[asyncio.Task[None]]:
        """Begin what is over with the faults, and what writes to the topics that are changed."""
        cluster, profile = self.cluster, self.profile
        changing = []
        if profile.has_administrator:
            administrator = Administrator(cluster, "admin", self.history)
            pause_s = 1.0 if profile.adds_broker else 3.0
            changing.append(cluster.spawn(administrator.run(tuple(self._movable()), pause_s=pause_s)))
        if profile.deletes:
            producer = Producer(cluster, "trimmed", self.history, acks=ALL, is_idempotent=True)
            self._producing.append(cluster.spawn(producer.run([TRIMMED], pause_s=profile.request_pause_s)))
        if profile.compacts:
            self._producing += [
                cluster.spawn(
                    Producer(cluster, name, self.history, acks=ALL, is_idempotent=is_idempotent, keys=KEYS).run(
                        [COMPACTED], pause_s=profile.request_pause_s
                    )
                )
                for name, is_idempotent in (("keyed", True), ("keyed-plain", False))
            ]
        if profile.trims:
            trimmer = Trimmer(cluster, "trimmer", self.history)
            changing.append(cluster.spawn(trimmer.run(TRIMMED, pause_s=0.7)))
        if profile.has_two_log_dirs:
            mover = LogDirMover(cluster, "mover", self.history)
            changing.append(cluster.spawn(mover.run(self._movable(), pause_s=1.0)))
        if profile.grows:
            changing.append(cluster.spawn(self._grow(Administrator(cluster, "grower", self.history))))
        return changing

    def _movable(self) -> Sequence[Place]:
        """Return what is moved, between brokers and between log dirs."""
        if not self.profile.adds_broker:
            return self.places
        coordinated = [Place(topic, index) for topic in sorted(COORDINATED) for index in range(COORDINATOR_PARTITIONS)]
        return (*self.places, *self._places_of_some_seeds(), *coordinated)

    def _places_of_some_seeds(self) -> list[Place]:
        profile = self.profile
        there = {TRIMMED: profile.deletes, COMPACTED: profile.compacts, COPIES: profile.transformers > 0}
        return [place for place, is_there in there.items() if is_there]

    async def _grow(self, administrator: Administrator) -> None:
        """Add partitions to a topic, each of which is written and read from then on."""
        count = TOPICS[GROWING]
        while count < MOST_PARTITIONS:
            await administrator.rest(GROWTH_PAUSE_S)
            try:
                place = await administrator.add_partition(GROWING, count + 1)
            except KafkaError:
                continue
            if place is None:
                continue
            count += 1
            self.places.append(place)
            producer = Producer(self.cluster, f"grown{count}", self.history, acks=ALL, is_idempotent=True)
            self._producing.append(self.cluster.spawn(producer.run([place], pause_s=3 * self.profile.request_pause_s)))
            self._consuming.append(self.cluster.spawn(Consumer(self.cluster, f"new{count}", self.history).run([place])))

    def _transformer(self, number: int) -> Transformer:
        return Transformer(
            self.cluster,
            f"copier{number}",
            self.history,
            transactional_id=COPIERS,
            transaction_version=self.profile.transaction_version,
            group=COPIERS,
            source=SOURCE,
        )

    def _calm_down(self) -> None:
        """Let the cluster heal while clients go on, then let producers stop, and read everything."""
        cluster = self.cluster
        deadline = cluster.scheduler.now + HEAL_S
        while trouble := self._trouble():
            if cluster.scheduler.now > deadline:
                raise Violated(Violation("cluster-heals", "; ".join(trouble), cluster.scheduler.now))
            cluster.scheduler.run_until(cluster.scheduler.now + 0.5)
        cluster.scheduler.run_until(cluster.scheduler.now + 2.0)
        for task in (*self._producing, *self._consuming):
            task.cancel()
        before = self.checks.leader_epochs()
        cluster.scheduler.run_until(cluster.scheduler.now + SETTLE_S - REST_S)
        under_way = unrest(cluster)
        cluster.scheduler.run_until(cluster.scheduler.now + REST_S)
        if stuck := sorted(under_way & unrest(cluster)):
            raise Violated(Violation("comes-to-rest", "; ".join(stuck), cluster.scheduler.now))
        restless = [
            f"{name}: epoch {before.get(name)} -> {epoch}"
            for name, epoch in self.checks.leader_epochs().items()
            if epoch > before.get(name, epoch) + CALM_EPOCHS
        ]
        if restless:
            raise Violated(Violation("states-settle", "; ".join(restless), cluster.scheduler.now))
        if wrong := disagreements(cluster):
            raise Violated(Violation("brokers-agree", "; ".join(wrong), cluster.scheduler.now))
        if self.profile.retention:
            start = self.checks.latest_starts.get(TopicPartition(*TRIMMED), 0)
            self.history.add(Trim("retention", cluster.scheduler.now, TRIMMED, start))
        reader = Consumer(cluster, "last", self.history)
        self._finish(cluster.spawn(self._drain(reader)), DRAIN_S, "everything-can-be-read")

    def _trouble(self) -> list[str]:
        down = [f"{machine.name} does not serve" for machine in self.cluster.machines if not machine.is_serving]
        return down + out_of_sync(self.cluster)

    async def _drain(self, reader: Consumer) -> None:
        for place in (*self.places, *self._places_of_some_seeds()):
            await reader.drain(place)
        if self.profile.transformers:
            self.history.add(Copied(reader.now, SOURCE, COPIES, await self._copied_up_to(reader)))

    async def _copied_up_to(self, reader: Consumer) -> int:
        while True:
            try:
                return await committed_position(reader, COPIERS, SOURCE)
            except KafkaError:
                await asyncio.sleep(PAUSE_S)

    def _finish(self, task: asyncio.Task[None], within_s: float, invariant: str) -> None:
        try:
            self.cluster.run_until_done(task, within_s=within_s)
        except TimeoutError as error:
            raise Violated(Violation(invariant, str(error), self.cluster.scheduler.now)) from error

    async def _make_topics(self) -> None:
        admin = Administrator(self.cluster, "admin", self.history)
        wanted = [
            CreatableTopic(name=name, num_partitions=count, replication_factor=3) for name, count in TOPICS.items()
        ]
        if self.profile.transformers:
            wanted.append(CreatableTopic(name=COPIES.topic, num_partitions=1, replication_factor=3))
        if self.profile.deletes:
            wanted.append(_topic(TRIMMED, self.profile.retention))
        if self.profile.compacts:
            wanted.append(_topic(COMPACTED, COMPACTION))
        made: set[str] = set()
        while len(made) < len(wanted):
            with suppress(KafkaError):
                made |= await admin.create(wanted)
            await asyncio.sleep(PAUSE_S)


def _topic(place: Place, configs: Mapping[str, str]) -> CreatableTopic:
    return CreatableTopic(
        name=place.topic,
        num_partitions=1,
        replication_factor=3,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
    )


@contextmanager
def _errors_as_bugs(cluster: Cluster) -> Iterator[None]:
    """Take an error that the broker logs with a traceback for what it is: a bug that cost only one connection."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info:
                cluster.note_bug(f"{record.getMessage()}: {record.exc_info[1]!r}")

    logger = logging.getLogger("highwater")
    handler, level, propagate = Handler(), logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


@contextmanager
def without_collector(dispose: Callable[[], None] | None) -> Iterator[None]:
    """Keep the collector away, for when it runs is not the seed's to decide; let go of everything in the end.

    What was under way in processes that were killed is then collected, and may complain: nobody shall hear it.
    """
    gc.disable()
    if dispose is None:
        yield
        return
    try:
        yield
    finally:
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            dispose()
            gc.enable()
            gc.collect()
        sys.unraisablehook = hook
