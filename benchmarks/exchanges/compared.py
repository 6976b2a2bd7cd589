"""A mapping's exchanges one by one: as the pages charge them, as a program makes them, and why these differ."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from benchmarks.exchanges.charged import charges
from benchmarks.exchanges.hlo import Found
from benchmarks.exchanges.plan import Plan
from chipmap.instances.dataflow.workload import Scheme

#: What is known to differ, by number: today's rules against what runtimes do. Those that are left out are mended.
KNOWN = {
    1: "A backward kernel uses another part of the parameters than the forward kernel's scheme leaves on the chip. "
    "Nobody is charged for the exchange.",
    3: "Each reader is charged by itself. A chip that has been sent a layout keeps it for the readers that follow.",
    4: "Products that one kernel alone reads and adds up are charged a sum over chips each. A chip adds them first.",
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
    for one in charges(workload, schemes, plan.chips):
        known[one.payer, one.term, one.tensor] += one.link
    made: dict[Key, Fraction] = defaultdict(Fraction)
    for (payer, term, tensor), link in compiled.items():  # gradients of parameters count with these
        step = plan.layer.step(payer)
        of = step.parameters if term == "T6" else ""
        if payer == tensor and step.operator in ("combine", "dispatch_b"):  # sums of what experts' chips have
            tensor = (*step.sources, *step.operands)[0]
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
    joint = "+" in tensor or (maker == payer and maker in added) or step.operator == "dispatch_b"
    if joint or (maker in added and maker in step.sources and compiled > charged):
        return 4
    return 3


def plan_says(plan: Plan) -> dict[Key, Fraction]:
    """What the program should be compiled to."""
    total: dict[Key, Fraction] = defaultdict(Fraction)
    for one, link in plan.moves():
        total[one.payer, one.term, one.tensor] += link
    return dict(total)
