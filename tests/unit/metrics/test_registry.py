"""Cells, histograms and the text that Prometheus reads."""

import pytest

from highwater.metrics.declared import (
    CONNECTIONS,
    LOG_SIZE_BYTES,
    LOOP_LAG_SECONDS,
    METRICS,
    PARTITIONS,
    REQUEST_SECONDS,
    REQUESTS,
    SENT_BYTES,
)
from highwater.metrics.metric import Kind, Metric
from highwater.metrics.process import watch_process
from highwater.metrics.registry import BUCKET_BOUNDS_US, Histogram, Registry


def text_of(registry: Registry) -> str:
    return "".join(registry.render())


def test_a_cell_is_the_same_one_each_time() -> None:
    registry = Registry()
    registry.cell(REQUESTS, "Produce").value += 2
    registry.cell(REQUESTS, "Produce").value += 1
    assert 'highwater_requests_total{api="Produce"} 3\n' in text_of(registry)


def test_each_metric_has_one_head_and_what_has_no_value_is_left_out() -> None:
    registry = Registry()
    registry.cell(REQUESTS, "Produce")
    registry.cell(REQUESTS, "Fetch")
    assert text_of(registry) == (
        "# HELP highwater_requests_total Requests answered, by API.\n"
        "# TYPE highwater_requests_total counter\n"
        'highwater_requests_total{api="Produce"} 0\n'
        'highwater_requests_total{api="Fetch"} 0\n'
    )


def test_callbacks_are_asked_at_every_scrape() -> None:
    registry = Registry()
    sizes = {("orders", "0"): 5}
    registry.ask(LOG_SIZE_BYTES, sizes.items)
    registry.ask_one(PARTITIONS, lambda: len(sizes))
    sizes["orders", "1"] = 7
    text = text_of(registry)
    assert 'highwater_log_size_bytes{topic="orders",partition="1"} 7\n' in text
    assert "highwater_partitions 2\n" in text


def test_label_values_are_escaped() -> None:
    registry = Registry()
    registry.cell(CONNECTIONS, 'a"b\\c\nd')
    assert r'highwater_connections{listener="a\"b\\c\nd"} 0' in text_of(registry)


@pytest.mark.parametrize(
    ("duration_us", "bucket"),
    [(0, 0), (63, 0), (64, 1), (127, 1), (128, 2), (BUCKET_BOUNDS_US[-1] - 1, 19), (BUCKET_BOUNDS_US[-1], 20)],
)
def test_the_bucket_is_the_first_whose_bound_is_not_reached(duration_us: int, bucket: int) -> None:
    histogram = Histogram()
    histogram.observe_us(duration_us)
    assert histogram.counts.index(1) == bucket


def test_a_histogram_counts_upwards_and_knows_its_sum() -> None:
    registry = Registry()
    histogram = registry.histogram(REQUEST_SECONDS, "Fetch")
    for duration_us in (10, 100, 100_000_000_000):
        histogram.observe_us(duration_us)
    lines = text_of(registry).splitlines()
    assert 'highwater_request_seconds_bucket{api="Fetch",le="6.4e-05"} 1' in lines
    assert 'highwater_request_seconds_bucket{api="Fetch",le="0.000128"} 2' in lines
    assert 'highwater_request_seconds_bucket{api="Fetch",le="33.5544"} 2' in lines
    assert 'highwater_request_seconds_bucket{api="Fetch",le="+Inf"} 3' in lines
    assert 'highwater_request_seconds_sum{api="Fetch"} 100000.00011' in lines
    assert 'highwater_request_seconds_count{api="Fetch"} 3' in lines


def test_metrics_that_nothing_feeds_are_named() -> None:
    registry = Registry()
    assert registry.without_source() == [metric.name for metric in METRICS]
    watch_process(registry)
    registry.cell(SENT_BYTES)
    registry.histogram(LOOP_LAG_SECONDS)
    missing = registry.without_source()
    assert not {"process_open_fds", SENT_BYTES.name, LOOP_LAG_SECONDS.name} & set(missing)


def test_the_process_has_memory_time_and_files() -> None:
    registry = Registry()
    watch_process(registry)
    values = dict(line.split(" ") for line in text_of(registry).splitlines() if not line.startswith("#"))
    assert int(values["process_resident_memory_bytes"]) > 1_000_000
    assert float(values["process_cpu_seconds_total"]) > 0
    assert int(values["process_open_fds"]) > 2


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_follow_the_rules_of_prometheus(metric: Metric) -> None:
    """Counters end in _total, units are base units, sentences are sentences."""
    assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
    assert metric.doc.endswith(".")
    assert not metric.name.endswith(("_ms", "_us"))
    assert "le" not in metric.labels
