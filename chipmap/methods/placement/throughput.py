"""The links of the chain for objective throughput: blocks by a program over ideals, then refutation by CP-SAT."""

from __future__ import annotations

import msgspec
import numpy as np

from chipmap.heuristics.engines.ideals import TooManyIdealsError
from chipmap.heuristics.placement.throughput.contiguous import best_chain, ideals_of, prefixes_of
from chipmap.heuristics.placement.throughput.ideals_kernel import NONE
from chipmap.heuristics.placement.throughput.load_search import search
from chipmap.instances.placement.instance import PlacementInstance, PlacementSolution
from chipmap.instances.placement.load_dominance import joined_by_dominance
from chipmap.instances.placement.load_graph import LoadGraph
from chipmap.instances.placement.problem import MAX_TOTAL, IntArray, placement_problem
from chipmap.methods.chain import Turn
from chipmap.methods.model_solve import Finds, Limits, conclude, solve_within
from chipmap.methods.placement.boundaries import bound_by_boundaries
from chipmap.methods.placement.chain_state import ChainState
from chipmap.methods.placement.reasons import clash

#: Ideals that are listed at the most, some 15 s of listing.
MOST_IDEALS = 400_000
#: Rounds of the search without a time limit, and more than there is time for.
ROUNDS, MANY = 4, 10**6


def blocks(state: ChainState, turn: Turn) -> None:
    """Blocks one after the other: the best chain of prefixes of two orders, then of all ideals.

    With C7 the second is exact, unless backward operations have no forward one in their groups. Then each of these goes
    with a neighbour, and a program without them gives a bound.
    """
    if state.problem.timed or not state.problem.operations:
        return
    asked = state.problem.instance.task.contiguous
    problem = state.problem if asked else placement_problem(_in_blocks(state.problem.instance))
    graph = _attached(joined_by_dominance(problem))
    if not graph.placeable:
        return
    chain = best_chain(graph, prefixes_of(graph, _orders(graph)), NONE, turn.deadline)
    if chain is not None:
        state.tell(turn, _whole(graph, chain.devices), "prefixes")
    upper = turn.run.upper
    try:
        whole = joined_by_dominance(problem, upper)
        exact = _attached(whole)
        chain = None
        if exact.placeable:
            chain = best_chain(exact, ideals_of(exact, MOST_IDEALS, turn.deadline), upper or NONE, turn.deadline)
        if chain is not None:
            state.tell(turn, _whole(exact, chain.devices), "ideals")
        if not asked:
            return
        if whole.free.any():
            chain = best_chain(whole, ideals_of(whole, MOST_IDEALS, turn.deadline), upper or NONE, turn.deadline)
    except TooManyIdealsError as error:
        turn.run.note("search", f"blocks: {error}; no program over ideals")
        return
    if chain is not None:
        turn.bound(chain.load, "ideals")
    elif upper is not None:
        turn.bound(upper, "ideals")
    elif not whole.free.any():
        turn.infeasible(*clash(problem, turn.run))


def search_loads(state: ChainState, turn: Turn) -> None:
    """Annealing over the devices of units, from the best placement so far (C7: blocks have programs of their own)."""
    problem, run = state.problem, turn.run
    if problem.timed or problem.instance.task.contiguous or not problem.operations:
        return
    graph = joined_by_dominance(problem, None if run.upper is None else run.upper + 1)
    if not graph.placeable or problem.devices == 1:
        return
    devices = None
    if run.best is not None and isinstance(run.best.solution, PlacementSolution):
        devices = problem.devices_of(run.best.solution)
    start = _of_units(graph, devices)
    floor = run.lower.value if run.lower is not None else 0
    upper, rounds = MAX_TOTAL if run.upper is None else run.upper, MANY if run.clocked else ROUNDS
    _, found = search(graph, start, upper, floor, run.options.seed, rounds, turn.deadline)
    if found is not None:
        state.tell(turn, graph.devices_of(found), "load search")


def _of_units(graph: LoadGraph, devices: IntArray | None) -> IntArray:
    """The device of each unit: that of its longest operation, where it is allowed."""
    found, kind = np.zeros(graph.units, dtype=np.int64), graph.kind_of
    for u, members in enumerate(graph.members):
        longest = max(members, key=lambda v: int(graph.problem.time[v].min()))
        wanted = -1 if devices is None else int(devices[longest])
        if wanted < 0 or not graph.allowed[u, kind[wanted]]:
            wanted = next(d for d, k in enumerate(kind) if graph.allowed[u, k])
        found[u] = wanted
    return found


def refute(state: ChainState, turn: Turn) -> None:
    """CP-SAT on units and nets, below the best load so far: a better placement, or the proof that there is none."""
    from chipmap.formulations.placement.cpsat_units import build

    if state.problem.timed:
        return
    run, upper = turn.run, turn.run.upper
    turn.deadline.check()
    if upper is not None:
        bound_by_boundaries(turn, joined_by_dominance(state.problem, upper), upper)
        turn.run.checkpoint()
    model = build(state.problem.instance, upper)
    outcome = solve_within(run, model, Finds("refutation"), limits=Limits(deadline=turn.deadline))
    if outcome.termination.reason != "infeasible":
        conclude(run, outcome, "refutation")
    elif upper is None:
        run.infeasible(*clash(state.problem, run))
    else:
        turn.bound(upper, "refutation")


def _in_blocks(instance: PlacementInstance) -> PlacementInstance:
    """The same instance with C7: a restriction."""
    task = msgspec.structs.replace(instance.task, contiguous=True)
    return msgspec.structs.replace(instance, task=task)


def _orders(graph: LoadGraph) -> list[list[int]]:
    """Two topological orders of the units that C7 speaks of: breadth first, and by number."""
    import networkx

    flow = networkx.DiGraph()
    flow.add_nodes_from(np.flatnonzero(~graph.free).tolist())
    flow.add_edges_from(sorted(graph.before))
    return [list(networkx.topological_sort(flow)), list(networkx.lexicographical_topological_sort(flow))]


def _attached(graph: LoadGraph) -> LoadGraph:
    """``graph`` with each free unit joined to the neighbour with which it shares the most cost (a restriction)."""
    while graph.free.any():
        pairs = dict[int, int]()
        for v in np.flatnonzero(graph.free).tolist():
            shared: dict[int, int] = {}
            for units, cost, _ in (graph.nets[n] for n in graph.nets_of[v]):
                for u in units:
                    if u != v and u not in pairs and (graph.allowed[u] & graph.allowed[v]).any():
                        shared[u] = shared.get(u, 0) + cost
            best = max(shared, key=lambda u: (shared[u], not graph.free[u]), default=-1)
            if best >= 0 and best not in pairs.values():
                pairs[v] = best
        if not pairs:
            return graph
        graph = graph.joined(pairs.items())
    return graph


def _whole(graph: LoadGraph, devices: IntArray) -> IntArray:
    """The devices of all operations; units without one go where there is least to do."""
    found, kind = devices.copy(), graph.kind_of
    load = [int(graph.time[found == d, k].sum()) for d, k in enumerate(kind)]
    for u in np.flatnonzero(found < 0).tolist():
        d = min(
            (d for d, k in enumerate(kind) if graph.allowed[u, k]), key=lambda d: load[d] + int(graph.time[u, kind[d]])
        )
        found[u] = d
        load[d] += int(graph.time[u, kind[d]])
    return graph.devices_of(found)
