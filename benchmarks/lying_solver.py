"""A lying solver in every method of every family: no wrong word, no lost solution, and a word that something failed.

    python -m benchmarks.lying_solver [--families ring wafer] [--kept FOLDER] [--out benchmarks/results/lying-solver.md]

Each lie of :mod:`tests.lying` (every end state of each adapter, wrong solutions, objectives and bounds, exceptions,
callbacks that are never or too late called) takes the place of the solver in each method that asks one, on a tiny
instance whose optimum is known by brute force; from no start or from a bad one, in turn. Programs that are solved again
and again lie in the methods for wide graphs. Some runs go to a child. Takes some two minutes of the processor. What is
done stays in the folder ``--kept``, and a later run goes on from there.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import msgspec

import chipmap
from chipmap.family import FAMILY_NAMES, get_family
from chipmap.heuristics.dataflow.program.lattice import TooWideError
from chipmap.methods.dataflow import chain
from chipmap.solve import solve
from chipmap.solvers.repeated import Answer as Program
from chipmap.solvers.repeated import Repeated
from chipmap.validation.brute_force import candidates
from tests.conformance.cases import TinyCase, cases
from tests.lying import Answer, Lie, Told, asked, lies, start_file, wrong_words

ROOT = Path(__file__).parents[1]
HOOKS = ROOT / "tests" / "lying_hooks"
_ASKING = {
    "ring": ("mip", "mip-path", "cpsat", "cpsat-cold", "fix", "proximity", "windows"),
    "dataflow": ("mip", "cpsat", "two-pass"),
    "wafer": ("mip", "cpsat"),
    "multimodel": ("mip", "cpsat", "auto"),
    "placement": ("mip", "cpsat", "auto", "fix", "proximity", "windows"),
}
#: The methods of each family that ask a solver on tiny instances; the others are named in the table.
ASKING = {family: tuple(f"{family}/{name}" for name in names) for family, names in _ASKING.items()}
#: Cases that lies are told about, for each method; candidates among which the worst one is a bad start.
CASES, CANDIDATES = 6, 300


class Tally(msgspec.Struct):
    """What came of the lies in a method: runs, those in which one was told, how they ended, what was wrong."""

    runs: int = 0
    told: int = 0
    words: dict[str, int] = {}
    wrong: list[str] = []
    cpu_seconds: float = 0.0

    def add(self, told: bool, word: str, wrong: list[str]) -> None:
        """One more run."""
        self.runs, self.told = self.runs + 1, self.told + told
        self.words[word] = self.words.get(word, 0) + 1
        self.wrong += wrong


def main() -> int:
    """Tell all lies and write the table; 1 if a word was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="*", default=FAMILY_NAMES, choices=FAMILY_NAMES)
    parser.add_argument("--kept", type=Path, help="the folder of what is done (default: none)")
    parser.add_argument("--out", type=Path, help="the table to write (default: print it)")
    args = parser.parse_args()
    load, found = os.getloadavg()[0], dict[str, Tally]()
    with tempfile.TemporaryDirectory() as folder:
        parts: dict[str, Callable[[], Tally]] = {
            method: partial(of_method, family, method, Path(folder))
            for family in args.families
            for method in ASKING[family]
        }
        if "dataflow" in args.families:
            parts |= {"repeated programs": of_programs, "in a child": in_children}
        for name, work in parts.items():
            found[name] = kept(args.kept, name, work)
    text = table(found, load)
    if args.out:
        args.out.write_text(text)
    print(text)
    return int(any(tally.wrong for tally in found.values()))


def kept(folder: Path | None, name: str, work: Callable[[], Tally]) -> Tally:
    """What ``work`` tallies, or did in an earlier run."""
    file = folder / f"{name.replace('/', '-').replace(' ', '-')}.json" if folder else None
    if file is not None and file.exists():
        return msgspec.json.decode(file.read_bytes(), type=Tally)
    began = time.process_time()
    tally = work()
    tally.cpu_seconds = round(time.process_time() - began, 1)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(msgspec.json.encode(tally))
    print(f"{name}: {tally.runs} runs, {tally.told} lies told, {len(tally.wrong)} wrong", file=sys.stderr, flush=True)
    return tally


