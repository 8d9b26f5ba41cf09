"""The token: a note beside the records of a micro-batch, in the same transaction, that says which one they are.

It is an offset of a group: the group `<sink id>.token`, one entry for each output topic, at its partition 0. The
entry's metadata is the note; its offset counts the sink's transactions, so that of several entries the newest can be
told.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from highwater_spark.errors import ExactlyOnceRefused

Entries = Mapping[str, tuple[int, str]]  # topic -> (offset, metadata)


@dataclass(frozen=True, slots=True)
class Token:
    """Which micro-batch was committed last, of which query, into how many partitions of each topic."""

    number: int  # of the sink's transactions
    query: str
    batch: int
    partitions: Mapping[str, int]

    def entries(self) -> dict[str, tuple[int, str]]:
        """Return the token as it is committed."""
        return {
            topic: (self.number, json.dumps({"q": self.query, "b": self.batch, "n": count}, separators=(",", ":")))
            for topic, count in self.partitions.items()
        }


def token_of(entries: Entries) -> Token | None:
    """Return the newest token among what was committed, or none; a note that is not ours is an error."""
    newest: tuple[int, str, int] | None = None
    partitions: dict[str, int] = {}
    for topic, (number, metadata) in entries.items():
        if number < 0:
            continue  # nothing is committed for this topic
        try:
            note = json.loads(metadata)
            query, batch, partitions[topic] = str(note["q"]), int(note["b"]), int(note["n"])
        except (ValueError, TypeError, KeyError) as error:
            raise ExactlyOnceRefused(
                f"the token of topic {topic!r} is {metadata!r}, which this sink did not write"
            ) from error
        if newest is None or number > newest[0]:
            newest = (number, query, batch)
    return None if newest is None else Token(*newest, partitions)


class Verdict(Enum):
    """What a token says about a micro-batch."""

    NEW = auto()
    DONE = auto()


def verdict(
    token: Token | None, *, query: str, batch: int, partitions: Mapping[str, int], is_untried: bool, take_over: bool
) -> Verdict:
    """Return whether a micro-batch is already committed; raises `ExactlyOnceRefused` if that cannot be known.

    `is_untried` says that this micro-batch was never begun before, which makes a missing token harmless.
    """
    if token is not None and (token.query, token.batch) == (query, batch):
        return Verdict.DONE
    if take_over:
        return Verdict.NEW
    anew = "take_over=True (--full-refresh of a pipeline) begins anew"
    if token is None:
        if batch > 0 and not is_untried:
            raise ExactlyOnceRefused(
                f"nothing says whether micro-batch {batch} is already in the topics: the sink's token is gone "
                f"(offsets.retention.minutes), or another sink wrote so far; {anew}"
            )
        return Verdict.NEW
    if token.query != query:
        raise ExactlyOnceRefused(
            f"the sink's last micro-batch, {token.batch}, was of another query ({token.query}, this is {query}): "
            f"another job has the same sink id, or the checkpoint was lost; {anew}"
        )
    if token.batch > batch:
        raise ExactlyOnceRefused(
            f"the checkpoint is at micro-batch {batch}, and {token.batch} is already in the topics: the checkpoint was "
            f"rolled back, and what follows would be there twice; {anew}"
        )
    for topic, before in token.partitions.items():
        if partitions.get(topic, before) != before:
            raise ExactlyOnceRefused(
                f"topic {topic!r} has {partitions[topic]} partitions and had {before} when this sink last wrote to it, "
                f"so keys would move to other partitions; {anew}"
            )
    return Verdict.NEW
