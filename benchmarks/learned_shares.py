"""Links' shares learned from traces of other instances, beside the chains' fixed shares, on held-out instances.

    python -m benchmarks.link_shares --csv TRAIN --seconds 10
    python -m benchmarks.learned_shares --train TRAIN --fit
    python -m benchmarks.learned_shares --train TRAIN --csv FILE [--seconds 10] [--repeats 2] [--count 3] [--only TEXT]
    python -m benchmarks.learned_shares --train TRAIN --csv FILE --table

The first command makes the traces: which link worked from when to when, and what it found. From these each family
learns a *cap* for each of its chain's links: the seconds that a call of it may take. A cap is *slack* times the longest
time from the start of a call to its last find, and 0.02 s. A link that found nothing has 0.001 s. A link that still
found something when time was up has no cap, and one that takes less than 1% of the time keeps its share. Four ways:

- *idle*: only links that found nothing have a cap;
- *caps*: of all training instances of the family, the longest time;
- *by size*: the same, in proportion to an instance's size (operations, kernels or layers times chips or devices);
- *nearest*: the caps of the training instance whose size is nearest.

``--fit`` leaves one training instance out after the other, and predicts its integral from its trace, as if each link
found the same whatever was found before. The way and the slack with the least geometric mean are the family's. The
second command runs each held-out instance with fixed and learned shares in turn, in processes whose clocks count their
own seconds of the processor.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import link_shares
from benchmarks.link_shares import LEAST, Piece, integral, leaves, measure, own_finds, plain, rows

#: Networks, scenarios and wafers that no trace was made of.
HELD_OUT = (
    *("ring/mixer-24-36", "ring/googlenet-6", "ring/unet-12"),
    *("placement/inception-2-pcie", "placement/transformer-xl-4-pcie", "placement/transformer-xl-2-nvlink"),
    *("dataflow/hpl-5m-sn30-32x32", "dataflow/fft-2e40-sn30-32x32", "dataflow/moe-64-experts"),
    *("wafer/ispd2020-F", "wafer/gpt2", "wafer/ispd2020-P"),
    *("multimodel/scar-10-whole", "multimodel/scar-2-pipelined", "multimodel/four-models"),
)
#: Test graphs of ``ring``'s policies: network and parameters.
RING = {
    "ring/mixer-24-36": ("mixer", {"layers": 24, "hidden": 1024, "patch": 16, "batch": 1}),
    "ring/googlenet-6": ("googlenet", {"norm": False, "image": 128, "batch": 4}),
}
WAYS, SLACKS = ("idle", "caps", "by size", "nearest"), (1.1, 2.0, 4.0)
#: A link that takes less of the time keeps its share.
SMALL = 0.01
SIDES = ("fixed", "learned")
#: A cap of a link's calls by its name.
Caps = dict[str, float]


class Trace(NamedTuple):
    """A run with fixed shares of an instance of that size, of so many seconds."""

    name: str
    size: float
    seconds: float
    pieces: list[Piece]


def given(name: str) -> Any:
    """The instance of a name of :data:`HELD_OUT` or of a shipped one."""
    from chipmap.inputs.plain import instance_of
    from chipmap.learned.ring.data import ROWS

    if name in RING:
        network, parameters = RING[name]
        return next(row for row in ROWS if (row.network, row.parameters) == (network, parameters)).instance()
    return instance_of(name)


def size_of(name: str) -> float:
    """Operations, kernels or layers times the chips, devices or chiplets that they may go to."""
    instance = given(name)
    family = name.partition("/")[0]
    if family == "ring":
        return float(len(instance.graph.operations) * instance.package.chips)
    if family == "placement":
        return float(len(instance.graph.operations) * len(instance.system.devices))
    if family == "dataflow":
        return float(len(instance.workload.kernels))
    if family == "wafer":
        return float(len(instance.kernels))
    return float(sum(len(model.layers) for model in instance.models) * len(instance.module.chiplets))


def learned(traces: list[Trace], size: float, way: str, slack: float) -> Caps:
    """The caps that traces teach an instance of that size."""
    if way == "nearest":
        traces = [min(traces, key=lambda one: abs(math.log(one.size / size)))]
    spent, last, found = dict[str, float](), dict[str, float](), set[str]()
    for trace in traces:
        scale, left = size / trace.size if way == "by size" else 1.0, trace.seconds
        own = own_finds(trace.pieces)
        for piece, leaf in zip(own, leaves(own), strict=True):
            left -= piece.seconds
            if not leaf:
                continue
            spent[piece.link] = spent.get(piece.link, 0.0) + piece.seconds / trace.seconds / len(traces)
            if piece.finds:
                found.add(piece.link)
                until = math.inf if left < SMALL * trace.seconds else scale * piece.finds[-1].after
                last[piece.link] = max(last.get(piece.link, 0.0), until)
    long = [link for link, share in spent.items() if share >= SMALL]
    idle = {link: LEAST for link in long if link not in found}
    return idle if way == "idle" else idle | {link: slack * last[link] + 0.02 for link in long if link in found}


def shortened(pieces: list[Piece], caps: Caps) -> list[Piece]:
    """The pieces as they are if each link's calls end with its cap, and all else stays."""
    made = []
    for piece, leaf in zip(pieces, leaves(pieces), strict=True):
        cap = caps.get(piece.link, math.inf) if leaf else math.inf
        finds = tuple(find for find in piece.finds if find.after <= cap)
        made.append(piece._replace(seconds=min(cap, piece.seconds), finds=finds))
    return made


