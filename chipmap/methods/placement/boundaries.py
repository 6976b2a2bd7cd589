"""A lower bound for objective throughput: the work of all units, and what each device pays at least for cut nets.

Let w(u) be the least time of unit u on any device that may run it, W = Σ w(u), and r(d) the largest w(u) / p(u, d). A
placement with all loads below ``upper`` has on device d units S with load(d) = p(S) + b(S), b being the nets that are
cut. As w(S) <= r(d) · p(S), and all S together hold W,

    W <= Σ r(d) · (T - b(d)),    so that    T >= (W + Σ r(d) · b(d)) / Σ r(d).

Device d holds at least what the others can't: w(S) >= W - Σ over others of r · (upper - 1 - b). The least b(d) of such
a set, of one device by itself, is found by CP-SAT; it raises what each must hold, and so on. Hosts pay nothing.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from chipmap.instances.placement.load_graph import LoadGraph
from chipmap.methods.chain import Turn
from chipmap.methods.model_solve import Limits, solve_within, whole_ticks

#: How often all devices are looked at, and the share of the time that is left for one look at one device.
ROUNDS, SHARE = 3, 0.25


class Shares:
    """``work`` [U]: w; ``rate``: r by kind of device; ``count`` of each kind; ``paid``: b by kind, as far as known."""

    def __init__(self, graph: LoadGraph) -> None:
        allowed = np.where(graph.allowed, graph.time, np.iinfo(np.int64).max)
        self.work = allowed.min(axis=1)
        self.count = [len(devices) for devices in graph.kinds]
        self.paid = [0] * len(self.count)
        self.rate = [self._rate(graph, kind) for kind in range(len(self.count))]

    def _rate(self, graph: LoadGraph, kind: int) -> Fraction:
        units = np.flatnonzero(graph.allowed[:, kind] & (self.work > 0)).tolist()
        return max((Fraction(int(self.work[u]), int(graph.time[u, kind])) for u in units), default=Fraction())

    def bound(self) -> int:
        """The bound on T by what is known of b; 0 where nothing takes time."""
        rates = sum((count * rate for count, rate in zip(self.count, self.rate, strict=True)), Fraction())
        paid = sum((n * r * b for n, r, b in zip(self.count, self.rate, self.paid, strict=True)), Fraction())
        return math.ceil((int(self.work.sum()) + paid) / rates) if rates else 0

    def least(self, kind: int, most: int) -> int:
        """What a device of a kind must hold of the work where all loads are at most ``most``."""
        terms = zip(self.count, self.rate, self.paid, strict=True)
        others = sum((n * r * (most - b) for n, r, b in terms), Fraction()) - self.rate[kind] * (most - self.paid[kind])
        return math.ceil(int(self.work.sum()) - others)


def bound_by_boundaries(turn: Turn, graph: LoadGraph, upper: int) -> list[int]:
    """Tell the bound; what each kind of device pays at least in a placement with a load below ``upper``.

    ``graph`` holds all such placements.
    """
    from chipmap.formulations.placement.cpsat_boundary import build_device

    shares = Shares(graph)
    if graph.problem.instance.task.overlap or not graph.placeable:
        return shares.paid
    for _ in range(ROUNDS):
        before = list(shares.paid)
        for kind in np.flatnonzero(graph.paying).tolist():
            least = shares.least(kind, upper - 1)
            if least <= 0:
                continue
            model = build_device(graph, kind, upper, shares.work, least)
            outcome = solve_within(turn.run, model, limits=Limits(deadline=turn.deadline.share(SHARE), gap=0.0))
            if outcome.termination.reason == "infeasible":
                turn.bound(upper, "boundaries")
                return shares.paid
            if outcome.bound is not None:
                shares.paid[kind] = max(shares.paid[kind], whole_ticks(outcome.bound, model))
        turn.bound(min(upper, shares.bound()), "boundaries")
        if shares.paid == before:
            break
    return shares.paid
