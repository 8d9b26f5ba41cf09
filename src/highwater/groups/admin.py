"""How groups look to administrators."""

from collections.abc import Sequence
from typing import Final

from highwater.groups.classic.group import CONSUMER_PROTOCOL, ClassicGroup
from highwater.groups.classic.states import GroupState
from highwater.groups.consumer import assignment
from highwater.groups.consumer.group import ConsumerGroup
from highwater.groups.consumer.member import ConsumerMember
from highwater.groups.consumer.topics import TopicsView
from highwater.groups.shard import Group
from highwater.model.ids import TopicId
from highwater.protocol.messages import consumer_group_describe, describe_groups
from highwater.protocol.messages.list_groups import ListedGroup

CLASSIC_TYPE: Final = "classic"
CONSUMER_TYPE: Final = "consumer"
_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1


def listed(group: Group) -> ListedGroup:
    """Return the group as one line of a list."""
    is_classic = isinstance(group, ClassicGroup)
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=(group.protocol_type or "") if isinstance(group, ClassicGroup) else CONSUMER_PROTOCOL,
        group_state=group.state,
        group_type=CLASSIC_TYPE if is_classic else CONSUMER_TYPE,
    )


def describe_classic(group: ClassicGroup) -> describe_groups.DescribedGroup:
    """Return the group and its members; what they agreed on is shown only once it stands."""
    is_stable = group.state is GroupState.STABLE
    return describe_groups.DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if is_stable else "",
        members=[
            describe_groups.DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata_for(group.protocol) if is_stable else b"",
                member_assignment=member.assignment if is_stable else b"",
            )
            for member in group.members.values()
        ],
    )


def describe_consumer(
    group: ConsumerGroup, topics: TopicsView, *, assignors: Sequence[str]
) -> consumer_group_describe.DescribedGroup:
    """Return the group and its members, with what they have and what they should have."""
    return consumer_group_describe.DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.preferred_assignor(assignors),
        members=[_describe_member(group, member, topics) for member in group.members.values()],
    )


def _describe_member(
    group: ConsumerGroup, member: ConsumerMember, topics: TopicsView
) -> consumer_group_describe.Member:
    subscription = member.subscription
    return consumer_group_describe.Member(
        member_id=member.member_id,
        instance_id=subscription.instance_id,
        rack_id=subscription.rack_id,
        member_epoch=member.epoch,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=sorted(subscription.topic_names),
        subscribed_topic_regex=subscription.topic_regex or None,
        assignment=_described(member.assigned, topics),
        target_assignment=_described(group.target_of(member.member_id), topics),
        member_type=_CONSUMER_MEMBER if subscription.classic is None else _CLASSIC_MEMBER,
    )


def _described(partitions: assignment.Assignment, topics: TopicsView) -> consumer_group_describe.Assignment:
    """Return the partitions with the names of their topics; those of topics that are gone are left out."""
    named = assignment.to_messages(partitions, consumer_group_describe.TopicPartitions)
    for entry in named:
        entry.topic_name = topics.name_of(TopicId(entry.topic_id)) or ""
    return consumer_group_describe.Assignment(topic_partitions=[entry for entry in named if entry.topic_name])
