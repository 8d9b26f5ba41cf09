"""`python -m highwater_sim`: many seeds, a progress bar, and for each that fails what it takes to see it again."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections import Counter
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from highwater.compiled.loading import in_use
from highwater_history.history import Fault, Poll, Send
from highwater_sim.bugs import BUGS, planted
from highwater_sim.faults import KINDS
from highwater_sim.profile import FAULTY_SECONDS, Profile
from highwater_sim.simulation import Report, Simulation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from highwater_history.history import Step

SHOWN_STEPS: Final = 12


class Verdict(NamedTuple):
    """What a worker process tells of one seed."""

    seed: int
    lines: tuple[str, ...]
    """Empty if no invariant was violated."""
    digest: str
    virtual_seconds: float
    real_seconds: float
    requests: int
    faults: Counter[str]


def main(arguments: Sequence[str]) -> int:
    """Run the seeds; return 1 if an invariant was violated."""
    options = _parser().parse_args(arguments)
    # What was under way in processes that were killed is let go of, which is no news.
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    seeds = [options.seed] if options.seed is not None else range(options.first, options.first + options.seeds)
    faults = tuple(options.faults.split(",")) if options.faults else None
    for kind in faults or ():
        if kind not in KINDS:
            print(f"there is no fault {kind!r}; there are {', '.join(sorted(KINDS))}", file=sys.stderr)
            return 2
    jobs = [Job(seed, faults, options.minutes, options.bug, options.trace, options.history) for seed in seeds]
    failed = 0
    virtual = real = 0.0
    faults_struck: Counter[str] = Counter()
    for verdict in _shown(jobs, options.jobs):
        virtual, real = virtual + verdict.virtual_seconds, real + verdict.real_seconds
        faults_struck += verdict.faults
        failed += bool(verdict.lines)
        if verdict.lines:
            print("\n".join(verdict.lines), flush=True)
        elif options.digest:
            print(f"seed {verdict.seed} {verdict.digest}", flush=True)
    print("faults:", ", ".join(f"{kind} {count}" for kind, count in sorted(faults_struck.items())) or "none")
    print(
        f"{len(jobs)} seeds, {failed} with violations; {virtual / 60:.1f} virtual minutes in {real / 60:.1f} "
        f"minutes of one core{', compiled' if in_use() else ''}: {virtual / max(real, 1e-9):.1f} times as fast as time"
    )
    return int(failed > 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m highwater_sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("--seed", type=int, help="run only this one")
    parser.add_argument("--faults", help=f"instead of what the seed draws, some of: {', '.join(sorted(KINDS))}")
    parser.add_argument(
        "--minutes", type=float, help=f"how long faults strike, in virtual time (default: {FAULTY_SECONDS / 60:.2f})"
    )
    parser.add_argument("--trace", type=Path, help="write the timeline of the last seed: .txt or .html")
    parser.add_argument("--history", type=Path, help="write what clients saw, as JSON lines")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes side by side")
    parser.add_argument("--bug", choices=sorted(BUGS), help="plant a deliberate bug first")
    parser.add_argument("--digest", action="store_true", help="print the hash of each seed's timeline")
    return parser


class Job(NamedTuple):
    """One seed, and how to run it."""

    seed: int
    faults: tuple[str, ...] | None
    minutes: float | None
    bug: str | None
    trace: Path | None
    history: Path | None


def run_last(job: Job) -> Verdict:
    """Run one seed, in a process that does nothing else any more."""
    return run(job, is_last=True)


def run(job: Job, *, is_last: bool = False) -> Verdict:
    """Run one seed; `is_last` leaves what remains of it to the end of the process."""
    seconds = None if job.minutes is None else job.minutes * 60
    profile = Profile.drawn(job.seed, faults=job.faults, seconds=seconds)
    with planted(job.bug):
        report = Simulation(job.seed, profile, keep_trace=job.trace is not None).run(is_last=is_last)
    if job.trace is not None:
        report.trace.write(job.trace, title=f"seed {job.seed}: {'; '.join(map(str, report.violations)) or 'all well'}")
    if job.history is not None:
        report.history.write(job.history)
    lines = () if report.passed else tuple(_told(job, profile, report))
    return Verdict(
        job.seed,
        lines,
        report.trace.digest,
        report.virtual_seconds,
        report.real_seconds,
        report.requests,
        report.faults,
    )


def _shown(jobs: list[Job], workers: int) -> Iterator[Verdict]:
    """Run all, with a progress bar if somebody looks."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("seeds"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("seeds", total=len(jobs))
        # The first one here: what it has loaded and compiled, all others begin with.
        alone = 1 if workers > 1 else len(jobs)
        for job in jobs[:alone]:
            yield run(job)
            progress.advance(task)
        if alone < len(jobs):
            # A process for each seed: it ends without tidying up, which takes a twelfth of its time.
            with get_context("fork").Pool(workers, maxtasksperchild=1) as pool:
                for verdict in pool.imap(run_last, jobs[alone:]):
                    yield verdict
                    progress.advance(task)


def _told(job: Job, profile: Profile, report: Report) -> Iterator[str]:
    """Say what was violated, what led to it, and how to see it again."""
    first = report.violations[0]
    yield f"seed {job.seed} violates {first}"
    if len(report.violations) > 1:
        yield f"  and {len(report.violations) - 1} more"
    yield f"  logs are synced: {'yes' if profile.is_synced else 'no'}; faults: {', '.join(profile.faults)}"
    for step in _last_steps(report, first.what):
        yield f"  {_line(step)}"
    command = f"python -m highwater_sim --seed {job.seed} --trace trace.html"
    if job.faults is not None:
        command += f" --faults {','.join(job.faults)}"
    if job.minutes is not None:
        command += f" --minutes {job.minutes:g}"
    if job.bug is not None:
        command += f" --bug {job.bug}"
    yield f"  again: {command}"


def _last_steps(report: Report, what: str) -> list[Step]:
    """Return a short history: the last faults, and the steps that the violation names."""
    steps = report.history.steps
    faults = [step for step in steps if isinstance(step, Fault)]
    named = [
        step
        for step in steps
        if (isinstance(step, Send) and f"'{step.value}'" in what)
        or (isinstance(step, Poll) and any(f"'{value}'" in what for _, value in step.records))
    ]
    return sorted([*faults[-SHOWN_STEPS:], *named[-SHOWN_STEPS:]], key=lambda step: step.at)


def _line(step: Step) -> str:
    match step:
        case Fault(at, fault):
            return f"{at:9.3f}  {fault}"
        case Send():
            return f"{step.at:9.3f}  {step.client} sends {step.value} to {step.place}: {step.outcome} at {step.offset}"
        case Poll():
            return f"{step.at:9.3f}  {step.client} reads {step.place} from {step.start}: {len(step.records)} records"
        case _:
            return f"{step.at:9.3f}  {step}"
