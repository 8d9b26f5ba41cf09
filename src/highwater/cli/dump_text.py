"""The documents of `highwater dump` as lines for people."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from highwater.cli.output import time_text

_CONTROL_CHARACTERS: Final = {code: f"\\x{code:02x}" for code in (*range(32), 127)} | {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
}


def line_of(document: dict[str, Any]) -> str:
    """Return a document as one line."""
    return _LINE_BY_TYPE.get(document["type"], _fields)(document)


def moment(timestamp_ms: int) -> str:
    """Return a timestamp as ISO 8601, or as it is where the calendar ends."""
    try:
        return time_text(timestamp_ms) if timestamp_ms >= 0 else "no time"
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)


def _batch(batch: dict[str, Any]) -> str:
    parts = [
        f"{batch['position']:>10}",
        f"offsets {batch['base_offset']}-{batch['last_offset']}",
        f"{batch['records']} {'record' if batch['records'] == 1 else 'records'}",
        f"{batch['size']} bytes",
        batch["codec"],
        f"{batch['timestamp_type']} {moment(batch['max_timestamp'])}",
        f"leader epoch {batch['leader_epoch']}",
    ]
    if batch["producer_id"] >= 0:
        parts.append(f"producer {batch['producer_id']} epoch {batch['producer_epoch']}")
    if batch["base_sequence"] >= 0:
        parts.append(f"sequence {batch['base_sequence']}-{batch['last_sequence']}")
    if batch["is_transactional"]:
        parts.append("transactional")
    if batch["is_control"]:
        parts.append("control")
    if batch["delete_horizon_ms"] is not None:
        parts.append(f"tombstones until {moment(batch['delete_horizon_ms'])}")
    parts.append(f"crc {batch['crc']:#010x}")
    if not batch["is_valid"]:
        parts.append("DAMAGED")
    return "  ".join(parts)


def _record(record: dict[str, Any]) -> str:
    place = f"{'':>10}    {record['offset']}  {moment(record['timestamp'])}"
    if "marker" in record:
        return f"{place}  {record['marker']} by coordinator epoch {record.get('coordinator_epoch', '?')}"
    if "text" in record:
        return f"{place}  {_escaped(record['text'])}"
    headers = "".join(f"  {_escaped(name)}={_shown(value)}" for name, value in record["headers"])
    return f"{place}  key {_shown(record['key'])}  value {_shown(record['value'])}{headers}"


def _producer(producer: dict[str, Any]) -> str:
    parts = [
        f"producer {producer['producer_id']}",
        f"epoch {producer['producer_epoch']}",
        f"last sequence {producer['last_sequence']}",
        f"last offset {producer['last_offset']}",
        f"last seen {moment(producer['last_timestamp'])}",
        f"batches remembered {len(producer['batches'])}",
    ]
    if producer["coordinator_epoch"] >= 0:
        parts.append(f"coordinator epoch {producer['coordinator_epoch']}")
    if producer["transaction_first_offset"] >= 0:
        parts.append(f"transaction open from offset {producer['transaction_first_offset']}")
    return "  ".join(parts)


def _shown(value: Any) -> str:
    """Return a key or a value, as JSON has it, for a line."""
    match value:
        case None:
            return "null"
        case {"base64": text}:
            return f"base64:{text}"
        case _:
            return _escaped(value)


def _escaped(text: str) -> str:
    """Keep a line a line, and a terminal unharmed."""
    return text.encode("utf-8", "backslashreplace").decode().translate(_CONTROL_CHARACTERS)


def _fields(document: dict[str, Any]) -> str:
    return "  ".join(f"{name.replace('_', ' ')} {value}" for name, value in document.items() if name != "type")


_LINE_BY_TYPE: Final[Mapping[str, Callable[[dict[str, Any]], str]]] = {
    "batch": _batch,
    "record": _record,
    "unreadable": lambda batch: f"{'':>10}    unreadable records: {batch['problem']}",
    "time_index": lambda entry: f"{moment(entry['timestamp'])} ({entry['timestamp']})  offset {entry['offset']}",
    "producer": _producer,
    "leader_epoch": lambda entry: f"epoch {entry['epoch']}  from offset {entry['start_offset']}",
    "offset": lambda entry: f"{entry['topic']}-{entry['partition']}  {entry['offset']}",
}
