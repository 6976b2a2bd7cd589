"""Column generation over windows on tiny instances, against all schedules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import islice, product
from random import Random

import numpy as np
import pytest

from chipmap.deadline import Deadline, Stop
from chipmap.heuristics.multimodel.columns import pricing as pricing_module
from chipmap.heuristics.multimodel.columns.column_generation import WindowColumns
from chipmap.heuristics.multimodel.columns.pricing import Pricing
from chipmap.instances.multimodel import MultiInstance
from chipmap.instances.multimodel.problem import MultiProblem, multi_problem
from chipmap.methods.chain import Turn
from chipmap.methods.multimodel.programs import columns
from chipmap.run import Run, SolveOptions
from chipmap.solvers.repeated import GrowingProgram
from chipmap.validation.brute_force import brute_force, count
from chipmap.validation.multimodel.candidates import candidates
from chipmap.validation.multimodel.checker import check
from tests.multimodel.random_instances import tiny_instance
from tests.multimodel.slow_tables import latencies, slow_places, slow_table


def instances(seed: int, number: int, most: int = 2_000) -> Iterator[MultiInstance]:
    """Random instances with at most so many candidates, without limits."""
    random = Random(seed)
    made = (tiny_instance(random) for _ in range(1_000_000))
    return islice((one for one in made if count(one) <= most), number)


def program(problem: MultiProblem, edges: list[int]) -> WindowColumns:
    """The program over slow tables."""
    places, numbers = slow_places(problem)
    tables = [slow_table(problem, m, edges, numbers) for m in range(len(problem.models))]
    pricing = Pricing(tables, places, np.array(edges, dtype=np.int64))
    return WindowColumns([model.layers for model in problem.models], problem.windows, pricing, GrowingProgram)


def least(instance: MultiInstance, rate: float) -> float | None:
    """The least rate · T1 + T2 of all schedules that obey C0 to C3 and C5."""
    values = []
    for solution in candidates(instance):
        certificate = check(instance, solution)
        if all(violation.label == "C4" for violation in certificate.violations):
            values.append(rate * certificate.terms["T1"] + certificate.terms["T2"])
    return min(values, default=None)


@pytest.mark.parametrize("knots", [(), (1, 2)])
@pytest.mark.parametrize("exact", [True, False])
def test_no_bound_exceeds_the_least_weighted_sum(knots: tuple[int, ...], exact: bool) -> None:
    """Every Lagrangian value, at any prices; with exact tables and one window the last one is the optimum."""
    equal = tried = 0
    for k, instance in enumerate(instances(21, 40)):
        problem, rate = multi_problem(instance), (10.0, 300.0, 5_000.0)[k % 3]
        every = latencies(problem)
        if not every:
            continue
        edges = [*(one - 1 for one in every), every[-1]] if exact else sorted({0, *every[::3], every[-1]})
        columns, values, random = program(problem, edges), list[float](), np.random.default_rng(k)
        first = columns.start([random.uniform(0, 1e6, model.layers) for model in problem.models])
        first = [own + step for own, step in zip(first, random.uniform(-1e6, 1e6, len(first)), strict=True)]
        value, _ = columns.bound(rate, first, Deadline(), values.append, 1e-9, knots)
        optimum = least(instance, rate)
        assert values and value == max(values)
        if optimum is None:
            continue
        assert value <= optimum
        tried += problem.windows == 1 and exact
        equal += problem.windows == 1 and exact and value >= optimum * (1 - 1e-5)
    assert equal == tried and (tried > 3 or not exact), (equal, tried)


def tiny_pricings() -> Iterator[tuple[MultiProblem, Pricing, np.random.Generator]]:
    """Tiny instances that have windows, with one cell for each latency, and random numbers for each."""
    for k, instance in enumerate(instances(22, 20)):
        problem = multi_problem(instance)
        if every := latencies(problem):
            yield problem, program(problem, [*(one - 1 for one in every), every[-1]]).pricing, np.random.default_rng(k)


def test_windows_between_given_nodes_cost_what_pricing_says() -> None:
    """With prices that only these nodes escape, the least window is that of the same nodes."""
    compared = 0
    for problem, pricing, random in tiny_pricings():
        nodes = [tuple(sorted(random.integers(0, model.layers + 1, 2).tolist())) for model in problem.models]
        before = [np.full(model.layers + 1, np.inf) for model in problem.models]
        behind = [np.full(model.layers + 1, -np.inf) for model in problem.models]
        for m, (low, high) in enumerate(nodes):
            before[m][low] = behind[m][high] = 0.0
        priced, fixed = pricing.price(before, behind), pricing.fixed(nodes)
        np.testing.assert_array_equal(priced, fixed)
        compared += int(np.isfinite(fixed).any())
    assert compared > 5


def test_a_first_window_moves_some_model_from_its_first_layer_on() -> None:
    """Its least cost by cell is that of all pairs of nodes, at least one of them moved; so is the window named."""
    compared = 0
    for problem, pricing, random in tiny_pricings():
        behind = [random.uniform(-1e6, 1e6, model.layers + 1) for model in problem.models]
        least = np.full(pricing.cells, np.inf)
        ends = product(*(range(model.layers + 1) for model in problem.models))
        for nodes in (tuple((0, end) for end in one) for one in ends if any(one)):
            prices = sum(own[end] for own, (_, end) in zip(behind, nodes, strict=True))
            least = np.minimum(least, pricing.fixed(nodes) - prices)
        found = pricing.first(behind)
        np.testing.assert_allclose(found, least, rtol=1e-12)
        for cell in np.flatnonzero(np.isfinite(found)).tolist():
            pricing.first(behind)
            energy, nodes = pricing.window(cell)
            assert all(begin == 0 for begin, _ in nodes) and any(end for _, end in nodes)
            prices = sum(own[end] for own, (_, end) in zip(behind, nodes, strict=True))
            assert energy - prices == pytest.approx(found[cell])
            assert pricing.fixed(nodes)[cell] <= energy * (1 + 1e-9)
            compared += 1
    assert compared > 20, compared


def test_a_weight_of_time_leaves_out_only_what_is_not_the_least(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a weight each cell's sum is as without one, or left out; the least with time and its window are the same."""
    monkeypatch.setattr(pricing_module, "BLOCK", 3)
    compared = left_out = 0
    for problem, pricing, random in tiny_pricings():
        rate, static = float(10 ** random.uniform(0, 4)), float(random.choice([0.0, 50.0]))
        times = pricing.edges[:-1] + 1
        priced = Pricing(pricing.tables, pricing.places, pricing.edges, static)
        before = [random.uniform(-1e6, 1e6, model.layers + 1) for model in problem.models]
        behind = [random.uniform(-1e6, 1e6, model.layers + 1) for model in problem.models]
        for ask in (partial(priced.price, before, behind), partial(priced.first, behind)):
            every = ask() + rate * times
            if not np.isfinite(every.min()):
                continue
            window = priced.window(int(every.argmin()))
            some = ask(rate=rate) + rate * times
            found = np.isfinite(some)
            np.testing.assert_array_equal(some[found], every[found])
            assert some.min() == every.min() and some.argmin() == every.argmin()
            assert priced.window(int(some.argmin())) == window
            compared, left_out = compared + 1, left_out + int((~found & np.isfinite(every)).sum())
    assert compared > 10 and left_out > 50, (compared, left_out)


