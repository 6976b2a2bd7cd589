"""Do the tests notice? Defects are seeded one at a time into a copy of the project, and the tests must fail.

    python -m benchmarks.mutants                     # every mutant of benchmarks/mutants.toml
    python -m benchmarks.mutants --only bound        # those with this word in their name
    python -m benchmarks.mutants --write             # and write docs/dev/mutants.md from all results so far

Each mutant first meets the files of the quick lane that its entry names, then the whole quick lane, and only if it
survives that, the whole suite. The first test that fails kills it. Results are kept in
``benchmarks/results/mutants.json``; a mutant whose entry has changed since is run again.

A mutant of a compiled program needs more than a changed file. Numba's caches are valid as long as their own file is
unchanged, even if that file calls another one that has changed. So the caches of every module that imports the mutant
are left out of the copy.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "benchmarks" / "mutants.toml"
KEPT = ROOT / "benchmarks" / "results" / "mutants.json"
PAGE = ROOT / "docs" / "dev" / "mutants.md"
#: What a test run needs of the project.
PARTS = ("chipmap", "tests", "benchmarks", "docs")
#: Seconds after which a test run that hangs counts as failed.
PATIENCE = 1800.0


@dataclass(frozen=True)
class Mutant:
    """A defect: in ``file``, ``old`` (which stands there once) becomes ``new``; ``says`` is what that stands for.

    ``tests`` are the files, or tests in them, of the quick lane that should notice.
    """

    name: str
    file: str
    old: str
    new: str
    says: str
    tests: tuple[str, ...]

    @property
    def digest(self) -> str:
        """A name of the defect that changes with it."""
        return sha256(f"{self.file}\n{self.old}\n{self.new}".encode()).hexdigest()[:12]

    def applied(self, text: str) -> str:
        """The text of the file with the defect."""
        if text.count(self.old) != 1 or self.old == self.new:
            raise SystemExit(f"{self.name}: {self.old!r} stands {text.count(self.old)} times in {self.file}, not once")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Fate:
    """What became of a mutant: the lane that killed it ("" if none did), the first test that failed, and the commit."""

    digest: str
    lane: str
    test: str
    commit: str


def mutants() -> tuple[Mutant, ...]:
    """The mutants of the table."""
    with TABLE.open("rb") as file:
        listed = tomllib.load(file)["mutant"]
    return tuple(Mutant(**{**one, "tests": tuple(one["tests"])}) for one in listed)


def module_of(path: Path) -> str:
    """``chipmap.x.y`` of a file of the project."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def importers(file: str) -> set[Path]:
    """``file`` and the files of the package that import it, directly or by way of others."""
    text = {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in (ROOT / "chipmap").rglob("*.py")}
    found = {Path(file)}
    while True:
        names = [module_of(path) for path in found]
        patterns = [
            rf"\bfrom {re.escape(name)} import|\bimport {re.escape(name)}\b|"
            rf"\bfrom {re.escape(name.rpartition('.')[0])} import [^#]*\b{re.escape(name.rpartition('.')[2])}\b"
            for name in names
        ]
        wanted = re.compile("|".join(patterns))
        more = {path for path, source in text.items() if wanted.search(source)} - found
        if not more:
            return found
        found |= more


def lay(mutant: Mutant, folder: Path) -> None:
    """Copy the project to ``folder`` with the defect in it, and without the caches that don't know of it."""
    for part in PARTS:
        shutil.copytree(ROOT / part, folder / part)
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy2(path, folder)
    target = folder / mutant.file
    target.write_text(mutant.applied(target.read_text(encoding="utf-8")), encoding="utf-8")
    if "numba" in target.read_text(encoding="utf-8"):
        for path in importers(mutant.file):
            for cache in (folder / path.parent / "__pycache__").glob(f"{path.stem}.*.nb[ic]"):
                cache.unlink()


