"""``ring/guided``: the mapping of least measured cost, by fits to what an evaluator says and exact programs."""

from __future__ import annotations

from chipmap.heuristics.engines.ideals import TooManyIdealsError
from chipmap.instances.ring.contraction import Contraction, computing_only, contract
from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.instances.ring.problem import ring_problem
from chipmap.methods.ring.state import IDEAL_LIMIT
from chipmap.records import InputError, counted
from chipmap.result import Termination
from chipmap.run import Run

SOURCE = "fitted speeds, solved exactly"


def guided(instance: RingInstance, run: Run) -> Termination:
    """Measure optima of fitted and of drawn speeds in turn (:mod:`chipmap.heuristics.ring.measured.guided`).

    Without an evaluator, the optimum of the analytic cost. Raises :class:`InputError` where the programs over ideals
    don't apply or the graph is too wide for them.
    """
    return run.attempt(lambda: _measure(instance, run))


def _measure(instance: RingInstance, run: Run) -> None:
    import numpy as np

    from chipmap.heuristics.ring.measured.fit import Fit
    from chipmap.heuristics.ring.measured.guided import Guided
    from chipmap.heuristics.ring.measured.resolve import Resolver

    contraction = contract(instance)
    problem = computing_only(ring_problem(contraction.instance))
    try:
        resolver = Resolver(problem, IDEAL_LIMIT, run.deadline)
    except (ValueError, TooManyIdealsError) as error:
        if run.evaluator is None:
            run.note("left out", f"no program over all ideals: {error}")
            return
        what = f"ring/guided solves by programs over ideals: {error}"
        raise InputError(what, instance.name, "Other methods with an evaluator: ring/annealing, ring/random.") from None
    search = Guided(Fit(problem, kinds(contraction), run.options.seed), resolver)
    if run.best is not None and run.best.measured is not None:
        assert isinstance(run.best.solution, RingSolution)
        start = run.best.solution.chips
        search.observe(np.array([start[group[0]] for group in contraction.groups]), run.best.measured)
    done = 0
    while (chips := search.propose()) is not None:
        cost = run.measure(contraction.lift_computing(chips.tolist()), SOURCE)
        search.observe(chips, cost)
        done += 1
        run.checkpoint()
        if run.evaluator is None:
            break
    run.note("search", f"{SOURCE}: {counted(done, 'mapping')}")


def kinds(contraction: Contraction) -> list[str]:
    """The kinds of the computing operations of the contracted instance."""
    operations = contraction.instance.graph.operations
    return [operation.kind for operation, group in zip(operations, contraction.members, strict=True) if group]
