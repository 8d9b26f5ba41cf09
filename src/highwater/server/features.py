"""Features of the whole cluster that clients act on: listed once they work, and not before."""

from typing import Final, NamedTuple

from highwater.config.broker_config import BrokerConfig
from highwater.config.settings.groups import GROUP_COORDINATOR_REBALANCE_PROTOCOLS
from highwater.config.settings.transactions import TRANSACTION_VERSION_LEVEL


class Feature(NamedTuple):
    """A feature and the levels of it that this broker knows."""

    name: str
    lowest_level: int
    highest_level: int


GROUP_VERSION: Final = Feature("group.version", 0, 1)
"""1: consumer groups whose members are assigned by the coordinator (KIP-848)."""

TRANSACTION_VERSION: Final = Feature("transaction.version", 1, 2)
"""1: flexible records in the coordinator's log. 2: an epoch for every transaction; writes add partitions (KIP-890)."""

FEATURES: Final = (GROUP_VERSION, TRANSACTION_VERSION)
BY_NAME: Final = {feature.name: feature for feature in FEATURES}


def level_in_force(feature: Feature, config: BrokerConfig) -> int:
    """Return the level that clients may rely on."""
    if feature is TRANSACTION_VERSION:
        return config[TRANSACTION_VERSION_LEVEL]
    if "consumer" not in config[GROUP_COORDINATOR_REBALANCE_PROTOCOLS]:
        return 0
    return feature.highest_level
