"""The views of a pipeline: each source's good rows, then each transform over the views before it."""

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Collection, Mapping
from types import ModuleType
from typing import Final

from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from highwater_spark.definition.model import Pipeline, PythonTransform, SqlTransform
from highwater_spark.errors import PipelineFileError, did_you_mean

DataFrameFunction = Callable[..., DataFrame]
_POSITION: Final = re.compile(r"[(; ]line (\d+),? pos (\d+)")
_UNKNOWN_VIEW: Final = re.compile(r"\[TABLE_OR_VIEW_NOT_FOUND\] The table or view `([^`]+)`")
_MAX_TEXT: Final = 300


def build_views(
    pipeline: Pipeline, sources: Mapping[str, DataFrame], only: Collection[str] | None = None
) -> dict[str, DataFrame]:
    """Return every view by its name, or `only` some; `sources` are streaming or not, and so are the views."""
    views = dict(sources)
    session = next(iter(sources.values())).sparkSession
    for name, view in sources.items():
        view.createOrReplaceTempView(name)
    for transform in pipeline.transforms:
        if only is not None and transform.name not in only:
            continue
        if isinstance(transform, PythonTransform):
            view = _called(pipeline, transform, views)
        else:
            try:
                view = session.sql(transform.sql)
            except PySparkException as error:
                raise PipelineFileError(_sql_mistake(pipeline, transform, error, views)) from error
        view.createOrReplaceTempView(transform.name)
        views[transform.name] = view
    return views


def spark_text(error: PySparkException) -> str:
    """Return Spark's own sentence about an error: without its plan, state code and position."""
    text = str(error)
    text = text.split("SQLSTATE", maxsplit=1)[0]
    text = re.sub(r"^\s*\[[A-Z0-9_.]+\]\s*", "", text)
    text = " ".join(text.split()).rstrip(" ;.")
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 3] + "..."


def _sql_mistake(pipeline: Pipeline, transform: SqlTransform, error: PySparkException, views: Collection[str]) -> str:
    line = transform.sql_line
    said = spark_text(error)
    if unknown := _UNKNOWN_VIEW.search(str(error)):
        hint = did_you_mean(unknown[1], views) or f"; there are {', '.join(views)}"
        said = f"no source or earlier transform {unknown[1]!r}{hint}"
    if position := _POSITION.search(str(error)):
        line += int(position[1]) - 1
    return pipeline.at(line, f"transform {transform.name!r}: {said}")


def _called(pipeline: Pipeline, transform: PythonTransform, views: Mapping[str, DataFrame]) -> DataFrame:
    function = load_function(pipeline, transform)
    try:
        view = function(*(views[name] for name in transform.inputs))
    except PySparkException as error:
        said = spark_text(error)
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything
        said = f"{type(error).__name__}: {error}"
    else:
        if isinstance(view, DataFrame):
            return view
        said = f"it returned {type(view).__name__}, not a DataFrame"
    raise PipelineFileError(pipeline.at(transform.line, f"transform {transform.name!r}: {transform.reference}: {said}"))


def load_function(pipeline: Pipeline, transform: PythonTransform) -> DataFrameFunction:
    """Return the function that a transform names: `file.py:function` beside the pipeline file, or `module:function`."""
    place, _, name = transform.reference.partition(":")
    try:
        module = _module_of_file(pipeline, place) if place.endswith(".py") else importlib.import_module(place)
    except Exception as error:
        said = f"transform {transform.name!r}: {place} cannot be loaded: {type(error).__name__}: {error}"
        raise PipelineFileError(pipeline.at(transform.line, said)) from error
    function: object = getattr(module, name, None)
    if not callable(function):
        hint = did_you_mean(name, vars(module))
        raise PipelineFileError(
            pipeline.at(transform.line, f"transform {transform.name!r}: no {name!r} in {place}{hint}")
        )
    return function


def _module_of_file(pipeline: Pipeline, place: str) -> ModuleType:
    path = (pipeline.path.parent / place).resolve()
    name = f"highwater_pipeline_{pipeline.name}_{path.stem}".replace("-", "_").replace(".", "_")
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call] # executors do not have the file
    return module
