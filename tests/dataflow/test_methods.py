"""What the methods say: labels and figures of what is impossible, bounds, wide graphs, the same result twice."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from chipmap.inputs.reading import read
from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.methods.dataflow import first
from chipmap.methods.dataflow import infeasibility as dataflow_reasons
from chipmap.methods.dataflow.cases import cases
from chipmap.methods.dataflow.chain import auto
from chipmap.methods.dataflow.infeasibility import no_mapping
from chipmap.records import InputError
from chipmap.result import Result
from chipmap.run import Run, SolveOptions
from chipmap.solve import solve
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow.checker import check
from tests.dataflow.random_instances import HEAVY, LIGHT, infeasible, made, variants
from tests.dataflow.tiny_models import table6

CHAIN = {"a": LIGHT, "b": HEAVY, "c": LIGHT}


def run(instance: DataflowInstance, method: str | None = None, **options: Any) -> Result:
    return solve(instance, method, SolveOptions.make(**{"warm_start": "none", "threads": 1, **options}))


def with_sram(instance: DataflowInstance, sram: int) -> DataflowInstance:
    chip = instance.system.chip.replace(sram_bytes=sram)
    return instance.replace(system=instance.system.replace(chip=chip))


@pytest.mark.parametrize("name", infeasible())
def test_every_reason_has_its_label_and_remedy(name: str) -> None:
    labels, instance = infeasible()[name]
    result = run(instance)
    assert result.status == "infeasible" and len(result.infeasibility) == 1
    reason = result.infeasibility[0]
    assert reason.label in labels and reason.message and reason.remedies and reason.demand > reason.limit


def test_the_sram_that_would_do_does_and_a_byte_less_does_not() -> None:
    (reason,) = run(read("dataflow/tiny-sram")).infeasibility  # type: ignore[arg-type]
    instance = read("dataflow/tiny-sram")
    assert isinstance(instance, DataflowInstance)
    assert reason.label == "C2" and f"{round(reason.demand):,} are needed at least" in reason.message
    assert run(with_sram(instance, round(reason.demand))).status == "optimal"
    assert run(with_sram(instance, round(reason.demand) - 1)).status == "infeasible"


def test_labels_are_counted_for_each_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least SRAM takes many searches, each within the labels of one."""
    monkeypatch.setattr(dataflow_reasons, "FIRST_TRY", 30_000)
    whole = table6("physical", schemes={})
    (reason,) = run(with_sram(whole, whole.system.chip.sram_bytes // 20)).infeasibility
    assert reason.label == "C2" and "are needed at least" in reason.message


def test_a_proof_stands_without_time_for_its_reasons() -> None:
    """Without time a note says that the reason wasn't found, unless a sum says it: a kernel that fits nowhere."""
    tiny = read("dataflow/tiny-sram")
    assert isinstance(tiny, DataflowInstance)
    for instance, summed in ((infeasible()["too few partitions"][1], False), (tiny, True)):
        problems = [dataflow_problem(instance, degrees) for degrees in allowed_degrees(instance)]
        for left in (False, True):
            state = Run(instance, SolveOptions.make(time_limit=60.0, threads=1), check)
            state.started -= 0.0 if left else 100.0
            assert state.attempt(partial(no_mapping, instance, problems, state)).reason == "infeasible"
            assert (len(state.infeasibility), len(state.notes)) == (left or summed, not (left or summed))
            if summed:
                assert state.infeasibility[0].remedies[0].startswith("at least") is not left


def test_the_partitions_that_would_do_do() -> None:
    instance = infeasible()["too few partitions"][1]
    (reason,) = run(instance).infeasibility
    assert (reason.label, reason.demand, reason.limit) == ("C4", 3.0, 1.0)
    for partitions, status in ((2, "infeasible"), (3, "optimal")):
        assert run(instance.replace(task=instance.task.replace(partitions=partitions))).status == status


def test_a_layer_too_large_names_its_largest_kernel() -> None:
    free = read("dataflow/table6-free-8x1")
    assert isinstance(free, DataflowInstance)
    (reason,) = run(free.replace(task=free.task.replace(partitions=1))).infeasibility
    assert reason.label == "C4" and "at most 2 would do" in reason.message
    (reason,) = run(with_sram(free, 10**8)).infeasibility
    assert reason.label == "C2" and "'FFN0'" in reason.message and "150,994,944" in reason.message


def test_choices_of_degrees() -> None:
    torus = made(CHAIN, "ab bc", sizes=[2, 4], layers=4, batch=4)
    found = {(d.tensor, d.pipeline, d.data) for d in allowed_degrees(torus)}
    assert found == {(2, 4, 1), (2, 1, 4), (4, 2, 1), (1, 2, 4), (4, 1, 2), (1, 4, 2)}
    odd = torus.replace(workload=torus.workload.replace(layers=3))
    assert {(d.tensor, d.pipeline, d.data) for d in allowed_degrees(odd)} == {(2, 1, 4), (4, 1, 2)}
    bounds = [case.bound for case in cases(torus)]
    assert bounds == sorted(bounds) and len(bounds) == 6


def test_all_degrees_are_compared() -> None:
    instance = variants()["two dimensions"]
    best = run(instance)
    each = [run(instance.replace(task=instance.task.replace(degrees=one))) for one in allowed_degrees(instance)]
    objectives = [result.objective for result in each if result.objective is not None]
    assert best.objective == min(objectives) and len(set(objectives)) > 1


def test_bounds_hold() -> None:
    for name, instance in list(variants().items())[::3]:
        result = run(instance, "bounds")
        optimum = brute_force(instance, check)[0]
        assert result.objective is None and result.bound is not None and optimum is not None, name
        assert 0 < result.bound <= optimum, name
    assert run(infeasible()["neither layers nor batch divide"][1], "bounds").status == "infeasible"


def test_a_graph_with_too_many_open_schemes_is_solved_as_a_wide_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel is read by the last one, so that the schemes of all of them are open.

    The first mapping is an optimum here, so that the program is asked without it.
    """
    monkeypatch.setattr(first, "FEW", 100)
    small = {"flop": 10**7, "output_bytes": 100, "weight_bytes": 0, "schemes": ["M", "NONE"]}
    names = "abcdefghijklmnopqrstuvwxyz"
    chain = [u + v for u, v in pairwise(names)]
    instance = made(dict.fromkeys(names, small), " ".join([*chain, *(u + "z" for u in names[:-2])]))
    one = Run(instance, SolveOptions(threads=1), check)
    auto(instance, one)
    assert one.gap is not None and one.gap < 1e-3 and not one.infeasibility
    assert any("too many" in note.text and "wide graphs" in note.text for note in one.notes)


def test_the_same_twice() -> None:
    one, two = (run(read("dataflow/table6-free-4x2"), deterministic=True) for _ in range(2))  # type: ignore[arg-type]
    assert (one.solution, one.objective, one.bounds[-1].value) == (two.solution, two.objective, two.bounds[-1].value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"degrees": {"tensor": 2}}, "names 0 dimensions, the network has 1"),
        ({"degrees": {"tensor": 4, "dimensions": ["tensor"]}}, "is 4, but its dimensions hold 2 chips"),
        ({"degrees": {"pipeline": 2, "dimensions": ["pipeline"]}, "layers": 3}, "2 stages don't divide 3 layers"),
        ({"degrees": {"data": 2, "dimensions": ["data"]}, "batch": 3}, "2 replicas of micro-batches of 1 don't divide"),
        ({"sizes": [2, 2], "degrees": {"tensor": 4, "dimensions": ["tensor"] * 2}}, "gives tensor 2 dimensions"),
        ({"partitions": 0}, "task.partitions: is 0"),
        ({"exactly": True}, "no number of partitions is given"),
        ({"together": ["ax"]}, "no kernel is called 'x'"),
        ({"together": ["ab", "bc"]}, "a kernel is in two groups"),
        ({"utilisation": 1.5}, "task.utilisation: is 1.5"),
        ({"sizes": [0]}, "system.network[0].size: is 0"),
        ({"sizes": [1, 1, 1, 1, 1, 1]}, "has 6 dimensions"),
        ({"link_gbps": -1.0}, "system.network[0].bytes_per_ns: is -1"),
        ({"chip": "sn50"}, "no chip is called 'sn50'"),
        ({"schemes": {"x": "M"}}, "no kernel is called 'x'"),
    ],
)
def test_bad_input_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as error:
        made(CHAIN, "ab bc", **changes)
    assert said in str(error.value) and error.value.remedy


@pytest.mark.parametrize(
    ("edges", "kernels", "said"),
    [
        ("ab bc ca", CHAIN, "form a cycle"),
        ("ab ab", CHAIN, "'a' -> 'b' is named twice"),
        ("ax", CHAIN, "no kernel is called 'x'"),
        ("ab", {"a": {**LIGHT, "phase": "backward"}, "b": LIGHT}, "leads back to a forward kernel"),
        ("", {"a": {"kind": "gemm", "M": 4}}, "K of 'a' is 0"),
        ("", {"a": {"flop": -1}}, "flop of 'a' is -1"),
    ],
)
def test_bad_graphs_are_named(edges: str, kernels: dict[str, dict[str, Any]], said: str) -> None:
    with pytest.raises(InputError) as error:
        made(kernels, edges)
    assert said in str(error.value) and error.value.remedy


def test_numbers_beyond_64_bits_and_wrong_pins_are_named() -> None:
    huge = made({"a": {"kind": "gemm", "M": 10**12, "K": 10**12, "N": 10**12}}, "")
    with pytest.raises(InputError, match="kernel 'a' takes"):
        run(huge)
    with pytest.raises(InputError, match="'a' can't be sharded by K"):
        run(made(CHAIN, "ab bc", schemes={"a": "K"}))
