"""Stages of kernels: the program against brute force, costs against the checker, and an example by hand."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from chipmap.bench.dataflow.measures import measures
from chipmap.certificate import Certificate
from chipmap.heuristics.dataflow.stages import within_dram
from chipmap.inputs.reading import read
from chipmap.instances.dataflow import DataflowInstance, DataflowSolution, Degrees
from chipmap.instances.dataflow.describe import describe, files
from chipmap.instances.dataflow.dram import dram_bytes
from chipmap.instances.dataflow.generators import explicit
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.workload import Kernel, Scheme
from chipmap.records import InputError
from chipmap.result import Result
from chipmap.run import SolveOptions
from chipmap.solve import solve
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow.candidates import candidates, count
from chipmap.validation.dataflow.checker import check
from tests.dataflow.random_instances import BACK, LIGHT, made
from tests.dataflow.staged_instances import staged_instance
from tests.dataflow.test_mutations import changed
from tests.lanes import of_all

OPTIONS = SolveOptions.make(warm_start="none", threads=1, time_limit=60.0)
#: FLOP and bytes of DRAM in a microsecond of a chip of the example.
FLOP, BYTES = 307_200_000, 100_000
US = 10**6
SPLIT: Scheme = "M"
TWO = Degrees(pipeline=2, dimensions=("pipeline",))
THREE = Degrees(pipeline=3, dimensions=("pipeline",))


def solved(instance: DataflowInstance, seconds: float = 60.0) -> Result:
    return solve(instance, "dataflow/auto", OPTIONS.replace(time_limit=seconds))


def test_the_program_finds_what_brute_force_finds() -> None:
    """Tiny graphs of all features but DRAM: the optimum, or that there is none."""
    seen = {"optimal": 0, "infeasible": 0}
    for seed in (*range(of_all(80, few=40)), 10_135, 10_269):  # the last two: tiles, and one partition that is a stage
        instance = staged_instance(Random(seed))
        if count(instance) > 300:
            continue
        best, _ = brute_force(instance, check)
        result = solved(instance)
        assert result.objective == best, (seed, result.objective, best, result.notes)
        assert result.status == ("infeasible" if best is None else "optimal"), (seed, result.status)
        seen[result.status] += 1
    assert seen["optimal"] > of_all(25, few=10) and seen["infeasible"] > of_all(5, few=1), seen


def test_what_the_program_says_of_little_dram_holds() -> None:
    """The optimum, or a proof that nothing fits, by the program alone."""
    seen = {"optimal": 0, "infeasible": 0}
    for seed in range(of_all(70, few=40)):
        instance = staged_instance(Random(seed), dram=True)
        if count(instance) > 250:
            continue
        best, _ = brute_force(instance, check)
        result = solved(instance)
        assert result.status == ("infeasible" if best is None else "optimal"), (seed, result.status)
        assert result.objective == best, seed
        seen[result.status] += 1
        assert not any("CP-SAT takes it" in note.text for note in result.notes), seed
    assert min(seen.values()) > of_all(5, few=2), seen


def with_dram(instance: DataflowInstance, size: int) -> DataflowInstance:
    memory = instance.system.memory.replace(capacity_bytes=size)
    return instance.replace(system=instance.system.replace(memory=memory))


def test_more_dram_is_never_worse() -> None:
    """ResNet-50 on eight chips from the least DRAM on: proved, never longer, and mappings stay valid with more DRAM."""
    instance = read("dataflow/resnet50-8")
    assert isinstance(instance, DataflowInstance)
    short = solved(with_dram(instance, 8_146_943), 600.0)
    assert short.status == "infeasible"
    assert (short.infeasibility[0].label, short.infeasibility[0].demand) == ("C6", 8_146_944.0)
    last: DataflowSolution | None = None
    best = 2**62
    for size in (8_146_944, 30 * 10**6):
        within = with_dram(instance, size)
        result = solved(within, 600.0)
        assert result.status == "optimal" and result.objective is not None and result.objective <= best, size
        assert last is None or check(within, last).feasible
        best, last = result.objective, DataflowSolution.make(**(result.solution or {}))
    assert best == 4_515_283_058


def test_where_labels_run_out_cpsat_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it may do no work, the second program gives up what doesn't fit: the bound stands, CP-SAT goes on."""
    monkeypatch.setattr(within_dram, "WORK", 0)
    noted = 0
    for seed in range(30):
        instance = staged_instance(Random(seed), dram=True)
        if count(instance) > 250:
            continue
        best, _ = brute_force(instance, check)
        result = solve(instance, "dataflow/auto", OPTIONS, isolate=False)
        assert result.objective == best and result.status == ("infeasible" if best is None else "optimal"), seed
        noted += any("CP-SAT takes it" in note.text for note in result.notes)
    assert noted


