"""Control batches: the one record by which a transaction is ended in each of its partitions (KIP-98).

Source of the layout: `ControlRecordTypeSchema.json` and `EndTxnMarker.json` of Apache Kafka 4.1.
"""

from enum import IntEnum
from struct import Struct, error
from typing import Final, NamedTuple

from highwater.protocol.records.errors import InvalidRecord
from highwater.protocol.records.record import Record, build_batch

_KEY: Final = Struct(">hh")
_VALUE: Final = Struct(">hi")
_VERSION: Final = 0


class MarkerType(IntEnum):
    """How a transaction ended."""

    ABORT = 0
    COMMIT = 1


class Marker(NamedTuple):
    """The end of a transaction, and the epoch of the coordinator that decided it."""

    type: MarkerType
    coordinator_epoch: int


def read_marker(record: Record) -> Marker | None:
    """Return the marker that a control batch's record holds; None for a type of control record that is not one.

    Later versions may add fields after those we know, and never change these.
    """
    try:
        _, marker_type = _KEY.unpack_from(record.key or b"")
        if marker_type not in MarkerType.__members__.values():
            return None
        _, coordinator_epoch = _VALUE.unpack_from(record.value or b"")
    except error:
        raise InvalidRecord(f"the control record at offset {record.offset} is cut short") from None
    return Marker(MarkerType(marker_type), coordinator_epoch)


def build_marker(marker: Marker, *, producer_id: int, producer_epoch: int, timestamp_ms: int) -> bytearray:
    """Return the control batch that ends a transaction of this producer."""
    key = _KEY.pack(_VERSION, marker.type)
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    return build_batch(
        [Record(0, timestamp_ms, key, value)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )
