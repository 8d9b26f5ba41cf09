"""The config APIs on the wire, in every version: what clients do not show of them."""

import pytest

from highwater.model.errors import ErrorCode
from highwater.protocol.messages import alter_configs as replacing
from highwater.protocol.messages import incremental_alter_configs as editing
from highwater.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from highwater.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from highwater.protocol.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
from highwater.testing.group_requests import coordinator_of
from highwater.testing.waiting import wait_until
from highwater.testing.wire import WireClient
from highwater.testing.wire_consumer_group import WireConsumerGroup

TOPIC, BROKER, GROUP = 2, 4, 32
INT = 3
SET, DELETE, APPEND, SUBTRACT = range(4)
FROM_TOPIC, FROM_ALL_BROKERS, FROM_DEFAULT, FROM_GROUP = 1, 3, 5, 8


def describe(
    wire: WireClient, name: str, *keys: str, kind: int = TOPIC, version: int = 4
) -> dict[str, DescribeConfigsResourceResult]:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
        ],
        include_synonyms=True,
        include_documentation=True,
    )
    (result,) = wire.call(request, DescribeConfigsResponse, version).results
    assert (result.error_code, result.error_message or None) == (ErrorCode.NONE, None)
    return {config.name: config for config in result.configs}


def edit(
    wire: WireClient,
    name: str,
    *steps: tuple[str, int, str | None],
    kind: int = TOPIC,
    version: int = 1,
    validate_only: bool = False,
) -> int:
    configs = [editing.AlterableConfig(name=key, config_operation=how, value=value) for key, how, value in steps]
    resource = editing.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = editing.IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (result,) = wire.call(request, editing.IncrementalAlterConfigsResponse, version).responses
    assert bool(result.error_code) == bool(result.error_message)
    return result.error_code


def value_of(wire: WireClient, topic: str, key: str) -> str | None:
    return describe(wire, topic, key)[key].value


@pytest.mark.parametrize("version", range(1, 5))
def test_every_version_describes_all_of_a_topic(wire: WireClient, topic: str, version: int) -> None:
    configs = describe(wire, topic, version=version)
    assert {"cleanup.policy", "retention.ms", "segment.bytes", "min.insync.replicas", "max.message.bytes"} <= set(
        configs
    )
    size = configs["segment.bytes"]
    assert (size.value, size.config_source, size.read_only) == ("1073741824", FROM_DEFAULT, False)
    assert [(synonym.name, synonym.source) for synonym in size.synonyms] == [("log.segment.bytes", FROM_DEFAULT)]
    if version >= 3:
        assert size.config_type == INT
        assert size.documentation


def test_only_the_keys_asked_for_and_known_are_described(wire: WireClient, topic: str) -> None:
    assert set(describe(wire, topic, "retention.ms", "no.such")) == {"retention.ms"}


def test_an_override_comes_first_among_its_synonyms(wire: WireClient, topic: str) -> None:
    assert edit(wire, topic, ("segment.bytes", SET, "2000000")) == ErrorCode.NONE
    wait_until(lambda: value_of(wire, topic, "segment.bytes") == "2000000", "the override is in force")
    size = describe(wire, topic)["segment.bytes"]
    assert size.config_source == FROM_TOPIC
    assert [(synonym.name, synonym.value, synonym.source) for synonym in size.synonyms] == [
        ("segment.bytes", "2000000", FROM_TOPIC),
        ("log.segment.bytes", "1073741824", FROM_DEFAULT),
    ]


@pytest.mark.parametrize("version", range(2))
def test_every_version_edits_step_by_step(wire: WireClient, topic: str, version: int) -> None:
    assert edit(wire, topic, ("cleanup.policy", APPEND, "compact"), version=version) == ErrorCode.NONE
    wait_until(lambda: value_of(wire, topic, "cleanup.policy") == "delete,compact", "appended")
    assert edit(wire, topic, ("cleanup.policy", SUBTRACT, "delete"), version=version) == ErrorCode.NONE
    wait_until(lambda: value_of(wire, topic, "cleanup.policy") == "compact", "subtracted")
    assert edit(wire, topic, ("cleanup.policy", DELETE, None), version=version) == ErrorCode.NONE
    wait_until(lambda: value_of(wire, topic, "cleanup.policy") == "delete", "back to the default")


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG),
        ([("no.such.setting", SET, "1")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SET, "soon")], ErrorCode.INVALID_CONFIG),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        ([("retention.ms", SET, "1"), ("retention.ms", SET, "2")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_edits_that_make_no_sense(
    wire: WireClient, topic: str, steps: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    assert edit(wire, topic, ("segment.bytes", SET, "2000000"), *steps) == code
    assert describe(wire, topic)["segment.bytes"].config_source == FROM_DEFAULT


def test_a_dry_run_changes_nothing(wire: WireClient, topic: str) -> None:
    assert edit(wire, topic, ("retention.ms", SET, "5000"), validate_only=True) == ErrorCode.NONE
    assert edit(wire, topic, ("retention.ms", SET, "soon"), validate_only=True) == ErrorCode.INVALID_CONFIG
    assert value_of(wire, topic, "retention.ms") == "604800000"


def test_settings_of_what_is_not_there(wire: WireClient) -> None:
    assert edit(wire, "not-there", ("retention.ms", SET, "1")) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=TOPIC, resource_name="not-there", configuration_keys=None),
            DescribeConfigsResource(resource_type=BROKER, resource_name="99999", configuration_keys=None),
            DescribeConfigsResource(resource_type=BROKER, resource_name="me", configuration_keys=None),
        ]
    )
    answer = wire.call(request, DescribeConfigsResponse, 4)
    assert [result.error_code for result in answer.results] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]


