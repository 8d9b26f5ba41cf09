"""DeleteTopics (key 20): remove topics and their data."""

from highwater.protocol.schema import Message, Struct, array, int16, int32, string, uuid


class DeleteTopicState(Struct):
    """A topic to delete, by name or by id."""

    name: str | None = string(nullable="0+", default=None)
    topic_id: bytes = uuid()


class DeleteTopicsRequest(Message, key=20, versions="1-6", flexible="4+"):
    """The topics to delete."""

    topics: list[DeleteTopicState] = array(DeleteTopicState, versions="6+")
    topic_names: list[str] = array(string, versions="0-5")
    timeout_ms: int = int32()


class DeletableTopicResult(Struct):
    """What became of one topic."""

    name: str | None = string(nullable="6+")
    topic_id: bytes = uuid(versions="6+")
    error_code: int = int16()
    error_message: str | None = string(versions="5+", nullable="0+", default=None)


class DeleteTopicsResponse(Message, key=20, response=True, versions="1-6", flexible="4+"):
    """What became of each topic."""

    throttle_time_ms: int = int32()
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