def of_method(family: str, method: str, folder: Path) -> Tally:
    """All lies in one method."""
    random, tally = Random(method), Tally()
    for number, lie in enumerate(applicable(method)):
        case = random.choice(asking_cases(family, method))
        given = start_file(folder, worst(case)) if number % 2 else "none"
        answer = asked(case.instance, method, lie, warm_start=given)
        words = wrong_words(answer, lie, case.best[0], case.family, case.instance)
        where = f"{method} on {case} from {'a bad start' if number % 2 else 'none'}, {lie.name}"
        tally.add(bool(answer.told.times), word_of(answer), [f"{where}: {word}" for word in words])
    return tally


def word_of(answer: Answer) -> str:
    """How a run ended."""
    if answer.result is None:
        return f"raised {type(answer.error).__name__}"
    return f"{answer.result.status} and failed" if answer.result.failure else answer.result.status


def applicable(method: str) -> list[Lie]:
    """The lies about models of the kind that a method makes."""
    kind = "mip" if method.partition("/")[2].startswith("mip") else "cpsat"
    return [lie for lie in lies() if kind in lie.kinds]


@cache
def asking_cases(family: str, method: str, most: int = CASES) -> tuple[TinyCase, ...]:
    """Some cases with a mapping on which the method asks a solver (by a run with the truth)."""
    known = cases(get_family(family))
    order = Random(35).sample(known, len(known))
    asking = (c for c in order if c.best[0] is not None and asked(c.instance, method, None).told.models)
    return tuple(islice(asking, most))


@cache
def worst(case: TinyCase) -> Any:
    """A valid solution, the worst of some."""
    valued = [(case.check(one), one) for one in islice(candidates(case.instance), CANDIDATES)]
    valid = [(certificate.objective or 0, one) for certificate, one in valued if certificate.feasible]
    return max(valid, key=lambda pair: pair[0])[1] if valid else case.best[1]


def in_children() -> Tally:
    """Some lies in children: their words reach the parent."""
    tally, some = Tally(), [lie for lie in lies() if lie.due and "cpsat" in lie.kinds and not lie.values]
    paths = {"PYTHONPATH": os.pathsep.join([str(HOOKS), str(ROOT)])}
    for number, lie in enumerate(some):
        family = FAMILY_NAMES[number % len(FAMILY_NAMES)]
        case = asking_cases(family, f"{family}/cpsat")[0]
        with patch.dict(os.environ, {**paths, "CHIPMAP_LIE": lie.name}):
            result = solve(
                case.instance, f"{family}/cpsat", isolate=True, time_limit=60.0, threads=1, warm_start="none"
            )
        answer = Answer(result, None, [], Told(times=1))
        words = wrong_words(answer, lie, case.best[0], case.family, case.instance)
        tally.add(True, word_of(answer), [f"child, {case}, {lie.name}: {word}" for word in words])
    return tally


#: What a program that is solved again and again may say instead of the truth (None: it raises an exception).
PROGRAMS: dict[str, Callable[[Program], Program] | None] = {
    "infeasible": lambda true: Program(None, None),
    "bound inf": lambda true: true._replace(bound=float("inf")),
    "bound -inf, no values": lambda true: Program(None, -float("inf")),
    "bound is no number": lambda true: true._replace(bound=float("nan")),
    "no values": lambda true: true._replace(values=None),
    "an exception": None,
}


