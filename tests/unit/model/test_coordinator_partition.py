"""Groups are found where Kafka puts them."""

import pytest

from highwater.model.coordinator_partition import java_hash, partition_for


@pytest.mark.parametrize(
    ("group_id", "partition"),
    [("KafkaConsumerDemo", 35), ("console-consumer-49366", 19), ("", 0)],
)
def test_a_group_lives_on_the_partition_that_its_hash_names(group_id: str, partition: int) -> None:
    assert partition_for(group_id) == partition


def test_the_hash_counts_utf16_units_as_java_does() -> None:
    assert java_hash("😀") == 31 * 0xD83D + 0xDE00


def test_the_hash_without_a_positive_counterpart_is_partition_zero() -> None:
    """abs(-2**31) is negative in Java; Kafka's own abs makes it 0."""
    text = "polygenelubricants"
    assert java_hash(text) == -(2**31)
    assert partition_for(text) == 0
