"""A mapping's exchanges one by one: as the pages charge them, as a program makes them, and why these differ."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from benchmarks.exchanges.charged import charged_schemes, charges
from benchmarks.exchanges.hlo import Found
from benchmarks.exchanges.plan import Plan, Policy, plan
from benchmarks.exchanges.steps import Layer
from chipmap.instances.dataflow.workload import Scheme

#: What is known to differ, by number: today's rules against what runtimes do.
KNOWN = {
    1: "A backward kernel uses another part of the parameters than the forward kernel's scheme leaves on the chip. "
    "Nobody is charged for the exchange.",
    2: "A weight update by rows (M) needs all rows of the other operand. It is charged as if its own were enough.",
    3: "Each reader is charged by itself. A chip that has been sent a layout keeps it for the readers that follow.",
    4: "Products that one kernel alone reads and adds up are charged a sum over chips each. A chip adds them first.",
    5: "A tensor split by columns whose maker has `outer` 1 is read by heads. It is charged as a gather, and made by "
    "an all-to-all.",
    6: "Copies of tokens are gathered from experts. Their weighted sums are exchanged instead, or nothing is needed.",
    7: "Small ones that aren't charged: statistics of norms and softmaxes whose rows are split; gradients of key and "
    "value heads fewer than chips.",
    8: "A gradient of parameters doesn't lie as they rest. It is charged as a gather (T6) for scheme N alone.",
}
_SCOPE = re.compile(r"([^/|()]+)\|(T\d)\|([^/|()]*)")
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Row:
    """An exchange: who pays, in which term, for which tensor; bytes charged and compiled, the difference's number."""

    payer: str
    term: str
    tensor: str
    charged: Fraction
    compiled: Fraction
    known: int


def scoped(found: Iterable[Found]) -> dict[Key, Fraction]:
    """Bytes over a chip's link of a program's collectives, by payer, term and tensor."""
    total: dict[Key, Fraction] = defaultdict(Fraction)
    for one in found:
        match = _SCOPE.search(one.scope)
        key = match.groups() if match else ("?", "T3", one.name)
        total[key] += one.link  # type: ignore[index]
    return dict(total)


def rows(plan: Plan, schemes: Mapping[str, Scheme], compiled: Mapping[Key, Fraction]) -> list[Row]:
    """All exchanges that are charged or made, in the order of the layer's kernels."""
    workload = plan.layer.workload
    known: dict[Key, Fraction] = defaultdict(Fraction)
    for one in charges(workload, charged_schemes(workload, schemes), plan.chips):
        known[one.payer, one.term, one.tensor] += one.link
    made: dict[Key, Fraction] = defaultdict(Fraction)
    for (payer, term, tensor), link in compiled.items():  # gradients of parameters count with these
        of = plan.layer.step(payer).parameters if term == "T6" else ""
        made[(of, term, f"W:{of}") if of else (payer, term, tensor)] += link
    order = {step.name: i for i, step in enumerate(plan.layer.steps)}
    keys = sorted({*known, *made}, key=lambda key: (order.get(key[0], len(order)), key[1:]))
    found = []
    for key in keys:
        a, b = known.get(key, Fraction(0)), made.get(key, Fraction(0))
        found.append(Row(*key, a, b, 0 if _alike(a, b) else _why(plan, key, a, b)))
    return found


def _alike(a: Fraction, b: Fraction) -> bool:
    return abs(a - b) <= Fraction(2, 100) * max(a, b)


def _why(plan: Plan, key: Key, charged: Fraction, compiled: Fraction) -> int:
    """The number of the known difference that an exchange shows."""
    payer, term, tensor = key
    layer = plan.layer
    step = layer.step(payer)
    maker = tensor.partition("+")[0]
    added = {u for one in layer.steps for u in one.sources if len(one.sources) > 1}
    if term == "T6":
        return 8
    if tensor.startswith("W:"):
        return 1
    if tensor == "statistics" or (payer == tensor and step.operator == "outer"):
        return 7
    if "+" in tensor or (maker == payer and maker in added):
        return 4
    if step.operator in ("combine", "combine_b", "dispatch_b"):
        return 6
    if maker in added and maker in step.sources and compiled > charged:
        return 4
    if step.operator == "update" and compiled > charged:
        return 2
    if charged and compiled and step.kernel.outer > 1 and layer.step(maker).kernel.outer == 1:
        return 5
    return 3


def plan_says(plan: Plan) -> dict[Key, Fraction]:
    """What the program should be compiled to."""
    total: dict[Key, Fraction] = defaultdict(Fraction)
    for one, link in plan.moves():
        total[one.payer, one.term, one.tensor] += link
    return dict(total)


def with_cheaper_updates(layer: Layer, schemes: Mapping[str, Scheme], chips: int, policy: Policy) -> dict[str, Scheme]:
    """The schemes with each update by columns (N) instead of by rows (M), where that moves fewer bytes."""
    best = dict(schemes)
    for step in layer.steps:
        if step.operator == "update" and best[step.name] == "M":
            other: dict[str, Scheme] = {**best, step.name: "N"}
            moved = [sum(link for _, link in plan(layer, one, chips, policy).moves()) for one in (other, best)]
            best = other if moved[0] < moved[1] else best
    return best
