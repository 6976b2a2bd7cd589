"""C5: every scope, every method, against brute force; what a run tells; bad oracles."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings

import chipmap
from chipmap import oracle as core
from chipmap.family import get_family
from chipmap.instances.ring import Package, RingInstance, RingSolution
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.oracle import Oracle, OracleError, Verdict
from chipmap.records import InputError
from chipmap.validation.brute_force import brute_force
from chipmap.validation.ring.checker import check
from chipmap.validation.ring.facts import facts
from chipmap.validation.ring.oracles import first_fit, liveness, peak
from tests.ring.random_instances import random_instance, seeds


def no_more_than_two(instance: RingInstance, solution: RingSolution) -> list[Verdict]:
    """No chip holds more than two operations: monotone."""
    on: dict[int, list[int]] = {}
    for v in facts(instance).computing:
        on.setdefault(solution.chips[v], []).append(v)
    return [Verdict(False, "chip-monotone", c, (), f"{len(ops)} operations") for c, ops in on.items() if len(ops) > 2]


def odd_only(instance: RingInstance, solution: RingSolution) -> list[Verdict]:
    """Every chip holds an odd number of operations: depends on the set, and isn't monotone."""
    on: dict[int, int] = {}
    for v in facts(instance).computing:
        on[solution.chips[v]] = on.get(solution.chips[v], 0) + 1
    return [Verdict(False, "chip", c, (), "even") for c, count in on.items() if count % 2 == 0]


def not_twice(instance: RingInstance, solution: RingSolution) -> bool:
    """No two neighbouring chips run equally many operations: about the mapping as a whole."""
    on = [0] * (instance.package.chips + 1)
    for v in facts(instance).computing:
        on[solution.chips[v]] += 1
    return all(a != b or a == 0 for a, b in pairwise(on))


class Threshold:
    """``chip-monotone`` with ``on_chip``, as a compiler that can judge one chip alone."""

    scope = "chip-monotone"
    VERSION = "7"

    def __call__(self, instance: RingInstance, solution: RingSolution) -> list[Verdict]:
        return no_more_than_two(instance, solution)

    def on_chip(self, instance: RingInstance, operations: tuple[int, ...]) -> bool:
        return len(operations) <= 2


ORACLES: dict[str, Any] = {
    "monotone": no_more_than_two,
    "chip": odd_only,
    "mapping": not_twice,
    "on_chip": Threshold(),
    "liveness": liveness,
}
METHODS = ("ring/auto", "ring/exact", "ring/cpsat", "ring/cpsat-cold", "ring/mip", "ring/n1", "ring/path")


def load_oracle(given: Any) -> Oracle:
    """The oracle for ring."""
    oracle = core.load_oracle(given, get_family("ring"))
    assert oracle is not None
    return oracle


def optimum(instance: RingInstance, function: Any) -> int | None:
    oracle = load_oracle(function)
    return brute_force(instance, lambda i, s: check(i, s, oracle))[0]


@pytest.mark.parametrize("name", ORACLES)
@settings(max_examples=12, deadline=None)
@given(seed=seeds)
def test_auto_equals_brute_force(name: str, seed: int) -> None:
    instance = random_instance(Random(seed), operations=6, chips=3)
    best = optimum(instance, ORACLES[name])
    result = chipmap.solve(instance, oracle=ORACLES[name], options=chipmap.SolveOptions(time_limit=60, threads=1))
    assert (result.status, result.objective) == (("optimal", best) if best is not None else ("infeasible", None))
    if result.certificate:
        assert result.certificate.oracle == load_oracle(ORACLES[name]).title


def chain(operations: int = 6, **fields: Any) -> RingInstance:
    """Operations in a row with equal work on three chips, so that the optimum without H is unique."""
    graph = OperationGraph(
        name="chain",
        operations=tuple(Operation(name=f"op{v}", kind="k", flop=10 + (v == 0)) for v in range(operations)),
        tensors=tuple(Tensor(producer=v, readers=(v + 1,), bytes=8) for v in range(operations - 1)),
    )
    package = Package(chips=3, flop_per_ns=1.0, sram_bytes=1000)
    made: dict[str, Any] = {"name": "chain", "graph": graph, "package": package}
    return RingInstance(**(made | fields))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ORACLES)
def test_every_method_respects_the_oracle(method: str, name: str) -> None:
    instance = chain()
    best = optimum(instance, ORACLES[name])
    options = chipmap.SolveOptions(time_limit=20, threads=1)
    result = chipmap.solve(instance, method, options, oracle=ORACLES[name])
    assert best is not None
    if result.objective is not None:
        assert result.objective >= best and result.solution is not None
        assert check(instance, RingSolution.make(**result.solution), load_oracle(ORACLES[name])).feasible
    if result.bound is not None:
        assert result.bound <= best
    if method in ("ring/auto", "ring/exact", "ring/cpsat", "ring/cpsat-cold", "ring/mip") and name != "mapping":
        assert (result.status, result.objective) == ("optimal", best)


def test_the_oracle_changes_the_optimum_and_the_result_says_so() -> None:
    free = chipmap.solve(chain())
    assert "oracle" not in free.provenance and free.certificate.oracle == ""  # type: ignore[union-attr]
    result = chipmap.solve(chain(), oracle=odd_only)
    assert result.objective > free.objective  # type: ignore[operator]
    record = result.provenance["oracle"]
    assert record["rejected"] >= 1 and record["reasons"] == {"even": record["reasons"]["even"]}
    assert record["version"].startswith("source ")
    assert any(note.text.startswith("oracle ") and "rejected" in note.text for note in result.notes)


