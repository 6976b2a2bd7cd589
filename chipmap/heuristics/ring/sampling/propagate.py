"""What the propagator knows of a contracted ring instance: chip intervals under C0, C1, C2 and C3.

Rule ``path`` has 0 <= f(v) - f(u) <= 1 on every flow (u, v), which implies C3. Least and greatest values of such
difference constraints, and of forbidden chips, are solutions themselves, and so is the minimum of two solutions.
Bounds propagation therefore decides whether a solution is left, also under C2 when the flow graph is connected: all
chips between the least and the greatest in use are in use then, so C2 says that some operation is on chip 0, and one
can be if and only if it is on chip 0 in the least solution. SAMPLE and FIX need no backtracking then: a value that
propagation admits belongs to a solution. On a graph in several parts, C2 is left to counting and backtracking.

Rule ``full`` takes C1 to C3 as far as they are in force. Beside flows, it propagates:

- *skips* (C3): what lies between the ends of a flow is on one of its ends' chips
  (:func:`chipmap.instances.ring.precedence.skips`);
- *no skipping* (C2): chips a … b need b - a + 1 operations that can be there; f(v) - f(u) - 1 chips between the ends
  of a flow need as many operations, none of them before u or after v (nor, with C3, between them);
- *triangles* (C3): the quotient graph of the placed operations, and whether one more edge of it would break C3.

That is sound but not complete: the search takes back what leads nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from chipmap.heuristics.ring.incidence import incidence
from chipmap.heuristics.ring.sampling.kernel import tighten
from chipmap.heuristics.ring.sampling.propagate_kernel import COUNT, LEAST, NO_PREFIX
from chipmap.heuristics.ring.sampling.propagate_state import Constants, Net, PropagationState, Room, Sizes
from chipmap.instances.ring.contraction import computing_only
from chipmap.instances.ring.precedence import between, flow_reachable, skips
from chipmap.instances.ring.problem import IntArray, RingProblem
from chipmap.instances.units import components
from chipmap.records import InputError

#: Which mappings are drawn: those under the ``path`` rule, or all that C1 to C3 (as far as in force) admit.
SampleRule = Literal["path", "full"]
#: Chips that the bit sets of C3 have room for.
MOST_CHIPS = 64


@dataclass(frozen=True, eq=False)
class Propagator:
    """Constraints of one contracted problem under one rule, and the intervals [lo, hi] that they leave (``root``).

    ``root`` [n, 2] is None when nothing is left: no mapping obeys the rule.
    """

    problem: RingProblem
    rule: SampleRule
    net: Net
    root: IntArray | None

    @property
    def complete(self) -> bool:
        """Whether every value that propagation admits belongs to a mapping."""
        return self.rule == "path" and int(self.net.modes[0]) != COUNT and int(self.net.sizes.sram[0]) < 0

    def state(self) -> PropagationState:
        """A fresh state at the root's intervals (all chips, where nothing is left)."""
        return _state(self.net, self.root)


def propagator(problem: RingProblem, rule: SampleRule = "full") -> Propagator:
    """The propagator of a contracted ``problem``; :class:`InputError` for what the rule doesn't cover.

    Its operations are the computing ones alone, in their order.
    """
    _refuse(problem, rule)
    problem = computing_only(problem)
    net = _net(problem, rule)
    state = _state(net, None)
    inside = bool((state.box[:, 0] <= state.box[:, 1]).all())  # else pins and forbidden chips leave nothing
    root = state.box[:, :2].copy() if inside and tighten(net, state) else None
    return Propagator(problem, rule, net, root)


def _refuse(problem: RingProblem, rule: SampleRule) -> None:
    name = problem.instance.name
    if rule not in ("path", "full"):
        raise InputError(f"no rule is called {rule!r}", "rule", "Choose path or full.")
    if not problem.has("C1"):
        remedy = "Methods for every instance: ring/auto, ring/mip, ring/cpsat."
        raise InputError("SAMPLE and FIX rest on C1, which is not in force", name, remedy)
    roles = problem.instance.graph.operations
    others = any(not on and roles[v].role != "constant" for v, on in enumerate(problem.computing.tolist()))
    if others or problem.groups:
        raise InputError("SAMPLE and FIX take contracted instances", name, "Contract it: contract(instance).instance.")
    if rule == "full" and problem.has("C3") and problem.chips > MOST_CHIPS:
        remedy = f"Use rule path, or at most {MOST_CHIPS} chips."
        raise InputError(f"has {problem.chips} chips: too many for the full rule", name, remedy)


def _net(problem: RingProblem, rule: SampleRule) -> Net:
    n, flows = problem.n, problem.flows.astype(np.int64)
    full = rule == "full"
    caps = _caps(problem) if full else np.ones(len(flows), dtype=np.int64)
    prefix = NO_PREFIX
    if problem.has("C2") and n:
        prefix = COUNT if full or _parts(problem) > 1 else LEAST
    out, into = _lists(n, flows[:, 0], flows[:, 1], caps), _lists(n, flows[:, 1], flows[:, 0], caps)
    skips_at, skip_rows = _skip_lists(problem, full and problem.has("C3"))
    return Net(
        ends_at=np.stack((out[0], into[0])),
        ends=np.stack((out[1], into[1])),
        skips_at=skips_at,
        skips=skip_rows,
        flows=flows,
        allowed=_allowed(problem),
        sizes=_sizes(problem),
        modes=np.array([prefix, full and problem.has("C3")], dtype=np.int64),
    )


