"""What a metric is: a name, a kind, a sentence, the labels its values carry."""

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """Prometheus's words for how a value moves."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """One declared metric. Compared and hashed by identity: there is one object for each name."""

    name: str
    kind: Kind
    doc: str
    labels: tuple[str, ...] = ()