def test_a_rejected_empty_chip_cuts_the_mapping_only() -> None:
    def all_three(instance: RingInstance, solution: RingSolution) -> list[Verdict]:
        unused = set(range(instance.package.chips)) - set(solution.chips)
        return [Verdict(False, "chip-monotone", c, (), "idle") for c in unused]

    from chipmap.methods.ring.oracle_cuts import Cuts
    from chipmap.run import Run, SolveOptions

    oracle = load_oracle(all_three)
    run = Run(chain(), SolveOptions(), lambda i, s: check(i, s, oracle), oracle=oracle)
    run.solution(RingSolution(chips=(0, 0, 0, 1, 1, 1)), "test")
    cuts = Cuts(run, chain())
    assert cuts.update() and not cuts.blocks and len(cuts.mappings) == 1


def test_infeasible_names_c5() -> None:
    result = chipmap.solve(chain(7), oracle=no_more_than_two)
    assert result.status == "infeasible"
    assert [reason.label for reason in result.infeasibility] == ["C5"]


def test_isolated_by_name() -> None:
    options = chipmap.SolveOptions(time_limit=60)
    result = chipmap.solve(chain(), options=options, oracle="tests.ring.test_oracle:odd_only", isolate=True)
    assert result.status == "optimal" and result.objective == optimum(chain(), odd_only)
    assert result.provenance["oracle"]["name"] == "tests.ring.test_oracle:odd_only"
    with pytest.raises(InputError, match="module:function"):
        chipmap.solve(chain(), oracle=odd_only, isolate=True)


def test_monotone_cuts_are_strengthened() -> None:
    """Deletion tests leave three operations of a chip that holds more."""
    from chipmap.methods.ring.oracle_cuts import Cuts
    from chipmap.run import Run, SolveOptions

    instance = chain()
    for function in (no_more_than_two, Threshold()):
        oracle = load_oracle(function)
        run = Run(instance, SolveOptions(), partial(check, oracle=oracle), oracle=oracle)
        run.solution(RingSolution(chips=(0, 1, 1, 1, 1, 2)), "test")
        cuts = Cuts(run, instance)
        assert cuts.update() and not cuts.update()
        assert {len(block) for block, monotone in cuts.blocks if monotone} == {3}


@pytest.mark.parametrize("given", ["nothing", "no.such.module:f", "chipmap.oracle:nothing", "chipmap.oracle:Verdict.x"])
def test_bad_names(given: str) -> None:
    with pytest.raises(InputError):
        load_oracle(given)


def test_scopes_are_those_of_the_family() -> None:
    def of_a_core(instance: RingInstance, solution: RingSolution) -> Verdict:
        return Verdict(False, "core", 0)

    with pytest.raises(OracleError, match=r"'core'.*chip-monotone"):
        chipmap.check(chain(), RingSolution(chips=(0, 0, 1, 1, 2, 2)), oracle=of_a_core)
    of_a_core.scope = "core"  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="mapping, chip, chip-monotone"):
        load_oracle(of_a_core)


def test_a_failing_oracle_ends_the_run_with_its_reason() -> None:
    def broken(instance: RingInstance, solution: RingSolution) -> bool:
        raise ValueError("no licence")

    result = chipmap.solve(chain(), oracle=broken)
    assert result.status == "unknown" and "no licence" in result.termination.detail
    with pytest.raises(OracleError, match="no licence"):
        chipmap.check(chain(), RingSolution(chips=(0, 0, 1, 1, 2, 2)), oracle=broken)
    with pytest.raises(OracleError, match="'yes'"):
        chipmap.check(chain(), RingSolution(chips=(0, 0, 1, 1, 2, 2)), oracle=lambda i, s: "yes")


def test_the_oracle_is_asked_once_per_valid_mapping() -> None:
    asked: list[tuple[int, ...]] = []

    def counting(instance: RingInstance, solution: RingSolution) -> bool:
        asked.append(solution.chips)
        return True

    oracle = load_oracle(counting)
    assert isinstance(oracle, Oracle)
    for chips in ((0, 0, 1, 1, 2, 2), (0, 0, 1, 1, 2, 2), (1, 0, 1, 1, 2, 2)):
        check(chain(), RingSolution(chips=chips), oracle)
    assert asked == [(0, 0, 1, 1, 2, 2)]


def test_allocation() -> None:
    """Two buffers that live apart share their bytes; first fit may need more than the peak."""
    assert first_fit([(0, 1, 8), (2, 3, 5)]) == 8
    assert first_fit([(0, 1, 8), (1, 3, 5)]) == peak([(0, 1, 8), (1, 3, 5)]) == 13
    fragmented = [(0, 1, 4), (0, 3, 2), (2, 4, 5), (3, 4, 2)]
    assert first_fit(fragmented) >= peak(fragmented)


def test_liveness_by_hand() -> None:
    """Chain on one chip: at each step an operation's input and output are alive; nothing crosses."""
    operations = (0, 1, 2, 3)
    assert liveness.bytes_on_chip(chain(4), operations) == 16
    assert liveness.bytes_on_chip(chain(4), (1, 2)) == 2 * 16 + 8
    assert not liveness.on_chip(chain(4, package=Package(chips=3, sram_bytes=15)), operations)
