"""What one seed simulates: how logs are synced, which faults, how much load. The seed draws it, or the caller says."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from highwater_sim import modern_member, nearby_consumer
from highwater_sim.faults import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping

ANYWHERE: Final = (
    "kill",
    "kill-all",
    "stop",
    "die-writing",
    "kill-coordinator",
    "pause",
    "partition",
    "store-cut",
    "reset",
    "slow-network",
    "slow-readers",
    "expire",
    "usurp",
    "clock",
    "slow-disk",
    "disk-full",
    "disk-broken",
)
"""Faults that no acknowledged record may fall victim to, however logs are synced."""
SYNCED: Final = (*ANYWHERE, "power")
"""With `flush.messages=1` also every broker may lose its power at once."""
LAZY: Final = (*ANYWHERE, "power-one", "wipe", "bit-flip", "damage")
"""Otherwise one machine at a time may, while all is well."""
BOUNCE: Final = "bounce"
"""So may one that is killed just when it begins to lead; it is drawn apart from the others."""
STORE_AWAY: Final = "store-away"
"""The ensemble has no leader; drawn apart as well."""
FAULTY_SECONDS: Final = 20.0
"""Most finds per second of processor time; see docs/simulator.md."""
_SOON: Final = {"segment.bytes": "1024", "file.delete.delay.ms": "500"}
KEEP_ALL: Final[Mapping[str, str]] = {}
KEEP_SOME: Final[Mapping[str, str]] = {**_SOON, "retention.bytes": "3000"}
KEEP_SHORTLY: Final[Mapping[str, str]] = {**_SOON, "retention.ms": "4000"}
_RIVALS: Final = (("tx", "one"), ("ty", "one"))


@dataclass(frozen=True, slots=True)
class Profile:
    """One simulation, apart from its seed."""

    is_synced: bool
    """Whether logs are synced before anything is acknowledged."""
    faults: tuple[str, ...]
    seconds: float
    """How long faults strike, in virtual time."""
    average_pause_s: float
    """Between two faults."""
    request_pause_s: float
    """Between two requests of one producer."""
    settings: Mapping[str, str]
    group_members: int
    modern_members: int
    """How many are in a group by the newer protocol."""
    transactional_producers: tuple[tuple[str, str], ...]
    """Each with its transactional id; two with one id fence each other again and again."""
    transaction_version: int
    transformers: int
    """How many copy one partition to another, all with one transactional id."""
    has_administrator: bool
    grows: bool
    """Whether partitions are added to a topic."""
    has_two_log_dirs: bool
    """Then replicas are moved between them."""
    trims: bool
    """Whether an administrator deletes the older records of a topic."""
    retention: Mapping[str, str]
    """What else that topic has deleted: its configs; empty for nothing."""
    compacts: bool
    """Whether there is a topic that is compacted, all the time."""
    reads_nearby: bool
    """Whether consumers read from the replicas in their own rack."""
    adds_broker: bool
    """Whether a fourth broker joins in the midst, and an administrator moves everything among the four: also what is
    trimmed, compacted and copied, and what coordinators write."""

    @property
    def deletes(self) -> bool:
        """Whether there is a topic whose older records are deleted."""
        return self.trims or bool(self.retention)

    @classmethod
    def drawn(cls, seed: int, *, faults: tuple[str, ...] | None = None, seconds: float | None = None) -> Profile:
        """Return what a seed simulates; only a few kinds of faults each, so that rare mixtures come up too."""
        random = Random(f"profile {seed}")
        is_synced = random.random() < 0.4
        pool = SYNCED if is_synced else LAZY
        chosen = tuple(random.sample(pool, random.randint(1, 5)))
        if random.random() < 0.2:
            chosen = pool
        if not is_synced and Random(f"bounce {seed}").random() < 0.15:
            chosen = (*chosen, BOUNCE)
        if Random(f"store away {seed}").random() < 0.15:
            chosen = (*chosen, STORE_AWAY)
        if faults is not None:
            is_synced = is_synced if "power" not in faults else True
            chosen = faults
        settings = {
            "log.segment.bytes": str(random.choice((2048, 16384, 1 << 20))),
            "num.replica.fetchers": str(random.choice((1, 1, 2))),
            "auto.leader.rebalance.enable": random.choice(("true", "false")),
        }
        if is_synced:
            settings["log.flush.interval.messages"] = "1"
        modern_members = Random(f"modern {seed}").choice((0, 0, 0, 2, 3))
        if modern_members:
            settings.update(modern_member.SETTINGS)
        retention = Random(f"retention {seed}").choice((*(6 * (KEEP_ALL,)), KEEP_SOME, KEEP_SHORTLY))
        if retention:
            settings["log.retention.check.interval.ms"] = "700"
        compacts = Random(f"compaction {seed}").random() < 0.2
        if compacts:
            settings["log.cleaner.backoff.ms"] = "500"
        adds_broker = Random(f"fourth broker {seed}").random() < 0.2
        reads_nearby = Random(f"nearby {seed}").random() < 0.2
        if reads_nearby:
            settings.update(nearby_consumer.SETTINGS)
        return cls(
            is_synced=is_synced,
            faults=tuple(kind for kind in chosen if kind in KINDS),
            seconds=FAULTY_SECONDS if seconds is None else seconds,
            average_pause_s=random.choice((0.5, 1.5, 4.0)),
            request_pause_s=random.choice((0.05, 0.15, 0.5)),
            settings=settings,
            group_members=random.choice((0, 0, 1, 2, 3)),
            modern_members=modern_members,
            transactional_producers=random.choice(((), (), (("tx", "one"),), (("tx", "one"), ("ty", "two")), _RIVALS)),
            transaction_version=random.choice((1, 2)),
            transformers=random.choice((0, 0, 0, 1, 2)),
            has_administrator=random.random() < 0.3 or adds_broker,
            grows=Random(f"growth {seed}").random() < 0.25,
            has_two_log_dirs=Random(f"log dirs {seed}").random() < 0.25,
            trims=Random(f"trims {seed}").random() < 0.25,
            retention=retention,
            compacts=compacts,
            reads_nearby=reads_nearby,
            adds_broker=adds_broker,
        )
