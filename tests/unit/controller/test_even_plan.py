"""A plan makes a cluster even, keeps what must be kept, and moves little."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from highwater.controller.even_plan import even_plan
from highwater.model.ids import BrokerId, TopicPartition

NO_RACKS: dict[BrokerId, str | None] = {}


def brokers(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


def name(index: int, topic: str = "a") -> TopicPartition:
    return TopicPartition(topic, index)


def test_an_even_cluster_stays_as_it_is() -> None:
    placed = {name(0): brokers(1, 2), name(1): brokers(2, 3), name(2): brokers(3, 1)}
    assert even_plan(placed, brokers(1, 2, 3), NO_RACKS) == {}


def test_a_new_broker_gets_its_share_and_no_more_is_moved() -> None:
    placed = {name(index): brokers(1 + index % 2) for index in range(6)}
    plan = even_plan(placed, brokers(1, 2, 3), NO_RACKS)
    assert len(plan) == 2
    assert set(plan.values()) == {brokers(3)}


def test_leaders_are_made_even_without_moving_data() -> None:
    placed = {name(index): brokers(1, 2, 3) for index in range(3)}
    plan = even_plan(placed, brokers(1, 2, 3), NO_RACKS)
    assert len(plan) == 2
    assert {replicas[0] for replicas in plan.values()} == {2, 3}
    assert all(set(replicas) == {1, 2, 3} for replicas in plan.values())


def test_leadership_is_handed_on_over_a_broker_in_between() -> None:
    """1 leads too much and shares nothing with 3: it gives to 2, and 2 to 3."""
    placed = {name(0): brokers(1, 2), name(1): brokers(1, 2), name(2): brokers(2, 3), name(3): brokers(3, 2)}
    placed |= {name(4): brokers(1, 2)}
    plan = even_plan(placed, brokers(1, 2, 3), NO_RACKS)
    led = Counter((placed | plan)[each][0] for each in placed)
    assert sorted(led.values()) == [1, 2, 2]


def test_a_broker_that_is_left_out_is_emptied() -> None:
    placed = {name(index): brokers(1, 2) for index in range(4)}
    plan = even_plan(placed, brokers(1, 3), NO_RACKS)
    assert {frozenset(replicas) for replicas in plan.values()} == {frozenset({1, 3})}
    assert len(plan) == 4


@given(
    placed=st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True), max_size=40),
    alive=st.lists(st.integers(1, 7), min_size=3, max_size=7, unique=True),
    with_racks=st.booleans(),
)
def test_whatever_it_starts_from_the_end_is_even(placed: list[list[int]], alive: list[int], with_racks: bool) -> None:  # noqa: FBT001
    before = {name(index, f"t{index % 3}"): brokers(*replicas) for index, replicas in enumerate(placed)}
    racks = {BrokerId(number): f"rack-{number % 2}" for number in range(1, 8)} if with_racks else NO_RACKS
    after = before | even_plan(before, brokers(*alive), racks)
    for each, replicas in after.items():
        assert len(set(replicas)) == len(before[each])
        assert set(replicas) <= set(alive)
        if set(before[each]) <= set(alive):
            assert len({racks.get(b) for b in replicas}) >= len({racks.get(b) for b in before[each]})
    held = Counter(broker for replicas in after.values() for broker in replicas)
    led = Counter(replicas[0] for replicas in after.values())
    if not with_racks:
        assert max(held[BrokerId(b)] for b in alive) - min(held[BrokerId(b)] for b in alive) <= 1
        if after and min(map(len, after.values())) >= len(alive):
            assert max(led[BrokerId(b)] for b in alive) - min(led[BrokerId(b)] for b in alive) <= 1
    assert even_plan(after, brokers(*alive), racks) == {}, "a second look finds nothing more to do"
