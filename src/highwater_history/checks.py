"""What clients must never see, checked on a history: of a simulation, or of a run of real processes.

The names are those of Jepsen's Kafka workload where it has one. What the model allows is not looked for: a write may be
refused and still happen, and under `subscribe` a rebalance may skip or repeat records.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from highwater_history.history import (
    ALL,
    Assignment,
    Commit,
    Copied,
    Drain,
    History,
    Owned,
    Place,
    Poll,
    Position,
    Seek,
    Send,
    Transaction,
    Trim,
)
from highwater_history.violation import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(history: History) -> list[Violation]:
    """Return every violation, in the order of the checks."""
    facts = Facts(history)
    return [
        violation
        for checker in (
            unknown_values,
            inconsistent_offsets,
            duplicates,
            lost_writes,
            polls_go_on,
            sends_go_on,
            aborted_reads,
            all_or_nothing,
            hanging_transactions,
            copied_once,
            commits_stay,
            one_owner,
            handed_over,
        )
        for violation in checker(facts)
    ]


class Facts:
    """A history, sorted by kind."""

    def __init__(self, history: History) -> None:
        self.sends = [step for step in history.steps if isinstance(step, Send)]
        self.polls = [step for step in history.steps if isinstance(step, Poll)]
        self.drains = [step for step in history.steps if isinstance(step, Drain)]
        self.steps = history.steps
        self.sent = {send.value: send for send in self.sends}
        self.transactions = {step.name: step for step in history.steps if isinstance(step, Transaction)}
        self.trimmed: dict[Place, int] = {}
        """Below here nothing has to be there any more."""
        for step in history.steps:
            if isinstance(step, Trim):
                self.trimmed[step.place] = max(self.trimmed.get(step.place, 0), step.before)
        self.drained = {drain.place: drain for drain in self.drains}
        self.latest = {
            (drain.place, send.key): offset
            for drain in self.drains
            for offset, value in drain.committed
            if (send := self.sent.get(value)) is not None and send.key is not None
        }
        """Where the last record of each key is: what was committed before may have given way to it, and to no other."""


def unknown_values(facts: Facts) -> Iterator[Violation]:
    """Nothing is read that was not sent there."""
    for place, _, value, where in _readings(facts):
        send = facts.sent.get(value)
        if send is None or send.place != place:
            yield Violation("unknown-value", f"{value!r} was read from {place} ({where}) and never sent there")


def inconsistent_offsets(facts: Facts) -> Iterator[Violation]:
    """One offset holds one value, for everybody who reads it and for who wrote it."""
    at: dict[tuple[Place, int], tuple[str, str]] = {}
    written = (
        (send.place, send.offset, send.value, send.client)
        for send in facts.sends
        if send.offset >= 0 and _is_kept(send)
    )
    for place, offset, value, who in (*written, *_readings(facts)):
        known = at.setdefault((place, offset), (value, who))
        if known[0] != value:
            yield Violation(
                "inconsistent-offsets", f"{place} at {offset}: {known[1]} has {known[0]!r}, {who} has {value!r}"
            )


def duplicates(facts: Facts) -> Iterator[Violation]:
    """One value has one offset: producers here send a value twice only if idempotence makes one of it.

    That is not asked of what a client sent anew under another producer epoch.
    """
    for drain in facts.drains:
        offsets: dict[str, int] = {}
        for offset, value in drain.records:
            if offsets.setdefault(value, offset) != offset and not _is_sent_anew(facts, value):
                yield Violation("duplicate", f"{value!r} is in {drain.place} at {offsets[value]} and at {offset}")


def lost_writes(facts: Facts) -> Iterator[Violation]:
    """What was acknowledged by all is there, where it was said to be; what was read is there too."""
    there = {drain.place: _offsets(drain) for drain in facts.drains}
    for send in facts.sends:
        values = there.get(send.place)
        if values is None:
            continue
        is_promised = send.outcome == "ok" and _is_kept(send) and not _may_be_gone(facts, send)
        if is_promised and send.value not in values:
            yield Violation(
                "lost-write", f"{send.value!r} was acknowledged at {send.place} offset {send.offset} and is gone"
            )
        elif is_promised and 0 <= send.offset not in values[send.value]:
            yield Violation(
                "inconsistent-offsets",
                f"{send.value!r} was acknowledged at {send.place} offset {send.offset} and is at "
                + ", ".join(map(str, values[send.value])),
            )
        if send.outcome == "failed" and send.value in values:
            yield Violation("refused-write", f"{send.value!r} was refused by {send.place} and is there")
    for poll in facts.polls:
        values = there.get(poll.place)
        for offset, value in poll.records if values is not None else ():
            if values is not None and value not in values:
                yield Violation("lost-read", f"{poll.client} read {value!r} from {poll.place} at {offset}; it is gone")


def _offsets(drain: Drain) -> defaultdict[str, list[int]]:
    """Return where each value is: in one place, or `duplicates` tells."""
    offsets: defaultdict[str, list[int]] = defaultdict(list)
    for offset, value in drain.records:
        offsets[value].append(offset)
    return offsets


def polls_go_on(facts: Facts) -> Iterator[Violation]:
    """A consumer that nobody moves reads every record once, in order, and its partition never ends before it."""
    reached: dict[tuple[str, Place], int] = {}
    for step in facts.steps:
        if isinstance(step, Seek):
            if step.why == "out of range":
                yield Violation("out-of-range", f"{step.client} was told that {step.place} does not reach its position")
            reached[step.client, step.place] = step.offset
        elif isinstance(step, Poll):
            key = step.client, step.place
            if step.start < reached.get(key, 0):
                yield Violation("int-nonmonotonic-poll", f"{step.client} goes back in {step.place} to {step.start}")
            for (before, _), (after, value) in zip(step.records, step.records[1:], strict=False):
                if after <= before:
                    yield Violation("int-nonmonotonic-poll", f"{step.client}: {value!r} at {after} after {before}")
            yield from _skipped(facts, step, reached.get(key, 0))
            reached[key] = max([step.start, *(offset + 1 for offset, _ in step.records)])


def _skipped(facts: Facts, poll: Poll, reached: int) -> Iterator[Violation]:
    drain = facts.drained.get(poll.place)
    if drain is None or not poll.records:
        return
    seen = {offset for offset, _ in poll.records}
    there = drain.committed if poll.only_committed else drain.records
    first = bisect_left(there, (reached, ""))
    for offset, value in there[first : bisect_left(there, (poll.records[-1][0] + 1, ""))]:
        if offset not in seen:
            yield Violation("int-poll-skip", f"{poll.client} did not see {value!r} at {offset} of {poll.place}")


def sends_go_on(facts: Facts) -> Iterator[Violation]:
    """What one producer sends to a partition, one after the other, lies there in that order."""
    last: dict[tuple[str, Place], Send] = {}
    for send in facts.sends:
        if send.outcome != "ok" or send.offset < 0 or not _is_kept(send):
            continue
        before = last.get((send.client, send.place))
        if before is not None and before.offset >= send.offset:
            yield Violation(
                "int-nonmonotonic-send",
                f"{send.client} sent {send.value!r} after {before.value!r}; offsets {send.offset}, {before.offset}",
            )
        last[send.client, send.place] = send


# Transactions -------------------------------------------------------------------------------------------------------


def aborted_reads(facts: Facts) -> Iterator[Violation]:
    """A reader of what is committed sees nothing of a transaction that was aborted, nor before its commit was asked."""
    for poll in facts.polls:
        for offset, value in poll.records if poll.only_committed else ():
            transaction = _transaction_of(facts, value)
            if transaction is None:
                continue
            if _is_aborted(transaction):
                yield Violation("G1a", f"{poll.client} read {value!r} of the aborted {transaction.name} at {offset}")
            elif transaction.asked_at < 0 or poll.at < transaction.asked_at:
                yield Violation(
                    "precommitted-read", f"{poll.client} read {value!r} before {transaction.name} committed"
                )


def all_or_nothing(facts: Facts) -> Iterator[Violation]:
    """Of a transaction, readers of what is committed see everything in the end, or nothing."""
    committed = {value for drain in facts.drains for _, value in drain.committed}
    drained = {drain.place for drain in facts.drains}
    parts: defaultdict[str, list[Send]] = defaultdict(list)
    for send in facts.sends:
        is_told = send.outcome == "ok" and send.place in drained and not _may_be_gone(facts, send)
        if send.transaction is not None and is_told:
            parts[send.transaction].append(send)
    for name, sends in parts.items():
        transaction = facts.transactions[name]
        there = [send for send in sends if send.value in committed]
        if there and _is_aborted(transaction):
            yield Violation("G1a", f"{there[0].value!r} of the aborted {name} can be read")
        elif len(there) < len(sends) and (there or _is_committed(transaction)):
            missing = next(send for send in sends if send.value not in committed)
            yield Violation(
                "torn-transaction", f"{missing.value!r} of {name} is missing; {len(there)} others are there"
            )


def hanging_transactions(facts: Facts) -> Iterator[Violation]:
    """Long after the faults, no transaction is open any more."""
    for drain in facts.drains:
        if drain.stable_end < drain.end:
            yield Violation("hanging-transaction", f"{drain.place} is stable up to {drain.stable_end} of {drain.end}")


def copied_once(facts: Facts) -> Iterator[Violation]:
    """What a transaction has read is copied exactly once, as far as its committed position goes."""
    for step in facts.steps:
        if not isinstance(step, Copied) or step.source not in facts.drained or step.target not in facts.drained:
            continue
        wanted = {value for offset, value in facts.drained[step.source].committed if offset < step.position}
        copies = Counter(value.partition("=")[2] for _, value in facts.drained[step.target].committed)
        for value, count in copies.items():
            if count > 1:
                yield Violation("copied-twice", f"{value!r} of {step.source} is in {step.target} {count} times")
            if value not in wanted:
                yield Violation(
                    "copied-too-early", f"{value!r} is in {step.target}, and {step.source} was read to {step.position}"
                )
        for value in sorted(wanted - copies.keys()):
            yield Violation(
                "not-copied", f"{step.source} was read to {step.position}, and {value!r} is not in {step.target}"
            )


# Groups -------------------------------------------------------------------------------------------------------------


def commits_stay(facts: Facts) -> Iterator[Violation]:
    """A position that was committed is told, or one that was committed later."""
    committed: defaultdict[tuple[str, Place], list[Commit]] = defaultdict(list)
    for step in facts.steps:
        if isinstance(step, Commit):
            committed[step.group, step.place].append(step)
    for step in facts.steps:
        if not isinstance(step, Position):
            continue
        commits = committed[step.group, step.place]
        sure = [commit for commit in commits if commit.outcome == "ok" and commit.done_at <= step.at]
        least = max((commit.offset for commit in sure), default=-1)
        possible = {-1, *(commit.offset for commit in commits if commit.at <= step.done_at)}
        if step.offset < least:
            yield Violation(
                "committed-offset-goes-back",
                f"{step.group} has committed {least} of {step.place}; {step.client} was told {step.offset}",
            )
        if step.offset not in possible:
            yield Violation("unknown-commit", f"{step.client} was told {step.offset} of {step.place}, never committed")


def one_owner(facts: Facts) -> Iterator[Violation]:
    """In one generation of a group, one member owns a partition."""
    owners: dict[tuple[str, int, Place], str] = {}
    for step in facts.steps:
        if isinstance(step, Assignment):
            for place in step.places:
                owner = owners.setdefault((step.group, step.generation, place), step.member)
                if owner != step.member:
                    yield Violation(
                        "one-owner",
                        f"{step.group}, generation {step.generation}: {place} belongs to {owner} and {step.member}",
                    )


def handed_over(facts: Facts) -> Iterator[Violation]:
    """Nobody begins to read what another member has not given up, unless that one was expelled and did not know it."""
    owned: defaultdict[tuple[str, Place], dict[str, float]] = defaultdict(dict)
    begun: defaultdict[tuple[str, Place], list[tuple[float, str]]] = defaultdict(list)
    for step in facts.steps:
        if not isinstance(step, Owned):
            continue
        for place in step.places:
            if step.client not in owned[step.group, place]:
                owned[step.group, place][step.client] = step.at
                begun[step.group, place].append((step.at, step.client))
        for (group, place), owners in owned.items():
            if group != step.group or place in step.places or step.client not in owners:
                continue
            since = owners.pop(step.client)
            for at, other in begun[group, place]:
                if since < at < step.at and other != step.client and not step.is_expelled:
                    yield Violation(
                        "handed-over",
                        f"{step.client} had {place} of {group} from {since:.3f} to {step.at:.3f} s, and {other} had it "
                        f"from {at:.3f} s on",
                    )


# What the others share ----------------------------------------------------------------------------------------------


def _readings(facts: Facts) -> Iterator[tuple[Place, int, str, str]]:
    for poll in facts.polls:
        for offset, value in poll.records:
            yield poll.place, offset, value, poll.client
    for drain in facts.drains:
        for offset, value in drain.records:
            yield drain.place, offset, value, "the last reader"


def _is_kept(send: Send) -> bool:
    """Return whether what was acknowledged is promised to stay: with acks=1 it may be cut off at a change of leader."""
    return send.acks == ALL


def _may_be_gone(facts: Facts, send: Send) -> bool:
    """Return whether it was to be deleted, or may have given way to a later record of its key."""
    if send.place in facts.trimmed and send.offset < facts.trimmed[send.place]:
        return True
    if send.key is None:
        return False
    if send.transaction is not None and not _is_committed(facts.transactions[send.transaction]):
        return True
    return send.offset < facts.latest.get((send.place, send.key), -1)


def _is_sent_anew(facts: Facts, value: str) -> bool:
    send = facts.sent.get(value)
    return send is not None and send.is_sent_anew


def _transaction_of(facts: Facts, value: str) -> Transaction | None:
    send = facts.sent.get(value)
    return None if send is None or send.transaction is None else facts.transactions.get(send.transaction)


def _is_aborted(transaction: Transaction) -> bool:
    """Return whether it can only have been aborted: nobody asked for its commit, or that was refused for good."""
    return transaction.wanted != "commit" or transaction.outcome == "failed"


def _is_committed(transaction: Transaction) -> bool:
    return transaction.wanted == "commit" and transaction.outcome == "ok"