def test_bytes_of_dram_are_the_checkers() -> None:
    """A random mapping: what it holds in DRAM, and whether that is too much, as the checker has it."""
    limited = 0
    for seed in range(60):
        random = Random(seed)
        instance = staged_instance(random, dram=True)
        some = [one for one, _ in zip(candidates(instance), range(500), strict=False)]
        solution = random.choice(some)
        problem = dataflow_problem(instance, solution.degrees)
        certificate, n = check(instance, solution), problem.n
        schemes = [[option.scheme for option in choice] for choice in problem.options]
        chosen = [schemes[i % n].index(scheme) for i, scheme in enumerate(solution.schemes)]
        most = max(dram_bytes(problem, chosen, solution.partitions, solution.stages))
        labels = {violation.label for violation in certificate.violations}
        assert most == certificate.figures["dram_bytes"], seed
        assert (most > (instance.system.memory.capacity_bytes or 0)) == ("C6" in labels), seed
        limited += "C6" in labels
    assert limited > 3


def example(degrees: Degrees = TWO, edges: str = "ab bc", **parameters: Any) -> DataflowInstance:
    """Three kernels in a row of 2, 3 and 4 us, weights of 4 us of DRAM each; a's output takes 1 us of DRAM and 4 us of
    a link, b's half of that."""
    kernels = {
        name: {"flop": us * FLOP, "output_bytes": size, "weight_bytes": 4 * BYTES, "schemes": ["M", "NONE"]}
        for name, us, size in (("a", 2, BYTES), ("b", 3, BYTES // 2), ("c", 4, 0))
    }
    given: dict[str, Any] = {"memory_gbps": 100.0, "link_gbps": 25.0, "utilisation": 1.0, "batch": 4, **parameters}
    return explicit(
        micro_batch=1,
        kernels=kernels,
        edges=[list(pair) for pair in edges.split()],
        sizes=[degrees.pipeline],
        degrees={"pipeline": degrees.pipeline, "dimensions": ["pipeline"]},
        stages="kernels",
        **given,
    )


def scored(instance: DataflowInstance, partitions: str, stages: str) -> Certificate:
    """The checker's word on a mapping, partitions and stages as digits."""
    assert instance.task.degrees is not None
    mapping = DataflowSolution(
        degrees=instance.task.degrees,
        schemes=(SPLIT,) * len(partitions),
        partitions=tuple(map(int, partitions)),
        stages=tuple(map(int, stages)),
    )
    return check(instance, mapping)


def test_two_stages_by_hand() -> None:
    """Four micro-batches in two stages: five steps."""
    instance = example()
    for partitions, stages, slowest, longest in (
        ("011", "01", 7, 4),  # a | b and c; weights stay
        ("001", "01", 5, 2),  # a and b | c
        ("000", "0", 9, 0),  # all on one chip
        ("012", "001", 10.5, 2),  # a, b | c: a takes 4 of weights and 1 written, b 4 and what it reads and writes
    ):
        certificate = scored(instance, partitions, stages)
        assert certificate.feasible
        assert certificate.terms["T7"] == slowest * US
        assert certificate.terms["T5"] == 5 * max(0, longest - slowest) * US
        assert certificate.objective == 5 * max(slowest, longest) * US
    result = solved(instance)
    assert (result.status, result.objective) == ("optimal", 25 * US)
    assert result.solution is not None and DataflowSolution.make(**result.solution).stages == (0, 1)


def test_a_slow_link_by_hand() -> None:
    """With links of 5 GB/s b's output takes 10 us: one chip does all in 9."""
    instance = example(link_gbps=5.0)
    certificate = scored(instance, "001", "01")
    assert (certificate.terms["T7"], certificate.terms["T5"]) == (5 * US, 25 * US)
    result = solved(instance)
    assert (result.objective, result.certificate and result.certificate.terms["T7"]) == (45 * US, 9 * US)


@pytest.mark.parametrize(("mode", "longest"), [("physical", 6), ("dfmodel", 8)])
def test_a_tensor_passes_the_stages_between(mode: str, longest: int) -> None:
    """Three stages, a read by b and c: the first link sends a's 4 us once, or for each of two edges, the second a's 4
    again and b's 2."""
    certificate = scored(example(THREE, "ab bc ac", mode=mode), "012", "012")
    assert certificate.terms["T7"] == 4 * US
    assert certificate.objective == 6 * longest * US


def test_partitions_per_stage() -> None:
    """a and b take 1,100,000 bytes of SRAM: weights, a's two buffers of 100,000, b's of 50,000."""
    instance = example(partitions=1, sram_bytes=1_100_000)
    result = solved(instance)
    assert (result.status, result.objective) == ("optimal", 25 * US)
    tight = instance.replace(system=instance.system.replace(chip=instance.system.chip.replace(sram_bytes=700_000)))
    (reason,) = solved(tight).infeasibility
    assert reason.label == "C4" and "at most 2 would do" in reason.message and "per stage" in reason.message
    exactly = instance.replace(task=instance.task.replace(partitions=2, exactly=True))
    assert solved(exactly).infeasibility[0].label == "C4", "three kernels are no four partitions"


@pytest.mark.parametrize("mode", ["physical", "dfmodel"])
def test_one_stage_is_what_it_was(mode: str) -> None:
    """Without a pipeline both kinds of stages are one problem, layers in a row included."""
    for seed in range(24):
        random = Random(seed)
        layers = random.choice((1, 2, 3))
        kernels = {name: {**LIGHT, "flop": random.randint(1, 10**8)} for name in "abc"}
        instance = made(
            kernels,
            "ab bc",
            layers=layers,
            carries="ca",
            across_layers=True,
            mode=mode,
            sizes=[2, 2],
            degrees={"tensor": 2, "data": 2, "dimensions": ["tensor", "data"]},
            sram_bytes=random.choice((150_000, 400_000, 10**6)),
            memory_gbps=random.choice((5.0, 50.0)),
            partitions=random.choice((None, 2, 3)),
            overlap=random.random() < 0.5,
        )
        staged = solved(instance.replace(task=instance.task.replace(stages="kernels")))
        assert (staged.status, staged.objective) == ((plain := solved(instance)).status, plain.objective), seed


def test_what_is_no_mapping() -> None:
    instance = example(partitions=1)
    good = DataflowSolution(degrees=TWO, schemes=("M", "M", "M"), partitions=(0, 0, 1), stages=(0, 1))
    assert check(instance, good).feasible
    for label, wrong in {
        "C8": good.replace(stages=(1, 0)),
        "C1": good.replace(partitions=(0, 1, 0)),
        "C4": good.replace(stages=(0, 0)),
    }.items():
        assert {violation.label for violation in check(instance, wrong).violations} == {label}
    for stages in ((0, 2), (-1, 0), (0,), (0, 0, 1), ()):
        certificate = check(instance, good.replace(stages=stages))
        assert {violation.label for violation in certificate.violations} == {"C0"} and certificate.objective is None
    assert files(instance, good)["mapping.csv"].decode().splitlines()[0].endswith(",stage")
    assert files(instance, good.replace(stages=(0,))) == {}
    layers = instance.replace(task=instance.task.replace(stages="layers", degrees=None))
    alone = good.replace(degrees=Degrees(data=2, dimensions=("data",)))
    assert {violation.label for violation in check(layers, alone).violations} == {"C0"}


def test_dram_that_is_too_small() -> None:
    """Weights of 400,000 bytes with gradients and state, 3.2 MB a kernel."""
    refused = solved(example(dram_bytes=4 * 10**6))
    assert refused.status == "infeasible"
    assert (refused.infeasibility[0].label, refused.infeasibility[0].demand) == ("C6", 4_800_000.0)
    (reason,) = solved(example(dram_bytes=5 * 10**6)).infeasibility  # two kernels share a stage
    assert (reason.label, reason.demand) == ("C6", 6_450_000.0)
    (again,) = solved(example(dram_bytes=6_420_000)).infeasibility  # b's output waits
    assert (again.label, again.demand) == ("C6", 6_450_000.0)
    assert solved(example(dram_bytes=6_450_000)).objective == 25 * US


def test_weights_that_must_be_shared_out_otherwise() -> None:
    """Four kernels in two stages of 6 us each would put three times as many weights on one: c joins a and b."""
    kernels = {
        name: {"flop": us * FLOP, "weight_bytes": size * 10**6, "schemes": ["M", "NONE"]}
        for name, us, size in (("a", 4, 1), ("b", 2, 1), ("c", 1, 3), ("d", 5, 3))
    }
    given: dict[str, Any] = {"sizes": [2], "degrees": {"pipeline": 2, "dimensions": ["pipeline"]}, "stages": "kernels"}
    given |= {"utilisation": 1.0, "purpose": "prefill", "memory_gbps": 100.0}
    for dram, step in ((None, 6), (6 * 10**6, 6), (5 * 10**6, 7), (4 * 10**6, None)):
        result = solved(explicit(kernels=kernels, edges=[["a", "b"], ["b", "c"], ["c", "d"]], dram_bytes=dram, **given))
        assert result.objective == (None if step is None else 2 * step * US), dram
        assert result.status == ("infeasible" if step is None else "optimal")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"layers": 2}, "partitions end with each of 2 layers"),
        ({"kernels": {"a": LIGHT, "x": BACK}}, "'x' is a backward kernel"),
        ({"kernels": {"a": {**LIGHT, "update": True}}}, "'a' is a weight update"),
    ],
)
def test_graphs_that_have_no_stages(changes: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"kernels": {"a": LIGHT}, **changes}
    with pytest.raises(InputError, match=said):
        made(given.pop("kernels"), "", stages="kernels", **given)


