"""A mapping's exchanges one by one: as the pages charge them, as a program makes them, and why these differ."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from benchmarks.exchanges.charged import charges
from benchmarks.exchanges.hlo import Found
from chipmap.instances.dataflow.instance import Keep
from chipmap.instances.dataflow.workload import Scheme
from chipmap.plans.jax.planning import Plan

#: What differs, by number.
KNOWN = {
    1: "Of parameters, or their gradient, several chips have the same part. It is charged as a swap of the larger "
    "part, and made by a gather among these chips, or by a swap of a share of it.",
    2: "Numbers of copies of tokens are gathered from experts, though the copies are on every chip already.",
    3: "A combine by rows needs the weights of all copies of a token. Where the choice of experts is split by rows, "
    "it isn't charged for them.",
    4: "The choice of experts by rows exchanges the largest score of each token too. Programs leave it out, as scores "
    "are small.",
    5: "Nobody has said why.",
}
UNEXPLAINED = 5
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


def rows(
    plan: Plan,
    schemes: Mapping[str, Scheme],
    compiled: Mapping[Key, Fraction],
    keep: Keep = "step",
    adds: bool = True,
) -> list[Row]:
    """All exchanges that are charged or made, in the order of the layer's kernels."""
    workload = plan.layer.workload
    known: dict[Key, Fraction] = defaultdict(Fraction)
    for one in charges(workload, schemes, plan.chips, keep, adds):
        known[alike_key(plan, one[:3], adds)] += one.link
    made: dict[Key, Fraction] = defaultdict(Fraction)
    for key, link in compiled.items():
        made[alike_key(plan, key, adds)] += link
    order = {step.name: i for i, step in enumerate(plan.layer.steps)}
    keys = sorted({*known, *made}, key=lambda key: (order.get(key[0], len(order)), key[1:]))
    found = []
    for key in keys:
        a, b = known.get(key, Fraction(0)), made.get(key, Fraction(0))
        found.append(Row(*key, a, b, 0 if _alike(a, b) else _why(key)))
    return found


def alike_key(plan: Plan, key: Key, adds: bool) -> Key:
    """One key for an exchange, whoever names it: gradients of parameters count with these; exchanges of products that
    a kernel adds up with this kernel; sums of what experts' chips have with the experts."""
    payer, term, tensor = key
    step = plan.layer.step(payer)
    if term == "T6":
        of = step.parameters or payer
        return of, term, f"W:{of}"
    if payer == tensor and step.operator in ("combine", "dispatch_b"):
        tensor = (*step.sources, *step.operands)[0]
    for adder in plan.layer.workload.kernels if adds else ():
        if len(adder.adds) > 1 and tensor.partition("+")[0] in adder.adds and payer in (adder.name, *adder.adds):
            return adder.name, term, "+".join(adder.adds)
    return payer, term, tensor


def _alike(a: Fraction, b: Fraction) -> bool:
    return abs(a - b) <= Fraction(2, 100) * max(a, b)


def _why(key: Key) -> int:
    """The number of the difference that an exchange shows."""
    payer, term, tensor = key
    if term == "T6" or tensor.startswith("W:"):
        return 1
    if tensor == "statistics":
        return 4 if payer == "Gate" else 2
    if payer.startswith("Combine") and tensor == "Gate":
        return 3
    return UNEXPLAINED


def plan_says(plan: Plan) -> dict[Key, Fraction]:
    """What the program should be compiled to."""
    total: dict[Key, Fraction] = defaultdict(Fraction)
    for one, link in plan.moves():
        total[one.payer, one.term, one.tensor] += link
    return dict(total)
