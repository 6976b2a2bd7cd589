"""``python -m chipmap``."""

import sys

from chipmap.cli import main

if __name__ == "__main__":
    sys.exit(main())
