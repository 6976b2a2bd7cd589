"""The registry of best-known values and bounds (``chipmap/known/values``): filled, merged into and written out.

::

    python -m benchmarks.best_known run --out runs/known              # solve the shipped instances, keep what is better
    python -m benchmarks.best_known sweep --time-limit 20 > shipped.json     # every shipped instance, as a sweep
    chipmap bench shipped.json --out runs/shipped --workers 1 --submit better.json
    python -m benchmarks.best_known merge better.json                        # checked again; then the page below
    python -m benchmarks.best_known page > docs/best-known.md

``run`` solves one instance after the other with one thread, for as long as :data:`LIMITS` says. Each result stays in
``--out``: a later run makes only those that are missing, and submits the others again. With ``--cpu`` limits are
seconds of the processor, so that a busy machine costs no quality. Benchmarks hand in their results by :func:`submit`.

An entry is refused whose instance can't be made anew, whose solution the checker refuses, or that contradicts another
one. The better value and the better bound stay.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import lzma
import os
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from chipmap.family import FAMILY_NAMES
from chipmap.inputs.reading import read, shipped_names
from chipmap.known.compare import compared
from chipmap.known.records import Entries, Entry, Source
from chipmap.known.registry import VALUES, entries_of, known, merged, packed, refuted, solution_of
from chipmap.records import InputError, counted
from chipmap.records.quantities import percent
from chipmap.report.rows import digits, sign
from chipmap.result import Result, best_bound
from chipmap.run import SolveOptions
from chipmap.solve import solve

#: Seconds that ``run`` gives an instance of a family.
LIMITS = {"ring": 60.0, "dataflow": 60.0, "wafer": 240.0, "multimodel": 300.0, "placement": 60.0}
PAGE = Path(__file__).resolve().parents[1] / "docs" / "best-known.md"

#: Bytes that a packed solution may have: the schedule of 52,213 operations takes 446 KB.
LARGEST = 512 * 1024
HEAD = """# Best-known values and bounds

What is known of the shipped instances, by content hash: `chipmap info INSTANCE` says it, `chipmap solve` and
`chipmap report` compare with it. The entries and a solution for each value ship with the package
(`chipmap/known/values`); a test makes each instance anew and asks the checker about its solution. A bound is the word
of the run that proved it. Where the gap is 0% the value is proved optimal. A changed instance is another one, whatever
its name.

To better an entry: `chipmap bench SWEEP --out DIR --submit better.json`, and hand in the file; `python -m
benchmarks.best_known merge better.json` checks it once more. Most values are those of runs of 20 to 90 seconds on one
core of a busy machine, and easy to better. `python -m benchmarks.best_known run --out DIR` solves instances again.

No [page of results](../benchmarks/results) may be ahead of this one: a test reads their tables. The last section lists
what pages state and nobody has the solution or the proof of any more. `solve` names it beside the best known value.
"""


def sweep(time_limit: float) -> str:
    """Every shipped instance with the family's best chain, as a sweep."""
    choices = [{"label": name, "instance": name} for name in shipped_names()]
    axes = [{"name": "instance", "choices": choices}]
    fields = {
        "schema": "sweep/1",
        "name": "shipped instances",
        "axes": axes,
        "time_limit_s": time_limit,
        "memory_gib": 3,
    }
    return json.dumps(fields, indent=1) + "\n"


def merge(paths: Iterable[str], folder: Path = VALUES) -> int:
    """Merge the files' entries into the registry in ``folder``; returns how many entries changed."""
    named = [(entry, path) for path in paths for entry in Entries.read(path).entries]
    return _keep(named, folder)


def submit(results: Iterable[Result], name: str = "", folder: Path = VALUES) -> int:
    """Keep what the results have that is better than the registry, and write its page; returns how many changed.

    A result of no instance of the registry is passed over, as one is that an oracle or an evaluator took part in.
    ``name``: the shipped instance that theirs is but for its name and notes, as where it was read from a file. Raises
    :class:`InputError` where it isn't, and where the checker refuses a solution.
    """
    entries = [(entry, one.instance) for one in results if (entry := entry_of(one, name)) is not None]
    changed = _keep(entries, folder) if entries else 0
    if changed and folder == VALUES:
        PAGE.write_text(page(folder), encoding="utf-8")
    return changed


