"""`highwater dump`: the files of a log as text or JSON, and whether they are sound. Nothing is changed."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from highwater.cli.failures import CommandFailed
from highwater.cli.options import AsJson
from highwater.cli.output import say
from highwater.model.errors import KafkaError

if TYPE_CHECKING:
    from highwater.storage.files import Files
    from highwater.storage.verify.finding import Finding

Paths = Annotated[list[Path], typer.Argument(metavar="FILE...", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command()(dump)


def dump(
    paths: Paths,
    *,
    print_data: Annotated[bool, typer.Option("--print-data", help="Show the records inside the batches.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Show only what is wrong; a folder is checked with all it holds.")
    ] = False,
    index_sanity: Annotated[
        bool, typer.Option("--index-sanity", help="Show only whether indexes can be true, without reading the log.")
    ] = False,
    offsets_decoder: Annotated[
        bool, typer.Option("--offsets-decoder", help="Read the records as those of __consumer_offsets.")
    ] = False,
    transaction_log_decoder: Annotated[
        bool, typer.Option("--transaction-log-decoder", help="Read the records as those of __transaction_state.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show segments, indexes, snapshots and checkpoints as text, or check them.

    A folder stands for the files in it. The records of internal topics are recognised by the name of their folder.
    """
    from highwater.storage.files import ReadOnlyFiles

    files = ReadOnlyFiles()
    try:
        if verify:
            _verify(files, paths, as_json=as_json)
        elif index_sanity:
            _check_indexes(files, paths, as_json=as_json)
        else:
            decoder = "offsets" if offsets_decoder else "transactions" if transaction_log_decoder else None
            _show(files, paths, print_data=print_data, decoder=decoder, as_json=as_json)
    except KafkaError as error:
        raise CommandFailed(error.message) from None


def _show(files: "Files", paths: list[Path], *, print_data: bool, decoder: str | None, as_json: bool) -> None:
    from highwater.cli.dump_files import Wanted, documents, files_of, kinds_by_folder
    from highwater.cli.dump_text import line_of
    from highwater.cli.internal_topics import GROUP_RECORDS, TRANSACTION_RECORDS

    forced = {"offsets": GROUP_RECORDS, "transactions": TRANSACTION_RECORDS}.get(decoder or "")
    for named in paths:
        for path in files_of(files, named) if named.is_dir() else [named]:
            wanted = Wanted(records=print_data or forced is not None, internal=forced or kinds_by_folder(path))
            found = documents(files, path, wanted)
            if not as_json:
                print(path)
            for document in found:
                print(json.dumps({"file": str(path), **document}) if as_json else f"  {line_of(document)}")


def _verify(files: "Files", paths: list[Path], *, as_json: bool) -> None:
    from highwater.storage.verify.log_dir import Verifier

    verifier = Verifier(files)
    faults = sum(_tell(finding, as_json=as_json) for path in paths for finding in verifier.check(path))
    if not verifier.segments:
        raise CommandFailed(
            f"there is no segment in {', '.join(map(str, paths))}; name log dirs, partitions or *.log files"
        )
    seen = {
        "partitions": verifier.partitions,
        "segments": verifier.segments,
        "batches": verifier.batches,
        "bytes": verifier.size_bytes,
        "faults": faults,
    }
    if as_json:
        print(json.dumps({"type": "summary", **seen}))
    else:
        say(", ".join(f"{what} {count:,}" for what, count in seen.items()))
    if faults:
        raise typer.Exit(1)


def _check_indexes(files: "Files", paths: list[Path], *, as_json: bool) -> None:
    from highwater.storage.verify.indexes import CHECK_BY_SUFFIX, index_check

    faults = 0
    for named in paths:
        found = [named / entry.name for entry in files.list(named)] if named.is_dir() else [named]
        indexes = [path for path in found if path.suffix in CHECK_BY_SUFFIX]
        if not indexes:
            raise CommandFailed(
                f"{named} is not an index; known are {', '.join(f'*{each}' for each in CHECK_BY_SUFFIX)}"
            )
        for index in indexes:
            findings = list(index_check(files, index).begin())
            faults += sum(_tell(finding, as_json=as_json) for finding in findings)
            if not findings:
                print(json.dumps({"type": "sane", "file": str(index)}) if as_json else f"{index}: sane")
    if faults:
        raise typer.Exit(1)


def _tell(finding: "Finding", *, as_json: bool) -> bool:
    """Show a finding; return whether it is a fault."""
    is_fault = not finding.is_repaired_on_start
    if as_json:
        place = {"file": str(finding.file), "position": finding.position, "offset": finding.offset}
        print(json.dumps({"type": "fault" if is_fault else "note", **place, "problem": finding.problem}))
    else:
        byte = "" if finding.position is None else f" byte {finding.position},"
        offset = "" if finding.offset is None else f" offset {finding.offset}:"
        print(f"{finding.file}:{byte}{offset} {finding.problem}")
    return is_fault
