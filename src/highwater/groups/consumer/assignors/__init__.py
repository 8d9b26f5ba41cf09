"""Who gets which partitions of a consumer group, by the names that `group.consumer.assignors` lists."""

from collections.abc import Mapping
from typing import Final

from highwater.groups.consumer.assignors.range import assign_ranges
from highwater.groups.consumer.assignors.spec import Assignor
from highwater.groups.consumer.assignors.uniform import assign_uniformly

ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}
