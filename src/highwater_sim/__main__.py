"""`python -m highwater_sim`: runs the command with sets in the same order every time, and compiled as brokers are."""

import os
import sys
from typing import Final

from highwater.compiled.loading import use_compiled

_HASH_SEED: Final = "PYTHONHASHSEED"

if __name__ == "__main__":
    if os.environ.get(_HASH_SEED) != "0":
        # The order of sets of text is drawn anew by every process, unless it is told not to.
        again = [sys.executable, "-m", "highwater_sim", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, _HASH_SEED: "0"})  # noqa: S606 - ourselves
    if not any(argument.startswith("--bug") for argument in sys.argv):  # bugs are planted in Python
        use_compiled()
    from highwater_sim.command import main

    sys.exit(main(sys.argv[1:]))
