"""Do the exact program, HiGHS, Gurobi and CP-SAT agree on the shipped instances of family ``dataflow``?

Every shipped instance of at most 41 kernels whose model has at most ``--pairs`` pairs of a kernel and a partition, in
both cost modes: as it is; over all degrees that its network holds, where it pins them and has at most ``--free-pairs``;
with at most three partitions per phase, where it has many kernels and doesn't limit them. Each method starts from
nothing, on one thread, with a limit in seconds. Cells are CPU seconds to the proof; exit code 1 if two proofs differ or
a bound lies above a mapping of another method.

    python benchmarks/dataflow_agreement.py [--time-limit 30] > benchmarks/results/dataflow-agreement.md
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
#: Column -> the method and its solver.
METHODS = {
    "program": ("dataflow/auto", None),
    "HiGHS": ("dataflow/mip", "highs"),
    "Gurobi": ("dataflow/mip", "gurobi"),
    "CP-SAT": ("dataflow/cpsat", None),
}
KERNELS = 41
#: Partitions per phase of those that have more kernels than ``MANY`` and no limit of their own.
PARTITIONS, MANY = 3, 12


class Outcome(NamedTuple):
    """What a method ends with: its status, ticks of its mapping and bound, CPU seconds; "refused" if it is too
    large for the licence or the solver's 64 bits."""

    status: str
    objective: int | None
    bound: int | None
    seconds: float

    @property
    def proof(self) -> str:
        """What is proved, the same of all methods that prove something; "" without a proof."""
        if self.status == "infeasible":
            return "infeasible"
        return f"{self.objective} ps" if self.status == "optimal" else ""

    @property
    def cell(self) -> str:
        """What the table says."""
        if self.proof or self.status == "refused":
            return f"{self.seconds:.2f}" if self.proof else "too large"
        if self.objective is None or self.bound is None:
            return "no mapping"
        return f"gap {(self.objective - self.bound) / self.objective:.2g}"


def pairs(instance: Any) -> int:
    """Pairs of a kernel and a partition that a model has."""
    kernels = len(instance.workload.kernels) * (instance.workload.layers if instance.task.across_layers else 1)
    return kernels * min(kernels, instance.task.partitions or kernels)


def cases(most: int, most_free: int) -> Iterator[tuple[str, Any]]:
    """Names and instances of the rows; those left out on standard error."""
    from chipmap.inputs.reading import read
    from chipmap.instances.dataflow.plans import allowed_degrees
    from chipmap.instances.dataflow.shipped import SHIPPED

    for name in SHIPPED:
        instance: Any = read(name)
        if len(instance.workload.kernels) > KERNELS or instance.task.across_layers:
            print(f"{name} left out: {pairs(instance):,} pairs", file=sys.stderr)
            continue
        task, words = instance.task, name.split("/")[1]
        free = instance.replace(task=task.replace(degrees=None))
        few = instance.replace(task=task.replace(partitions=PARTITIONS))
        variants = {"as it is": (instance, most)}
        if task.degrees is not None and len(allowed_degrees(free)) > 1:
            variants["all degrees"] = free, most_free
        if task.partitions is None and len(instance.workload.kernels) > MANY and task.fused:
            variants[f"at most {PARTITIONS} partitions"] = few, most
        for mode in ("dfmodel", "physical"):
            for variant, (one, limit) in variants.items():
                if pairs(one) <= limit:
                    yield f"`{words}` | {mode} | {variant}", one.replace(mode=mode)
                elif variant == "as it is":
                    print(f"{name} as it is left out: {pairs(one):,} pairs", file=sys.stderr)


def outcome(instance: Any, method: str, solver: Any, limit: float) -> Outcome:
    """A solve in this process from nothing."""
    from chipmap.records import InputError, SolverUnavailableError
    from chipmap.run import SolveOptions
    from chipmap.solve import solve

    options = SolveOptions.make(warm_start="none", threads=1, time_limit=limit, solver=solver)
    started = time.process_time()
    try:
        result = solve(instance, method, options, isolate=False)
    except (SolverUnavailableError, InputError):
        return Outcome("refused", None, None, 0.0)
    return Outcome(
        result.status,
        None if result.objective is None else round(result.objective),
        max((round(one.value) for one in result.bounds), default=None),
        time.process_time() - started,
    )


def agree(found: list[Outcome]) -> bool:
    """Whether all proofs are the same and no bound lies above any mapping."""
    proofs = {one.proof for one in found if one.proof}
    mappings = [one.objective for one in found if one.objective is not None]
    bounds = [one.bound for one in found if one.bound is not None and one.status != "infeasible"]
    clash = "infeasible" in proofs and bool(mappings)
    return len(proofs) <= 1 and not clash and not (mappings and bounds and max(bounds) > min(mappings))


def main() -> int:
    """Print the table; 1 if methods contradict each other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--time-limit", type=float, default=30.0)
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--free-pairs", type=int, default=130)
    parser.add_argument("--only", default="", help="rows whose name holds this")
    args = parser.parse_args()
    outcome(next(cases(args.pairs, 0))[1], "dataflow/auto", None, 600.0)  # compiles
    print("# The exact program and the models agree\n")
    load = f"load average {os.getloadavg()[0]:.1f}"
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores, {load}, one thread; limit {args.time_limit:g} s;"
    )
    print(
        f"models of at most {args.pairs} pairs of a kernel and a partition (over all degrees: {args.free_pairs}). CPU"
    )
    print("seconds to the proof, or the gap at the limit.\n")
    print(f"| instance | mode | variant | {' | '.join(METHODS)} | proved | agree |")
    print("|---|---|---|" + "--:|" * (len(METHODS) + 1) + "---|")
    count, bad, proofs = 0, 0, dict.fromkeys(METHODS, 0)
    for words, instance in cases(args.pairs, args.free_pairs):
        if args.only not in words:
            continue
        found = {name: outcome(instance, *method, args.time_limit) for name, method in METHODS.items()}
        same = agree(list(found.values()))
        proof = max(one.proof for one in found.values())
        cells = " | ".join(one.cell for one in found.values())
        print(f"| {words} | {cells} | {proof or 'none'} | {'yes' if same else '**no**'} |", flush=True)
        count, bad = count + 1, bad + (not same)
        for name, one in found.items():
            proofs[name] += bool(one.proof)
    words = ", ".join(f"{name} {number}" for name, number in proofs.items())
    print(f"\n{count} problems, {bad} with a contradiction; proved by {words}.")
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
