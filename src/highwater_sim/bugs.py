"""Deliberate bugs: one switch each, planted from outside into the shipped classes. The simulator must find them all.

Each is a mistake that somebody has made, or nearly made here. `tests/sim/test_bugs.py` says with which seed
each is found.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from highwater.broker import controller_driver, log_dir_moves, partition, replica_fetch
from highwater.broker.controller_store import ControllerStore
from highwater.broker.partition import Partition
from highwater.broker.roles import Roles
from highwater.controller import controller, leadership_rules
from highwater.controller.partition import Leadership
from highwater.coordination import paths
from highwater.coordination.port import ANY_VERSION, Check
from highwater.groups.consumer import reconciliation
from highwater.protocol.records.batch import read_header
from highwater.replication.leader import IsrProposal, LeaderState
from highwater.storage import log, recovery
from highwater.storage.flush import Flush
from highwater.storage.log_dir import LogDir
from highwater.storage.producer_state import ProducerStates
from highwater.storage.stored_log import StoredLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from highwater.controller.partition import ControlledPartition
    from highwater.groups.consumer.assignment import Assignment
    from highwater.model.ids import BrokerId, LeaderEpoch, Offset, TopicId
    from highwater.storage.file_region import FileRegion

Patch = tuple[Any, str, Any]


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    """Have one of the bugs, or none, for a while."""
    with ExitStack() as stack:
        for owner, attribute, replacement in BUGS[name]() if name is not None else ():
            stack.enter_context(patch.object(owner, attribute, replacement))
        yield


# Replication --------------------------------------------------------------------------------------------------------


def _truncate_by_watermark() -> list[Patch]:
    """A follower cuts its log at its own watermark, which lags behind what is committed (KIP-101)."""
    follow = Partition.follow

    def follow_and_cut(
        self: Partition, leader: BrokerId, epoch: LeaderEpoch, *, replicas: tuple[BrokerId, ...]
    ) -> None:
        is_new = epoch != self.leader_epoch
        follow(self, leader, epoch, replicas=replicas)
        if is_new:
            self.log.truncate_to(self.high_watermark, now_ms=0)

    return [(Partition, "follow", follow_and_cut)]


def _ignore_epoch_in_fetch() -> list[Patch]:
    """A fetch is served whatever epochs it names: neither fenced nor compared (KIP-320)."""
    return [
        (partition, "check_replica_epoch", lambda *_: None),
        (replica_fetch, "check_replica_epoch", lambda *_: None),
        (partition, "divergence", lambda *_, **__: None),
    ]


def _count_after_commit() -> list[Patch]:
    """A replica that is proposed for the in-sync set holds the watermark only once the proposal is committed."""

    def high_watermark(self: LeaderState, current: Offset, *, own_end: Offset, now_ms: int) -> Offset:
        del now_ms
        ends = [own_end, *(remote.end_offset for broker, remote in self.remotes.items() if broker in self.isr)]
        return max(current, min(ends))

    return [(LeaderState, "high_watermark", high_watermark)]


def _shrink_by_itself() -> list[Patch]:
    """A leader leaves lagging replicas out of account before the cluster has agreed."""

    def propose(self: LeaderState, isr: tuple[BrokerId, ...]) -> IsrProposal:
        self._proposed = IsrProposal(self._me, self.epoch, isr, self.isr_version)
        self.maximal_isr = frozenset(isr)
        return self._proposed

    def high_watermark(self: LeaderState, current: Offset, *, own_end: Offset, now_ms: int) -> Offset:
        del now_ms
        ends = [own_end, *(remote.end_offset for broker, remote in self.remotes.items() if broker in self.maximal_isr)]
        return max(current, min(ends))

    return [(LeaderState, "_propose", propose), (LeaderState, "high_watermark", high_watermark)]


def _ack_before_commit() -> list[Patch]:
    """A write with acks=all is acknowledged as soon as the leader has it."""
    return [(Partition, "when_committed", lambda *_: True)]


def _expand_below_epoch_start() -> list[Patch]:
    """A replica joins the in-sync set as soon as it fetches, wherever it is."""

    def propose_growth(self: LeaderState, high_watermark: Offset, *, now_ms: int) -> IsrProposal | None:
        del high_watermark, now_ms
        if self._cannot_propose:
            return None
        joining = tuple(b for b, remote in self.remotes.items() if b not in self.maximal_isr and remote.end_offset >= 0)
        return self._propose((*self.isr, *joining)) if joining else None

    return [(LeaderState, "propose_growth", propose_growth)]


def _serve_uncommitted() -> list[Patch]:
    """Consumers read to the end of the log."""

    def read(
        self: Partition, offset: Offset, *, max_bytes: int, committed_only: bool, at_least_one_batch: bool
    ) -> FileRegion | None:
        del committed_only
        end = self.log.log_end_offset
        return (
            None
            if offset >= end
            else self.log.read(offset, max_bytes=max_bytes, up_to=end, at_least_one=at_least_one_batch)
        )

    return [(Partition, "read", read)]


# The controller -----------------------------------------------------------------------------------------------------


def _same_epoch() -> list[Patch]:
    """A new leader gets no new epoch."""
    return [(Leadership, "moved", lambda self, leader, isr: Leadership(leader, self.epoch, isr))]


def _unclean_election() -> list[Patch]:
    """Any live replica may lead, though the topic does not allow it."""

    def wanted(partition: ControlledPartition, **given: Any) -> Leadership | None:
        return leadership_rules.wanted(partition, **{**given, "allows_unclean": True})

    return [(controller, "wanted", wanted)]


def _trust_the_bounced() -> list[Patch]:
    """A broker that was gone for a moment counts as in sync, though its machine may have lost what it had (KIP-903)."""
    return [
        (leadership_rules, "trusted", lambda held, _: held.leadership.isr),
        (controller_driver, "returned", lambda *_: set()),
        (controller, "returned", lambda *_: set()),
    ]


def _old_controller() -> list[Patch]:
    """A controller that was replaced without noticing still writes to the cluster's memory, and brokers obey it."""
    begin, check = ControllerStore.__init__, Roles._check  # noqa: SLF001 - it is a patch

    def begin_unfenced(self: ControllerStore, *given: Any, **named: Any) -> None:
        begin(self, *given, **named)
        self._fence = Check(paths.CONTROLLER_EPOCH, ANY_VERSION)

    def check_only_who_is_told(self: Roles, controller_epoch: int, registration: int) -> None:
        check(self, max(controller_epoch, self._cluster.controller_epoch), registration)

    return [(ControllerStore, "__init__", begin_unfenced), (Roles, "_check", check_only_who_is_told)]