def _lists(n: int, key: IntArray, value: IntArray, cap: IntArray) -> tuple[IntArray, IntArray]:
    """(starts, [m, 2] of (value, cap)) of the pairs sorted by key."""
    order = np.argsort(key, kind="stable")
    starts = np.concatenate(([0], np.cumsum(np.bincount(key, minlength=n)))).astype(np.int64)
    return starts, np.ascontiguousarray(np.stack((value[order], cap[order]), axis=1))


def _caps(problem: RingProblem) -> IntArray:
    """The most that f(v) - f(u) can be on each flow (u, v): with C2, 1 + the operations that can be in between."""
    flows = problem.flows.tolist()
    if not problem.has("C2"):
        return np.full(len(flows), problem.chips, dtype=np.int64)
    below = flow_reachable(problem)  # an operation counts as before and after itself
    before, after = below.sum(axis=0), below.sum(axis=1)
    free = [
        problem.n - before[u] - after[v] - (len(between(problem, u, v)) if problem.has("C3") else 0) for u, v in flows
    ]
    return np.minimum(1 + np.array(free, dtype=np.int64).reshape(-1), problem.chips)


def _skip_lists(problem: RingProblem, wanted: bool) -> tuple[IntArray, IntArray]:
    """(starts per operation, (u, w, v) of the skips in which it is one of the three)."""
    triples = skips(problem) if wanted else np.zeros((0, 3), dtype=np.int64)
    operation, number = triples.reshape(-1), np.repeat(np.arange(len(triples)), 3)
    starts = np.concatenate(([0], np.cumsum(np.bincount(operation, minlength=problem.n)))).astype(np.int64)
    return starts, triples[number[np.lexsort((number, operation))]]


def _allowed(problem: RingProblem) -> IntArray:
    """[2, n, C]: least allowed chip >= c (C if none), greatest allowed chip <= c (-1), per operation and chip c."""
    n, chips = problem.n, problem.chips
    may = np.ones((n, chips), dtype=np.bool_)
    for v, allowed in enumerate(problem.allowed):
        if allowed is not None:
            may[v] = False
            may[v, sorted(allowed)] = True
    every = np.arange(chips)
    above = np.minimum.accumulate(np.where(may, every, chips)[:, ::-1], axis=1)[:, ::-1]
    below = np.maximum.accumulate(np.where(may, every, -1), axis=1)
    return np.stack((above, below)).astype(np.int64)


def _sizes(problem: RingProblem) -> Sizes:
    """What C4 adds up, where it is in force and can bind."""
    on = incidence(problem, range(problem.n))
    binds = problem.has("C4") and problem.chips <= MOST_CHIPS and problem.most_bytes > problem.sram_bytes
    return Sizes(
        problem.weight_bytes,
        Constants(on.shared_bytes, *on.shared_readers, *on.shared),
        on.producer,
        on.bytes,
        *on.readers,
        *on.reads,
        order=np.array(problem.order, dtype=np.int64),
        sram=np.array([problem.sram_bytes if binds else -1], dtype=np.int64),
    )


def _parts(problem: RingProblem) -> int:
    """Weakly connected parts of the flow graph."""
    return len(set(components(problem.n, [*problem.flows.tolist(), *problem.flows[:, ::-1].tolist()])))


def _state(net: Net, root: IntArray | None) -> PropagationState:
    _, n, chips = net.allowed.shape
    box = np.zeros((n, 3), dtype=np.int64)
    box[:, :2] = root if root is not None else np.stack((net.allowed[0, :, 0], net.allowed[1, :, chips - 1]), axis=1)
    return PropagationState(
        box=box,
        trail=np.zeros((n * chips + 2, 3), dtype=np.int64),
        queue=np.zeros(n + 2, dtype=np.int64),
        sets=np.zeros((4, chips), dtype=np.uint64),
        counts=np.zeros((2, chips + 1), dtype=np.int64),
        room=_room(n, chips, net.sizes) if net.sizes.sram[0] >= 0 else _room(0, 0, net.sizes),
    )


def _room(n: int, chips: int, sizes: Sizes) -> Room:
    return Room(
        slack=np.zeros((chips, chips), dtype=np.int64),
        least=np.zeros((chips, chips), dtype=np.int64),
        lowest=np.zeros(chips, dtype=np.int64),
        seen=np.zeros(chips, dtype=np.int64),
        out=np.zeros(chips, dtype=np.int64),
        into=np.zeros(chips, dtype=np.int64),
        counted=np.zeros(len(sizes.makers), dtype=np.bool_),
        source=np.zeros(n, dtype=np.int64),
        fewest=np.zeros(n, dtype=np.int64),
        rests=np.zeros((len(sizes.constants.bytes), chips), dtype=np.bool_),
    )