def test_layers_that_stages_dont_divide() -> None:
    with pytest.raises(InputError, match="2 stages don't divide 3 layers"):
        made({"a": LIGHT}, "", layers=3, degrees={"pipeline": 2, "dimensions": ["pipeline"]})
    instance = made(
        {"a": LIGHT},
        "",
        layers=3,
        carries="aa",
        across_layers=True,
        stages="kernels",
        degrees={"pipeline": 2, "dimensions": ["pipeline"]},
    )
    best, _ = brute_force(instance, check)
    assert best is not None and solved(instance).objective == best


def test_a_graph_too_wide_for_a_proof() -> None:
    """Forty kernels side by side: a mapping in pieces of a linear order, and the bound by compute."""
    names = [f"b{i}" for i in range(40)]
    kernels = {"a": LIGHT, **dict.fromkeys(names, LIGHT), "z": LIGHT}
    edges = [["a", name] for name in names] + [[name, "z"] for name in names]
    instance = explicit(
        micro_batch=1,
        kernels=kernels,
        edges=edges,
        sizes=[3],
        degrees={"pipeline": 3, "dimensions": ["pipeline"]},
        stages="kernels",
        batch=4,
    )
    result = solve(instance, "dataflow/auto", OPTIONS.replace(time_limit=None))  # it ends by itself
    assert result.status == "feasible" and result.bound is not None
    assert any("more than 200,000 order ideals" in note.text for note in result.notes if note.kind == "left out")
    assert result.objective is not None and result.bound <= result.objective < 3 * result.bound


