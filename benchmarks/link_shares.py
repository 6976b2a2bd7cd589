"""What a better choice of links' shares and order could gain: chains' traces, judged in hindsight.

    python -m benchmarks.link_shares --csv FILE [--seconds 10] [--only TEXT] [--seed 0]
    python -m benchmarks.link_shares --csv FILE --again FILE --plan cut|skip|same [--seed 0]
    python -m benchmarks.link_shares --csv FILE --table [--again FILE …] [--markdown FILE]

Each instance is solved once by its family's chain, with one thread, in a process whose clock counts its own seconds of
the processor. The file has, for each instance, the pieces of the run: which link worked from when to when, and what it
found. Then the run is put together anew, as an oracle would who knows all this before:

- *skip*: links that found nothing are left out;
- *ends*: and each other one ends with the last of its finds;
- *cut*: each link ends with one of its finds, or is left out, as is best; their order stays;
- *sorted*: the same, in any order of the links.

All take it that a find depends neither on what other links found before nor on its own link's end. What links would
find with more time than they had is not seen. ``--again`` runs the chain once more, where later links have what earlier
ones save:

- *cut*: each call of a link has the seconds that *cut* gives it, or a thousandth of a second where it is left out;
- *skip*: links that found nothing have a thousandth of a second, all others their shares as always;
- *same*: nothing is changed: how far two runs are apart.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

#: Four instances of each family that its chain doesn't close within its first second.
INSTANCES = (
    *("ring/bert-large-36", "ring/densenet121-36", "ring/rnn-36", "ring/resnet152-36"),
    *("placement/gnmt-2-pcie", "placement/amoebanet-4-pcie", "placement/wavenet-4-pcie", "placement/rnnlm-4-nvlink"),
    *("dataflow/llama3-70b-decode-sn40l-16", "dataflow/gpt3-175b-tiles-8x1", "dataflow/resnet50-8"),
    "dataflow/dlrm-793b-sn30-32x32",
    *("wafer/ispd2020-C", "wafer/ispd2020-K", "wafer/ispd2020-R", "wafer/bert-large"),
    *("multimodel/scar-4-whole", "multimodel/scar-9-pipelined", "multimodel/scar-7-whole-cb"),
    "multimodel/scar-4-whole-cross-6x6-3",
)
#: A link that is cut has so many times its seconds and so many more, as no two runs are alike; one left out has these.
SLACK, LEAST = (1.1, 0.02), 0.001
COLUMNS = ("instance", "seconds", "pieces")


class Find(NamedTuple):
    """What a link found so many seconds after it began: an incumbent or a bound, in ticks."""

    after: float
    upper: float
    lower: float


class Piece(NamedTuple):
    """A link's work in one go: its name, seconds, and what it found."""

    link: str
    seconds: float
    finds: tuple[Find, ...]


def measure(name: str, seconds: float, plan: dict[str, list[float]], seed: int = 0) -> list[Piece]:
    """The pieces of one run, in this process: all its clocks count the process's seconds of the processor.

    ``plan``: for links by name the seconds that they have at most, each time that they are called.
    """
    import time

    time.monotonic = time.process_time
    import chipmap.methods.chain as chain
    from chipmap.deadline import Stop
    from chipmap.solve import solve

    changes = [(time.process_time(), "between")]
    stack, plain = ["between"], chain._link

    def link(one: Any, state: Any, turn: Any) -> None:
        stack.append(f"{stack[-1]} / {one.name}" if len(stack) > 1 else one.name)
        changes.append((time.process_time(), stack[-1]))
        left, own = plan.get(stack[-1]), turn
        if left:
            own = dataclasses.replace(turn, deadline=turn.deadline.within(left.pop(0)))
            one = one._replace(share=1.0)
        try:
            plain(one, state, own)
        except Stop:
            turn.deadline.check()  # only what the plan gives is used up
        finally:
            stack.pop()
            changes.append((time.process_time(), stack[-1]))

    setattr(chain, "_link", link)  # noqa: B010
    found: list[tuple[float, Find]] = []

    def hear(event: Any, run: Any) -> None:
        upper, lower = run.upper, run.lower
        now = time.process_time()
        found.append((now, Find(now, math.inf if upper is None else upper, lower.value if lower else 0.0)))

    solve(name, isolate=False, time_limit=seconds, threads=1, seed=seed, listener=hear)
    ends = [*(at for at, _ in changes[1:]), time.process_time()]
    return [
        Piece(link, end - begin, tuple(one._replace(after=at - begin) for at, one in found if begin <= at < end))
        for (begin, link), end in zip(changes, ends, strict=True)
    ]


