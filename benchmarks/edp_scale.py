"""EDP from microseconds to minutes: is what is called optimal the least product?

Each of ``--instances`` seeded instances of family ``multimodel`` (one to three models of up to three layers, one to
three chiplets, up to three windows) has layers of up to 10^2 ns and 10^2 pJ to 10^11 ns and 10^13 pJ. Brute force
lists every schedule and multiplies its T1 by its T2 as whole numbers. It is written from the page alone and imports
nothing that chipmap computes with. ``multimodel/auto`` solves the same instance on one thread.

    python -m benchmarks.edp_scale [--instances 200] > benchmarks/results/edp-scale.md
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, pairwise, permutations, product
from math import ceil
from random import Random
from typing import Any, NamedTuple

Plain = dict[str, Any]
#: A range's segments in a window: (first layer, last layer, chiplet) each.
Segments = tuple[tuple[int, int, int], ...]
#: Powers of ten of a layer's ns, with what a set of instances is called.
SCALES = ((2, "microseconds"), (5, "milliseconds"), (8, "seconds"), (11, "minutes"))
RATES = (0.1, 0.37, 0.7, 1.1, 64.0, 100.0)


class Outcome(NamedTuple):
    """An instance's scale, what brute force found (None: no schedule), and what the solve said."""

    scale: str
    status: str
    least: int | None
    found: int | None
    ticks: int | None
    bound_holds: bool
    tied: float
    seconds: float


