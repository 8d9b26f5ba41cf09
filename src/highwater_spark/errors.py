"""What can go wrong around a pipeline, each said in one line that tells what to do."""

import difflib
from collections.abc import Iterable


class PipelineError(Exception):
    """Something the user can mend; its text is one line per problem and never a stack."""


class SetupError(PipelineError):
    """Java, PySpark or the Kafka connector is missing or of the wrong version."""


class PipelineFileError(PipelineError):
    """A pipeline file does not say what it must; one line per mistake, each with file and line."""


class ClusterError(PipelineError):
    """The brokers do not have, or do not allow, what the pipeline needs."""


class BrokerAway(ClusterError):
    """No broker answers. It may come back: whoever catches this may wait."""


class StateError(PipelineError):
    """The checkpoint or a table belongs to someone else, is in use, or no longer fits the pipeline."""


class ExactlyOnceRefused(PipelineError):
    """The exactly-once sink cannot promise that a micro-batch is written once, and so does not write it."""


class RunFailed(PipelineError):
    """A pipeline that had started cannot go on."""


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for the known word that is nearest to a wrong one, or nothing."""
    near = difflib.get_close_matches(wrong, [str(word) for word in known], n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""
