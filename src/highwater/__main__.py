"""`python -m highwater` is the `highwater` command."""

import sys

from highwater.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
