"""Mappings that could be better than the proved optimum, timed with the exchanges of their compiled programs.

The usual mappings of runtimes, random ones, and random changes of the optimum and of the usual ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from random import Random
from typing import NamedTuple

from benchmarks.exchanges.cases import CHIPS, PINS, Pins
from benchmarks.exchanges.compared import plan_says, scoped
from benchmarks.exchanges.free import h100_layer, solved
from benchmarks.exchanges.hlo import collectives
from benchmarks.exchanges.timed import Timed, timed
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.workload import Kernel, Scheme
from chipmap.plans.jax.planning import Policy, plan
from chipmap.plans.jax.steps import Layer, layer_of
from chipmap.records import InputError

Schemes = Mapping[str, Scheme]


def _mixed(attention: str, rest: str) -> Pins:
    """Attention and its projections as in one pinning, the feed-forward part as in another."""
    return lambda kernel: PINS[rest if kernel.name.startswith(("FFN", "SiLU", "Norm2", "Add2")) else attention](kernel)


#: What runtimes run; data parallelism has another batch and isn't among a layer's schemes.
USUAL: Mapping[str, Pins] = {
    **{name: PINS[name] for name in ("TP", "TP + SP", "TP + rows", "TP, FFN0_b by tokens", "ring", "all-to-all")},
    "ring attention, TP + SP": _mixed("ring", "TP + SP"),
    "all-to-all attention, TP + SP": _mixed("all-to-all", "TP + SP"),
}


class Judged(NamedTuple):
    """A mapping's times as charged and with its own exchanges; bytes by which its program differs from its plan."""

    times: Timed
    unsaid: Fraction
    moved: Fraction

    @property
    def own(self) -> float:
        """The least time that its own exchanges allow: layouts kept, sums with the last product or with the adder."""
        return min(self.times.kept, self.times.kept_by_adder)


def judged(instance: DataflowInstance, solution: DataflowSolution, layer: Layer) -> Judged:
    """The mapping's program compiled for eight devices. Raises :class:`InputError` where it can't be written."""
    from benchmarks.exchanges.written import with_shard_map

    own = schemes_of(instance, solution)
    made = plan(layer, own, CHIPS, Policy(keep=solution.keep or "none"))
    found, said = scoped(collectives(with_shard_map(made).compiled(), CHIPS)), plan_says(made)
    unsaid = sum(
        (abs(found.get(key, Fraction(0)) - said.get(key, Fraction(0))) for key in {*found, *said}), Fraction(0)
    )
    return Judged(timed(instance, solution, layer, own, found), unsaid, sum(found.values(), Fraction(0)))


def schemes_of(instance: DataflowInstance, solution: DataflowSolution) -> dict[str, Scheme]:
    """The schemes of a solution by kernel."""
    return dict(zip((kernel.name for kernel in instance.workload.kernels), solution.schemes, strict=True))


def random_mappings(instance: DataflowInstance, best: Schemes, seed: int) -> Iterator[dict[str, Scheme]]:
    """By turns: schemes at random; the best mapping, and a usual one, with one to six kernels changed at random."""
    random = Random(seed)
    kernels = instance.workload.kernels
    usual = [{kernel.name: pins(kernel) for kernel in kernels} for pins in USUAL.values()]
    while True:
        yield {kernel.name: random.choice(choices(kernel)) for kernel in kernels}
        for start in (dict(best), dict(random.choice(usual))):
            for kernel in random.sample(kernels, random.randint(1, 6)):
                start[kernel.name] = random.choice(choices(kernel))
            yield start


def choices(kernel: Kernel) -> tuple[Scheme, ...]:
    """The schemes that a kernel may have."""
    return tuple(kernel.schemes)


def with_schemes(solution: DataflowSolution, instance: DataflowInstance, own: Schemes) -> DataflowSolution:
    """The same solution with other schemes."""
    return solution.replace(schemes=tuple(own[kernel.name] for kernel in instance.workload.kernels), keep="step")


def rivals(seconds: float, count: int, seed: int = 0) -> tuple[str, bool]:
    """A section of the page, and whether the optimum stands: none of the usual mappings and of ``count`` others takes
    less than it under the bytes of compiled programs."""
    instance = h100_layer()
    layer = layer_of(instance.workload.replace(layers=1))
    best, status = solved(instance, seconds)
    first = judged(instance, best, layer)
    lines = [_line(f"free schemes, {status}", first)]
    others: list[Judged] = []
    for name, pins in USUAL.items():
        own = {kernel.name: pins(kernel) for kernel in instance.workload.kernels}
        others.append(judged(instance, with_schemes(best, instance, own), layer))
        lines.append(_line(name, others[-1]))
    tried = refused = 0
    for own in random_mappings(instance, schemes_of(instance, best), seed):
        if tried == count:
            break
        try:
            others.append(judged(instance, with_schemes(best, instance, own), layer))
        except InputError:
            refused += 1
            continue
        tried += 1
        print(f"{tried}: {others[-1].own:.2f} us", flush=True)
    better = sum(one.own < first.own * (1 - 1e-9) for one in others)
    dearer = sum(one.times.charged < one.own * 0.99 for one in others)
    unsaid = sum((one.unsaid for one in (first, *others)), Fraction(0))
    best_of_rest = min((one.own for one in others[len(USUAL) :]), default=first.own)
    text = (
        "## The optimum against other mappings\nA layer of Llama3-8B on a switch of eight H100, forward and backward. "
        "Each mapping's program is compiled, and its time is that of the bytes that it moves, statistics of norms left "
        "out.\n\n| mapping | charged, us | with its own exchanges, us | MB moved |\n|---|--:|--:|--:|\n"
        + "".join(lines)
        + f"\nThe best of {tried} more mappings takes {best_of_rest:.2f} us. A third are random, the rest one to six "
        f"random changes from the optimum or from a usual mapping; {refused} others can't be written. **{better}** of "
        f"all are better than the optimum. **{dearer}** are charged at least 1% less than they take. Programs and "
        f"plans differ by {float(unsaid) / 10**6:.3f} MB in all.\n\n"
    )
    return text, not better


def _line(name: str, one: Judged) -> str:
    return f"| {name} | {one.times.charged:.2f} | {one.own:.2f} | {float(one.moved) / 10**6:.3f} |\n"