def instance(seed: int) -> Plain:
    """A random instance as plain JSON."""
    random = Random(f"edp {seed}")
    power = SCALES[seed % len(SCALES)][0]
    joules = power + random.choice((0, 1, 2))
    count, chiplets = random.choice((1, 2, 2, 3)), random.choice((1, 2, 2, 3))
    kinds = [random.choice("ab") for _ in range(chiplets)]
    models = []
    for m in range(count):
        batch = random.choice((1, 1, 2, 6))
        layers = [
            {
                "name": f"l{k}",
                "in_bytes": random.randrange(3) * random.randrange(10 ** max(1, power - 2)),
                "weight_bytes": random.randrange(2) * random.randrange(10 ** max(1, power - 2)),
                "out_bytes": random.randrange(3) * random.randrange(10 ** max(1, power - 2)),
                "costs": {kind: [random.randrange(1, 10**power), random.randrange(1, 10**joules)] for kind in "ab"},
            }
            for k in range(random.randint(1, 3 if count < 3 else 2))
        ]
        mini = random.choice([b for b in range(1, batch + 1) if batch % b == 0])
        models.append({"name": f"m{m}", "batch": batch, "mini_batch": mini, "layers": layers})
    task = {"objective": "edp", "windows": max(random.choice((1, 2)), -(-count // chiplets))}
    task["charge"] = random.choice(("sender", "both"))
    module = {
        "chiplets": [{"name": f"c{c}", "class": kind, "hops": random.randint(1, 2)} for c, kind in enumerate(kinds)],
        "links": [[f"c{a}", f"c{b}"] for a, b in combinations(range(chiplets), 2) if random.random() < 0.8],
        "nop_bytes_per_ns": random.choice(RATES),
        "dram_bytes_per_ns": random.choice(RATES),
        "hop_ns": random.randrange(40),
        "dram_ns": random.randrange(200),
        "hop_pj_per_byte": random.choice((0.0, 0.29, 16.32)),
        "dram_pj_per_byte": random.choice((1.07, 118.4)),
    }
    return {"schema": "multimodel/1", "name": f"edp-{seed}", "task": task, "models": models, "module": module}


def cost(given: Plain, model: Plain, segments: Segments) -> tuple[int, int]:
    """(ns, pJ) of a model's range in a window, as the page's table of amounts says."""
    module, batch, b = given["module"], model["batch"], model["mini_batch"]
    link, dram, hop, access = (
        Fraction(Decimal(str(module[name])))
        for name in ("nop_bytes_per_ns", "dram_bytes_per_ns", "hop_pj_per_byte", "dram_pj_per_byte")
    )
    times, energy = list[int](), 0
    for place, (first, last, c) in enumerate(segments):
        chiplet, layers = module["chiplets"][c], model["layers"][first : last + 1]
        far = chiplet["hops"] * module["hop_ns"] + module["dram_ns"]
        rate = access + chiplet["hops"] * hop
        time = sum(b * layer["costs"][chiplet["class"]][0] for layer in layers)
        sample = sum(layer["costs"][chiplet["class"]][1] for layer in layers)
        if place == 0:
            time += ceil(b * layers[0]["in_bytes"] / dram + far)
            sample += ceil(layers[0]["in_bytes"] * rate)
        elif given["task"]["charge"] == "both":
            time += ceil(b * model["layers"][first - 1]["out_bytes"] / link + module["hop_ns"])
        if place == len(segments) - 1:
            time += ceil(b * layers[-1]["out_bytes"] / dram + far)
            sample += ceil(layers[-1]["out_bytes"] * rate)
        else:
            time += ceil(b * layers[-1]["out_bytes"] / link + module["hop_ns"])
            sample += ceil(layers[-1]["out_bytes"] * hop)
        times.append(time)
        energy += batch * sample + sum(ceil(layer["weight_bytes"] * rate) for layer in layers)
    weights = sum(ceil(layer["weight_bytes"] / dram) for layer in model["layers"][segments[0][0] : segments[-1][1] + 1])
    return sum(times) + weights + (batch // b - 1) * max(times), energy


def ways(given: Plain, layers: range) -> Iterator[Segments]:
    """All cuts of a window's layers into segments, on all paths of linked chiplets."""
    if not layers:
        yield ()
        return
    chiplets = range(len(given["module"]["chiplets"]))
    links = {frozenset(int(name[1:]) for name in link) for link in given["module"]["links"]}
    for cuts in range(min(len(layers), len(chiplets))):
        for inner in combinations(layers[1:], cuts):
            firsts = (layers[0], *inner)
            lasts = (*(first - 1 for first in inner), layers[-1])
            for path in permutations(chiplets, len(firsts)):
                if all(frozenset(pair) in links for pair in pairwise(path)):
                    yield tuple(zip(firsts, lasts, path, strict=True))


def parts(given: Plain, model: Plain) -> Iterator[list[tuple[int, int, frozenset[int]]]]:
    """All ways to run one model: (ns, pJ, chiplets) in each window."""
    windows, count = given["task"]["windows"], len(model["layers"])
    known: dict[range, list[tuple[int, int, frozenset[int]]]] = {}
    for dealt in combinations_with_replacement(range(windows), count):
        runs = [
            range(dealt.index(w), dealt.index(w) + dealt.count(w)) if w in dealt else range(0) for w in range(windows)
        ]
        for run in runs:
            if run not in known:
                some = [(one, {c for _, _, c in one}) for one in ways(given, run)]
                known[run] = [(*(cost(given, model, one) if one else (0, 0)), frozenset(on)) for one, on in some]
        yield from map(list, product(*(known[run] for run in runs)))


def products(given: Plain) -> Iterator[int]:
    """T1 · T2 of every schedule that C0 to C3 allow, in ns · pJ."""
    for chosen in product(*(list(parts(given, model)) for model in given["models"])):
        windows = list(zip(*chosen, strict=True))
        used = [any(on for _, _, on in window) for window in windows]
        if used != sorted(used, reverse=True):
            continue
        if all(sum(len(on) for _, _, on in w) == len(frozenset().union(*(on for _, _, on in w))) for w in windows):
            time = sum(max(ns for ns, _, _ in window) for window in windows)
            yield time * sum(pj for window in windows for _, pj, _ in window)


def outcome(seed: int, limit: float) -> Outcome:
    """Brute force, and a solve."""
    from chipmap import solve

    given, started = instance(seed), time.process_time()
    every = list(products(given))
    least = min(every, default=None)
    result = solve(given, "multimodel/auto", time_limit=limit, threads=1, isolate=False)
    terms = result.certificate.terms if result.certificate is not None else {}
    found = terms["T1"] * terms["T2"] if terms else None
    tick = round(result.units.objective.per_tick / 1e-21) if result.units else 1
    holds = result.bound is None or (least is not None and result.bound <= -(-least // tick))
    alike = max((one for one in every if least is not None and -(-one // 10**9) == -(-least // 10**9)), default=0)
    tied = alike / least - 1 if least else 0.0
    scale = SCALES[seed % len(SCALES)][1]
    seconds = time.process_time() - started
    return Outcome(scale, result.status, least, found, result.objective, holds, tied, seconds)


def wrong(one: Outcome) -> str:
    """What of an outcome contradicts brute force; empty if nothing does."""
    if not one.bound_holds:
        return "a bound above the optimum"
    if one.status == "infeasible" and one.least is not None:
        return "called infeasible"
    if one.status == "optimal" and one.found != one.least and (one.ticks or 0) < 10**4:
        return "optimal, and not the least product"
    both = one.found is not None and one.least is not None and one.status == "optimal"
    if both and (one.found - one.least) * (one.ticks or 1) > 2 * one.found:  # type: ignore[operator]
        return "optimal, and more than a tick above the least product"
    return ""


def table(outcomes: list[Outcome]) -> str:
    """A line per scale."""
    rows = defaultdict(list)
    for one in outcomes:
        rows[one.scale].append(one)
    lines = [
        "| a layer takes up to | instances | no schedule | optimal | exactly the least product | most above it |"
        " fewest ticks | most that 1e-12 J·s can't tell apart | contradictions | CPU s |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for _, scale in SCALES:
        some = rows[scale]
        optimal = [one for one in some if one.status == "optimal" and one.found and one.least]
        above = max((one.found / one.least - 1 for one in optimal if one.found and one.least), default=0.0)
        lines.append(
            f"| {scale} | {len(some)} | {sum(one.status == 'infeasible' for one in some)} | {len(optimal)}"
            f" | {sum(one.found == one.least for one in optimal)} | {above:.1e}"
            f" | {min((one.ticks or 0 for one in optimal), default=0):,} | {max(one.tied for one in some):.1%}"
            f" | {sum(bool(wrong(one)) for one in some)} | {sum(one.seconds for one in some):.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instances", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--time-limit", type=float, default=60.0)
    args = parser.parse_args()
    outcomes = [outcome(seed, args.time_limit) for seed in range(args.first, args.first + args.instances)]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    print("# EDP from microseconds to minutes\n")
    print(f"`python -m benchmarks.edp_scale --instances {args.instances}`, commit {commit.strip()}, ", end="")
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}.\n")
    print(table(outcomes))
    for seed, one in enumerate(outcomes, args.first):
        if wrong(one) or one.status not in ("optimal", "infeasible"):
            print(f"\nSeed {seed}: {one.status}, {wrong(one) or 'not proved'}; {one.found} and {one.least} ns · pJ.")


if __name__ == "__main__":
    main()
