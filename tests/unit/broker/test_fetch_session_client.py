"""A follower's side of a fetch session says everything once, and afterwards only what changes."""

from highwater.broker.fetch_session_client import FetchSessionClient, PartitionKey, Wanted
from highwater.model.ids import TopicId
from highwater.protocol.messages.fetch import FetchRequest

TOPIC, OTHER = TopicId(b"a" * 16), TopicId(b"b" * 16)


def wanted(offset: int) -> Wanted:
    return Wanted(offset, leader_epoch=1, last_epoch=0, log_start_offset=0, max_bytes=1000)


def key(name: str) -> PartitionKey:
    return {"a": TOPIC, "b": OTHER}[name[0]], int(name[1:])


def asked(session: FetchSessionClient, *unwanted: str, **offsets: int) -> tuple[dict[tuple[bytes, int], int], int, int]:
    """Ask for partitions named a0, b1, ...; return what the request says, its epoch and how many it forgets."""
    request = FetchRequest()
    session.add_to(request, {key(name): wanted(offset) for name, offset in offsets.items()}, map(key, unwanted))
    said = {
        (topic.topic_id, partition.partition): partition.fetch_offset
        for topic in request.topics
        for partition in topic.partitions
    }
    return said, request.session_epoch, sum(len(topic.partitions) for topic in request.forgotten_topics_data)


def test_only_what_changed_is_said_again() -> None:
    session = FetchSessionClient()
    assert asked(session, a0=5, a1=7, b0=9) == ({(TOPIC, 0): 5, (TOPIC, 1): 7, (OTHER, 0): 9}, 0, 0)
    session.answered(42)
    assert asked(session, a0=5, a1=8) == ({(TOPIC, 1): 8}, 1, 0)
    session.answered(42)
    assert asked(session, "a1", "b7") == ({}, 2, 1), "what is not wanted any more is forgotten, if it was asked for"
    assert (len(session), session.asked(key("a0"), 3), session.asked(key("a1"), 3)) == (2, wanted(5), None)


def test_without_room_for_a_session_everything_is_said_every_time() -> None:
    session = FetchSessionClient()
    for _ in range(2):
        assert asked(session, a0=5) == ({(TOPIC, 0): 5}, 0, 0)
        session.answered(0)
        assert session.is_denied


def test_a_request_may_follow_another_that_is_not_answered_yet() -> None:
    session = FetchSessionClient()
    asked(session, a0=5)
    session.answered(42)
    assert asked(session, a1=7) == ({(TOPIC, 1): 7}, 1, 0)
    assert asked(session, b0=9) == ({(OTHER, 0): 9}, 2, 0)
    assert (session.asked(key("a1"), 2), session.asked(key("b0"), 2)) == (wanted(7), None), "the second did not ask b0"
    assert asked(session, a1=8) == ({(TOPIC, 1): 8}, 3, 0)
    assert (session.asked(key("a1"), 2), session.asked(key("a1"), 4)) == (None, wanted(8)), "it was asked anew since"


def test_after_an_error_it_starts_over() -> None:
    session = FetchSessionClient()
    asked(session, a0=5)
    session.answered(42)
    session.start_over()
    assert not session.has_begun
    assert asked(session, a0=5) == ({(TOPIC, 0): 5}, 0, 0)
