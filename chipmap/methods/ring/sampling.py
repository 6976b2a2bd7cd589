"""The paper's search strategies as methods: ``ring/random``, ``ring/annealing`` (section 5.1) and ``ring/policy``.

They work on the lossless contraction under the full rule, or under ``path`` where the package is too large for it.
With an evaluator, samples are worth what it says.
A run ends after :data:`SAMPLES` samples (``--native samples=N``), so that it is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Stop
from chipmap.heuristics.ring.sampling.search import Annealing, Policy, Uniform
from chipmap.instances.ring.contraction import Contraction, contract
from chipmap.instances.ring.instance import RingInstance
from chipmap.instances.ring.problem import IntArray, RingProblem, ring_problem
from chipmap.learned.needs import require
from chipmap.records import InputError, counted
from chipmap.result import Termination
from chipmap.run import Run

#: Samples of a run: as many as the paper's curves show (figures 5 and 6 end near 4,000).
SAMPLES = 4000
#: Those of ``ring/policy``, whose samples cost more.
POLICY_SAMPLES = 400
#: Those of the warm start.
START_SAMPLES = 64
#: Samples per call of an evaluator that is allowed: not every sample is a mapping that wasn't measured before.
PER_CALL = 10
Source = Literal["random search", "simulated annealing", "learned policy", "learned start"]
#: Samples of each where nothing else is said.
USUAL: dict[Source, int] = {
    "random search": SAMPLES,
    "simulated annealing": SAMPLES,
    "learned policy": POLICY_SAMPLES,
    "learned start": START_SAMPLES,
}


def random(instance: RingInstance, run: Run) -> Termination:
    """Random search: SAMPLE from the uniform distribution."""
    return _search(instance, run, "random search")


def annealing(instance: RingInstance, run: Run) -> Termination:
    """Simulated annealing on the distributions that SAMPLE draws from."""
    return _search(instance, run, "simulated annealing")


def policy(instance: RingInstance, run: Run) -> Termination:
    """SAMPLE from the distributions of a policy that learns by PPO (:mod:`chipmap.learned.ring.ppo`); extra
    ``learned``.

    ``--native checkpoint=NAME.pt`` begins with trained weights, ``--native learn=false`` leaves them as they are, and
    ``--native recipe=ours`` never refines the best mappings so far, and ``recipe=paper`` takes the paper's recipe.
    """
    require()
    return _search(instance, run, "learned policy")


def learned(instance: RingInstance, run: Run) -> Termination:
    """The warm start ``learned``: :data:`START_SAMPLES` samples of the policy that is shipped, which stays as it is.

    The best one starts the run. Extra ``learned``. Raises :class:`InputError` for more chips than policies are made
    for.
    """
    require()
    return _search(instance, run, "learned start")


def _strategy(source: Source, problem: RingProblem, run: Run, samples: int) -> Policy:
    """The search strategy of that name."""
    seed = run.options.seed
    if source == "random search":
        return Uniform()
    if source == "simulated annealing":
        calls = run.evaluator.limit if run.evaluator is not None else samples
        return Annealing(problem.n, problem.chips, seed, min(calls, samples))
    from chipmap.learned.ring.from_options import learner, shipped

    return shipped(problem, seed) if source == "learned start" else learner(problem, run.options.native, seed)


def _search(instance: RingInstance, run: Run, source: Source) -> Termination:
    """Sample, report what improves, until the samples or the time are used up."""
    from chipmap.heuristics.ring.sampling.evaluate import INVALID
    from chipmap.heuristics.ring.sampling.propagate import MOST_CHIPS
    from chipmap.heuristics.ring.sampling.sample_fix import Sampler
    from chipmap.heuristics.ring.sampling.search import search

    samples = _samples(run, USUAL[source]) if source != "learned start" else START_SAMPLES
    contraction = contract(instance)
    problem = ring_problem(contraction.instance)
    sampler = Sampler(problem, "path" if problem.has("C3") and problem.chips > MOST_CHIPS else "full")
    problem = sampler.problem
    strategy = _strategy(source, problem, run, samples)
    measured = _measured(run, contraction, source) if run.evaluator is not None else None
    limit, done, broken, best = "none", 0, 0, INVALID
    try:
        run.checkpoint()
        if sampler.possible:
            for chips, value in search(
                sampler, strategy, run.options.seed, samples, measured, at_once=1 if measured else 2**31
            ):
                done += 1
                broken += value >= INVALID
                if chips is not None and value < best and measured is None:
                    best = value
                    run.solution(contraction.lift_computing(chips.tolist()), source, claimed=value)
                run.checkpoint()
    except Stop as stop:
        limit = stop.limit
    why = "without a mapping found" if problem.has("C4") and not problem.full_memory else "without a valid mapping"
    run.note("search", f"{source}: {counted(done, 'sample')}, {broken} of them {why}")
    return run.terminate("none" if limit == "gap" and run.gap == 0 else limit)  # type: ignore[arg-type]


def _measured(run: Run, contraction: Contraction, source: str) -> Callable[[IntArray], NDArray[np.float64]]:
    """Costs by the evaluator, of mappings [k, n] that the checker accepts; INVALID for the others."""
    from chipmap.heuristics.ring.sampling.evaluate import INVALID

    def costs(mappings: IntArray) -> NDArray[np.float64]:
        found = np.full(len(mappings), float(INVALID))
        for i, chips in enumerate(mappings):
            run.checkpoint()
            cost = run.measure(contraction.lift_computing(chips.tolist()), source)
            found[i] = float(INVALID) if cost is None else min(cost, float(INVALID))
        return found

    return costs


def _samples(run: Run, most: int) -> int:
    most = most if run.evaluator is None else max(most, PER_CALL * run.evaluator.limit)
    given = run.options.native.get("samples", most)
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise InputError(f"is {given!r}", "--native samples", "Give a whole number above 0.")
    return given