@contextmanager
def lying_programs(change: Callable[[Program], Program] | None, told: Told) -> Iterator[None]:
    """Within it each answer of :class:`~chipmap.solvers.repeated.Repeated` is changed."""
    true = Repeated.minimise

    def minimise(self: Repeated, *arguments: Any) -> Program:
        told.times += 1
        if change is None:
            raise RuntimeError("the solver broke")
        return change(true(self, *arguments))

    with patch.object(Repeated, "minimise", minimise):
        yield


def too_wide(*_: Any) -> int | None:
    """The exact program gives up, so that the methods for wide graphs have their turn."""
    raise TooWideError("too wide, for once")


def of_programs(most: int = CASES) -> Tally:
    """Lies of the programs that bound wide graphs: in ``dataflow/auto``, as if the exact program gave up."""
    tally, family = Tally(), get_family("dataflow")

    def answer_of(case: TinyCase, change: Callable[[Program], Program] | None) -> tuple[Answer, bool]:
        told = Told()
        with patch.object(chain, "solve_degrees", too_wide), lying_programs(change, told):
            return asked(case.instance, "dataflow/auto", None), bool(told.times)

    asking = (c for c in cases(family) if c.best[0] is not None and answer_of(c, lambda true: true)[1])
    for case in islice(asking, most):
        for name, change in PROGRAMS.items():
            answer, told = answer_of(case, change)
            hidden = Lie(
                name, lambda *_: ("stopped", "none", ""), due=False, hidden=name in ("infeasible", "bound inf")
            )
            # the family's quick methods are the very programs that gave up: none is left to contradict a bound
            words = wrong_words(answer, hidden, case.best[0], replace(family, attempts=()), case.instance)
            tally.add(told, word_of(answer), [f"repeated programs on {case}, {name}: {w}" for w in words])
    return tally


def table(found: dict[str, Tally], load: float) -> str:
    """The tallies in Markdown."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT, check=False
    ).stdout.strip()
    runs, told = (sum(getattr(tally, name) for tally in found.values()) for name in ("runs", "told"))
    seconds = sum(tally.cpu_seconds for tally in found.values())
    wrong = [one for tally in found.values() for one in tally.wrong]
    asking = {name for names in ASKING.values() for name in names}
    quiet = [m.name for name in FAMILY_NAMES for m in get_family(name).methods if m.name not in asking]
    lines = [
        "# A lying solver\n",
        f"Made by `python -m benchmarks.lying_solver` at commit {commit} on {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, chipmap {chipmap.__version__}, at a load of {load:.0f} before and "
        f"{os.getloadavg()[0]:.0f} after, in {seconds:.0f} s of the processor (without children).\n",
        f"**{runs} runs, {told} in which a lie was told, {len(wrong)} wrong words.** {len(lies())} lies: every end "
        "state of each adapter after the truth and with nothing heard, other values, objectives and bounds, "
        "exceptions, callbacks never or too late called. A word is wrong if the run says infeasible of an instance "
        "with a mapping, calls another value than the optimum (by brute force) optimal, loses a solution that was "
        "heard of, shows one that the checker refuses, or says nothing of a failure.\n",
        "A bound that is too high, and a refutation that amounts to one, can't be told by anybody while no better "
        "solution is known. Such a run may say optimal, unless a quick method of the family finds better: that is "
        "told as a contradiction (error). For the repeated programs of wide graphs the quick methods are switched "
        'off, so that their "infeasible" is such a bound.\n',
        "| method | runs | lies told | wrong | how the runs ended |",
        "| --- | --: | --: | --: | --- |",
    ]
    for name, tally in found.items():
        ends = ", ".join(f"{tally.words[word]} {word}" for word in sorted(tally.words))
        lines.append(f"| {name} | {tally.runs} | {tally.told} | {len(tally.wrong)} | {ends} |")
    lines += ["", f"Methods that ask no solver on tiny instances, or need an extra: {', '.join(quiet)}.", ""]
    return "\n".join([*lines, *(f"- {one}" for one in wrong)])


if __name__ == "__main__":
    sys.exit(main())
