"""What every run says at once: bounds before anything else, and the plainest proofs that there is no mapping."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from chipmap.family import get_family
from chipmap.instances.ring import Package, RingInstance
from chipmap.instances.ring.instance import Forbidden
from chipmap.instances.ring.splitting import split
from chipmap.networks.generators import random_dag
from chipmap.networks.graph import Loops, Operation, OperationGraph, Tensor
from chipmap.result import Infeasibility, Result
from chipmap.run import SolveOptions
from chipmap.solve import solve
from chipmap.validation.brute_force import brute_force
from chipmap.validation.ring.checker import check
from tests.ring.random_instances import random_instance

MIB = 1024 * 1024


def weighted(weights: list[int], sram: int, chips: int = 4, **fields: Any) -> RingInstance:
    """A chain of operations a, b, c … of 1 ns each with these weight bytes."""
    names = "abcdefghijkl"[: len(weights)]
    graph = OperationGraph(
        name="weighted",
        operations=tuple(Operation(name=n, kind="k", weight_bytes=w) for n, w in zip(names, weights, strict=True)),
        tensors=tuple(Tensor(producer=v, readers=(v + 1,), bytes=1) for v in range(len(weights) - 1)),
    )
    times = tuple(1.0 for _ in weights)
    return RingInstance(name="w", graph=graph, package=Package(chips=chips, sram_bytes=sram), time_ns=times, **fields)


def at_once(instance: RingInstance, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Result:
    """The result of the best chain where all that isn't linear in the operations fails."""

    def dear(*_: Any, **__: Any) -> None:
        raise AssertionError("nothing dear comes before a plain proof")

    for part in ("methods.ring.state.contract", "methods.ring.programs.flow_graph", "heuristics.ring.greedy.greedy"):
        monkeypatch.setattr(f"chipmap.{part}", dear)
    return solve(instance, options=SolveOptions(**options))


def only_reason(result: Result) -> Infeasibility:
    """The one reason of an infeasible result."""
    assert (result.status, result.termination.reason) == ("infeasible", "infeasible")
    (reason,) = result.infeasibility
    return reason


def test_commands_quote_names_that_a_shell_would_take_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operation called "my table" that doesn't fit: the remedy can be pasted."""
    instance = weighted([131 * MIB, MIB], 32 * MIB)
    first, *others = instance.graph.operations
    graph = instance.graph.replace(operations=(first.replace(name="my table"), *others))
    reason = only_reason(at_once(instance.replace(graph=graph), monkeypatch))
    assert any("--split 'my table:5:inner', or more parts" in remedy for remedy in reason.remedies)


def test_no_split_is_a_remedy_that_convert_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """8 MiB of weights on chips of one byte would take 8,388,608 parts, more than there can be."""
    reason = only_reason(at_once(weighted([8 * MIB, MIB], 1), monkeypatch))
    assert "split operation 'a' into smaller ones" in reason.remedies
    assert not any("--split" in remedy for remedy in reason.remedies)


def test_a_split_that_is_advised_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table whose rows can't be split apart, and of which each part needs 2 MiB whole: heads are, in so many parts
    that they fit."""
    instance = weighted([11 * MIB, MIB], 4 * MIB, chips=36)
    first, *others = instance.graph.operations
    loops = Loops(outer=64, rows=8, weights=True, splits=("outer",), whole_bytes=2 * MIB)
    tensors = tuple(one.replace(bytes=64) for one in instance.graph.tensors)
    graph = instance.graph.replace(operations=(first.replace(loops=loops), *others), tensors=tensors)
    reason = only_reason(at_once(instance.replace(graph=graph), monkeypatch))
    assert any("--split a:5:heads, or more parts" in remedy for remedy in reason.remedies)
    made = split(instance.replace(graph=graph), ["a"], 5, "heads").instance
    assert max(one.weight_bytes for one in made.graph.operations) <= 4 * MIB


@pytest.mark.parametrize("start", [None, "none"])
def test_an_operation_larger_than_the_sram(start: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of 131 MiB on chips of 32 MiB: no number of chips helps, and the reason names what does."""
    instance = weighted([MIB, 131 * MIB, MIB], 32 * MIB, chips=36)
    reason = only_reason(at_once(instance, monkeypatch, warm_start=start))
    assert (reason.label, reason.demand, reason.limit) == ("C4", 131 * MIB, 32 * MIB)
    assert "'b'" in reason.message and f"{131 * MIB:,}" in reason.message and f"{32 * MIB:,}" in reason.message
    assert not any("package.chips" in remedy for remedy in reason.remedies), "more chips don't help"
    assert any(f"{131 * MIB:,} bytes, maybe more" in remedy for remedy in reason.remedies)
    assert any("'b'" in remedy for remedy in reason.remedies), "split it"


