"""AlterUserScramCredentials (key 51): set and remove SCRAM credentials."""

from highwater.protocol.schema import Message, Struct, array, blob, int8, int16, int32, string


class ScramCredentialDeletion(Struct):
    """A credential to remove."""

    name: str = string()
    mechanism: int = int8()  # 1: SCRAM-SHA-256, 2: SCRAM-SHA-512


class ScramCredentialUpsertion(Struct):
    """A credential to set."""

    name: str = string()
    mechanism: int = int8()  # 1: SCRAM-SHA-256, 2: SCRAM-SHA-512
    iterations: int = int32()
    salt: bytes = blob()
    salted_password: bytes = blob()


class AlterUserScramCredentialsRequest(Message, key=51, versions="0", flexible="0+"):
    """The credentials to set and to remove."""

    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


class AlterUserScramCredentialsResult(Struct):
    """What became of one user's credentials."""

    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class AlterUserScramCredentialsResponse(Message, key=51, response=True, versions="0", flexible="0+"):
    """What became of each user's credentials."""

    throttle_time_ms: int = int32()
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)
