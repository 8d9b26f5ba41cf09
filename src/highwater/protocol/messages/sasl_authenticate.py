"""SaslAuthenticate (key 36): one step of the exchange that the mechanism prescribes."""

from highwater.protocol.schema import Message, blob, int16, int64, string


class SaslAuthenticateRequest(Message, key=36, versions="0-2", flexible="2+"):
    """The client's side of one step."""

    auth_bytes: bytes = blob()


class SaslAuthenticateResponse(Message, key=36, response=True, versions="0-2", flexible="2+"):
    """The broker's side of one step."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    auth_bytes: bytes = blob()
    session_lifetime_ms: int = int64(versions="1+")