def first_failure(folder: Path, *arguments: str) -> str | None:
    """The first test that fails in the project in ``folder``; None if all pass."""
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "--tb=no", "-rfE", *arguments]
    environment = os.environ | {"PYTHONPATH": str(folder), "COLUMNS": "500"}
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return "the tests ran out of time"
    if done.returncode == 0:
        return None
    named = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
    if named is None:
        raise SystemExit(f"pytest {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return named[1]


def fate(mutant: Mutant, commit: str, workers: int, named: bool) -> Fate | None:
    """Lay the mutant and see which test notices; None: none of those that it names, and others weren't asked."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        folder = Path(name)
        lay(mutant, folder)
        many = ("-n", str(workers)) if workers > 1 else ()
        files = [path for path in mutant.tests if (folder / "tests" / path.partition("::")[0]).exists()]
        for lane, arguments in (
            ("quick", ("--quick", *(f"tests/{path}" for path in files))),
            ("quick", ("--quick", *many)),
            ("whole suite", many),
        ):
            test = first_failure(folder, *arguments)
            if test is not None:
                return Fate(mutant.digest, lane, test, commit)
            if named:
                return None
    return Fate(mutant.digest, "", "", commit)


def kept() -> dict[str, Fate]:
    """The results so far, by the mutants' names, of those that the table still has as they were."""
    found = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    digests = {mutant.name: mutant.digest for mutant in mutants()}
    return {name: Fate(**one) for name, one in found.items() if digests.get(name) == one["digest"]}


def page(fates: dict[str, Fate]) -> Iterator[str]:
    """The lines of docs/dev/mutants.md."""
    listed = mutants()
    lanes = [fates[one.name].lane if one.name in fates else "not run" for one in listed]
    quick, whole, alive, missing = (lanes.count(lane) for lane in ("quick", "whole suite", "", "not run"))
    yield "# Mutants"
    yield ""
    yield "Would the tests notice? A mutant is the project with one seeded defect. A bound is one tick too high, a"
    yield "model forgets a constraint, the checker charges the wrong term, nobody asks for the deadline. Each mutant"
    yield "meets the quick lane first (`make quick`), and the whole suite (`make test`) only if it survives that."
    yield ""
    yield f"Of {len(listed)} mutants, the quick lane kills {quick} and the whole suite {whole} more; {alive} survive."
    if missing:
        yield f"Not run yet: {missing}."
    yield ""
    yield "The defects stand in [benchmarks/mutants.toml](../../benchmarks/mutants.toml). This page is written by"
    yield "`python -m benchmarks.mutants --write`, which runs the mutants that are new or changed. Each row names"
    yield "the commit in which the mutant was laid and the first test that failed. Others may fail as well."
    yield ""
    yield "Five of them first survived the tests that their entries named: oracle-scope, solver-bound, ring-cpsat-c4,"
    yield "dataflow-labels and dataflow-degrees. The tests that kill them were written after that. Of those"
    yield "of `placement` six survived all tests of its checker: placement-checker-channel-gap, -device-gap, -output,"
    yield "-view-output, -weights and -copies. `tests/placement/test_page.py` was written for them."
    yield ""
    yield "| mutant | what is wrong | file | lane | killed by | commit |"
    yield "|---|---|---|---|---|---|"
    for one in listed:
        end = fates.get(one.name, Fate("", "not run", "", ""))
        test = end.test.replace("tests/", "", 1).replace("|", "\\|")
        cells = (one.name, one.says, f"`{one.file.removeprefix('chipmap/')}`", end.lane or "survives", test, end.commit)
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="mutants with this in their name")
    parser.add_argument("--again", action="store_true", help="also those whose result is known")
    parser.add_argument("--named", action="store_true", help="only the tests that the entries name, no lane as a whole")
    parser.add_argument("--workers", type=int, default=1, help="processes of a test run")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    args = parser.parse_args()
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    fates = kept()
    for mutant in mutants():
        if args.only not in mutant.name or (mutant.name in fates and not args.again):
            continue
        began = time.monotonic()
        end = fate(mutant, commit, args.workers, args.named)
        if end is None:
            print(f"{mutant.name}: survives the tests that it names ({time.monotonic() - began:.0f} s)", flush=True)
            continue
        fates[mutant.name] = end
        print(f"{mutant.name}: {end.lane or 'SURVIVES'} {end.test} ({time.monotonic() - began:.0f} s)", flush=True)
        KEPT.write_text(json.dumps({name: asdict(one) for name, one in fates.items()}, indent=1) + "\n")
    if args.write:
        PAGE.write_text("\n".join(page(fates)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