def test_the_shipped_ones_are_solved() -> None:
    """GPT3's twelve layers in five stages within the SRAM of 24 partitions, ResNet on chips that keep their weights."""
    layers = solved(_read("dataflow/gpt3-175b-12-layers-8x5"))
    assert (layers.status, layers.objective) == ("optimal", 21_524_555_896_640)
    network = _read("dataflow/resnet50-8")
    pipeline = solved(network)
    assert (pipeline.status, pipeline.objective) == ("optimal", 4_515_283_058)
    side = network.replace(task=network.task.replace(degrees=Degrees(data=8, dimensions=("data",))))
    assert solved(side).objective == 8_196_039_808


def _read(name: str) -> DataflowInstance:
    instance = read(name)
    assert isinstance(instance, DataflowInstance)
    assert not any(isinstance(kernel, Kernel) and kernel.phase == "backward" for kernel in instance.workload.kernels)
    return instance


def test_changed_values_are_refused_or_solved() -> None:
    """Instances and mappings with a value changed: words, never a traceback."""
    random = Random(3)
    outcomes = {"refused": 0, "solved": 0, "infeasible": 0}
    for round_ in range(180):
        original = staged_instance(Random(round_ % 20), dram=round_ % 3 == 0)
        try:
            instance = DataflowInstance.from_json(changed(original, random))
            instance.check()
            describe(instance)
            result = solved(instance)
        except InputError as error:
            assert error.what
            outcomes["refused"] += 1
            continue
        outcomes["solved" if result.solution else "infeasible"] += 1
        for mapping in [] if result.solution is None else [DataflowSolution.make(**result.solution)] * 3:
            try:
                other = DataflowSolution.from_json(changed(mapping, random))
            except InputError:
                continue
            check(instance, other)
            files(instance, other)
            measures(instance, mapping)
    assert min(outcomes.values()) > 3, outcomes
