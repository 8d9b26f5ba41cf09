"""The generators: the same events for the same seed, realistic enough for the pipelines they belong to."""

import json
import random
import re
from collections import Counter
from itertools import islice

import pytest
import yaml

from highwater_spark.shipped.catalog import SHIPPED
from highwater_spark.shipped.generators import GENERATORS, Event

NOON = 1_769_860_800.0


def events(name: str, count: int = 5000) -> list[Event]:
    return list(islice(GENERATORS[name].events(random.Random(1), lambda: NOON), count))


@pytest.mark.parametrize("name", GENERATORS)
def test_a_seed_repeats_itself_and_topics_are_those_of_the_pipeline(name: str) -> None:
    assert events(name) == events(name)
    pipeline = yaml.safe_load((SHIPPED / f"{name}.yaml").read_text())
    assert {source["topic"] for source in pipeline["sources"].values()} == set(GENERATORS[name].topics)
    assert {event.topic for event in events(name)} == set(GENERATORS[name].topics)


def test_a_few_pages_make_most_of_the_traffic_and_some_events_are_broken() -> None:
    sent = events("activity")
    kinds = Counter(event.kind for event in sent)
    assert kinds["views"] > kinds["searches"] > kinds["broken"] > 0
    pages = Counter(json.loads(event.value)["page"] for event in sent if event.kind == "views")
    assert sum(views for _, views in pages.most_common(5)) > kinds["views"] / 2
    assert len(pages) > 20


def test_log_lines_fit_the_pattern_of_the_pipeline_unless_they_are_broken() -> None:
    pipeline = yaml.safe_load((SHIPPED / "logs.yaml").read_text())
    pattern = re.compile(pipeline["sources"]["lines"]["parse"]["text"]["pattern"])
    for event in events("logs"):
        found = pattern.fullmatch(event.value)
        assert (found is None) == (event.kind == "broken")
        assert found is None or found["level"].lower() == event.kind
