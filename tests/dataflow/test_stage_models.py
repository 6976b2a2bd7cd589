"""Stages of kernels in the MIP and in CP-SAT: brute force, the program, one stage, what is given, the two passes."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pyomo.environ as pyo
import pytest

from chipmap.family import Standing
from chipmap.formulations.dataflow import cpsat, mip
from chipmap.instances.dataflow import DataflowInstance, DataflowSolution, Degrees
from chipmap.instances.dataflow.generators import resnets
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.passes import inter_chip
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.methods.dataflow.two_pass import second_pass
from chipmap.records import InputError
from chipmap.run import Run, SolveOptions
from chipmap.solve import solve
from chipmap.solvers import infeasible_labels
from chipmap.solvers.outcome import SolveRequest
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow.candidates import candidates, count
from chipmap.validation.dataflow.checker import check
from tests.dataflow.random_instances import made
from tests.dataflow.staged_instances import staged_instance
from tests.dataflow.tiny_models import optimum, solved, table6

OPTIONS = SolveOptions.make(warm_start="none", threads=1, time_limit=60.0)
PAIR = Degrees(tensor=2, pipeline=2, dimensions=("tensor", "pipeline"))
formulations = pytest.mark.parametrize("formulation", [mip, cpsat], ids=["mip", "cpsat"])


def fixed(seed: int) -> DataflowInstance:
    """A random instance at one choice of degrees, every other one with little DRAM."""
    instance = staged_instance(Random(seed), dram=seed % 2 == 1)
    degrees = Random(seed).choice(allowed_degrees(instance))
    return instance.replace(task=instance.task.replace(degrees=degrees))


def test_both_models_find_what_brute_force_finds() -> None:
    """Tiny graphs with any features side by side, their slots numbered without a gap or not, labels assumed or not."""
    seen = Counter[str]()
    for seed in range(38):
        instance = fixed(seed)
        if count(instance) > 450:
            continue
        best, _ = brute_force(instance, check)
        for formulation in (mip, cpsat):
            assert optimum(instance, formulation.build(instance)) == best, (seed, formulation.__name__)
        stated: Any = (mip, {"order": "free"}) if seed % 4 < 2 else (cpsat, {"labels": "assume"})
        assert optimum(instance, stated[0].build(instance, stated[1])) == best, seed
        task, memory = instance.task, instance.system.memory
        seen[f"pipeline {task.degrees and task.degrees.pipeline}"] += 1
        seen.update(
            {instance.mode: 1, "tiles": task.utilisation is None, "none": best is None, "pins": bool(task.together)}
        )
        seen.update({"apart": not task.overlap, "dram": memory.capacity_bytes is not None, "single": not task.fused})
    assert len(seen) == 11 and min(seen.values()) >= 2, seen


@formulations
def test_a_cutoff_leaves_the_optimum_and_cuts_what_is_above(formulation: Any) -> None:
    for seed in range(0, 40, 4):
        instance = fixed(seed)
        best = optimum(instance, formulation.build(instance))
        if best is not None:
            assert optimum(instance, formulation.build(instance, {"upper": best})) == best
            assert optimum(instance, formulation.build(instance, {"upper": best - 1})) is None


@formulations
def test_any_mapping_goes_in_and_comes_out_as_good(formulation: Any) -> None:
    """What is encoded comes back with a batch as short, or shorter where an empty stage had to hand on tensors."""
    for seed in range(20):
        instance = fixed(seed)
        model = formulation.build(instance)
        some = Random(seed).sample(
            pool := [one for one, _ in zip(candidates(instance), range(900), strict=False)], min(9, len(pool))
        )
        for mapping in some:
            certificate = check(instance, mapping)
            if not certificate.feasible:
                continue
            pairs = model.encode(mapping)
            assert pairs is not None, (seed, mapping)
            values = {str(variable): value for variable, value in pairs}
            again = check(instance, model.decode(lambda variable, values=values: values[str(variable)]))
            assert again.feasible and certificate.objective is not None and again.objective is not None
            assert again.objective <= certificate.objective
            gapless = list(mapping.stages) == sorted(mapping.stages) and set(mapping.stages) == set(
                range(len(set(mapping.stages)))
            )
            assert again.objective == certificate.objective or not gapless


def test_the_terms_of_a_block_are_the_checkers() -> None:
    compared = 0
    for seed in range(1, 40, 3):
        instance = fixed(seed)
        model = mip.build(instance)
        outcome = solved(model)
        if outcome.value_of is None:
            continue
        for variable in model.native.component_data_objects(pyo.Var):
            if not variable.fixed:
                variable.set_value(outcome.value_of(variable), skip_validation=True)
        block, certificate = model.native.dataflow, check(instance, model.decode(outcome.value_of))
        step = pyo.value(block.step) * pyo.value(block.time_unit)
        assert pyo.value(block.cost) == pytest.approx(certificate.objective, rel=1e-6)
        assert step >= certificate.terms["T7"] * (1 - 1e-6)
        compared += 1
        if instance.system.memory.capacity_bytes is not None:
            most = max(pyo.value(block.dram[c]) for c in block.dram)
            assert certificate.figures["dram_bytes"] <= most * (1 + 1e-6) + 1
            assert most <= instance.system.memory.capacity_bytes * (1 + 1e-6) + 1
    assert compared > 5


@pytest.mark.parametrize("mode", ["dfmodel", "physical"])
@formulations
def test_one_stage_is_a_layer_without_stages(formulation: Any, mode: str) -> None:
    """PP = 1: the same optimum as with stages of layers, partitions across two of these."""
    for layers in (1, 2):
        plain = made(
            {
                "a": {"kind": "gemm", "M": 300, "K": 200, "N": 64, "weights": True},
                "b": {"kind": "elementwise", "M": 300, "N": 64},
            },
            "ab",
            **{"layers": layers, "across_layers": layers > 1, "carries": "ba", "sram_bytes": 160_000, "mode": mode},
            degrees={"tensor": 2, "dimensions": ["tensor"]},
        )
        staged = plain.replace(task=plain.task.replace(stages="kernels"))
        best = optimum(plain, formulation.build(plain))
        assert best is not None and optimum(staged, formulation.build(staged)) == best


def gpt_in_stages(pipeline: int, mode: str) -> DataflowInstance:
    """The published GPT3 layer, its 18 kernels shared out over the stages of a pipeline."""
    instance = table6(mode, partitions=3)
    ring = instance.system.network[0]
    degrees = Degrees(tensor=8, pipeline=pipeline, dimensions=("tensor", "pipeline"))
    return instance.replace(
        workload=instance.workload.replace(layers=1),
        system=instance.system.replace(network=(ring, ring.replace(size=pipeline))),
        task=instance.task.replace(stages="kernels", degrees=degrees),
    )


@pytest.mark.parametrize("mode", ["dfmodel", "physical"])
def test_a_gpt_layer_in_two_stages_by_all_three(mode: str) -> None:
    instance = gpt_in_stages(2, mode)
    results = [solve(instance, f"dataflow/{method}", OPTIONS) for method in ("auto", "mip", "cpsat")]
    assert [result.status for result in results] == ["optimal"] * 3
    assert len({result.objective for result in results}) == 1


def test_a_network_of_unlike_layers_by_all_three() -> None:
    """ResNet-18, 68 kernels on four chips that each keep the weights of one stage."""
    instance = resnets(
        **{"depth": 18, "sizes": [4], "batch": 64, "sram_bytes": 24 * 2**20, "memory_gbps": 1000.0, "link_gbps": 450.0},
        degrees={"pipeline": 4, "dimensions": ["pipeline"]},
        partitions=1,
    )
    results = [solve(instance, f"dataflow/{method}", OPTIONS) for method in ("auto", "mip", "cpsat")]
    assert [result.status for result in results] == ["optimal"] * 3
    assert len({result.objective for result in results}) == 1


@pytest.mark.parametrize("method", ["dataflow/mip", "dataflow/cpsat"])
def test_the_methods_take_every_choice_of_degrees(method: str) -> None:
    """Where DRAM is short, too: the program leaves these to the models."""
    for seed in range(0, 36, 3):
        instance = staged_instance(Random(seed), dram=seed % 2 == 1)
        if count(instance) > 300:
            continue
        best, _ = brute_force(instance, check)
        result = solve(instance, method, OPTIONS)
        assert result.status == ("infeasible" if best is None else "optimal"), (seed, result.notes)
        assert result.objective == best


def test_an_infeasible_model_names_its_labels() -> None:
    """Two stages of one partition each hold too little SRAM for three kernels."""
    heavy = {"flop": 10**7, "output_bytes": 30_000, "weight_bytes": 200_000, "schemes": ["M", "NONE"]}
    short = made(dict.fromkeys("abc", heavy), "ab bc", sizes=[2, 2], sram_bytes=160_000, partitions=1, stages="kernels")
    short = short.replace(task=short.task.replace(degrees=PAIR))
    stated = cpsat.build(short, {"labels": "assume"})
    assert optimum(short, cpsat.build(short)) is None and optimum(short, mip.build(short)) is None
    found = infeasible_labels(stated, SolveRequest(time_limit=30.0, threads=1))
    assert {label.partition("_")[0].upper() for label in found} == {"C2", "C4"}


@formulations
def test_given_schemes_and_stages_leave_the_partitions(formulation: Any) -> None:
    """The best of all mappings with the sharding and the stages of a given one: brute force, model, intra-chip pass."""
    compared = 0
    for seed in range(2, 60, 2):
        instance = fixed(seed)
        if count(instance) > 300 or instance.task.degrees is None or instance.task.degrees.pipeline == 1:
            continue
        some = [mapping for mapping in candidates(instance) if check(instance, mapping).feasible]
        if not some:
            continue
        given = Random(seed).choice(some)
        alike = [one for one in some if one.schemes == given.schemes and stages_of(one) == stages_of(given)]
        best = min(check(instance, one).objective or 0 for one in alike)
        model = formulation.build(instance, {"given": given})
        found = optimum(instance, model)
        compared += 1
        run = Run(instance, OPTIONS, check)
        second_pass(dataflow_problem(instance, given.degrees), given, run)
        assert run.upper == best, seed
        assert model.standing is Standing.RESTRICTION
        assert found is not None and found <= best and (found == best or stages_of(given)[0] > 0 or gaps(given)), seed
    assert compared >= 5


def stages_of(mapping: DataflowSolution) -> list[int]:
    """The stage of each kernel."""
    return [mapping.stages[p] for p in mapping.partitions]


def gaps(mapping: DataflowSolution) -> bool:
    """Whether a stage before one in use is empty."""
    used = set(stages_of(mapping))
    return used != set(range(len(used)))


def test_a_mapping_of_another_instance_is_refused() -> None:
    instance = fixed(0)
    mapping = next(candidates(instance))
    for wrong in (
        mapping.replace(schemes=mapping.schemes[:-1]),
        mapping.replace(schemes=("OUTER",) * len(mapping.schemes)),
    ):
        with pytest.raises(InputError, match="the given mapping"):
            cpsat.build(instance, {"given": wrong})
    with pytest.raises(InputError, match="other degrees"):
        mip.build(instance, {"given": mapping, "degrees": Degrees(tensor=7)})


def test_two_passes_are_never_better_than_one() -> None:
    """Together they give a mapping of the instance, or none."""
    seen = Counter[str]()
    for seed in range(0, 24, 2):
        instance = fixed(seed)
        joint, passes = (solve(instance, f"dataflow/{method}", OPTIONS) for method in ("auto", "two-pass"))
        if passes.objective is None:
            assert passes.status == "unknown" and "inter-chip pass" in passes.notes[-1].text
            continue
        assert joint.objective is not None and joint.objective <= passes.objective
        first = solve(inter_chip(instance), "dataflow/cpsat", OPTIONS)
        assert first.status == "optimal"
        seen["equal" if joint.objective == passes.objective else "longer"] += 1
    assert seen["equal"] and seen["longer"], seen
