"""Whether a streaming view needs memory: a view that treats each record alone can share one query with others."""

from typing import Any, Final

from pyspark.sql import DataFrame

# What handles a row without looking at another one. Anything not named here gets a query of its own, which is
# always right; a name missing here costs only the sharing.
_PER_RECORD: Final = frozenset(
    (
        *("Project", "Filter", "Generate", "Union", "SubqueryAlias", "View", "EventTimeWatermark", "CollectMetrics"),
        *("WithCTE", "CTERelationDef", "CTERelationRef", "ResolvedHint", "UnresolvedHint"),
        *("MapInPandas", "MapInArrow", "PythonMapInArrow", "BatchEvalPython", "ArrowEvalPython", "LateralJoin"),
        *("StreamingRelation", "StreamingRelationV2", "StreamingDataSourceV2Relation", "StreamingExecutionRelation"),
    )
)


def is_per_record(view: DataFrame) -> bool:
    """Return whether each row of a streaming view comes from one record alone."""
    return _is_per_record(view._jdf.queryExecution().analyzed())  # noqa: SLF001 - PySpark has no other door to a plan


def _is_per_record(plan: Any) -> bool:
    if not plan.isStreaming():
        return True  # a table to look things up in
    children = plan.children()
    below = [children.apply(number) for number in range(children.size())]
    name = plan.nodeName()
    if name == "Join" and sum(child.isStreaming() for child in below) > 1:
        return False
    return (name in _PER_RECORD or name == "Join") and all(_is_per_record(child) for child in below)
