"""The records of the internal topics, for people and programs: `[group,topic,partition]::OffsetAndMetadata(...)`."""

from collections.abc import Iterator, Mapping
from struct import Struct as ByteLayout
from typing import Any, Final, NamedTuple

from highwater.cli.record_text import as_json_value
from highwater.model.errors import KafkaError, MalformedFrame
from highwater.protocol import codec
from highwater.protocol.messages import consumer_group_records as consumer
from highwater.protocol.messages.group_metadata_records import GroupMetadataKey, GroupMetadataValue
from highwater.protocol.messages.offset_records import OffsetCommitKey, OffsetCommitValue
from highwater.protocol.messages.transaction_records import TransactionLogKey, TransactionLogValue
from highwater.protocol.schema import Message, Struct

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"


class Kind(NamedTuple):
    """One kind of internal record: what it is about, and what it says."""

    name: str
    key: type[Message]
    value: type[Message]


_OFFSET: Final = Kind("OffsetAndMetadata", OffsetCommitKey, OffsetCommitValue)

GROUP_RECORDS: Final[Mapping[int, Kind]] = {
    0: _OFFSET,  # as written before Kafka 0.9; the key is the same
    1: _OFFSET,
    2: Kind("GroupMetadata", GroupMetadataKey, GroupMetadataValue),
    3: Kind("ConsumerGroupMetadata", consumer.ConsumerGroupMetadataKey, consumer.ConsumerGroupMetadataValue),
    4: Kind(
        "ConsumerGroupPartitionMetadata",
        consumer.ConsumerGroupPartitionMetadataKey,
        consumer.ConsumerGroupPartitionMetadataValue,
    ),
    5: Kind(
        "ConsumerGroupMemberMetadata",
        consumer.ConsumerGroupMemberMetadataKey,
        consumer.ConsumerGroupMemberMetadataValue,
    ),
    6: Kind(
        "ConsumerGroupTargetAssignmentMetadata",
        consumer.ConsumerGroupTargetAssignmentMetadataKey,
        consumer.ConsumerGroupTargetAssignmentMetadataValue,
    ),
    7: Kind(
        "ConsumerGroupTargetAssignmentMember",
        consumer.ConsumerGroupTargetAssignmentMemberKey,
        consumer.ConsumerGroupTargetAssignmentMemberValue,
    ),
    8: Kind(
        "ConsumerGroupCurrentMemberAssignment",
        consumer.ConsumerGroupCurrentMemberAssignmentKey,
        consumer.ConsumerGroupCurrentMemberAssignmentValue,
    ),
    16: Kind(
        "ConsumerGroupRegularExpression",
        consumer.ConsumerGroupRegularExpressionKey,
        consumer.ConsumerGroupRegularExpressionValue,
    ),
}
TRANSACTION_RECORDS: Final[Mapping[int, Kind]] = {
    0: Kind("TransactionMetadata", TransactionLogKey, TransactionLogValue),
}

_NUMBER: Final = ByteLayout(">h")


class InternalRecord(NamedTuple):
    """A decoded record; without a value it is a tombstone."""

    kind: str
    key: Message
    value: Message | None
    version: int = 0
    """Of the value; fields that the version does not have are not shown."""

    def as_text(self) -> str:
        """Return the record as one line."""
        about = ",".join(str(part) for _, part in _fields(self.key, 0))
        if self.value is None:
            return f"[{about}]::null"
        says = ", ".join(f"{name}={part!r}" for name, part in _fields(self.value, self.version))
        return f"[{about}]::{self.kind}({says})"

    def as_document(self) -> dict[str, Any]:
        """Return the record as JSON."""
        return {"kind": self.kind, "key": _plain(self.key, 0), "value": _plain(self.value, self.version)}


def decode(kinds: Mapping[int, Kind], key: bytes | None, value: bytes | None) -> InternalRecord | None:
    """Return the record, or None for what is none of `kinds`, or not what it claims to be."""
    try:
        kind = kinds.get(_leading_number(key))
        if kind is None or key is None:
            return None
        about = codec.decode(kind.key, 0, key[_NUMBER.size :])
        if value is None:
            return InternalRecord(kind.name, about, None)
        version = _leading_number(value)
        return InternalRecord(kind.name, about, codec.decode(kind.value, version, value[_NUMBER.size :]), version)
    except KafkaError:
        return None


def _leading_number(data: bytes | None) -> int:
    """Return the number that a key or a value opens with: the kind of record, the version."""
    if data is None or len(data) < _NUMBER.size:
        raise MalformedFrame("a record of an internal topic is cut short")
    number: int = _NUMBER.unpack_from(data)[0]
    return number


def _fields(struct: Struct, version: int) -> Iterator[tuple[str, Any]]:
    return ((field.name, getattr(struct, field.name)) for field in struct.FIELDS if version in field.versions)


def _plain(value: Any, version: int) -> Any:
    """Return a message, or a field of one, as JSON."""
    match value:
        case Struct():
            return {name: _plain(part, version) for name, part in _fields(value, version)}
        case list():
            return [_plain(element, version) for element in value]
        case bytes():
            return as_json_value(value)
        case _:
            return value