@pytest.mark.parametrize("version", range(3))
def test_every_version_of_replacing_forgets_what_it_does_not_name(wire: WireClient, topic: str, version: int) -> None:
    edit(wire, topic, ("retention.ms", SET, "5000"))
    resource = replacing.AlterConfigsResource(
        resource_type=TOPIC,
        resource_name=topic,
        configs=[replacing.AlterableConfig(name="segment.bytes", value="2000000")],
    )
    request = replacing.AlterConfigsRequest(resources=[resource])
    (result,) = wire.call(request, replacing.AlterConfigsResponse, version).responses
    assert result.error_code == ErrorCode.NONE
    wait_until(lambda: value_of(wire, topic, "segment.bytes") == "2000000", "replaced")
    assert describe(wire, topic)["retention.ms"].config_source == FROM_DEFAULT


def test_a_brokers_settings_are_changed_for_all_of_them(wire: WireClient) -> None:
    (live,) = wire.call(DescribeClusterRequest(), DescribeClusterResponse, 1).brokers
    mine = str(live.broker_id)
    try:
        assert edit(wire, "", ("max.connections", SET, "54321"), kind=BROKER) == ErrorCode.NONE
        wait_until(
            lambda: describe(wire, mine, kind=BROKER)["max.connections"].value == "54321", "the change is in force"
        )
        assert describe(wire, mine, kind=BROKER)["max.connections"].config_source == FROM_ALL_BROKERS
        assert describe(wire, "", kind=BROKER)["max.connections"].value == "54321"
    finally:
        assert edit(wire, "", ("max.connections", DELETE, None), kind=BROKER) == ErrorCode.NONE


def test_a_setting_that_needs_a_restart_is_refused(wire: WireClient) -> None:
    (live,) = wire.call(DescribeClusterRequest(), DescribeClusterResponse, 1).brokers
    assert edit(wire, str(live.broker_id), ("broker.id", SET, "9"), kind=BROKER) == ErrorCode.INVALID_REQUEST
    assert describe(wire, str(live.broker_id), kind=BROKER)["broker.id"].read_only


def test_what_has_settings_is_listed(wire: WireClient, topic: str) -> None:
    topics = wire.call(ListConfigResourcesRequest(resource_types=[TOPIC]), ListConfigResourcesResponse, 1)
    assert topic in {resource.resource_name for resource in topics.config_resources}
    everything = wire.call(ListConfigResourcesRequest(), ListConfigResourcesResponse, 1)
    assert {TOPIC, BROKER} <= {resource.resource_type for resource in everything.config_resources}
    first = wire.call(ListConfigResourcesRequest(), ListConfigResourcesResponse, 0)
    assert (first.error_code, first.config_resources) == (ErrorCode.NONE, [])
    odd = wire.call(ListConfigResourcesRequest(resource_types=[99]), ListConfigResourcesResponse, 1)
    assert odd.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_group_may_have_its_own_session_and_heartbeat(wire: WireClient, bootstrap: str, topic: str) -> None:
    """In force with the next heartbeat; the group need not exist when it is configured."""
    group = f"team/{topic}"
    key = "consumer.heartbeat.interval.ms"
    default = describe(wire, group, kind=GROUP)[key]
    assert default.config_source != FROM_GROUP
    assert edit(wire, group, (key, SET, "6000"), kind=GROUP) == ErrorCode.NONE
    wait_until(lambda: describe(wire, group, kind=GROUP)[key].config_source == FROM_GROUP, "the change is in force")
    with coordinator_of(group, [bootstrap]) as coordinator:
        members = WireConsumerGroup(coordinator, group)
        assert members.join("ana", topic).heartbeat_interval_ms == 6_000
        assert edit(wire, group, (key, SET, "7000"), kind=GROUP) == ErrorCode.NONE
        wait_until(lambda: members.report("ana").heartbeat_interval_ms == 7_000, "the next change is in force")
        asked = ListConfigResourcesRequest(resource_types=[GROUP])
        listed = wire.call(asked, ListConfigResourcesResponse, 1).config_resources
        assert (GROUP, group) in {(each.resource_type, each.resource_name) for each in listed}
        assert edit(wire, group, (key, DELETE, None), kind=GROUP) == ErrorCode.NONE
        wait_until(
            lambda: str(members.report("ana").heartbeat_interval_ms) == default.value, "the default is in force again"
        )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("consumer.session.timeout.ms", "44999"),
        ("consumer.session.timeout.ms", "60001"),
        ("consumer.heartbeat.interval.ms", "soon"),
        ("consumer.heartbeat.intervall.ms", "6000"),
    ],
)
def test_a_group_setting_out_of_bounds_is_refused(wire: WireClient, topic_name: str, name: str, value: str) -> None:
    assert edit(wire, topic_name, (name, SET, value), kind=GROUP) == ErrorCode.INVALID_CONFIG


def test_all_groups_at_once_have_no_settings(wire: WireClient) -> None:
    assert edit(wire, "", ("consumer.heartbeat.interval.ms", SET, "6000"), kind=GROUP) == ErrorCode.INVALID_REQUEST
