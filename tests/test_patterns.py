"""No regular expression of the package takes longer than in proportion to a text."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.patterns import SECONDS, found

#: How often an expression may be asked. A virtual processor that others use counts seconds that it didn't have, so a
#: linear expression can exceed the limit once in a while; one whose work is the square of a text does so each time.
TRIES = 3


def ended(*arguments: str) -> tuple[str, int, str]:
    """What a process printed last, its exit status and what it says of errors."""
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    return (done.stdout.splitlines() or [""])[-1], done.returncode, done.stderr


def test_every_expression_ends_on_long_repeats() -> None:
    """Fifty thousand repeats of each thing that an expression repeats, and of each sign in it."""
    first, tries = 0, 0
    while tries < TRIES:
        last, status, errors = ended("-m", "tests.patterns", str(first))
        if last == "all":
            return
        assert status == -signal.SIGXCPU, f"{last}: status {status}\n{errors}"
        number = int(last.split()[0])
        first, tries = number, tries + 1 if number == first else 1
    pytest.fail(f"more than {SECONDS} s of the processor, {TRIES} times: {last}")


def test_the_limit_ends_what_looks_back_at_every_place() -> None:
    """A run of spaces before a letter: from each space on, the expression reads all that follow."""
    code = "from tests.patterns import Found, limited; limited(Found('here', r'\\s*x', 0, True)); print('all')"
    assert ended("-c", code)[:2] == ("", -signal.SIGXCPU)


def test_all_are_found() -> None:
    """Those of the readers, those that begin a family's formats, and those that words of argparse are asked."""
    places = [one.where.partition(":")[0] for one in found()]
    for file in ("own/dot.py", "wafer/kgraph.py", "records/mismatch.py", "records/formats.py", "cli/parsing.py"):
        assert any(place.endswith(file) for place in places), file
    assert len(places) > 50
