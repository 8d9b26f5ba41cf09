"""What clients did and saw, and what of it must never be. The names of anomalies are those of Jepsen's Kafka workload.

Values are unique: a value says which write it is. The history is told by whoever drives clients, real or simulated; it
needs no clock, because every rule is about offsets.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Partition = tuple[str, int]
"""Topic and number."""


class Anomaly(NamedTuple):
    """Something that must not happen."""

    name: str
    partition: Partition
    detail: str

    def __str__(self) -> str:
        return f"{self.name} in {self.partition[0]}-{self.partition[1]}: {self.detail}"


class _Sent(NamedTuple):
    writer: str
    number: int
    """The how-manyth of this writer in this partition."""


class History:
    """Gathers what happened; `anomalies` says what is wrong with it."""

    def __init__(self) -> None:
        self._sent: dict[Partition, dict[bytes, _Sent]] = defaultdict(dict)
        self._counts: dict[tuple[str, Partition], int] = defaultdict(int)
        self._acknowledged: dict[Partition, dict[bytes, int]] = defaultdict(dict)
        self._aborted: dict[Partition, set[bytes]] = defaultdict(set)
        self._polled: dict[tuple[str, Partition], list[tuple[int, bytes]]] = defaultdict(list)

    # What happens ---------------------------------------------------------------------------------------------------

    def sent(self, writer: str, partition: Partition, value: bytes) -> None:
        """Note that a writer hands over a value; what becomes of it is not known yet."""
        key = writer, partition
        self._sent[partition][value] = _Sent(writer, self._counts[key])
        self._counts[key] += 1

    def acknowledged(self, partition: Partition, value: bytes, offset: int) -> None:
        """Note that a value was promised to be kept, and where."""
        self._acknowledged[partition][value] = offset

    def aborted(self, partition: Partition, value: bytes) -> None:
        """Note that a value was certainly not written, or taken back with its transaction."""
        self._aborted[partition].add(value)

    def polled(self, reader: str, partition: Partition, offset: int, value: bytes) -> None:
        """Note what a reader got. One that starts anew somewhere else is another reader."""
        self._polled[reader, partition].append((offset, value))

    @property
    def acknowledged_count(self) -> int:
        """How many values were promised so far."""
        return sum(map(len, self._acknowledged.values()))

    # What must not have happened ------------------------------------------------------------------------------------

    def anomalies(
        self, logs: Mapping[Partition, Mapping[int, bytes]], *, allow_duplicates: bool = False
    ) -> list[Anomaly]:
        """Return everything that is wrong, given what each partition holds in the end, by offset."""
        found: list[Anomaly] = []
        for partition in sorted({*logs, *self._sent}):
            log = logs.get(partition, {})
            found += self._wrong_in_log(partition, log, allow_duplicates=allow_duplicates)
            found += self._wrong_acknowledgements(partition, log)
        for (reader, partition), polls in sorted(self._polled.items()):
            found += self._wrong_polls(reader, partition, polls, logs.get(partition, {}))
        return found

    def unseen(self, reader: str, logs: Mapping[Partition, Mapping[int, bytes]]) -> int:
        """Return how many values are in the logs that this reader has not had; it drains to nothing in the end."""
        return sum(
            len(log.keys() - {offset for offset, _ in self._polled[reader, partition]})
            for partition, log in logs.items()
        )

    def _wrong_in_log(
        self, partition: Partition, log: Mapping[int, bytes], *, allow_duplicates: bool
    ) -> Iterator[Anomaly]:
        first: dict[bytes, int] = {}
        for offset, value in sorted(log.items()):
            if value in first and not allow_duplicates:
                yield Anomaly("duplicate", partition, f"{value!r} at {first[value]} and at {offset}")
            first.setdefault(value, offset)
            if value not in self._sent[partition]:
                yield Anomaly("never-sent", partition, f"{value!r} at {offset}")
            if value in self._aborted[partition]:
                yield Anomaly("G1a", partition, f"{value!r} at {offset} was not to be written")

    def _wrong_acknowledgements(self, partition: Partition, log: Mapping[int, bytes]) -> Iterator[Anomaly]:
        in_order: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for value, offset in self._acknowledged[partition].items():
            there = log.get(offset)
            if there is None:
                yield Anomaly("lost-write", partition, f"{value!r} was acknowledged at {offset}, where nothing is")
            elif there != value:
                yield Anomaly(
                    "inconsistent-offsets", partition, f"{value!r} was acknowledged at {offset}, now {there!r}"
                )
            writer, number = self._sent[partition][value]
            in_order[writer].append((number, offset))
        for writer, pairs in in_order.items():
            pairs.sort()
            for (_, before), (number, after) in itertools.pairwise(pairs):
                if after <= before:
                    yield Anomaly("int-nonmonotonic-send", partition, f"write {number} of {writer} is at {after}")

    def _wrong_polls(
        self, reader: str, partition: Partition, polls: list[tuple[int, bytes]], log: Mapping[int, bytes]
    ) -> Iterator[Anomaly]:
        previous = -1
        for offset, value in polls:
            if offset <= previous:
                yield Anomaly("int-nonmonotonic-poll", partition, f"{reader} got {offset} after {previous}")
            elif previous >= 0 and (skipped := [at for at in range(previous + 1, offset) if at in log]):
                yield Anomaly("int-poll-skip", partition, f"{reader} got {offset} after {previous}, without {skipped}")
            if log.get(offset, value) != value:
                yield Anomaly(
                    "inconsistent-offsets", partition, f"{reader} got {value!r} at {offset}, now {log[offset]!r}"
                )
            elif offset not in log:
                yield Anomaly("unread", partition, f"{reader} got {value!r} at {offset}, where nothing is now")
            if value in self._aborted[partition]:
                yield Anomaly("G1a", partition, f"{reader} got {value!r}, which was taken back")
            previous = offset
