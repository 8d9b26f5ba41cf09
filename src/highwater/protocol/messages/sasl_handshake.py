"""SaslHandshake (key 17): agree on how the client will authenticate."""

from highwater.protocol.schema import Message, array, int16, string


class SaslHandshakeRequest(Message, key=17, versions="0-1"):
    """The mechanism that the client would like."""

    mechanism: str = string()


class SaslHandshakeResponse(Message, key=17, response=True, versions="0-1"):
    """The mechanisms that the broker offers."""

    error_code: int = int16()
    mechanisms: list[str] = array(string)
