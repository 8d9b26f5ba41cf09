"""What real clients send and Apache Kafka 4.1 answers, recorded between them: we read all of it, and write it back.

Each client went through producing, transactions, the group protocols that it speaks, and much of its admin API:
librdkafka 2.16.0, aiokafka 0.14.0, kafka-python 3.0.12, and the Java clients 4.1.0 and 3.9.1.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from highwater.protocol import codec, messages

FRAMES = [
    json.loads(line)
    for line in (Path(__file__).parent / "fixtures" / "captured.jsonl").read_text(encoding="ascii").splitlines()
]
SURPLUS_BYTES = {("librdkafka", 3): 3, ("librdkafka", 51): 1}
"""librdkafka adds zeros to two of its requests. Apache Kafka does not mind, and so a broker must not either."""


def name_of(frame: dict[str, Any]) -> str:
    return f"{messages.API_NAMES[frame['api_key']]}-v{frame['version']}-{frame['client']}"


@pytest.mark.parametrize("frame", FRAMES, ids=name_of)
def test_a_request_from_a_real_client(frame: dict[str, Any]) -> None:
    api_key, version = frame["api_key"], frame["version"]
    request = bytes.fromhex(frame["request"])
    header, start = codec.read_request_header(memoryview(request))
    assert (header.api_key, header.api_version) == (api_key, version)
    message, end = codec.decoder(messages.request_class(api_key), version)(memoryview(request), start)
    assert codec.request_header(header) + codec.encode(message, version) == request[:end]
    assert len(request) - end == SURPLUS_BYTES.get((frame["client"], api_key), 0)


@pytest.mark.parametrize("frame", FRAMES, ids=name_of)
def test_a_response_from_apache_kafka(frame: dict[str, Any]) -> None:
    api_key, version = frame["api_key"], frame["version"]
    response = bytes.fromhex(frame["response"])
    correlation_id, start = codec.read_response_header(memoryview(response), api_key, version)
    message = codec.decode(messages.response_class(api_key), version, response[start:])
    assert codec.response_header(api_key, version, correlation_id) + codec.encode(message, version) == response
