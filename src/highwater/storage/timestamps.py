"""Offsets by timestamp: the first record that is not older, and the youngest record."""

from typing import NamedTuple

from highwater.protocol.records.batch import BatchHeader
from highwater.protocol.records.record import Record, read_records
from highwater.storage.segment import Segment
from highwater.storage.segments import Segments
from highwater.storage.time_index import NO_TIMESTAMP, TimestampOffset


class TimedOffset(NamedTuple):
    """A record that was looked for by its timestamp."""

    timestamp: int
    offset: int
    leader_epoch: int


def first_at_or_after(segments: Segments, timestamp: int, *, log_start_offset: int) -> TimedOffset | None:
    """Return the first record whose timestamp is at least `timestamp`."""
    for segment in segments.since(log_start_offset):
        if segment.largest_timestamp().timestamp < timestamp:
            continue
        found = segment.find(max(segment.not_older(timestamp).offset, log_start_offset))
        if found is None:
            continue
        for position, header in segment.headers(found[0]):
            if header.max_timestamp >= timestamp:
                for record in _records(segment, position, header):
                    if record.timestamp >= timestamp and record.offset >= log_start_offset:
                        return TimedOffset(record.timestamp, record.offset, header.leader_epoch)
    return None


def youngest(segments: Segments, *, log_start_offset: int) -> TimedOffset | None:
    """Return the first record that has the largest timestamp of all."""
    kept = segments.since(log_start_offset)
    largest = max(_largest(segment, log_start_offset).timestamp for segment in kept)
    found = first_at_or_after(segments, largest, log_start_offset=log_start_offset) if largest >= 0 else None
    if found is None and largest >= 0:
        # The youngest batch has lost its records to compaction: only those of the others count.
        headers = [header for segment in kept for _, header in segment.headers() if header.record_count]
        largest = max((header.max_timestamp for header in headers), default=NO_TIMESTAMP)
        found = first_at_or_after(segments, largest, log_start_offset=log_start_offset) if largest >= 0 else None
    return found


def _largest(segment: Segment, log_start_offset: int) -> TimestampOffset:
    """Return the largest timestamp of a segment among the records that are still part of the log."""
    largest = segment.largest_timestamp()
    if segment.base_offset >= log_start_offset:
        return largest
    largest = TimestampOffset(NO_TIMESTAMP, log_start_offset)
    found = segment.find(log_start_offset)
    if found is not None:
        for position, header in segment.headers(found[0]):
            if header.base_offset < log_start_offset:
                kept = [record for record in _records(segment, position, header) if record.offset >= log_start_offset]
                timestamp = max((record.timestamp for record in kept), default=NO_TIMESTAMP)
            else:
                timestamp = header.max_timestamp
            if timestamp > largest.timestamp:
                largest = TimestampOffset(timestamp, header.last_offset)
    return largest


def _records(segment: Segment, position: int, header: BatchHeader) -> list[Record]:
    return read_records(segment.file.read(position, header.size))
