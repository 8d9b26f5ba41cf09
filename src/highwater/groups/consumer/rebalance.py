"""A consumer group moves on: a new epoch, a new target for everybody, a step towards it for whoever reports."""

from collections.abc import Iterable

from highwater.groups.causes import RebalanceCause
from highwater.groups.changes import Changes
from highwater.groups.consumer import records
from highwater.groups.consumer.assignment import Assignment
from highwater.groups.consumer.assignors import ASSIGNORS
from highwater.groups.consumer.assignors.spec import GroupSpec, MemberSpec, TopicSpec
from highwater.groups.consumer.group import ConsumerGroup
from highwater.groups.consumer.member import NEVER_MS, ConsumerMember
from highwater.groups.consumer.reconciliation import next_position, position_of
from highwater.groups.consumer.states import MemberState
from highwater.groups.consumer.topics import TopicInfo, TopicsView, matching, metadata_hash
from highwater.groups.settings import ConsumerTiming
from highwater.model.ids import TopicId


def raise_epoch(group: ConsumerGroup, cause: RebalanceCause, topics: TopicsView, changes: Changes) -> None:
    """Begin a new epoch: everybody's target is looked at anew."""
    changes.causes.append(cause)
    new_hash = metadata_hash(group.subscribed_topics(), topics)
    changes.add(records.group_epoch(group.group_id, group.epoch + 1, new_hash))


def resolve_regexes(group: ConsumerGroup, topics: TopicsView, changes: Changes) -> None:
    """See which topics the members' patterns stand for now; forget patterns that nobody uses any more."""
    in_use = group.regexes_in_use()
    for regex in sorted(in_use):
        matched = matching(regex, topics)
        if group.regexes.get(regex) != matched:
            changes.add(
                records.resolved_regex(group.group_id, regex, matched, version=topics.version, wall_ms=changes.wall_ms)
            )
    for regex in sorted(group.regexes.keys() - in_use):
        changes.add(records.regex_forgotten(group.group_id, regex))


def topics_have_changed(group: ConsumerGroup, topics: TopicsView, changes: Changes) -> bool:
    """Whether topics that the group reads are not what they were at its last epoch; asked once per change of topics."""
    if group.topics_version == topics.version:
        return False
    group.topics_version = topics.version
    resolve_regexes(group, topics, changes)
    return metadata_hash(group.subscribed_topics(), topics) != group.metadata_hash


def assign(group: ConsumerGroup, topics: TopicsView, changes: Changes, *, assignors: Iterable[str]) -> None:
    """Work out the target of the group's epoch, if that has not been done."""
    if group.target_epoch == group.epoch:
        return
    targets = ASSIGNORS[group.preferred_assignor(assignors)](_spec(group, topics))
    for member_id, target in targets.items():
        if member_id not in group.targets or group.targets[member_id] != target:
            changes.add(records.target(group.group_id, member_id, target))
    changes.add(records.target_epoch(group.group_id, group.epoch))


def _spec(group: ConsumerGroup, topics: TopicsView) -> GroupSpec:
    infos: dict[str, TopicInfo] = {}
    for name in group.subscribed_topics():
        info = topics.named(name)
        if info is not None:
            infos[name] = info
    members = {
        member_id: MemberSpec(
            topics=frozenset(infos[name].id for name in group.topics_of(member.subscription) if name in infos),
            assigned=group.target_of(member_id),
            rack=member.subscription.rack_id,
            instance_id=member.subscription.instance_id,
        )
        for member_id, member in group.members.items()
    }
    return GroupSpec(members, {info.id: TopicSpec(info.partition_count, info.racks) for info in infos.values()})


def reconcile(group: ConsumerGroup, member: ConsumerMember, owned: Assignment | None, changes: Changes) -> None:
    """Take a member one step towards its target; one that must give up partitions has its rebalance timeout for it."""

    def is_free(topic_id: TopicId, partition: int) -> bool:
        return group.owners.get((topic_id, partition), member.member_id) == member.member_id

    before = position_of(member)
    after = next_position(
        member,
        target=group.target_of(member.member_id),
        target_epoch=group.target_epoch,
        owned=owned,
        is_free=is_free,
    )
    if after == before:
        return
    changes.add(records.current(group.group_id, member.member_id, after, previous_epoch=before.epoch))
    member.act_by_ms = NEVER_MS
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        member.act_by_ms = changes.now_ms + member.subscription.rebalance_timeout_ms
        group.wake_by(member.act_by_ms)


def renew_session(group: ConsumerGroup, member: ConsumerMember, timing: ConsumerTiming, now_ms: int) -> None:
    """Hear from a member. `wake_at_ms` only ever has to come earlier, so most heartbeats leave it alone."""
    member.expires_at_ms = now_ms + member.session_timeout_ms(timing.session_timeout_ms)
    group.wake_by(member.expires_at_ms)


def remove(
    group: ConsumerGroup, members: Iterable[ConsumerMember], cause: RebalanceCause, topics: TopicsView, changes: Changes
) -> None:
    """Take members out and begin a new epoch without them; the others get their targets when they next report."""
    for member in members:
        changes.add(*records.member_removed(group.group_id, member.member_id))
    resolve_regexes(group, topics, changes)
    raise_epoch(group, cause, topics, changes)
