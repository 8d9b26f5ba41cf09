"""Which partitions a fetch follows, from where, and which of them may have something new.

A partition tells its followers when its data grows; a session that follows a thousand idle partitions is told nothing,
so its poll looks at nothing. A fetch without a session uses the same objects for as long as it waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from highwater.model.ids import UNKNOWN_OFFSET, Offset

if TYPE_CHECKING:
    from highwater.broker.appends import Appends
    from highwater.broker.delayed_fetch import DelayedFetch
    from highwater.broker.partition import Partition

EntryKey = tuple[str | bytes, int]
"""A partition as the request names it: topic name (or id, from version 13 on) and index."""


class FetchEntry:
    """One partition of a fetch: where the reader is, and what it was last told."""

    __slots__ = (
        "fetch_offset",
        "interest",
        "key",
        "known_epoch",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic_name",
    )

    def __init__(self, interest: FetchInterest, key: EntryKey, topic_name: str | None) -> None:
        self.interest = interest
        self.key = key
        self.topic_name = topic_name
        self.partition: Partition | None = None
        self.fetch_offset = Offset(0)
        self.max_bytes = 0
        self.known_epoch = -1
        self.last_fetched_epoch = -1
        self.log_start_offset = -1
        """Where a follower's own log starts."""
        self.sent_high_watermark: Offset = UNKNOWN_OFFSET
        self.sent_log_start_offset: Offset = UNKNOWN_OFFSET

    def data_arrived(self, size_bytes: int) -> None:
        """The partition has grown: look at it in the next poll, or wake the one that waits."""
        self.interest.data_arrived(self, size_bytes)

    def follow(self, partition: Partition | None) -> None:
        """Be told of this partition's growth from now on."""
        if partition is self.partition:
            return
        self.unfollow()
        self.partition = partition
        if partition is not None:
            readers = partition.replica_readers if self.interest.is_replica else partition.followers_of_data
            readers[self] = None

    def unfollow(self) -> None:
        """Be told nothing more."""
        if self.partition is not None:
            self.partition.followers_of_data.pop(self, None)
            self.partition.replica_readers.pop(self, None)
            self.partition = None


class FetchInterest:
    """A set of followed partitions; `changed` holds those that a poll must look at, oldest first."""

    __slots__ = ("_appends", "changed", "entries", "is_replica", "waiting")

    outlives_fetch: ClassVar[bool] = False
    """Whether later fetches go on with it."""

    def __init__(self, appends: Appends) -> None:
        self._appends = appends
        self.entries: dict[EntryKey, FetchEntry] = {}
        self.changed: dict[FetchEntry, None] = {}
        self.waiting: DelayedFetch | None = None
        self.is_replica = False
        """Whether it reads what is not committed yet."""

    def entry(self, key: EntryKey, topic_name: str | None) -> FetchEntry:
        """Return the entry of this partition, made if it is new."""
        found = self.entries.get(key)
        if found is None:
            found = self.entries[key] = FetchEntry(self, key, topic_name)
        self.changed[found] = None
        return found

    def remove(self, key: EntryKey) -> None:
        """Follow this partition no longer."""
        entry = self.entries.pop(key, None)
        if entry is not None:
            self.changed.pop(entry, None)
            entry.unfollow()

    def data_arrived(self, entry: FetchEntry, size_bytes: int) -> None:
        """Note that `entry` has something new, and wake the waiting fetch if that may be enough for it."""
        self.changed[entry] = None
        waiting = self.waiting
        if waiting is not None and waiting.gathered(size_bytes):
            self._appends.to_wake.append(waiting)

    def close(self) -> None:
        """Let go of every partition."""
        for entry in self.entries.values():
            entry.unfollow()
        self.entries.clear()
        self.changed.clear()
