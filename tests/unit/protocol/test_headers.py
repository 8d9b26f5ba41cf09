"""Request and response headers."""

import pytest

from highwater.model.errors import MalformedFrame
from highwater.protocol import codec
from highwater.protocol.codec import RequestHeader


@pytest.mark.parametrize(
    ("header", "encoded"),
    [
        (RequestHeader(3, 4, 7, "me"), b"\0\x03\0\x04\0\0\0\x07\0\x02me"),
        (RequestHeader(3, 4, 7, None), b"\0\x03\0\x04\0\0\0\x07\xff\xff"),
        (RequestHeader(3, 9, 7, "me"), b"\0\x03\0\x09\0\0\0\x07\0\x02me\0"),
        (RequestHeader(18, 3, 7, ""), b"\0\x12\0\x03\0\0\0\x07\0\0\0"),
        (RequestHeader(7, 0, 7, None), b"\0\x07\0\0\0\0\0\x07"),
    ],
    ids=["v1", "v1 without client id", "v2", "v2 of ApiVersions", "v0"],
)
def test_request_headers(header: RequestHeader, encoded: bytes) -> None:
    assert codec.request_header(header) == encoded
    assert codec.read_request_header(memoryview(b"xx" + encoded + b"rest"), 2) == (header, 2 + len(encoded))


def test_tagged_fields_of_a_request_header_are_stepped_over() -> None:
    encoded = b"\0\x03\0\x09\0\0\0\x07\0\x02me" + b"\x01\x00\x03abc"
    header, end = codec.read_request_header(memoryview(encoded), 0)
    assert header == RequestHeader(3, 9, 7, "me")
    assert end == len(encoded)


def test_the_header_of_an_unknown_api_can_be_read() -> None:
    encoded = b"\x7f\xff\0\x09\0\0\0\x07\0\x02me"
    assert codec.read_request_header(memoryview(encoded)) == (RequestHeader(32767, 9, 7, "me"), len(encoded))


@pytest.mark.parametrize("encoded", [b"\0\x03\0\x09\0\0\0\x07\0\x02me\0", b"\0\x03\0\x09\0\0\0\x07\x7f\xff\0"])
def test_a_cut_or_lying_request_header_is_refused(encoded: bytes) -> None:
    for length in range(len(encoded)):
        with pytest.raises(MalformedFrame, match="request header"):
            codec.read_request_header(memoryview(encoded)[:length])


def test_response_headers_have_tagged_fields_in_flexible_versions() -> None:
    assert codec.response_header(3, 8, 7) == b"\0\0\0\x07"
    assert codec.response_header(3, 9, 7) == b"\0\0\0\x07\0"


def test_the_response_header_of_api_versions_never_has_tagged_fields() -> None:
    assert codec.response_header(18, 3, 7) == b"\0\0\0\x07"
    assert codec.response_header(18, 99, 7) == b"\0\0\0\x07"


@pytest.mark.parametrize("version", [8, 9])
def test_a_response_header_can_be_read(version: int) -> None:
    encoded = codec.response_header(3, version, 7)
    assert codec.read_response_header(memoryview(encoded + b"rest"), 3, version) == (7, len(encoded))
    with pytest.raises(MalformedFrame, match="response header"):
        codec.read_response_header(memoryview(encoded)[:-1], 3, version)
