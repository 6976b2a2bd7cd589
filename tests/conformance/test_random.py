"""Random tiny instances of every family that has a ``tiny_instance(random)``: brute force = models = best chain."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chipmap.family import Family, Standing
from chipmap.run import SolveOptions
from chipmap.solve import solve
from chipmap.validation.brute_force import count
from tests.conformance.cases import FAMILIES, LIMIT_S, TinyCase, formulations, hooks, identify, solved


@pytest.mark.parametrize("family", [family for family in FAMILIES if hooks(family)], ids=identify)
@settings(max_examples=16, derandomize=True, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_everything_exact_agrees(family: Family, seed: int) -> None:
    instance = hooks(family).tiny_instance(Random(seed))
    if count(instance) > 3**6:
        return
    case = TinyCase(family, f"random {seed}", instance)
    optimum, _ = case.best
    expected = "infeasible" if optimum is None else "optimal"
    for owner, formulation, solver in formulations():
        if owner is not family or (model := case.build(formulation)).standing is not Standing.EXACT:
            continue
        outcome = solved(model, solver)
        assert outcome.termination.reason == expected, f"{formulation.name} by {solver}"
        if outcome.value_of is not None:
            certificate = case.check(model.decode(outcome.value_of))
            assert (certificate.feasible, certificate.objective) == (True, optimum), f"{formulation.name} by {solver}"
    result = solve(instance, None, SolveOptions(time_limit=LIMIT_S, threads=1))
    assert (result.status, result.objective) == (expected, optimum)
