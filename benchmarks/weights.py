"""What an installation weighs: megabytes on disk of each package, by what asks for it.

    python -m benchmarks.weights

Reads the files that packages installed here list, without byte code. A package counts for the first of core and extras
that needs it, so that an extra weighs what it adds. The table stands in ``docs/install.md``.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: Lighter packages are told as a number of packages.
LEAST_MB = 1.0


def main(extras: Sequence[str]) -> None:
    """Print the table for the core and the ``extras`` that are installed, all by default."""
    seen: set[str] = set()
    print("| part | MB | packages |\n|---|---|---|")
    listed = {"core": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
    for part in ["core", *(extras or sorted(set(listed) - {"core", "dev", "judges", "zoo"})), "dev"]:
        found = needed(listed[part])
        if found is None:
            continue
        weights = {name: megabytes(one) for name, one in found.items() if name not in seen}
        seen |= found.keys()
        heavy = sorted(((mb, name) for name, mb in weights.items() if mb >= LEAST_MB), reverse=True)
        light = len(weights) - len(heavy)
        names = [f"{name} {mb:.0f}" for mb, name in heavy] + ([f"{light} below {LEAST_MB:.0f} MB"] if light else [])
        print(f"| {part} | {sum(weights.values()):.0f} | {', '.join(names)} |")


def needed(lines: Iterable[str]) -> dict[str, Distribution] | None:
    """What these requirements bring here, with all that it asks for in turn; None if one of them isn't installed."""
    found: dict[str, Distribution] = {}
    todo = [Requirement(line) for line in lines]
    direct = {canonicalize_name(one.name) for one in todo}
    while todo:
        name = canonicalize_name(todo.pop().name)
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            if name in direct:
                return None
            continue
        asked = map(Requirement, found[name].requires or [])
        todo += [one for one in asked if one.marker is None or one.marker.evaluate({"extra": ""})]
    return found


def megabytes(package: Distribution) -> float:
    """Size of the files of a package."""
    files = [Path(str(package.locate_file(file))) for file in package.files or [] if file.suffix != ".pyc"]
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


if __name__ == "__main__":
    main(sys.argv[1:])