def entry_of(result: Result, name: str = "") -> Entry | None:
    """What a result says that the registry doesn't know; None where that is nothing. ``name`` as in :func:`submit`."""
    archive = hashlib.sha256(result.to_json()).hexdigest()
    beside = compared(_as_shipped(result, name) if name else result)
    if beside is None or result.status == "error" or not (beside.improves or beside.tightens):
        return None
    options, proof = result.provenance["options"], best_bound(result.bounds)
    source = Source(
        method=result.method,
        version=result.provenance["chipmap"],
        seed=options["seed"],
        time_limit_s=options["time_limit"] or 0.0,
        archive=archive,
    )
    new = msgspec.structs.replace(beside.entry, objective=None, found=None, bound=None, proved=None, infeasible=False)
    if beside.improves:
        found = source.replace(step=result.incumbent_source)
        new = msgspec.structs.replace(new, objective=result.objective, found=found, solution=beside.result.solution)
    if beside.tightens and proof is not None:
        new = msgspec.structs.replace(new, bound=result.bound, proved=source.replace(step=proof.source))
    return new


def _as_shipped(result: Result, name: str) -> Result:
    """The result as one of the shipped instance."""
    shipped: Any = read(name)
    twin = shipped.replace(name=result.instance, **({"notes": ""} if hasattr(shipped, "notes") else {}))
    if result.instance_hash not in (shipped.content_hash, twin.content_hash):
        raise InputError(f"the result is of another instance than {name}", result.instance, "Name the one it is of.")
    solution = None if result.solution is None else {**result.solution, "instance": name}
    return msgspec.structs.replace(result, instance=name, instance_hash=shipped.content_hash, solution=solution)


def _keep(named: Iterable[tuple[Entry, str]], folder: Path) -> int:
    """Check the entries (with where each comes from) and write what is new; one process at a time."""
    folder.mkdir(exist_ok=True)
    with alone(folder):
        entries_of.cache_clear()
        found, changed = {family: dict(entries_of(family, folder)) for family in FAMILY_NAMES}, set[str]()
        count = 0
        for entry, where in named:
            wrong = refuted(entry, folder) if entry.family in found else f"no family is called {entry.family!r}"
            if wrong:
                raise InputError(f"{entry.instance}: {wrong}", where, "Take the entry out.")
            entry = _small(entry)
            known = found[entry.family].get(entry.instance_hash)
            whole = found[entry.family][entry.instance_hash] = merged(known, entry)
            if whole != known:
                count += 1
                changed.add(entry.family)
        for family in sorted(changed):
            write(family, found[family].values(), folder)
    return count


