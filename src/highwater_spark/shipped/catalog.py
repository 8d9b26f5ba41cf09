"""Which pipelines there are: those shipped, and those in the folder `pipelines` of the working directory."""

from pathlib import Path
from typing import Final

from highwater_spark.errors import PipelineFileError, did_you_mean

SHIPPED: Final = Path(__file__).parent
OWN: Final = Path("pipelines")


def known_pipelines() -> dict[str, Path]:
    """Return the pipelines that can be run by name; one's own take precedence over those shipped."""
    return {path.stem: path for folder in (SHIPPED, OWN) for path in sorted(folder.glob("*.yaml"))}


def find_pipeline(name: str) -> Path:
    """Return the file of a pipeline that is given by file or by name."""
    if name.endswith((".yaml", ".yml")) or "/" in name:
        return Path(name)
    known = known_pipelines()
    if name not in known:
        hint = did_you_mean(name, known) or f"; there are {', '.join(sorted(known))}, or name a file"
        raise PipelineFileError(f"no pipeline {name!r}{hint}")
    return known[name]
