"""`python -m highwater.compiled.run MODULE`: run a module's `main` on compiled modules, if they may be used."""

import importlib
import sys

from highwater.compiled.loading import use_compiled

if __name__ == "__main__":
    use_compiled()
    importlib.import_module(sys.argv[1]).main()