def test_an_operation_is_no_group_by_its_name() -> None:
    """The remedies are those for an operation, whatever it is called."""
    graph = OperationGraph(name="g", operations=(Operation(name="grouped_mm", kind="group", weight_bytes=9),))
    reason = only_reason(solve(RingInstance(name="g", graph=graph, package=Package(chips=2, sram_bytes=8))))
    assert any("split operation 'grouped_mm'" in remedy for remedy in reason.remedies)
    assert not any("together" in remedy for remedy in reason.remedies)


def test_all_weights_larger_than_all_chips(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each operation fits by itself: more chips may be a remedy, as many as the weights need at least."""
    reason = only_reason(at_once(weighted([6, 6, 6, 6, 6, 6], 8), monkeypatch))
    assert (reason.label, reason.demand, reason.limit) == ("C4", 9, 8)
    assert any("more chips, at least 5, if any number does" in remedy for remedy in reason.remedies)


def test_a_group_larger_than_the_sram(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations that must share a chip count together."""
    reason = only_reason(at_once(weighted([6, 1, 6], 11, together=(("a", "c"),)), monkeypatch))
    assert (reason.label, reason.demand) == ("C4", 12) and "group" in reason.message
    assert not any("package.chips" in remedy for remedy in reason.remedies)


def test_more_weights_under_a_skip_connection_than_two_chips_hold() -> None:
    """Four chips would hold them all; under C3 two must, and the reason names the ends and what they need."""
    chain = weighted([0, 60, 60, 60, 60, 0], 100, chips=9)
    skip = Tensor(producer=0, readers=(5,), bytes=1)
    instance = chain.replace(graph=chain.graph.replace(tensors=[*chain.graph.tensors, skip]))
    reason = only_reason(solve(instance, options=SolveOptions(warm_start="none")))
    assert (reason.label, reason.demand, reason.limit) == ("C4", 120, 100)
    assert "'a' to 'f'" in reason.message and not any("package.chips" in remedy for remedy in reason.remedies)
    assert solve(instance.replace(constraints=["C1", "C2", "C4"])).status == "optimal"
    assert brute_force(instance.replace(package=instance.package.replace(chips=5)), check)[0] is None


def test_an_operation_without_a_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is forbidden everywhere can't be placed (C0)."""
    instance = weighted([1, 1], 100, forbidden=(Forbidden(operation="b", chips=(0, 1, 2, 3)),))
    assert only_reason(at_once(instance, monkeypatch)).label == "C0"


@pytest.mark.parametrize("seed", range(40))
def test_plain_proofs_are_true(seed: int) -> None:
    """What is called infeasible at once has no mapping, and bounds at once lie below the optimum."""
    random = Random(seed)
    instance = random_instance(random, operations=5, constraints=("C1", "C2", "C3", "C4"))
    fields = msgspec.structs.asdict(instance.package) | {"sram_bytes": random.choice((300, 1000, 3000))}
    instance = instance.replace(package=Package(**fields))
    best, _ = brute_force(instance, check)
    result = solve(instance, "ring/greedy")
    if best is None or result.status == "infeasible":
        assert best is None and result.objective is None
    else:
        assert result.bound is not None and result.bound <= best


SAMPLED = ("ring/random", "ring/annealing", "ring/policy")


@pytest.mark.parametrize("method", [method.name for method in get_family("ring").methods])
@pytest.mark.parametrize("start", [None, "none"])
def test_bounds_come_before_anything_else(method: str, start: str | None) -> None:
    """Whatever the method and the start: two bounds, then the rest, and each known bound once."""
    if method in ("ring/policy", "ring/windows-learned"):
        pytest.importorskip("torch", reason="needs the extra learned")
    native = {"samples": 1} if method in SAMPLED else {}
    result = solve("ring/tiny-skip", method, SolveOptions(time_limit=20.0, warm_start=start, native=native))
    assert [(bound.source, bound.value) for bound in result.bounds[:2]] == [
        ("average", result.bounds[0].value),
        ("largest operation", result.bounds[1].value),
    ]
    assert result.trace[0].event == "bound", "no solution comes before a bound"
    known = [(bound.source, bound.value) for bound in result.bounds]
    assert len(known) == len(set(known))


def test_a_child_starts_from_the_bounds_of_its_parent() -> None:
    """The run in a child process tells the same bounds, once."""
    result = solve("ring/tiny-skip", options=SolveOptions(time_limit=20.0), isolate=True)
    known = [(bound.source, bound.value) for bound in result.bounds]
    assert result.trace[0].source == "average" and len(known) == len(set(known))


def test_fifty_thousand_operations_end_with_a_bound() -> None:
    """Mapping and bound come from the process that keeps the time; here its child has too little memory for more."""
    graph = random_dag(operations=50_000)
    instance = RingInstance(name="large", graph=graph, package=Package(chips=36, sram_bytes=1000 * MIB))
    result = solve(instance, "ring/auto", SolveOptions(memory_limit=1024 * MIB), isolate=True)
    assert (result.status, result.termination.limit) == ("feasible", "memory")
    assert result.certificate is not None and result.certificate.feasible
    assert result.bound is not None and result.objective is not None
    assert 0 < result.bound <= result.objective <= 2 * result.bound
    assert result.trace[0].event == "bound"
