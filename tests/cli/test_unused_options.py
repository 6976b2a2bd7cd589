"""Options for solvers: said to be unused where no solver took them, and only there."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Command


@pytest.mark.parametrize("method", ["ring/greedy", "ring/auto"])
def test_options_that_no_solver_took_are_said(chipmap: Command, method: str) -> None:
    """A method without a model, and a chain that proves the optimum before it comes to one."""
    done = chipmap("solve", "ring/tiny-skip", "--method", method, "--solver", "highs", "--native", "a=1", "--quiet")
    assert "the option solver (highs) was not used" in done.err and "the option native (a) was not used" in done.err


@pytest.mark.parametrize(
    ("name", "method", "solver"),
    [
        ("ring/tiny-skip", "mip", "highs"),
        ("ring/tiny-links", "cpsat-cold", "cpsat"),
        ("dataflow/tiny-chain", "mip", "highs"),
        ("wafer/tiny-chain", "cpsat", "cpsat"),
        ("placement/tiny-pair", "mip", "highs"),
    ],
)
def test_options_that_a_solver_took_are_not(chipmap: Command, name: str, method: str, solver: str) -> None:
    done = chipmap("solve", name, "--method", method, "--solver", solver, "--quiet")
    assert "not used" not in done.err and done.code == 0


def test_without_options_nothing_is_said(chipmap: Command) -> None:
    assert "not used" not in chipmap("solve", "ring/tiny-skip", "--method", "greedy", "--quiet").err


def test_a_second_method_is_refused(chipmap: Command) -> None:
    """Neither of the two is dropped in silence."""
    done = chipmap("solve", "ring/tiny-skip", "--method", "ring/exact", "--method", "ring/greedy")
    assert done.code == 1 and done.err.count("\n") == 2
    assert "--method: is given twice: ring/exact and ring/greedy" in done.err
