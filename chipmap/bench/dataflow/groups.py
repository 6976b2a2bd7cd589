"""Prefill and decode on separate groups of chips: how many groups of which kind serve most requests under limits.

The problem and its theorem: ``docs/families/dataflow-serving.md``, "Groups of their own". A kind of group is so many
chips that share every layer (tensor parallelism) with so many samples at a time, and its step is the optimal mapping of
an instance of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from chipmap.bench.point import Row
from chipmap.bench.sweep import Sweep, points
from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.instances.dataflow.sizes import fetch_bytes
from chipmap.records import InputError
from chipmap.records.decimals import exact

#: Axes of a sweep of such groups: prefill or decode, chips of a group, samples of a step.
AXES = ("step", "chips", "samples")


class Kind(NamedTuple):
    """A kind of group: its chips, the samples of a step, and the least picoseconds of a step (proved)."""

    chips: int
    samples: int
    step_ps: int


class Traffic(NamedTuple):
    """What is served: tokens of an output, bytes of a prompt's KV cache, and bytes per nanosecond that a chip sends to
    another group, or receives."""

    output: int
    cache_bytes: int
    bytes_per_ns: float


class Plan(NamedTuple):
    """Groups for prefill and decode (kind -> how many), requests per second, and the latencies of the slowest."""

    prefill: dict[Kind, int]
    decode: dict[Kind, int]
    requests_per_s: float
    ttft_us: float
    tpot_us: float


def prefill_rate(kind: Kind, traffic: Traffic) -> Fraction:
    """Requests per second of a group: its prompts per step, or as many caches as its chips send."""
    return min(Fraction(kind.samples * 10**12, kind.step_ps), _caches(kind.chips, traffic))


def decode_rate(kind: Kind, traffic: Traffic) -> Fraction:
    """Requests per second: the first token comes from the prefill, each of the others takes a step."""
    steps = max(1, traffic.output - 1)
    return min(Fraction(kind.samples * 10**12, kind.step_ps * steps), _caches(kind.chips, traffic))


def _caches(chips: int, traffic: Traffic) -> Fraction:
    return chips * exact(traffic.bytes_per_ns) * 10**9 / max(1, traffic.cache_bytes)


def ttft_ps(kind: Kind, smallest: int, traffic: Traffic) -> Fraction:
    """Picoseconds until the first token and its cache are where decoding goes on: the step, then a transfer by as many
    chips as the smaller of the two groups has; ``smallest`` are the chips of the smallest group that decodes."""
    rate = min(kind.chips, smallest) * exact(traffic.bytes_per_ns)
    return kind.step_ps + kind.samples * traffic.cache_bytes / rate * 1000


def best_plan(
    prefill: Sequence[Kind],
    decode: Sequence[Kind],
    traffic: Traffic,
    chips: int,
    ttft_us: float = float("inf"),
    tpot_us: float = float("inf"),
) -> Plan | None:
    """The plan with most requests per second on ``chips`` chips within both limits, of any mix of kinds (None: there
    is none). Of equally good ones that with the fewest chips for prefill.

    For the smallest group that decodes, of s chips, every kind is allowed or not by itself. Then most requests by c
    chips for prefill is an unbounded knapsack P(c), for decode D(c), and the optimum is max over c of
    min(P(c), D(chips - c)).

    Raises :class:`InputError` for fewer than two chips.
    """
    if chips < 2:
        raise InputError(f"is {chips}", "chips", "Give two or more: one group for prefill, one for decode.")
    found: tuple[Fraction, dict[Kind, int], dict[Kind, int], int] | None = None
    within = [kind for kind in decode if kind.step_ps <= tpot_us * 1e6]
    for smallest in sorted({kind.chips for kind in within}):
        before = [kind for kind in prefill if ttft_ps(kind, smallest, traffic) <= ttft_us * 1e6]
        after = [kind for kind in within if kind.chips >= smallest]
        first = _knapsack([(kind, prefill_rate(kind, traffic)) for kind in before], chips)
        second = _knapsack([(kind, decode_rate(kind, traffic)) for kind in after], chips)
        for c in range(1, chips):
            rate = min(first[c][0], second[chips - c][0])
            if rate > 0 and (found is None or rate > found[0]):
                found = rate, first[c][1], second[chips - c][1], smallest
    if found is None:
        return None
    rate, first_groups, second_groups, _ = found
    least = min(kind.chips for kind in second_groups)
    slowest = max(ttft_ps(kind, least, traffic) for kind in first_groups)
    step = max(kind.step_ps for kind in second_groups)
    return Plan(first_groups, second_groups, float(rate), float(slowest) / 1e6, step / 1e6)


def _knapsack(kinds: Sequence[tuple[Kind, Fraction]], chips: int) -> list[tuple[Fraction, dict[Kind, int]]]:
    """By number of chips at most: the greatest sum of rates, and how many groups of each kind have it."""
    best: list[tuple[Fraction, dict[Kind, int]]] = [(Fraction(0), {})]
    for c in range(1, chips + 1):
        most, groups = best[c - 1]
        for kind, rate in kinds:
            if kind.chips <= c and best[c - kind.chips][0] + rate > most:
                most, before = best[c - kind.chips][0] + rate, best[c - kind.chips][1]
                groups = {**before, kind: before.get(kind, 0) + 1}
        best.append((most, groups))
    return best


class FrontPoint(NamedTuple):
    """A plan on the front: tokens per second of a user, and of a chip."""

    per_user: float
    per_chip: float
    plan: Plan


def front(
    prefill: Sequence[Kind], decode: Sequence[Kind], traffic: Traffic, chips: int, ttft_us: float = float("inf")
) -> list[FrontPoint]:
    """The best plans by tokens per second of a user (10⁶ / TPOT in us) and of a chip, fastest users first: no plan is
    as good as one of them in both and better in one.

    A limit on TPOT only matters through which kinds it allows, so that those at the kinds' own steps are all.
    """
    points = list[FrontPoint]()
    for step in sorted({kind.step_ps for kind in decode}):
        plan = best_plan(prefill, decode, traffic, chips, ttft_us, step / 1e6)
        if plan is not None:
            rate = plan.requests_per_s * traffic.output / chips
            if not points or rate > points[-1].per_chip:
                points.append(FrontPoint(1e6 / plan.tpot_us, rate, plan))
    return points


def kinds_of(rows: Sequence[Row]) -> tuple[list[Kind], list[Kind]]:
    """The kinds of groups for prefill and for decode that the rows of a sweep over ``AXES`` have proved; groups that
    don't fit are none. Raises :class:`InputError` where a row is open, as no plan would be proved then."""
    found: dict[str, list[Kind]] = {"prefill": [], "decode": []}
    for row in rows:
        if row.status not in ("optimal", "infeasible"):
            what = f"of {row.labels['chips']} chips and {row.labels['samples']} samples isn't proved ({row.status})"
            raise InputError(what, f"the {row.labels['step']} step", "Give the sweep a larger time_limit_s.")
        if row.objective is not None:
            kind = Kind(int(row.labels["chips"]), int(row.labels["samples"]), row.objective)
            found[row.labels["step"]].append(kind)
    return found["prefill"], found["decode"]


def is_groups(sweep: Sweep) -> bool:
    """Whether a sweep is one over ``AXES``."""
    return tuple(axis.name for axis in sweep.axes) == AXES


def traffic_of(sweep: Sweep) -> Traffic:
    """What the instances of a sweep over ``AXES`` serve: a decode step comes after all other tokens of prompt and
    output, a prefill has the prompt, and caches go over the dimension of the network that joins groups."""
    steps = {point.labels["step"]: point for point in points(sweep)}
    made = {name: point.build() for name, point in steps.items()}
    before, after = made["prefill"], made["decode"]
    if not isinstance(before, DataflowInstance) or not isinstance(after, DataflowInstance):
        raise InputError("isn't one of family dataflow", sweep.name, "Give a prefill and a decode step.")
    context, prompt = steps["decode"].parameters["context"], before.workload.tokens
    kernels = [kernel for kernel in after.workload.kernels if not kernel.table_bytes]  # no rows of an embedding
    whole = sum(fetch_bytes(kernel, after) for kernel in kernels) * after.workload.layers
    rate = after.system.network[-1].bytes_per_ns
    return Traffic(context + 1 - prompt, round(whole * prompt / context), rate)
