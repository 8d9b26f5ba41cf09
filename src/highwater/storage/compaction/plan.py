"""Whether a log is worth compacting, how far, and in which portions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from highwater.storage.log_config import LogConfig
from highwater.storage.producer_state import ProducerStates
from highwater.storage.segment import MAX_RELATIVE_OFFSET, Segment, SegmentSizes
from highwater.storage.txn_index import AbortedTransaction


class SealedSegment(NamedTuple):
    """A segment that nothing is appended to, as a worker process needs to know it."""

    base_offset: int
    end_offset: int
    sizes: SegmentSizes

    @property
    def index_bytes(self) -> int:
        """The size of the larger one of its two indexes."""
        return max(self.sizes.offset_index, self.sizes.time_index)


class CompactedGroup(NamedTuple):
    """A new segment that takes the place of one or more old ones."""

    base_offset: int
    replaced: tuple[SealedSegment, ...]
    sizes: SegmentSizes


class LastOfProducer(NamedTuple):
    """What a compacted log must keep of a producer that is still known: its newest batch, or else its epoch."""

    epoch: int
    last_offset: int
    """-1 for one of which only markers are known."""


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """One round of compaction of one log, to be carried out by `Compaction`, perhaps in another process."""

    folder: Path
    config: LogConfig
    segments: tuple[SealedSegment, ...]
    """All that may be compacted; those before the dirty ones lose what the dirty ones replace."""
    first_dirty_offset: int
    """What is below has been compacted before."""
    oldest_dirty_timestamp: int
    producers: dict[int, LastOfProducer]
    aborted_later: tuple[AbortedTransaction, ...]
    """Aborted transactions with records in these segments and their marker in a later one."""
    now_ms: int
    memory_bytes: int

    @property
    def dirty_segments(self) -> list[SealedSegment]:
        """The segments that have come in since the last round."""
        return [segment for segment in self.segments if segment.end_offset > self.first_dirty_offset]

    @property
    def dirty_ratio(self) -> float:
        """Which part of what may be compacted has come in since the last round."""
        dirty_bytes = sum(segment.sizes.log for segment in self.dirty_segments)
        return dirty_bytes / max(1, sum(segment.sizes.log for segment in self.segments))

    @property
    def is_due(self) -> bool:
        """Whether it is time: enough has come in, or something has waited for `max.compaction.lag.ms`."""
        if not self.dirty_segments:
            return False
        waited_ms = self.now_ms - self.oldest_dirty_timestamp if self.oldest_dirty_timestamp >= 0 else 0
        return (
            self.dirty_ratio >= self.config.min_cleanable_dirty_ratio or waited_ms > self.config.max_compaction_lag_ms
        )


def plan_compaction(
    folder: Path,
    config: LogConfig,
    segments: Sequence[Segment],
    producers: ProducerStates,
    *,
    first_dirty_offset: int,
    last_stable_offset: int,
    now_ms: int,
    memory_bytes: int,
) -> CompactionPlan:
    """Return what a round would work on now; perhaps nothing."""
    end = first_uncleanable_offset(segments, config, last_stable_offset=last_stable_offset, now_ms=now_ms)
    sealed = [(segment, following.base_offset) for segment, following in pairwise(segments)]
    cleanable = [(segment, end_offset) for segment, end_offset in sealed if end_offset <= end]
    dirty = (segment for segment, end_offset in cleanable if end_offset > first_dirty_offset and segment.size)
    oldest = next(dirty, None)
    return CompactionPlan(
        folder=folder,
        config=config,
        segments=tuple(
            SealedSegment(segment.base_offset, end_offset, segment.sizes) for segment, end_offset in cleanable
        ),
        first_dirty_offset=first_dirty_offset,
        oldest_dirty_timestamp=oldest.first_timestamp() if oldest is not None else -1,
        aborted_later=tuple(
            aborted
            for segment in segments
            if segment.base_offset >= end
            for aborted in segment.txn_index
            if aborted.first_offset < end
        ),
        producers={state.producer_id: LastOfProducer(state.epoch, state.last_offset) for state in producers},
        now_ms=now_ms,
        memory_bytes=memory_bytes,
    )


def first_uncleanable_offset(
    segments: Sequence[Segment], config: LogConfig, *, last_stable_offset: int, now_ms: int
) -> int:
    """Return the offset from which on nothing may be compacted yet: where a segment begins.

    The active segment may not, nor transactions that are open, nor records younger than `min.compaction.lag.ms`.
    """
    youngest_ms = now_ms - config.min_compaction_lag_ms
    for segment, following in pairwise(segments):
        is_too_young = config.min_compaction_lag_ms > 0 and segment.largest_timestamp().timestamp > youngest_ms
        if is_too_young or following.base_offset > last_stable_offset:
            return segment.base_offset
    return segments[-1].base_offset


def grouped(segments: Sequence[SealedSegment], config: LogConfig) -> Iterator[tuple[SealedSegment, ...]]:
    """Yield runs of segments that together fit into one, so that compaction does not leave many small files."""
    group: list[SealedSegment] = []
    for segment in segments:
        if group and (
            sum(member.sizes.log for member in group) + segment.sizes.log > config.segment_bytes
            or sum(member.index_bytes for member in group) + segment.index_bytes > config.segment_index_bytes
            or segment.end_offset - 1 - group[0].base_offset > MAX_RELATIVE_OFFSET
        ):
            yield tuple(group)
            group = []
        group.append(segment)
    if group:
        yield tuple(group)
