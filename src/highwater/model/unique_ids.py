"""Random ids for topics and clusters."""

from collections.abc import Callable
from typing import Final

from highwater.model.ids import TopicId, topic_id_text

_RESERVED_BELOW: Final = 2**32
"""The smallest ids have meanings of their own (0 is "no topic"); Apache Kafka reserves the first hundred."""


def new_id(random_bytes: Callable[[int], bytes]) -> TopicId:
    """Return a random id whose text does not begin with a dash, which command lines would take for an option."""
    while True:
        candidate = TopicId(random_bytes(16))
        if int.from_bytes(candidate, "big") >= _RESERVED_BELOW and not topic_id_text(candidate).startswith("-"):
            return candidate
