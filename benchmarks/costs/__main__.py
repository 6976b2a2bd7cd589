"""Learned costs: export networks, then judge what is learned from their measured times.

    python -m benchmarks.costs export FOLDER                 files of all networks (extra zoo)
    chipmap measure FOLDER/*.pt2 --out TABLE --passes 4      about four minutes of the processor
    python -m benchmarks.costs page FOLDER TABLE [--said FILE] [--out FILE]
    python -m benchmarks.costs sweep FOLDER                  files of chains of random convolutions (extra torch)
    python -m benchmarks.costs operators FOLDER              files of chains of all other operators
    python -m benchmarks.costs shapes FOLDER                 files of chains of single operators of many shapes
    python -m benchmarks.costs others FOLDER                 files of networks of other kinds
    python -m benchmarks.costs fresh FOLDER                  files of 18 networks of nine architectures (extra zoo)
    python -m benchmarks.costs later FOLDER                  files of networks that came after the model
    python -m benchmarks.costs newest FOLDER                 files of twenty networks that came after these
    python -m benchmarks.costs unseen FOLDER                 files of 24 networks that came after the orders of memory
    python -m benchmarks.costs cuts FOLDER TABLE [--sweep TABLE...] [--others FOLDER TABLE]
                                                             cuts of chains that know how wrong times may be, printed

``--said``: what ``chipmap measure`` printed, for the times of whole passes. ``--sweep``: the measured times of the
chains, which are learned from as well. ``--others``: networks that are judged in place of the first ones.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.costs import judge
from chipmap.instances.learned import Network, networks
from chipmap.instances.measured import fingerprint
from chipmap.measuring.passes import pace_of
from chipmap.measuring.table import earlier
from chipmap.networks.importers.reading import import_graph

PAGE = Path(__file__).resolve().parents[1] / "results" / "learned-costs.md"
#: Programs that are written.
SETS = ("export", "sweep", "operators", "shapes", "others", "fresh", "later", "newest", "unseen")
_TIME = {"us": 1e3, "ms": 1e6, "s": 1e9}

INTRO = """# Learned costs

`chipmap measure` timed {count} networks of {architectures} architectures on one core of an AMD EPYC (Zen 4). PyTorch
2.13 ran them in float32 on one thread, {operations:,} operations in all. Each architecture has two sizes, 4 to 90 ms.
Every network is predicted by the other architectures alone. The machine's two cores were shared with six other
processes, and the reference product took 26.9% longer at its slowest than at its fastest. Times are seconds of the
processor.

The table has four passes. The first and third are what is learned and judged by, the second and fourth are the repeat.

"""

HOW = """
## What is compared

| predictor | what it says |
|---|---|
| data sheet | the larger of FLOP / 118.4 per ns and bytes / 38.4 per ns |
| roofline fitted | the same with both rates and a constant fitted to all operations |
| fit per operator | a constant, and times per FLOP and byte (activations, parameters), for each operator and sort |
| nearest | the fit, scaled as the nearest measured operation is |
| learned | the fit, scaled as the 16 nearest are: what `--costs learned:FILE` takes |
| one sort | the same, with all convolutions together |
| repeat | the other two passes |

Run it again. FILE has what `chipmap measure` prints, of which whole passes are read:

