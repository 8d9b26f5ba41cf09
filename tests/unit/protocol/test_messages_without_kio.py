"""Messages that `kio` does not have, against bytes that Apache Kafka's own classes wrote.

The fixture holds one example of each version: the messages between brokers from kafka-clients 3.9.1, the records of
internal topics and of the consumer protocol from 4.1.0.
"""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from highwater.protocol import codec
from highwater.protocol.schema import Array, Blob, Fixed, Kind, Message, Nested, Struct

EXAMPLES = json.loads((Path(__file__).parent / "fixtures" / "written_by_kafka.json").read_text(encoding="utf-8"))


def built(cls: type[Struct], fields: dict[str, Any]) -> Any:
    kinds = {field.name: field.kind for field in cls.FIELDS}
    return cls(**{name: built_value(kinds[name], value) for name, value in fields.items()})


def built_value(kind: Kind, value: Any) -> Any:
    """Return what JSON could not say: structs, and bytes that were written as hex digits."""
    match kind:
        case _ if value is None:
            return None
        case Nested(struct=cls):
            return built(cls, value)
        case Array(element=element):
            return [built_value(element, item) for item in value]
        case Blob() | Fixed(code="16s"):
            return bytes.fromhex(value)
    return value


def class_of(example: dict[str, Any]) -> type[Message]:
    module = import_module(f"highwater.protocol.messages.{example['module']}")
    cls: type[Message] = getattr(module, example["message"])
    return cls


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example['message']}-v{example['version']}")
def test_kafka_and_we_agree(example: dict[str, Any]) -> None:
    cls, version = class_of(example), example["version"]
    message = built(cls, example["fields"])
    encoded = bytes.fromhex(example["hex"])
    assert codec.encode(message, version) == encoded
    assert codec.decode(cls, version, encoded) == message


def test_every_version_has_an_example() -> None:
    seen: dict[type[Message], set[int]] = {}
    for example in EXAMPLES:
        seen.setdefault(class_of(example), set()).add(example["version"])
    assert {cls: set(cls.VERSIONS) for cls in seen} == seen
