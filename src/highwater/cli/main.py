"""The `highwater` command: `serve` starts at once, everything else loads the command line first."""

import sys


def main() -> int:
    """Run the command that the process was started with and return its exit code."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["serve"] and not {"-h", "--help"} & set(arguments):
        # A broker must be up in a blink and stay small: nothing of the other commands' libraries is imported.
        from highwater.compiled.loading import use_compiled

        use_compiled()
        from highwater.app import serve

        return serve.main(arguments[1:])
    from highwater.cli.commands import run

    return run(arguments)
