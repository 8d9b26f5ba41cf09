"""Assignors: everything is given out once, evenly, moving little, and near where that costs nothing."""

from hypothesis import given
from hypothesis import strategies as st

from highwater.groups.consumer.assignment import Assignment, pairs
from highwater.groups.consumer.assignors import ASSIGNORS
from highwater.groups.consumer.assignors.range import assign_ranges
from highwater.groups.consumer.assignors.spec import GroupSpec, MemberSpec, TopicSpec
from highwater.groups.consumer.assignors.uniform import assign_uniformly
from highwater.model.ids import TopicId

LEAVES = TopicId(b"leaves..........")
WATER = TopicId(b"water...........")
TOPIC_IDS = (LEAVES, WATER, TopicId(b"milk............"))


def a_group(topics: dict[TopicId, int], **members: set[TopicId]) -> GroupSpec:
    return GroupSpec(
        {name: MemberSpec(frozenset(reads), {}) for name, reads in members.items()},
        {topic_id: TopicSpec(count) for topic_id, count in topics.items()},
    )


def going_on(group: GroupSpec, assigned: dict[str, Assignment]) -> GroupSpec:
    """Return the same group, with members that have what they were assigned."""
    members = {name: member._replace(assigned=assigned.get(name, {})) for name, member in group.members.items()}
    return group._replace(members=members)


def sizes(assigned: dict[str, Assignment]) -> list[int]:
    return sorted(sum(1 for _ in pairs(each)) for each in assigned.values())


@st.composite
def groups(draw: st.DrawFn, *, same_subscription: bool) -> GroupSpec:
    topics = {topic_id: TopicSpec(draw(st.integers(0, 12))) for topic_id in TOPIC_IDS}
    subscriptions = st.frozensets(st.sampled_from(TOPIC_IDS), min_size=1)
    shared = draw(subscriptions)
    members = {
        f"member-{number}": MemberSpec(shared if same_subscription else draw(subscriptions), {})
        for number in range(draw(st.integers(1, 6)))
    }
    return GroupSpec(members, topics)


any_group = st.booleans().flatmap(lambda same: groups(same_subscription=same))


@given(group=any_group, name=st.sampled_from(sorted(ASSIGNORS)))
def test_every_partition_goes_to_exactly_one_member_that_reads_its_topic(group: GroupSpec, name: str) -> None:
    assigned = ASSIGNORS[name](group)
    given_out = [(member, *each) for member, assignment in assigned.items() for each in pairs(assignment)]
    assert all(topic_id in group.members[member].topics for member, topic_id, _ in given_out)
    read = {topic_id for member in group.members.values() for topic_id in member.topics}
    expected = sorted(
        (topic_id, number) for topic_id in read for number in range(group.topics[topic_id].partition_count)
    )
    assert sorted((topic_id, number) for _, topic_id, number in given_out) == expected


@given(group=any_group, name=st.sampled_from(sorted(ASSIGNORS)))
def test_what_stands_stays_when_nothing_changed(group: GroupSpec, name: str) -> None:
    assigned = dict(ASSIGNORS[name](group))
    assert ASSIGNORS[name](going_on(group, assigned)) == assigned


@given(group=groups(same_subscription=True))
def test_uniform_shares_differ_by_one_at_most(group: GroupSpec) -> None:
    shares = sizes(dict(assign_uniformly(group)))
    assert shares[-1] - shares[0] <= 1


@given(group=groups(same_subscription=True), gone=st.integers(0, 5))
def test_uniform_moves_only_what_it_must_when_a_member_goes(group: GroupSpec, gone: int) -> None:
    before = dict(assign_uniformly(group))
    left = {name: member for name, member in group.members.items() if name != f"member-{gone}"}
    after = dict(assign_uniformly(going_on(group._replace(members=left), before)))
    for name in left:
        assert set(pairs(before[name])) <= set(pairs(after[name])), "nobody who stays loses anything"


@given(group=groups(same_subscription=False))
def test_uniform_cannot_be_made_more_even_by_moving_one_partition(group: GroupSpec) -> None:
    assigned = dict(assign_uniformly(group))
    load = {name: sum(1 for _ in pairs(each)) for name, each in assigned.items()}
    for name, assignment in assigned.items():
        for topic_id, _ in pairs(assignment):
            readers = (other for other, member in group.members.items() if topic_id in member.topics)
            assert all(load[other] + 1 >= load[name] for other in readers)


def test_ten_partitions_over_three_members_by_range_are_four_three_three() -> None:
    assigned = assign_ranges(a_group({LEAVES: 10}, ana={LEAVES}, ben={LEAVES}, cem={LEAVES}))
    assert {name: sorted(assigned[name][LEAVES]) for name in assigned} == {
        "ana": [0, 1, 2, 3],
        "ben": [4, 5, 6],
        "cem": [7, 8, 9],
    }


def test_ranges_of_two_topics_lie_side_by_side() -> None:
    """Joins of co-partitioned topics need the same partition numbers of both."""
    assigned = assign_ranges(a_group({LEAVES: 5, WATER: 5}, ana={LEAVES, WATER}, ben={LEAVES, WATER}))
    assert all(each[LEAVES] == each[WATER] for each in assigned.values())


def test_a_static_member_keeps_its_range_under_its_next_id() -> None:
    group = a_group({LEAVES: 4}, ana={LEAVES}, ben={LEAVES})
    seated = {
        "zoe-new-id": group.members["ana"]._replace(instance_id="a-seat"),
        "ben": group.members["ben"]._replace(instance_id="b-seat"),
    }
    assert assign_ranges(group._replace(members=seated))["zoe-new-id"] == {LEAVES: frozenset({0, 1})}


def test_a_newcomer_takes_just_its_share() -> None:
    group = a_group({LEAVES: 6}, ana={LEAVES}, ben={LEAVES})
    before = dict(assign_uniformly(group))
    bigger = a_group({LEAVES: 6}, ana={LEAVES}, ben={LEAVES}, cem={LEAVES})
    after = dict(assign_uniformly(going_on(bigger, before)))
    assert sizes(after) == [2, 2, 2]
    assert all(set(pairs(after[name])) <= set(pairs(before[name])) for name in ("ana", "ben"))


def test_a_topic_that_few_read_does_not_overload_them() -> None:
    group = a_group({LEAVES: 4, WATER: 2}, ana={LEAVES, WATER}, ben={LEAVES}, cem={LEAVES})
    assert sizes(dict(assign_uniformly(group))) == [2, 2, 2]


def test_partitions_go_to_members_near_them_when_that_costs_nothing() -> None:
    racks = (frozenset({"east"}), frozenset({"west"}), frozenset({"east"}), frozenset({"west"}))
    members = {
        "ana": MemberSpec(frozenset({LEAVES}), {}, rack="west"),
        "ben": MemberSpec(frozenset({LEAVES}), {}, rack="east"),
    }
    assigned = assign_uniformly(GroupSpec(members, {LEAVES: TopicSpec(4, racks)}))
    assert assigned["ana"] == {LEAVES: frozenset({1, 3})}
    assert assigned["ben"] == {LEAVES: frozenset({0, 2})}


def test_evenness_comes_before_nearness() -> None:
    racks = (frozenset({"east"}),) * 4
    members = {
        "ana": MemberSpec(frozenset({LEAVES}), {}, rack="west"),
        "ben": MemberSpec(frozenset({LEAVES}), {}, rack="east"),
    }
    assert sizes(dict(assign_uniformly(GroupSpec(members, {LEAVES: TopicSpec(4, racks)})))) == [2, 2]
