"""Where replicas go."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from highwater.controller.placement import place, placement_order
from highwater.model.ids import BrokerId


def test_one_broker_holds_everything() -> None:
    placed = place([BrokerId(7)], first_partition=0, partition_count=3, replication_factor=1, start=0, shift=0)
    assert placed == [(7,)] * 3


def test_the_table_of_five_brokers_and_three_replicas() -> None:
    """Ten partitions from a start of 0: leaders go around, followers shift by one on the second round."""
    brokers = [BrokerId(number) for number in range(5)]
    placed = place(brokers, first_partition=0, partition_count=10, replication_factor=3, start=0, shift=0)
    assert placed == [
        (0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 0), (4, 0, 1),
        (0, 2, 3), (1, 3, 4), (2, 4, 0), (3, 0, 1), (4, 1, 2),
    ]  # fmt: skip


@given(
    count=st.integers(1, 12),
    partitions=st.integers(1, 100),
    start=st.integers(0, 11),
    shift=st.integers(0, 11),
    data=st.data(),
)
def test_replicas_are_on_different_brokers_and_leaders_are_even(
    count: int, partitions: int, start: int, shift: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, count))
    brokers = [BrokerId(10 * number) for number in range(count)]
    placed = place(
        brokers, first_partition=0, partition_count=partitions, replication_factor=factor, start=start, shift=shift
    )
    assert all(len(set(replicas)) == factor for replicas in placed)
    led = Counter(replicas[0] for replicas in placed)
    assert max(led.values()) - min(led[broker] for broker in brokers) <= 1


def test_growing_goes_on_where_the_topic_ended() -> None:
    brokers = [BrokerId(number) for number in range(4)]
    whole = place(brokers, first_partition=0, partition_count=9, replication_factor=2, start=2, shift=2)
    grown = place(brokers, first_partition=6, partition_count=3, replication_factor=2, start=2, shift=2)
    assert grown == whole[6:]


def test_the_order_goes_from_rack_to_rack_if_every_broker_has_one() -> None:
    brokers = [BrokerId(number) for number in range(6)]
    racks: dict[BrokerId, str | None] = dict(zip(brokers, ["a", "a", "a", "b", "b", "c"], strict=True))
    assert placement_order(brokers, racks) == [0, 3, 5, 1, 4, 2]
    assert placement_order(brokers, {**racks, brokers[5]: None}) == brokers


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    partitions=st.integers(1, 40),
    start=st.integers(0, 11),
    shift=st.integers(0, 11),
    data=st.data(),
)
def test_the_replicas_of_a_partition_are_on_as_many_racks_as_there_are(
    sizes: list[int], partitions: int, start: int, shift: int, data: st.DataObject
) -> None:
    names = [f"rack-{number}" for number, size in enumerate(sizes) for _ in range(size)]
    racks: dict[BrokerId, str | None] = {BrokerId(number): name for number, name in enumerate(names)}
    factor = data.draw(st.integers(1, len(racks)))
    placed = place(
        placement_order(list(racks), racks),
        first_partition=0,
        partition_count=partitions,
        replication_factor=factor,
        start=start,
        shift=shift,
        racks=racks,
    )
    for replicas in placed:
        assert len(set(replicas)) == factor
        assert len({racks[broker] for broker in replicas}) == min(factor, len(sizes))
    leaders = Counter(replicas[0] for replicas in placed)
    assert max(leaders.values()) - min(leaders[broker] for broker in racks) <= 1
