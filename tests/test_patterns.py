"""No regular expression of the package takes longer than in proportion to a text."""

from __future__ import annotations

import subprocess
import sys

from tests.patterns import SECONDS, found


def test_every_expression_ends_on_long_repeats() -> None:
    """Fifty thousand repeats of each thing that an expression repeats, and of each sign in it."""
    done = subprocess.run([sys.executable, "-m", "tests.patterns"], capture_output=True, text=True)
    last = done.stdout.splitlines()[-1:]
    assert last == ["all"], f"more than {SECONDS} s of the processor: {last}{done.stderr}"


def test_all_are_found() -> None:
    """Those of the readers, those that begin a family's formats, and those that words of argparse are asked."""
    places = [one.where.partition(":")[0] for one in found()]
    for file in ("own/dot.py", "wafer/kgraph.py", "records/mismatch.py", "records/formats.py", "cli/parsing.py"):
        assert any(place.endswith(file) for place in places), file
    assert len(places) > 50
