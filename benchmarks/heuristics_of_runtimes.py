"""How far from the optimum the stages are that runtimes choose by themselves: networks of ``ring``, 2 and 4 stages.

    python -m benchmarks.heuristics_of_runtimes [--seconds S] [--only NAME ...] [--grain FILE] [--write]

Instances and networks are those of :mod:`benchmarks.grain`. A network is cut into units: its blocks, and the largest
other modules, in the order of the trace. What stands in none goes with what it reads. Three rules give each unit to a
stage:

=================  ====================================================================================================
equal layers       vLLM's, without ``VLLM_PP_LAYER_PARTITION``: equally many blocks per stage, what is left over to the
                   stages before the last one; what comes before the blocks to the first stage, the rest to the last
with ends          torchtitan's: the same, but what comes before and behind the blocks counts as a block each
by parameters      accelerate's way to balance: units in order, until a stage has its share of the parameters' bytes
=================  ====================================================================================================

The checker judges each. The gap is (objective - bound) / bound, with the bound that ``ring/auto`` proves of the free
instance on one thread. The gain is 1 less the ratio of its objective to that of the best of the three rules.

METIS cuts the instances of ``placement`` (``placement/metis``, parts of equal time or of equal bytes, the better one).
Its gap is to the bound of the free instance in the rows that ``benchmarks.grain`` has kept, and the gain is that of the
best mapping there.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean

from benchmarks.grain import GRAINS, NETWORKS, STAGES, Row, nested, placement, ring
from chipmap import SolveOptions, check, solve
from chipmap.instances.grain import modules
from chipmap.instances.ring.contraction import lift
from chipmap.instances.ring.instance import RingInstance
from chipmap.instances.ring.problem import ring_problem
from chipmap.plans.layers.vllm import default

RESULTS = Path(__file__).parent / "results" / "heuristics-of-runtimes.md"
#: A unit: whether it is a block, and its computing operations.
Unit = tuple[bool, list[int]]


def units(instance: RingInstance) -> list[Unit]:
    """The units of a network in the order of their first operations."""
    found = modules(instance.graph, instance.scopes)
    computing = ring_problem(instance).computing
    made: dict[tuple[str, ...], Unit] = {}
    for v in instance.graph.topological_order():
        if computing[v] and (unit := found.unit(v, "blocks")):
            made.setdefault(unit, (bool(found.block[v]), []))[1].append(v)
    return list(made.values())


def equal_layers(instance: RingInstance, of: Sequence[Unit], stages: int) -> list[int]:
    """The stage of each unit: equally many blocks."""
    counts = default(sum(block for block, _ in of), stages)
    return _by_counts([block for block, _ in of], counts)


def with_ends(instance: RingInstance, of: Sequence[Unit], stages: int) -> list[int]:
    """The stage of each unit: equally many, what comes before and behind the blocks counted as one each.

    What is left over goes to the first stages, as torchtitan's own list has it.
    """
    blocks = sum(block for block, _ in of)
    each, over = divmod(blocks + 2, stages)
    counts = [each + (i < over) for i in range(stages)]
    counts[0] -= 1
    counts[-1] -= 1
    return _by_counts([block for block, _ in of], counts)


def _by_counts(blocks: Sequence[bool], counts: Sequence[int]) -> list[int]:
    """The stage of each unit, so many blocks on each; others go with the block before them, the first to stage 0."""
    stage = [i for i, count in enumerate(counts) for _ in range(count)]
    made, seen = list[int](), 0
    for block in blocks:
        seen += block
        made.append(stage[max(0, seen - 1)])
    last = max((i for i, block in enumerate(blocks) if block), default=0)
    return [len(counts) - 1 if i > last else one for i, one in enumerate(made)]


def by_parameters(instance: RingInstance, of: Sequence[Unit], stages: int) -> list[int]:
    """The stage of each unit: the next one once a stage has its share of the bytes."""
    graph = instance.graph
    read = graph.constants_read()
    counted: set[int] = set()
    sizes = []
    for _, operations in of:
        shared = {t for v in operations for t in read[v]} - counted
        counted |= shared
        sizes.append(
            sum(graph.operations[v].weight_bytes for v in operations) + sum(graph.tensors[t].bytes for t in shared)
        )
    share, made, held = sum(sizes) / stages, list[int](), 0
    for size in sizes:
        stage = made[-1] if made else 0
        if made and held + size > share and stage < stages - 1:
            stage, held = stage + 1, 0
        held += size
        made.append(stage)
    return made


RULES: dict[str, Callable[[RingInstance, Sequence[Unit], int], list[int]]] = {
    "equal layers": equal_layers,
    "with ends": with_ends,
    "by parameters": by_parameters,
}


def judged(instance: RingInstance, of: Sequence[Unit], stages: Sequence[int]) -> int | str:
    """The objective of a mapping of units, or which constraint refuses it."""
    problem = ring_problem(instance)
    chip = {v: stage for (_, operations), stage in zip(of, stages, strict=True) for v in operations}
    producers: dict[int, list[int]] = {}
    for u, v in problem.flows.tolist():
        producers.setdefault(v, []).append(u)
    for v in problem.order:
        if problem.computing[v] and v not in chip:
            chip[v] = max((chip[u] for u in producers.get(v, ())), default=0)
    certificate = check(instance, lift(instance, chip))
    if certificate.objective is None or not certificate.feasible:
        return ", ".join(sorted({one.label for one in certificate.violations}))
    return certificate.objective


def by_metis(rows: Sequence[Row], only: Sequence[str]) -> list[str]:
    """The table of METIS on ``placement``, with bounds and best mappings of kept rows."""
    lines = ["| network | stages | bound, µs | found | METIS | gain |", "|---|--:|--:|--:|--:|--:|"]
    kept = {(one["network"], one["stages"], one["grain"]): one for one in rows if one["family"] == "placement"}
    for name in only:
        graph = NETWORKS[name]()
        for stages in STAGES:
            each = [kept[name, stages, grain] for grain in GRAINS if (name, stages, grain) in kept]
            if len(each) < len(GRAINS):
                continue
            free = nested(each)[0]
            result = solve(placement(name, graph, stages), "placement/metis", SolveOptions(threads=1), isolate=True)
            if result.objective is None:
                continue
            shares = [free["objective"] / free["bound"] - 1, result.objective / free["bound"] - 1]
            shares.append(1 - free["objective"] / result.objective)
            cells = [name, str(stages), f"{free['bound'] * 1e-3:,.1f}", *(f"{share:.1%}" for share in shares)]
            lines.append(f"| {' | '.join(cells)} |")
            print(lines[-1], f"load {os.getloadavg()[0]:.1f}", flush=True)
    return lines


def main() -> None:
    """Print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=45.0, help="time limit of a solve")
    parser.add_argument("--only", nargs="+", default=list(NETWORKS), choices=NETWORKS, help="these networks alone")
    parser.add_argument("--grain", type=Path, help="rows that `benchmarks.grain --kept` has written, for METIS")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    asked = parser.parse_args()
    lines = [f"| network | blocks | stages | bound, µs | found | {' | '.join(RULES)} | gain |"]
    lines.append(f"|---|--:|--:|--:|--:|{'--:|' * len(RULES)}--:|")
    gaps: dict[str, list[float]] = {name: [] for name in RULES}
    gains = []
    for name in asked.only:
        graph = NETWORKS[name]()
        for stages in STAGES:
            instance = ring(name, graph, stages)
            of = units(instance)
            result = solve(instance, options=SolveOptions(time_limit=asked.seconds, threads=1), isolate=True)
            assert result.objective is not None and result.bound is not None
            cells, best = list[str](), list[int]()
            for rule, stage_of in RULES.items():
                objective = judged(instance, of, stage_of(instance, of, stages))
                if isinstance(objective, int):
                    gaps[rule].append(objective / result.bound - 1)
                    best.append(objective)
                cells.append(f"{gaps[rule][-1]:.1%}" if isinstance(objective, int) else f"refused ({objective})")
            gains.append(1 - result.objective / min(best)) if best else None
            gain = f"{gains[-1]:.1%}" if best else ""
            blocks = sum(block for block, _ in of)
            found = f"{result.objective / result.bound - 1:.1%}"
            row = [name, str(blocks), str(stages), f"{result.bound * 1e-5:,.1f}", found, *cells, gain]
            lines.append(f"| {' | '.join(row)} |")
            print(lines[-1], f"load {os.getloadavg()[0]:.1f}", flush=True)
    means = [f"| {rule} | {len(each)} | {mean(each):.1%} | {max(each):.1%} |" for rule, each in gaps.items() if each]
    said = (__doc__ or "").partition("Instances and networks")
    text = f"# Stages that runtimes choose by themselves\n\nInstances and networks{said[2]}".replace("``", "`")
    text = text.replace(":mod:`benchmarks.grain`", "[the price of the grain](grain.md)")
    text = _without_table(text)
    command = f"python -m benchmarks.heuristics_of_runtimes --seconds {asked.seconds:g} --grain ROWS --write"
    text += (
        f"\n\nMade by `{command}`. The mapping of `ring/auto` takes {mean(gains):.1%} less time in the mean than the "
    )
    text += f"best of the three rules'; at most {max(gains):.1%} less.\n\n"
    text += "\n".join(["| rule | mappings | mean gap | most |", "|---|--:|--:|--:|", *means, "", *lines, ""])
    if asked.grain:
        rows = [json.loads(line) for line in asked.grain.read_text().splitlines()]
        text += "\n".join(["", *by_metis(rows, asked.only), ""])
    if asked.write:
        RESULTS.write_text(text)
    print(text)


def _without_table(text: str) -> str:
    """The text with its table of rules as a list."""
    before, _, rest = text.partition("=====")
    inside, _, after = rest.partition("\n\n")
    items, current = list[str](), ""
    for line in inside.splitlines():
        if line.startswith("="):
            continue
        if line[:1].isalpha():
            items.append(current)
            name, _, words = line.partition("  ")
            current = f"- **{name}**: {words.strip()}"
        elif line.strip():
            current += f" {line.strip()}"
    items = [*items, current]
    return before + "\n".join(item for item in items if item) + f"\n\n{after.strip()}"


if __name__ == "__main__":
    main()