def predicted(trace: Trace, caps: Caps) -> float:
    """The integral of a trace with these caps over its own, as if finds didn't depend on each other."""
    own = own_finds(trace.pieces)
    whole = [-1] * len(own)
    return integral(shortened(own, caps), whole, trace.seconds) / integral(own, whole, trace.seconds)


def choices() -> list[tuple[str, float]]:
    """The ways with their slacks."""
    return [("idle", 1.0), *itertools.product(WAYS[1:], SLACKS)]


def fits(traces: list[Trace]) -> dict[tuple[str, float], list[float]]:
    """For each way and slack the predicted share of each trace's integral, learned from the others."""
    return {
        (way, slack): [
            predicted(one, learned([other for other in traces if other is not one], one.size, way, slack))
            for one in traces
        ]
        for way, slack in choices()
    }


def training(path: Path) -> dict[str, list[Trace]]:
    """The traces by family."""
    found = dict[str, list[Trace]]()
    for name, seconds, pieces in rows(path):
        found.setdefault(name.partition("/")[0], []).append(Trace(name, size_of(name), seconds, pieces))
    return found


def chosen(traces: list[Trace]) -> tuple[str, float]:
    """The way and slack that predict the least geometric mean on traces left out."""
    made = fits(traces)
    return min(made, key=lambda one: statistics.geometric_mean(made[one]))


def fit_table(traces: dict[str, list[Trace]]) -> str:
    """What each way predicts for traces that are left out, in Markdown."""
    lines = [f"| way | slack | {' | '.join(traces)} |", f"|---|--:|{'--:|' * len(traces)}"]
    made = {family: fits(some) for family, some in traces.items()}
    for way, slack in choices():
        cells = [f"{statistics.geometric_mean(made[family][way, slack]):.3f}" for family in traces]
        lines.append(f"| {way} | {slack:g} | {' | '.join(cells)} |")
    return "\n".join(lines)


def first(count: int) -> list[str]:
    """The first so many held-out instances of each family."""
    families = itertools.groupby(HELD_OUT, lambda name: name.partition("/")[0])
    return [name for _, names in families for name in itertools.islice(names, count)]


def run(train: Path, out: Path, seconds: float, repeats: int, only: str, count: int) -> None:
    """Run the first ``count`` held-out instances of each family, what isn't in the file yet. Fixed and learned have
    turns; the second repeat begins with the learned shares."""
    traces = training(train)
    ways = {family: chosen(some) for family, some in traces.items()}
    csv.field_size_limit(sys.maxsize)
    lines = _lines(out)
    done = {(one["instance"], one["side"], int(one["repeat"]), float(one["seconds"])) for one in lines}
    with out.open("a", newline="") as file:
        writer = csv.writer(file)
        if not out.stat().st_size:
            writer.writerow(("instance", "side", "repeat", "seconds", "load", "pieces"))
        for repeat, name in itertools.product(range(repeats), first(count)):
            family = name.partition("/")[0]
            if only not in name or family not in ways:
                continue
            caps = learned(traces[family], size_of(name), *ways[family])
            caps = {link: min(cap, seconds) for link, cap in caps.items()}
            for side in SIDES if repeat % 2 == 0 else SIDES[::-1]:
                if (name, side, repeat, seconds) in done:
                    continue
                plan = {link: [cap] * 99 for link, cap in caps.items()} if side == "learned" else {}
                text = _child(name, seconds, plan)
                print(f"{os.getloadavg()[0]:.1f} {name} {side} {repeat} {len(text)}", flush=True)
                if text:
                    writer.writerow((name, side, repeat, seconds, f"{os.getloadavg()[0]:.1f}", text))
                    file.flush()


