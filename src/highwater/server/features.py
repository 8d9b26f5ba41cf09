"""Features of the whole cluster that clients act on: listed once they work, and not before."""

from typing import Final, NamedTuple

from highwater.config.broker_config import BrokerConfig
from highwater.config.settings.groups import GROUP_COORDINATOR_REBALANCE_PROTOCOLS


class Feature(NamedTuple):
    """A feature and the levels of it that this broker knows; level 0 is without it."""

    name: str
    highest_level: int


GROUP_VERSION: Final = Feature("group.version", 1)
"""1: consumer groups whose members are assigned by the coordinator (KIP-848)."""

TRANSACTION_VERSION: Final = Feature("transaction.version", 1)
"""1: flexible records in the coordinator's log.

Level 2, where every transaction has its epoch and writes add partitions (KIP-890), is decided by the core and not
offered until a client that uses it has been tried.
"""

FEATURES: Final = (GROUP_VERSION, TRANSACTION_VERSION)


def level_in_force(feature: Feature, config: BrokerConfig) -> int:
    """Return the level that clients may rely on."""
    if feature is GROUP_VERSION and "consumer" not in config[GROUP_COORDINATOR_REBALANCE_PROTOCOLS]:
        return 0
    return feature.highest_level
