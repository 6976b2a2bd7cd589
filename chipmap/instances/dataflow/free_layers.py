"""Layers of each stage that suit a mapping, where these numbers are free (page, "Uneven stages")."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from chipmap.instances.dataflow.batch import kept_for_backward, passes_held
from chipmap.instances.dataflow.instance import DataflowSolution
from chipmap.instances.dataflow.loads import chosen_options, often, times
from chipmap.instances.dataflow.problem import DataflowProblem
from chipmap.instances.dataflow.uneven import Counts, shared_out
from chipmap.instances.dataflow.workload import Scheme


def shared_out_for(problem: DataflowProblem, schemes: tuple[Scheme, ...], partitions: Sequence[int]) -> Counts:
    """As many layers in each chunk as let none take longer than it must, those left out where most is held."""
    assert problem.longest is not None
    instance, degrees = problem.instance, problem.degrees
    mapping = DataflowSolution(degrees=degrees, schemes=schemes, partitions=tuple(partitions))
    join, again = max if instance.task.overlap else sum, often(problem, mapping)
    each = times(problem, mapping).items()
    layer = sum(again[p] * (problem.launch + join((one.compute, one.memory, one.network))) for p, one in each)
    names, options = kept_for_backward(instance), chosen_options(problem, mapping)
    kernels = instance.workload.kernels
    saved = sum(one.output for one, of in zip(options, kernels, strict=True) if of.name in names)
    rests = sum(one.kept for one in options)
    ahead = [passes_held(instance, degrees, s) for s in range(degrees.pipeline)]
    return shared_out(problem.longest, degrees.pipeline, layer, Fraction(saved, max(1, rests)), ahead)