def _child(name: str, seconds: float, plan: dict[str, list[float]]) -> str:
    """The pieces of a run in a process of its own, as JSON."""
    command = [sys.executable, "-m", "benchmarks.learned_shares", "--seconds", str(seconds), "--one", name]
    child = subprocess.run(command, input=json.dumps(plan), capture_output=True, text=True, timeout=1800)
    if child.returncode:
        print(child.stderr[-400:], flush=True)
    return next((line[7:] for line in child.stdout.splitlines() if line.startswith("PIECES ")), "")


def _lines(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    csv.field_size_limit(sys.maxsize)
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _trace(line: dict[str, str]) -> Trace:
    pieces = [
        Piece(link, seconds, tuple(link_shares.Find(after, up or math.inf, low) for after, up, low in finds))
        for link, seconds, finds in json.loads(line["pieces"])
    ]
    return Trace(line["instance"], size_of(line["instance"]), float(line["seconds"]), pieces)


def whole(trace: Trace) -> float:
    """The integral of the gap over a run's seconds."""
    return integral(trace.pieces, [-1] * len(trace.pieces), trace.seconds)


def row_of(traces: list[Trace], fixed: list[Trace], other: list[Trace]) -> tuple[list[str], tuple[float, ...]]:
    """The cells of an instance: its gap in the end and integrals; then learned / fixed, fixed again / fixed, what each
    way and the oracle *cut* predict by the traces with fixed shares."""
    was, now = [whole(one) for one in fixed], [whole(one) for one in other]
    finds = [find for piece in fixed[0].pieces for find in piece.finds]
    gap = 1 - finds[-1].lower / finds[-1].upper if finds and finds[-1].upper < math.inf else 1.0
    values = [statistics.geometric_mean(now) / statistics.geometric_mean(was)]
    values.append(was[1] / was[0] if len(was) > 1 else math.nan)
    made = fits(traces)
    for way in WAYS:
        best = min((one for one in made if one[0] == way), key=lambda one: statistics.geometric_mean(made[one]))
        caps = learned(traces, fixed[0].size, *best)
        values.append(statistics.geometric_mean([predicted(one, caps) for one in fixed]))
    values.append(statistics.geometric_mean([oracle(one) for one in fixed]))
    cells = [f"{gap:.1%}", *(", ".join(f"{one:.3f}" for one in some) for some in (was, now))]
    return cells, tuple(values)


def table(train: Path, out: Path, seconds: float) -> str:
    """A row per held-out instance, and geometric means of each family, in Markdown."""
    traces, lines = training(train), [one for one in _lines(out) if float(one["seconds"]) == seconds]
    heads = ("instance", "gap at the end", *SIDES, "learned / fixed", "fixed again / fixed", *WAYS, "cut")
    text = [f"| {' | '.join(heads)} |", f"|---|{'--:|' * (len(heads) - 1)}"]
    every = dict[str, list[tuple[float, ...]]]()
    for name in HELD_OUT:
        runs = {
            side: [_trace(one) for one in lines if (one["instance"], one["side"]) == (name, side)] for side in SIDES
        }
        if all(runs.values()):
            family = name.partition("/")[0]
            cells, values = row_of(traces[family], *runs.values())
            every.setdefault(family, []).append(values)
            cells += ["" if one != one else f"{one:.3f}" for one in values]
            text.append(f"| `{name}` | {' | '.join(cells)} |")
    for family, some in [*every.items(), ("all", [one for several in every.values() for one in several])]:
        known = [[one for one in column if one == one] for column in zip(*some, strict=True)]
        means = " | ".join(f"{statistics.geometric_mean(column):.3f}" if column else "" for column in known)
        text.append(f"| **{family}**, geometric mean | | | | {means} |")
    return "\n".join(text)


def oracle(trace: Trace) -> float:
    """What *cut* of :mod:`benchmarks.link_shares` makes of a trace, over its own integral."""
    was, _, _, cut, _ = link_shares.judged(trace.pieces, trace.seconds)
    return cut / was


def main() -> None:
    """Fit, run, or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--count", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        pieces = measure(given(asked.one), asked.seconds, json.loads(sys.stdin.read() or "{}"))
        sys.stdout.write("PIECES " + plain(pieces) + "\n")
    elif asked.fit:
        traces = training(asked.train)
        print(fit_table(traces))
        for family, some in traces.items():
            print(family, *chosen(some), learned(some, some[0].size, *chosen(some)))
    elif asked.table:
        print(table(asked.train, asked.csv, asked.seconds))
    else:
        run(asked.train, asked.csv, asked.seconds, asked.repeats, asked.only, asked.count)


if __name__ == "__main__":
    main()
