"""The frames that fuzzers start from."""

from random import Random

import pytest

from highwater.protocol import codec, messages
from highwater.testing.frames import every_request, framed, mutated, random_message, random_request


@pytest.mark.parametrize(("api_key", "version"), list(every_request()))
def test_a_random_request_is_a_sound_one(api_key: int, version: int) -> None:
    request = random_request(api_key, version, Random(version))
    header, start = codec.read_request_header(memoryview(request))
    assert (header.api_key, header.api_version) == (api_key, version)
    cls = messages.request_class(api_key)
    message = codec.decode(cls, version, request[start:])
    assert codec.encode(message, version) == request[start:]


def test_a_seed_brings_a_frame_back() -> None:
    assert random_request(1, 12, Random(7)) == random_request(1, 12, Random(7))
    assert random_request(1, 12, Random(7)) != random_request(1, 12, Random(8))
    assert mutated(bytes(50), Random(7)) == mutated(bytes(50), Random(7))


def test_fields_that_a_version_lacks_keep_their_defaults() -> None:
    cls = messages.request_class(1)
    message = random_message(cls, 4, Random(3))
    lacking = [field for field in cls.FIELDS if 4 not in field.versions]
    assert lacking
    assert all(getattr(message, field.name) == field.fresh_default() for field in lacking)


def test_damage_leaves_the_beginning_alone_when_told_to() -> None:
    random = Random(5)
    for _ in range(200):
        assert mutated(b"head" + bytes(20), random, start=4).startswith(b"head")


def test_what_has_no_bytes_to_damage_stays_as_it_is() -> None:
    assert mutated(b"head", Random(1), start=4) == b"head"


def test_a_frame_begins_with_its_size() -> None:
    assert framed(b"abc") == b"\0\0\0\x03abc"
