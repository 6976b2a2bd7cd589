"""The checker, the costs and the contraction agree on published graphs (skipped where they are not at hand)."""

from __future__ import annotations

from random import Random

import pytest

from chipmap.instances.ring import RingSolution
from chipmap.instances.ring.contraction import contract, lift
from chipmap.instances.ring.from_graph import from_graph
from chipmap.instances.ring.loads import terms
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.networks.importers.reading import import_graph
from chipmap.validation.ring.checker import check
from tests.instances.published import all_published

CHIPS = 12


def in_order(problem: RingProblem, random: Random) -> RingSolution:
    """A topological order cut into pieces at random: it keeps C1."""
    cuts = [random.randrange(problem.n) for _ in range(CHIPS - 1)]
    chip = {v: sum(cut <= i for cut in cuts) for i, v in enumerate(problem.order)}
    return lift(problem.instance, {v: c for v, c in chip.items() if problem.computing[v]})


@pytest.mark.parametrize("mode", ["period", "sum", "sum_forward"])
@pytest.mark.parametrize("kind", ["traced", "dnn-partitioning", "piper", "pipedream"])
def test_agreement_on_published_graphs(kind: str, mode: str) -> None:
    for path in all_published(kind)[::7]:
        read = from_graph(import_graph(str(path), path.read_bytes()), path.stem)
        instance = read.replace(package=read.package.replace(chips=CHIPS), cost_mode=mode)
        random, problem = Random(path.stem), ring_problem(instance)
        contraction = contract(instance)
        small = in_order(ring_problem(contraction.instance), random)
        anyhow = RingSolution(chips=tuple(random.randrange(CHIPS) for _ in instance.graph.operations))
        for solution in (contraction.lift(small), anyhow):
            certificate = check(instance, solution)
            assert tuple(certificate.terms.values()) == terms(problem, solution.chips), path.stem
        certificate = check(instance, contraction.lift(small))
        assert check(contraction.instance, small).terms == certificate.terms, path.stem
        assert {violation.label for violation in certificate.violations}.isdisjoint({"C0", "C1"}), path.stem
