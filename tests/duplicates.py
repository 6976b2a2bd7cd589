"""Lines that stand twice: runs of six or more equal lines in files of two families.

    python -m tests.duplicates [ROOT]

Blank lines, imports, comments and indentation don't count. Exit code 1 where something is listed.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

from chipmap.family import FAMILY_NAMES

ROOT = Path(__file__).resolve().parents[1]
#: Equal lines from which on a run counts.
LEAST = 6
#: (number of the line, what stands there)
Lines = list[tuple[int, str]]


def family_of(path: Path) -> str | None:
    """The family in whose folder a file stands, or whose name it has."""
    return next((part for part in path.with_suffix("").parts if part in FAMILY_NAMES), None)


def lines_of(path: Path) -> Lines:
    """The lines of a file that count."""
    stripped = ((number, line.strip()) for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1))
    return [(n, line) for n, line in stripped if line and not line.startswith(("import ", "from ", "#"))]


def duplicates(root: Path) -> Iterator[tuple[int, str, str]]:
    """(lines, place, other place) of each run in ``root/chipmap`` that no longer run holds."""
    package = root / "chipmap"
    files = {path.relative_to(package): lines_of(path) for path in sorted(package.rglob("*.py"))}
    files = {path: lines for path, lines in files.items() if family_of(path)}
    places = defaultdict[tuple[str, ...], list[tuple[Path, int]]](list)
    for path, lines in files.items():
        for i in range(len(lines) - LEAST + 1):
            places[tuple(line for _, line in lines[i : i + LEAST])].append((path, i))
    for found in places.values():
        for (one, i), (other, j) in combinations(found, 2):
            a, b = files[one], files[other]
            if family_of(one) == family_of(other) or (i and j and a[i - 1][1] == b[j - 1][1]):
                continue
            count = LEAST
            while i + count < len(a) and j + count < len(b) and a[i + count][1] == b[j + count][1]:
                count += 1
            yield count, f"{one}:{a[i][0]}", f"{other}:{b[j][0]}"


def main() -> int:
    """List them, the longest first."""
    found = sorted(duplicates(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT), reverse=True)
    for count, one, other in found:
        print(f"{count} lines: {one} and {other}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