# Storage ------------------------------------------------------------------------------------------------------------


def _no_fsync() -> list[Patch]:
    """With flush.messages=1, what is acknowledged lies in the page cache (Jepsen on NATS 2.12.1)."""

    def run(self: Flush) -> None:
        self.has_run = True

    return [(Flush, "run", run)]


def _no_producer_rebuild() -> list[Patch]:
    """A restart forgets which batches idempotent producers have sent."""
    load = recovery.load

    def forgetful(*given: Any, **named: Any) -> recovery.LoadedLog:
        loaded = load(*given, **named)
        loaded.producers = ProducerStates()
        return loaded

    return [(recovery, "load", forgetful)]


def _believe_everything() -> list[Patch]:
    """A restart believes what is on the disk, though the broker was not stopped cleanly."""
    load = LogDir._load  # noqa: SLF001 - it is a patch

    def believing(self: LogDir) -> None:
        load(self)
        self.was_stopped_cleanly = True

    return [(LogDir, "_load", believing)]


def _move_unsynced() -> list[Patch]:
    """A log moves to another log dir, and is on the disk under its old name, or not all of it."""
    return [
        (log_dir_moves, "_flush_now", lambda copy: copy.recovery_point),
        (StoredLog, "folder_was_renamed", lambda _: None),
    ]


def _copy_what_is_damaged() -> list[Patch]:
    """A follower takes what its leader sends without looking at the checksum (Jepsen on NATS 2.12.1: one bit flip)."""
    return [(log, "check_batch", lambda records, position=0: read_header(records, position))]


# Groups -------------------------------------------------------------------------------------------------------------


def _assign_before_release() -> list[Patch]:
    """A member gets partitions that another one has not given up yet."""

    def everything(wanted: Assignment, is_free: Callable[[TopicId, int], bool]) -> Assignment:
        del is_free
        return wanted

    return [(reconciliation, "_free_part", everything)]


BUGS: Final[dict[str, Callable[[], list[Patch]]]] = {
    "truncate-by-watermark": _truncate_by_watermark,
    "ignore-epoch-in-fetch": _ignore_epoch_in_fetch,
    "count-after-commit": _count_after_commit,
    "shrink-by-itself": _shrink_by_itself,
    "ack-before-commit": _ack_before_commit,
    "expand-below-epoch-start": _expand_below_epoch_start,
    "serve-uncommitted": _serve_uncommitted,
    "same-epoch": _same_epoch,
    "unclean-election": _unclean_election,
    "trust-the-bounced": _trust_the_bounced,
    "old-controller": _old_controller,
    "no-fsync": _no_fsync,
    "no-producer-rebuild": _no_producer_rebuild,
    "believe-everything": _believe_everything,
    "copy-what-is-damaged": _copy_what_is_damaged,
    "move-unsynced": _move_unsynced,
    "assign-before-release": _assign_before_release,
}
"""Every bug by its name."""
