"""Every method of family ``dataflow`` held against brute force, as many tests ask for."""

from __future__ import annotations

from typing import Any

from chipmap.instances.dataflow import DataflowInstance
from chipmap.methods.dataflow.bounds import bounds, relaxation
from chipmap.methods.dataflow.chain import auto
from chipmap.methods.dataflow.models import cpsat, mip
from chipmap.methods.dataflow.two_pass import two_pass
from chipmap.run import Run, SolveOptions
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow.checker import check
from tests.lanes import LONG


def run_of(instance: DataflowInstance, method: Any = auto, seconds: float = 300.0) -> Run:
    """The run of a method on one thread, of whose mappings the checker has refused none."""
    run = Run(instance, SolveOptions(time_limit=seconds, threads=1), check)
    method(instance, run)
    assert not run.rejected
    return run


def agreed(
    instance: DataflowInstance, where: Any, below: tuple[Any, ...] = (bounds, relaxation), tolerance: float = 0.0
) -> tuple[int | None, Any]:
    """Brute force's (optimum, mapping), which every method reaches and proves and no bound of ``below`` is above.

    Of instances that are numbered (``where`` is their seed) every third is asked of the MIP, the rest of CP-SAT, which
    takes a fifth of the time, and every other one of the relaxation. ``make test`` asks models every other one as well.
    ``tolerance`` is the share of the optimum that HiGHS, which counts in floating point, may leave open. ``where``
    is printed where something differs.
    """
    optimum, mapping = brute_force(instance, check)
    models: tuple[Any, ...] = (mip, cpsat)
    if isinstance(where, int):
        models = (cpsat,) if where % 3 else (mip,)
        models = models if LONG or where % 2 == 0 else ()
        below = tuple(method for method in below if method is not relaxation or where % 2)
    for method in (auto, *models):
        run = Run(instance, SolveOptions(time_limit=300.0, threads=1), check)
        reason = method(instance, run).reason
        assert run.upper == optimum and not run.rejected, (where, method)
        open_ = tolerance * (optimum or 0) if method is mip else 0
        assert open_ or reason == ("infeasible" if optimum is None else "optimal"), (where, method)
        assert optimum is None or (run.lower is not None and 0 <= optimum - run.lower.value <= open_), (where, method)
        if method is auto and run.best is not None:
            free = instance.task.stage_layers is None  # what is claimed of free layers is a bound
            free = free or run.best.source.startswith("pieces")  # and of a start nothing
            assert run.best.claimed == optimum or (free and run.best.claimed is None), where
    for method in below if optimum is not None else ():
        lower = run_of(instance, method).lower
        assert lower is not None and lower.value <= (optimum or 0), (where, method)
    return optimum, mapping


def no_better(instance: DataflowInstance, optimum: int | None, where: Any) -> None:
    """The published division into two passes finds nothing below the optimum."""
    paper = run_of(instance, two_pass).upper if optimum is not None else None
    assert paper is None or (optimum is not None and paper >= optimum), where