def test_a_program_cut_short_at_its_knots_proves_as_much_later() -> None:
    """Where prices at knots were cut short after two rounds, the next bound is that of a program that nothing cut."""
    compared = 0
    for k, instance in enumerate(instances(21, 20)):
        problem, rate = multi_problem(instance), (10.0, 300.0, 5_000.0)[k % 3]
        every = latencies(problem)
        if not every or least(instance, rate) is None:
            continue
        edges, random = [*(one - 1 for one in every), every[-1]], np.random.default_rng(k)
        first = [np.concatenate([[0.0], random.uniform(0, 1e6, model.layers).cumsum()]) for model in problem.models]
        cut, plain = program(problem, edges), program(problem, edges)
        with suppress(Stop):
            cut.bound(rate, first, after(2), _unheard, 1e-9, (1, 2))
        compared += not cut.whole
        wanted, _ = plain.bound(rate, first, Deadline(), _unheard, 1e-9)
        assert cut.bound(rate, first, Deadline(), _unheard, 1e-9)[0] == pytest.approx(wanted, rel=1e-5)
    assert compared > 5


def after(rounds: int) -> Deadline:
    """The deadline that so many questions pass."""
    left = iter(range(rounds))
    return Deadline(ended=lambda: None if next(left, None) is not None else "time")


def _unheard(value: float) -> None:
    """What becomes of bounds that nobody waits for."""


class Heard(Turn):
    """A turn whose bounds are kept."""

    def bound(self, value: int, source: str) -> None:
        """Keep the value."""
        assert source in ("columns over windows", "sequences of windows")
        self.run.bound(value, source)


@pytest.mark.parametrize("seed", range(4))
def test_the_link_proves_no_more_than_the_optimum(seed: int) -> None:
    """All objectives, with limits and deadlines, from an optimal schedule, from another one, and from none."""
    told = 0
    for k, instance in enumerate(instances(30 + seed, 16, 800)):
        optimum, best = brute_force(instance, check)
        run = Run(instance, SolveOptions(deterministic=True), check)
        if best is not None and k % 3:
            any_one = next(one for one in candidates(instance) if check(instance, one).feasible)
            run.solution(best if k % 3 == 1 else any_one, "test")
        columns(multi_problem(instance), Heard(run, Deadline()))
        told += len(run.bounds)
        assert optimum is None or all(bound.value <= optimum for bound in run.bounds)
    assert told > 8, told