def integral(pieces: Sequence[Piece], cuts: Sequence[int], horizon: float) -> float:
    """∫ gap dt up to ``horizon`` seconds; gap = 1 − bound / incumbent, 1 without one. Piece i ends with its find
    ``cuts[i]`` (counted from 1; 0: it is left out, −1: it has all of its time)."""
    now, gap, total = 0.0, 1.0, 0.0
    upper, lower = math.inf, 0.0
    for piece, cut in zip(pieces, cuts, strict=True):
        begin = now
        for one in piece.finds if cut < 0 else piece.finds[:cut]:
            at = min(begin + one.after, horizon)
            total, now = total + gap * (at - now), at
            upper, lower = min(upper, one.upper), max(lower, one.lower)
            gap = 1.0 if upper == math.inf else 1.0 - lower / upper if upper > 0 else 0.0
        if cut < 0:
            end = min(begin + piece.seconds, horizon)
            total, now = total + gap * (end - now), end
    return total + gap * (horizon - now)


def own_finds(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces with what each found itself: an incumbent or bound that stood before isn't its own."""
    upper, lower, made = math.inf, 0.0, []
    for piece in pieces:
        finds = []
        for one in piece.finds:
            finds.append(
                Find(one.after, one.upper if one.upper < upper else math.inf, one.lower if one.lower > lower else 0.0)
            )
            upper, lower = min(upper, one.upper), max(lower, one.lower)
        made.append(piece._replace(finds=tuple(finds)))
    return made


def leaves(pieces: Sequence[Piece]) -> list[bool]:
    """Which pieces are all of a link that calls no other one: only these are cut."""
    names = {piece.link for piece in pieces}
    above = {"between", *(name.rpartition(" / ")[0] for name in names)}
    return [piece.link not in above for piece in pieces]


def best(pieces: Sequence[Piece], horizon: float, sort: bool) -> tuple[float, list[Piece], list[int]]:
    """The least integral that local search over cuts, and over orders, finds; with the pieces and their cuts."""
    order, free = list(pieces), leaves(pieces)
    cuts = [len(piece.finds) if some else -1 for piece, some in zip(order, free, strict=True)]
    least = integral(order, cuts, horizon)
    improved = True
    while improved:
        improved = False
        for i in (i for i in range(len(order)) if free[i]):
            for cut in range(len(order[i].finds) + 1):
                tried = [*cuts[:i], cut, *cuts[i + 1 :]]
                if (value := integral(order, tried, horizon)) < least - 1e-9:
                    least, cuts, improved = value, tried, True
        for i in (i for i in range(len(order)) if free[i] and cuts[i]) if sort else ():
            for j in (j for j in range(len(order)) if free[j] and cuts[j]):
                both = list(zip(order, cuts, free, strict=True))
                both.insert(j, both.pop(i))
                other, kept, able = (list(some) for some in zip(*both, strict=True))
                if (value := integral(other, kept, horizon)) < least - 1e-9:
                    least, order, cuts, free, improved = value, other, kept, able, True
                    break
    return least, order, cuts


def skipping(own: Sequence[Piece]) -> list[int]:
    """The cuts that leave out the links without a find, and nothing else."""
    useful = {piece.link for piece in own if piece.finds}
    return [0 if leaf and piece.link not in useful else -1 for piece, leaf in zip(own, leaves(own), strict=True)]


def judged(pieces: Sequence[Piece], horizon: float) -> list[float]:
    """The integrals as the run was, and by *skip*, *ends*, *cut* and *sorted*."""
    own = own_finds(pieces)
    ends = [len(piece.finds) if leaf else -1 for piece, leaf in zip(own, leaves(own), strict=True)]
    found = [integral(own, cuts, horizon) for cuts in ([-1] * len(own), skipping(own), ends)]
    found += [min(found[0], best(own, horizon, sort)[0]) for sort in (False, True)]
    return [*found[:4], min(found[3:])]


def plan_of(pieces: Sequence[Piece], horizon: float, kind: str) -> dict[str, list[float]]:
    """The seconds of each call of a link by that kind of plan; the last one has all that is left."""
    own = own_finds(pieces)
    found, last = dict[str, list[float]](), ""
    if kind == "same":
        return found
    if kind == "skip":
        cuts = skipping(own)
    else:
        _, own, cuts = best(own, horizon, False)
    for piece, cut in zip(own, cuts, strict=True):
        if cut >= 0:
            seconds = SLACK[0] * piece.finds[cut - 1].after + SLACK[1] if cut else LEAST
            found.setdefault(piece.link, []).append(seconds)
            last = piece.link
    if found and kind == "cut":
        found[last][-1] = horizon
    return found


def rows(path: Path) -> Iterator[tuple[str, float, list[Piece]]]:
    """What the file has of each instance."""
    csv.field_size_limit(sys.maxsize)
    with path.open(newline="") as lines:
        for row in csv.DictReader(lines):
            pieces = [
                Piece(link, seconds, tuple(Find(after, up or math.inf, low) for after, up, low in finds))
                for link, seconds, finds in json.loads(row["pieces"])
            ]
            yield row["instance"], float(row["seconds"]), pieces


def plain(pieces: Sequence[Piece]) -> str:
    """The pieces as JSON; an incumbent that there isn't is 0."""
    return json.dumps(
        [
            (link, round(seconds, 4), [(round(at, 4), 0 if up == math.inf else up, low) for at, up, low in finds])
            for link, seconds, finds in pieces
        ]
    )


def table(path: Path, again: Sequence[Path]) -> str:
    """The table in Markdown; each further file is named after its plan."""
    anew = [{name: pieces for name, _, pieces in rows(one)} for one in again]
    plans = ("skip", "ends", "cut", "sorted")
    heads = ("instance", "gap at the end", "as it was", *plans, *(f"run: {one.stem}" for one in again))
    lines = [f"| {' | '.join(heads)} |", f"|---{'|--:' * (len(heads) - 1)}|"]
    ratios: dict[str, list[tuple[float, ...]]] = {}
    for name, seconds, pieces in rows(path):
        was, *others = judged(pieces, seconds)
        last = [one for piece in pieces for one in piece.finds][-1:]
        gap = 1 - last[0].lower / last[0].upper if last and last[0].upper < math.inf else 1.0
        others += [integral(one[name], [-1] * len(one[name]), seconds) if name in one else math.nan for one in anew]
        shares = tuple(value / was for value in others)
        told = " | ".join("" if share != share else f"{share:.3f}" for share in shares)
        lines.append(f"| `{name}` | {gap:.1%} | {was:.3f} | {told} |")
        ratios.setdefault(name.partition("/")[0], []).append(shares)
    every = [some for family in ratios.values() for some in family]
    for family, some in [*ratios.items(), ("all", every)]:
        known = [[value for value in values if value == value] for values in zip(*some, strict=True)]
        means = " | ".join(f"{statistics.geometric_mean(values):.3f}" if values else "" for values in known)
        lines.append(f"| **{family}**, geometric mean | | | {means} |")
    return "\n".join(lines) + "\n"


def run(out: Path, seconds: float, only: str, seed: int, plans: dict[str, dict[str, list[float]]] | None) -> None:
    """Measure what isn't in the file yet, each instance in a process of its own."""
    done = {name for name, _, _ in rows(out)} if out.exists() else set()
    with out.open("a", newline="") as file:
        writer = csv.writer(file)
        if not out.stat().st_size:
            writer.writerow(COLUMNS)
        for name in INSTANCES:
            if name in done or only not in name or (plans is not None and name not in plans):
                continue
            command = [sys.executable, "-m", "benchmarks.link_shares", "--csv", "-", "--seconds", str(seconds)]
            command += ["--seed", str(seed)]
            asked = json.dumps(plans[name] if plans else {})
            child = subprocess.run([*command, "--one", name], input=asked, capture_output=True, text=True, timeout=900)
            text = next((line[7:] for line in child.stdout.splitlines() if line.startswith("PIECES ")), "")
            print(f"{os.getloadavg()[0]:.1f} {name} {len(text)}", child.stderr[-300:] if not text else "", flush=True)
            if text:
                writer.writerow([name, seconds, text])
                file.flush()


def main() -> None:
    """Measure, or write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--csv", type=Path, required=True)
    parser.add_argument("--again", type=Path, nargs="*", default=[])
    parser.add_argument("--plan", choices=("cut", "skip", "same"), default="cut")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--markdown", type=Path)
    args = parser.parse_args()
    if args.table:
        text = table(args.csv, args.again)
        args.markdown.write_text(text, encoding="utf-8") if args.markdown else print(text)
    elif args.one:
        plan = json.loads(sys.stdin.read() or "{}")
        sys.stdout.write("PIECES " + plain(measure(args.one, args.seconds, plan, args.seed)) + "\n")
    elif args.again:
        plans = {name: plan_of(pieces, seconds, args.plan) for name, seconds, pieces in rows(args.csv)}
        run(args.again[0], args.seconds, args.only, args.seed, plans)
    else:
        run(args.csv, args.seconds, args.only, args.seed, None)


if __name__ == "__main__":
    main()