```sh
python -m benchmarks.costs export nets
chipmap measure nets/*.pt2 --out costs.csv --passes 4
python -m benchmarks.costs page nets costs.csv --said FILE
```
"""


def main() -> int:
    """Export, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=(*SETS, "page", "cuts"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("table", type=Path, nargs="?")
    parser.add_argument("--said", type=Path)
    parser.add_argument("--sweep", type=Path, metavar="TABLE", nargs="+", default=[])
    parser.add_argument("--others", type=Path, nargs=2, metavar=("FOLDER", "TABLE"))
    parser.add_argument("--out", type=Path, default=PAGE)
    given = parser.parse_args()
    if given.what not in ("page", "cuts"):
        for name in exported(given.what, given.folder):
            print(name, flush=True)
        return 0
    pace = pace_of(earlier(given.table, ""))
    swept = [chain for table in given.sweep for chain in chains(table, pace)]
    named = measured(given.folder, given.table, pace)
    judged = measured(given.others[0], given.others[1], pace) if given.others else named
    found = list(judge.cases(named, swept, judged))
    if given.what == "cuts":
        print(_operations(found) + _groups(found) + _intervals(found, "") + _plans(found) + _cuts(found))
        return 0
    said = given.said.read_text() if given.said else ""
    given.out.write_text(page(found, said))
    return 0


def exported(what: str, folder: Path) -> Iterator[str]:
    """Write the programs of a set that aren't there, and yield the name of each. Needs PyTorch, networks an extra."""
    if what in ("export", "fresh", "later", "newest", "unseen"):
        from benchmarks.costs import fresh, networks, unseen

        sets = {"export": networks.ARCHITECTURES, "fresh": fresh.FRESH, "later": fresh.LATER, "newest": fresh.NEWEST}
        return networks.write(folder, (sets | {"unseen": unseen.UNSEEN})[what])
    from benchmarks.costs import files, operators, others, shapes, sweep

    chains_of = {"sweep": sweep, "operators": operators, "shapes": shapes, "others": others}
    return files.write(folder, chains_of[what].programs())


def _passes(table: Path, pace: float) -> dict[str, list[list[float]]]:
    """By graph the ns of each operation in each pass, at a pace of the processor (:mod:`chipmap.measuring.pace`)."""
    return {
        graph: [[max(1.0, ns) for ns in operation.at(pace)] for operation in one.operations.values()]
        for graph, one in earlier(table, "").items()
    }


def chains(table: Path, pace: float) -> list[Network]:
    """The networks of a sweep, at a pace."""
    found, passes = networks(str(table))[""], _passes(table, pace)
    return [Network(one.works, [median(ns) for ns in passes[graph]], one.modules) for graph, one in found.items()]


def measured(folder: Path, table: Path, pace: float) -> list[tuple[str, str, Network, Any, Any]]:
    """Each network's name, architecture, works and modules, and its times on two occasions, at a pace."""
    names = {fingerprint(import_graph(str(path)).graph): path.stem for path in sorted(folder.glob("*.pt2"))}
    found, passes = networks(str(table))[""], _passes(table, pace)
    if strange := found.keys() - names.keys():
        many = f"{len(strange)} of its {len(found)} graphs are no program of {folder} as this version reads it"
        raise SystemExit(f"{table}: {many}. Measure again: chipmap measure {folder}/*.pt2 --out NEW.csv")
    named = []
    for graph, network in found.items():
        one, other = (np.array([median(times[i::2]) for times in passes[graph]]) for i in (0, 1))
        named.append((names[graph], names[graph].rpartition("-")[0], network, one, other))
    return named


def page(found: list[judge.Case], said: str) -> str:
    """The page of all tables."""
    text = INTRO.format(
        count=len(found),
        architectures=len({one.architecture for one in found}),
        operations=sum(len(one.ns) for one in found),
    )
    return text + _operations(found) + _intervals(found, said) + _plans(found) + _networks(found) + HOW


def _table(title: str, head: list[str], rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(one)} |" for one in (head, ["---"] * len(head), *rows)]
    return f"## {title}\n\n" + "\n".join(lines) + "\n\n"


def _operations(found: list[judge.Case]) -> str:
    head = ["median error", *judge.PREDICTORS, "target"]
    keys = {
        "long": ("operations of more than 200 µs", "12%"),
        "short": ("operations of 20 to 200 µs", "20%"),
        "weighted": ("all, weighted by time", "15%"),
        "totals": ("totals of networks", "7%"),
        "totals90": ("totals, 90th percentile", "25%"),
    }
    every = [judge.errors(found, one) for one in judge.PREDICTORS]
    rows = [[name, *(f"{one[key]:.1%}" for one in every), target] for key, (name, target) in keys.items()]
    return _table("Operations and totals", head, rows)


def _groups(found: list[judge.Case]) -> str:
    """Convolutions, poolings, all others: how many operations, and their median errors."""
    rows = []
    for name, word in (("convolutions", "convolution"), ("poolings", "pool"), ("other operations", "")):
        others = [] if word else ["convolution", "pool"]
        chosen = [
            np.array([word in work.kind and not any(x in work.kind for x in others) for work in one.network.works])
            for one in found
        ]
        errors = [
            np.median(np.concatenate([abs(c.guesses[by] / c.ns - 1)[at] for c, at in zip(found, chosen, strict=True)]))
            for by in judge.PREDICTORS
        ]
        rows.append([name, f"{sum(at.sum() for at in chosen):,}", *(f"{error:.1%}" for error in errors)])
    return _table("Operations", ["median error", "operations", *judge.PREDICTORS], rows)


def _intervals(found: list[judge.Case], said: str) -> str:
    figures = judge.covered(found)
    rows = [
        ["operations within their intervals, mean over networks", f"{figures['operations']:.1%}", "85 to 95%"],
        ["the same, weighted by time", f"{figures['by time']:.1%}", "85 to 95%"],
        ["high / low, median of operations", f"{figures['high/low']:.2f}", "3"],
        ["high / low, of operations over 20 µs", f"{figures['high/low, over 20 µs']:.2f}", "3"],
    ]
    whole = {
        Path(path).stem: float(amount) * _TIME[unit]
        for path, amount, unit in re.findall(r"(\S+\.pt2): .*a whole pass takes ([\d.]+) (us|ms|s)", said)
    }
    if whole:
        known = [one for one in found if one.name in whole]
        between = {one.name: (whole[one.name] - one.ns.sum()) / len(one.ns) for one in known}
        guess = {one.name: float(one.guesses["learned"].sum()) for one in known}
        mended = {
            one.name: guess[one.name]
            + len(one.ns) * np.median([between[x.name] for x in known if x.architecture != one.architecture])
            for one in known
        }
        for label, totals in (("", guess), (" and a time between operations, learned as well", mended)):
            error = np.median([abs(totals[name] / whole[name] - 1) for name in totals])
            rows.append([f"whole passes, by learned totals{label}: median error", f"{error:.1%}", "10%"])
        large = np.median([one.ns.sum() / whole[one.name] - 1 for one in known])
        rows.append(["measured totals beside whole passes, median", f"{large:+.1%}", ""])
    return _table("Intervals and whole passes", ["figure", "measured", "target"], rows)


def _plans(found: list[judge.Case]) -> str:
    rows = []
    for stages, mean in zip(judge.STAGES, ("2%", "5%", "8%"), strict=True):
        every = [judge.losses(found, one, stages) for one in judge.PREDICTORS]
        rows.append([f"{stages} stages, mean loss", *(f"{np.mean(one):.1%}" for one in every), mean])
        rows.append([f"{stages} stages, worst", *(f"{max(one):.0%}" for one in every), "25%"])
    ranked = [np.array(judge.ranks(found, one)) for one in judge.PREDICTORS]
    label = f"networks with a rank correlation of 0.9 or more over {judge.PLANS} plans"
    rows.append([label, *(f"{np.mean(one >= 0.9):.0%}" for one in ranked), "70%"])
    words = "Each network is cut into consecutive stages, exactly by predicted times. The loss is how much longer the\n"
    words += "slowest stage takes than that of the best cut, both by measured times.\n\n"
    made = _table("Plans", ["plans", *judge.PREDICTORS, "target"], rows)
    return made.replace("## Plans\n\n", f"## Plans\n\n{words}")


CUTS = """Several cuts are as good by the predictions, and not by the measured times. Which is taken?

| cut | what it makes least |
|---|---|
| point | the largest stage by predicted times, stages filled one after the other |
| high ends | the same by the upper ends of the intervals |
| powers | the sum of the eighth powers of predicted stages, so that the others are balanced too |
| samples | the mean of the largest stage over 200 samples of all times, moving an end at a time |

Errors of samples are those that other architectures show. They are drawn for each operation alone; once for
operations of the same work; or so, with a share that all operations of an operator or sort have in common.

"""


def _cuts(found: list[judge.Case]) -> str:
    ways = list(found[0].cuts[judge.STAGES[0]])
    rows = []
    for stages in judge.STAGES:
        every = [judge.losses_of_cuts(found, way, stages) for way in ways]
        rows.append([f"{stages} stages, mean loss", *(f"{np.mean(one):.1%}" for one in every)])
        rows.append([f"{stages} stages, worst", *(f"{max(one):.0%}" for one in every)])
    title = "Cuts that know their errors"
    return _table(title, ["cuts", *ways], rows).replace(f"## {title}\n\n", f"## {title}\n\n{CUTS}")


def _networks(found: list[judge.Case]) -> str:
    rows = [
        [
            one.name,
            f"{len(one.ns)}",
            f"{one.ns.sum() / 1e6:.1f}",
            *(f"{one.guesses[name].sum() / one.ns.sum() - 1:+.0%}" for name in judge.PREDICTORS),
        ]
        for one in sorted(found, key=lambda case: case.name)
    ]
    return _table("Each network's total", ["network", "operations", "ms", *judge.PREDICTORS], rows)


if __name__ == "__main__":
    sys.exit(main())