def write(family: str, entries: Iterable[Entry], folder: Path = VALUES) -> None:
    """Write a family's entries, and their solutions, which those without one have in the file of before."""
    values, solutions = packed(entries, folder)
    _replace(folder / f"{family}.zip", solutions)
    _replace(folder / f"{family}.json", values)
    entries_of.cache_clear()


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """No other process writes into the folder meanwhile."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(path: Path, data: bytes) -> None:
    """Write a file in one step, so that a kill leaves the one before."""
    part = path.with_suffix(".part")
    part.write_bytes(data)
    part.replace(path)


def run(
    out: Path,
    names: Iterable[str],
    seeds: Iterable[int],
    limits: dict[str, float],
    method: str,
    cpu: bool,
    onwards: bool = False,
) -> int:
    """Solve what ``out`` has no result of and submit each; returns how many entries changed. One process at a time.

    With ``onwards``, each solve begins with the solution that is known, and is done again in each run.
    """
    out.mkdir(parents=True, exist_ok=True)
    changed = 0
    for seed in seeds:
        for name in names:
            family, _, short = name.partition("/")
            limit = limits[family]
            kept = out / f"{family}-{short}-{method}-seed{seed}-{limit:g}{'cpu' if cpu else ''}.json"
            if onwards or not kept.exists():
                start = _known_solution(name, out) if onwards else None
                with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                    data = pool.submit(solved, name, f"{family}/{method}", seed, limit, cpu, start).result()
                _replace(kept, data)
            result = Result.from_json(kept.read_bytes(), str(kept))
            better = submit([result])
            changed += better
            said = "better" if better else "nothing new"
            print(f"{name}, seed {seed}: {result.status}, {result.value} {result.unit}: {said}", flush=True)
    return changed


def _known_solution(name: str, out: Path) -> str | None:
    """A file with the solution of the shipped instance that is known, in ``out``; None where there is none."""
    entry = known(read(name))
    solution = solution_of(entry) if entry else None
    if solution is None:
        return None
    path = out / f"{name.replace('/', '-')}-start.json"
    path.write_bytes(msgspec.json.encode(solution))
    return str(path)


def solved(name: str, method: str, seed: int, limit: float, cpu: bool, start: str | None = None) -> bytes:
    """A result as JSON; with ``cpu``, limits are CPU seconds of this process, but for what solvers count themselves.

    ``start``: the file of a solution to begin with."""
    options = SolveOptions(time_limit=limit, seed=seed, threads=1, compile="first", warm_start=start)
    if cpu:
        time.monotonic = time.process_time
    return solve(name, method, options, isolate=not cpu).to_json()


def _small(entry: Entry) -> Entry:
    """The entry, without its value where the solution is too large to be shipped; the bound stays."""
    if entry.solution is None or len(lzma.compress(msgspec.json.encode(entry.solution))) <= LARGEST:
        return entry
    print(f"{entry.instance}: the solution is too large to be shipped, only the bound is taken", file=sys.stderr)
    return msgspec.structs.replace(entry, objective=None, found=None, solution=None)


def page(folder: Path = VALUES) -> str:
    """All entries in natural units, as a page."""
    text = HEAD
    for family in FAMILY_NAMES:
        entries = entries_of(family, folder).values()
        if entries:
            text += f"\n## {family}\n| instance | best known | bound | unit | gap | found by | proved by |\n"
            text += "|---|--:|--:|---|--:|---|---|\n" + "".join(map(_line, entries))
    return text + _reported(folder)


def _reported(folder: Path) -> str:
    """What pages state without a solution or a proof, in natural units."""
    text = "\n## Reported without a solution or a proof\n| instance | what | here | reported | unit | page |\n"
    text += "|---|---|--:|--:|---|---|\n"
    for entry in (one for family in FAMILY_NAMES for one in entries_of(family, folder).values()):
        both = ("value", entry.objective, entry.reported), ("bound", entry.bound, entry.reported_bound)
        for kind, ours, said in both:
            if said is not None:
                cells = (f"`{entry.instance}`", kind, digits(ours, entry.unit), digits(said.ticks, entry.unit))
                page = f"[{Path(said.page).stem}](../{said.page})".replace("(../docs/", "(")
                text += f"| {' | '.join((*cells, sign(entry.unit), page))} |\n"
    return text


def _line(entry: Entry) -> str:
    value = "infeasible" if entry.infeasible else digits(entry.objective, entry.unit)
    cells = (f"`{entry.instance}`", value, digits(entry.bound, entry.unit), sign(entry.unit), percent(entry.gap))
    steps = (one.publication or one.step or one.method if one else "" for one in (entry.found, entry.proved))
    return f"| {' | '.join((*cells, *steps))} |\n"


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("sweep").add_argument("--time-limit", type=float, default=20.0)
    commands.add_parser("merge").add_argument("files", nargs="+")
    commands.add_parser("page")
    runs = commands.add_parser("run")
    runs.add_argument("--out", type=Path, required=True, metavar="DIR", help="the results; those that are there stay")
    runs.add_argument("--names", nargs="+", default=[], metavar="INSTANCE", help="all but the tiny ones by default")
    runs.add_argument("--families", nargs="+", default=list(FAMILY_NAMES), choices=FAMILY_NAMES)
    runs.add_argument("--seeds", nargs="+", type=int, default=[0])
    runs.add_argument("--limit", type=float, metavar="SECONDS", help="for each instance, instead of its family's")
    runs.add_argument("--method", default="auto", help="as auto or one-window, of each instance's family")
    runs.add_argument("--cpu", action="store_true", help="limits are seconds of the processor")
    runs.add_argument("--onwards", action="store_true", help="begin with the solution that is known")
    args = parser.parse_args()
    if args.command == "run":
        shipped = [one for one in shipped_names() if one.partition("/")[0] in args.families and "/tiny-" not in one]
        limits = dict.fromkeys(LIMITS, args.limit) if args.limit else LIMITS
        changed = run(args.out, args.names or shipped, args.seeds, limits, args.method, args.cpu, args.onwards)
        print(counted(changed, "entry", "entries"), "changed", file=sys.stderr)
    elif args.command == "merge":
        print(counted(merge(args.files), "entry", "entries"), "changed", file=sys.stderr)
    else:
        sys.stdout.write(sweep(args.time_limit) if args.command == "sweep" else page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
