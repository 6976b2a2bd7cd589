"""The price of the grain: ten networks cut anywhere, between modules, or between blocks.

    python -m benchmarks.grain [--seconds S] [--only WORD ...] [--again] [--kept FILE] [--write]

Each network becomes an instance of ``ring`` (chips of 16 GiB, all constraints) and one of ``placement`` (P100 by
NVLink, objective ``throughput``, memory rule ``static``), for 2 and for 4 stages, cut at each grain
(:mod:`chipmap.instances.grain`). The family's best chain solves it on one thread, in a process of its own, within S
seconds by the clock; CPU seconds say what a busy machine gave of these. A mapping of a coarser grain is one of each
finer grain as well, and a bound of a finer grain one of each coarser grain: cells have the best of them. The price is
the objective at a grain over that at grain ``any``, less 1. Where one of the two isn't proved, it lies between the
bounds that the row says. Each mapping is written in every format of plans that suits it and is read, and comes back
with the same objective; the last column has those of grain ``blocks`` (``csv`` holds any). T5, Whisper and DenseNet
aren't layers in a row. Where torchtitan alone is missing, an operation stands in no module.

``--kept`` holds the rows, one to a line (``benchmarks/results/grain.jsonl``): what is there isn't solved, unless
``--again`` is given. ``--only`` names networks, families, grains and numbers of stages: these rows alone are looked
at, and the page is made of all that are kept. ``--write`` writes ``benchmarks/results/grain.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any, cast

from chipmap import SolveOptions, check, solve
from chipmap.family import family_of, resolve
from chipmap.instances.grain import GRAINS, Grain, cut, modules
from chipmap.instances.placement import PlacementInstance
from chipmap.instances.placement.instance import Task
from chipmap.instances.placement.presets import preset
from chipmap.instances.ring.instance import Package, RingInstance
from chipmap.networks import generators
from chipmap.networks.graph import OperationGraph
from chipmap.plans.emission import emit, unsuited
from chipmap.plans.reading import read_plan
from chipmap.result import Result

#: Network -> its graph.
NETWORKS: dict[str, Callable[[], OperationGraph]] = {
    "bert-base": lambda: generators.bert_encoder(layers=12, hidden=768, heads=12, sequence=128),
    "gpt2": lambda: generators.gpt2(sequence=128),
    "llama-1b": lambda: generators.decoder(sequence=128),
    "qwen3": lambda: generators.decoder(
        style="qwen3", layers=28, hidden=1024, heads=16, head_width=128, intermediate=3072, vocabulary=151936
    ),
    "t5": lambda: generators.t5(),
    "whisper": lambda: generators.whisper(),
    "mamba": lambda: generators.mamba(decomposed=False),
    "resnet50": lambda: generators.resnet(),
    "densenet121": lambda: generators.densenet(),
    "mixer": lambda: generators.mixer(),
}
STAGES = (2, 4)
RESULTS = Path(__file__).parent / "results" / "grain.md"
KEPT = RESULTS.with_suffix(".jsonl")
Row = dict[str, Any]


def ring(name: str, graph: OperationGraph, stages: int) -> RingInstance:
    """The network on a package of so many chips."""
    package = Package(chips=stages, sram_bytes=16 * 2**30)
    return RingInstance(name=f"{name}-{stages}", graph=graph.without_loops(), package=package)


def placement(name: str, graph: OperationGraph, stages: int) -> PlacementInstance:
    """The network on so many devices."""
    task = Task(objective="throughput", memory="static")
    system = preset("p100-nvlink", stages)
    return PlacementInstance(name=f"{name}-{stages}", graph=graph.without_loops(), system=system, task=task)


def row(family: str, name: str, stages: int, grain: Grain, seconds: float) -> Row:
    """One solve: objective and bound in ticks, what is proved, CPU seconds (its child's)."""
    make = ring if family == "ring" else placement
    graph = NETWORKS[name]()
    instance = cut(make(name, graph, stages), [grain]).instance
    before = _spent()
    result = solve(instance, options=SolveOptions(time_limit=seconds, threads=1), isolate=True)
    spent = round(_spent() - before, 1)
    return {
        **{"family": family, "network": name, "stages": stages, "grain": grain, "status": result.status},
        **{"objective": result.objective, "bound": result.bound, "cpu": spent},
        **{"blocks": sum(map(len, modules(graph).blocks.values())), "operations": len(graph.operations)},
        "formats": list(returned(instance, result)),
        "seconds": seconds,
    }


def returned(instance: Any, result: Result) -> Iterator[str]:
    """The formats that suit the mapping; each is written, read and judged. Raises :class:`AssertionError` where what
    comes back is another mapping."""
    if result.solution is None:
        return
    family = family_of(instance)
    solution = resolve(family.solution).make(**result.solution)
    for form in family.plan_formats:
        if not form.adopt or unsuited(form, instance, solution) is not None:
            continue
        files = emit(result, instance, solution, form.name)
        file = next(iter(files))
        _, plan = read_plan(files[file], file, instance, form.name)
        assert plan.pinned is None, plan
        assert check(instance, plan.solution).objective == result.objective
        yield form.name


def _spent() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def nested(each: list[Row]) -> list[Row]:
    """The rows of grains ``any``, ``modules``, ``blocks``, each with what the others say of it.

    A mapping that keeps blocks whole keeps modules whole, so that it is one of every finer grain, and a bound of a
    grain is one of every coarser grain.
    """
    made: list[Row] = []
    for i, one in enumerate(each):
        objective, bound = min(row["objective"] for row in each[i:]), max(row["bound"] for row in each[: i + 1])
        made.append({**one, "objective": objective, "bound": min(bound, objective)})
    return [{**one, "status": "optimal" if one["bound"] == one["objective"] else "feasible"} for one in made]


def price(one: Row, free: Row) -> tuple[float, float]:
    """The least and the most that the grain can cost, as a share of the objective at grain ``any``."""
    low = one["bound"] / free["objective"] - 1
    return max(0.0, low), one["objective"] / free["bound"] - 1


def page(rows: list[Row]) -> str:
    """The results page."""
    by = {(one["family"], one["network"], one["stages"], one["grain"]): one for one in rows}
    shown = ["| family | network | blocks | stages | `any` | `modules` | price | `blocks` | price | CPU s | plans |"]
    shown += ["|---|---|--:|--:|--:|--:|--:|--:|--:|--:|---|"]
    prices: dict[tuple[str, str], list[float]] = {}
    settled = 0
    for family, unit in (("ring", 1e-5), ("placement", 1e-3)):
        for name in NETWORKS:
            for stages in STAGES:
                each = [by.get((family, name, stages, grain)) for grain in GRAINS]
                if any(one is None or one["objective"] is None for one in each):
                    continue
                free, *others = nested([one for one in each if one is not None])
                cells, settled = [_time(free, unit)], settled + (free["status"] == "optimal")
                for one in others:
                    least, most = price(one, free)
                    proved = one["status"] == free["status"] == "optimal"
                    settled += one["status"] == "optimal"
                    cells += [_time(one, unit), f"{least:.1%}" if proved else f"{least:.1%} to {most:.1%}"]
                    if proved:
                        prices.setdefault((family, one["grain"]), []).append(least)
                cells += ["/".join(f"{one['cpu']:.0f}" for one in (free, *others)), _formats(others[-1])]
                shown.append(f"| {family} | {name} | {free['blocks']} | {stages} | {' | '.join(cells)} |")
    means = [
        f"| {family} | `{grain}` | {len(each)} | {mean(each):.1%} | {max(each):.1%} | {sum(one == 0 for one in each)} |"
        for (family, grain), each in prices.items()
    ]
    summary = ["| family | grain | proved | mean | most | at no price |", "|---|---|--:|--:|--:|--:|", *means]
    said = (__doc__ or "").split("\n\n")[2].replace("``", "`").replace(":mod:", "")
    limits = ", ".join(f"{one:g}" for one in sorted({one["seconds"] for one in rows}))
    head = f"# The price of the grain\n\n{said}\n\nMade by `python -m benchmarks.grain --write`; S is {limits}. "
    head += f"{settled} of {len(rows)} optima are proved. Objectives are in µs; where one isn't proved its gap is said."
    return "\n".join([head, "", *summary, "", *shown, ""])


def _formats(one: Row) -> str:
    """The formats of plans that the mapping was written in, but for tables, which hold any."""
    return ", ".join(name for name in one.get("formats", ()) if name != "csv")


def _time(one: Row, unit: float) -> str:
    """The objective in µs, of which a tick is ``unit``, with the gap where it isn't proved."""
    gap = "" if one["status"] == "optimal" else f" (gap {one['objective'] / one['bound'] - 1:.1%})"
    return f"{one['objective'] * unit:,.1f}{gap}"


Key = tuple[str, str, int, Grain]


def key_of(one: Row) -> Key:
    """What is solved in a row."""
    return one["family"], one["network"], one["stages"], one["grain"]


def wanted(only: list[str]) -> Iterator[Key]:
    """What is solved, quick ones first; ``only``: words, of each kind of which one has to be named if any is."""
    kinds: list[list[str]] = [["ring", "placement"], [*NETWORKS], [str(one) for one in STAGES], [*reversed(GRAINS)]]
    families, networks, stages, grains = ([one for one in kind if one in only] or kind for kind in kinds)
    for family, grain, name, count in product(families, grains, networks, stages):
        yield cast(Key, (family, name, int(count), grain))


def main() -> None:
    """Solve what isn't kept yet, and print or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit of a solve")
    words = [*NETWORKS, "ring", "placement", *GRAINS, *map(str, STAGES)]
    parser.add_argument("--only", nargs="+", default=[], choices=words, metavar="WORD", help=", ".join(words))
    parser.add_argument("--again", action="store_true", help="solve kept rows again")
    parser.add_argument("--kept", type=Path, default=KEPT, help="rows as lines of JSON; new ones are added")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    asked = parser.parse_args()
    lines = asked.kept.read_text().splitlines() if asked.kept.exists() else []
    rows: dict[Key, Row] = {key_of(one): one for one in map(json.loads, lines)}
    for key in wanted(asked.only):
        if asked.again or key not in rows:
            rows[key] = row(*key, asked.seconds)
            print(json.dumps(rows[key]), f"load {os.getloadavg()[0]:.1f}", flush=True)
            asked.kept.write_text("".join(json.dumps(one) + "\n" for one in rows.values()))
    text = page(list(rows.values()))
    if asked.write:
        RESULTS.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
