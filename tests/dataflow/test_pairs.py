"""Two passes at once (DualPipeV): the page's case, a run event by event, random instances against brute force."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import islice
from random import Random
from typing import Any

import pytest

from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.batch import waited_hops
from chipmap.instances.dataflow.batch_time import batch_factor
from chipmap.instances.dataflow.instance import DataflowSolution, Degrees
from chipmap.instances.dataflow.late import late_moments
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.pairs import arms, shares
from chipmap.instances.dataflow.problem import DataflowProblem
from chipmap.methods.dataflow.chain import auto
from chipmap.methods.dataflow.models import cpsat, mip
from chipmap.methods.dataflow.two_pass import two_pass
from chipmap.records import InputError
from chipmap.run import Run, SolveOptions
from chipmap.validation.dataflow.candidates import candidates, count
from chipmap.validation.dataflow.checker import check
from tests.dataflow.agreement import agreed, run_of
from tests.dataflow.page.cost import judged
from tests.dataflow.pairs_run import Stage, Times, held, simulated
from tests.dataflow.random_instances import made, mixed_instance, outside_instance, with_little_dram
from tests.lanes import LONG, of_all

ROW = Degrees(pipeline=2, dimensions=("pipeline",))
#: A kernel that computes 307,200 FLOP a nanosecond on an SN10 at its whole peak.
ONE: dict[str, Any] = {"output_bytes": 0, "weight_bytes": 0, "schemes": ["NONE"]}
NS = 307_200


def staged(times: tuple[int, int, int] = (100, 100, 100), **parameters: Any) -> DataflowInstance:
    """Two stages of two layers, eight samples one by one, kernel by kernel."""
    kernels = {
        "a": {**ONE, "flop": times[0] * NS, "output_bytes": 1000},
        "x": {**ONE, "flop": times[1] * NS, "output_bytes": 500, "phase": "backward"},
        "u": {**ONE, "flop": times[2] * NS, "phase": "backward", "update": True},
    }
    given: dict[str, Any] = {"layers": 4, "batch": 8, "degrees": ROW, "utilisation": 1.0, "memory_gbps": 1e12}
    given |= {"fused": False, "overlap": False, "schedule": "dualpipe-v", "purpose": "training"}
    return made(kernels, "ax au xu", **{**given, **parameters})


MAPPING = DataflowSolution(degrees=ROW, schemes=("NONE",) * 3, partitions=(0, 1, 2))


def pipeline_of(stages: int, rounds: int, layers: int = 1) -> tuple[DataflowProblem, Degrees]:
    """So many stages with chunks of so many layers."""
    degrees = Degrees(pipeline=stages, dimensions=("pipeline",))
    instance = staged(sizes=[stages], layers=2 * layers * stages, batch=rounds, degrees=degrees)
    return dataflow_problem(instance, degrees, 1), degrees


def formula(stages: int, rounds: int, times: Times) -> Fraction:
    """The page's time of a batch without transfers, of chunks' times."""
    problem, _ = pipeline_of(stages, rounds)
    assert batch_factor(problem) == 2 * (rounds + stages - 1)
    pace = (2 * rounds - stages - 2) * Fraction(times.pair) + 3 * stages * Fraction(times.whole)
    return pace - 4 * (stages - 1) * Fraction(min(times[:3]))


@pytest.mark.parametrize("stages", range(2, of_all(9, few=7)))
def test_passes_of_equal_length(stages: int) -> None:
    """The formula is what a run event by event takes, whatever a pair takes up to both passes; if it takes as long as
    these, the bubble is the published one."""
    for rounds in range(2 * stages, 2 * stages + of_all(20, few=8)):
        for pair in (2.0, 2.25, 3.0):
            times = Times(1, 1, 1, pair)
            span = simulated(stages, rounds, times)
            assert span == formula(stages, rounds, times)
            pairs = 2 * rounds - 3 * stages + 1  # of the first stage
            busy = pairs * pair + (2 * rounds - pairs) * 3
            published = (stages - 1) * (pair + 2 - 3)
            assert span - busy == published - (stages - 2) * (3 - pair)


@pytest.mark.parametrize("stages", range(2, of_all(9, few=6)))
def test_moments(stages: int) -> None:
    """At no time does a stage hold more than at the page's moments, and at each of them some stage does, whatever the
    tensors weigh that wait for B and for W. The most passes between F and B are DeepSeek's PP + 1 of PP = 2P."""
    for layers, rounds in ((1, 2 * stages), (2, 2 * stages + 1), (3, 3 * stages)):
        problem, degrees = pipeline_of(stages, rounds, layers)
        moments = [(int(one.passes), int(one.late)) for one in late_moments(problem.instance, degrees)]
        ran = {one for s in range(stages) for one in held(Stage(stages, rounds, s).order, layers)}
        assert {*moments} <= ran and max(saved for saved, _ in ran) == (2 * stages + 1) * layers
        for x, y in ((1, 0), (0, 1), *((1 + k % 7, 1 + k % 11) for k in range(30)), (1, 40)):
            assert max(x * a + y * b for a, b in ran) == max(x * a + y * b for a, b in moments)


def test_passes_of_any_length() -> None:
    """No run takes longer than the formula, where a pair takes no less than either of its passes."""
    random = Random(0)
    for _ in range(of_all(2000, few=150)):
        stages = random.randint(2, 6)
        rounds = random.randint(2 * stages, 2 * stages + 9)
        each = [random.randint(0, 9) for _ in range(3)]
        times = Times(each[0], each[1], each[2], random.randint(max(each[0], each[1] + each[2]), sum(each)))
        assert simulated(stages, rounds, times) <= formula(stages, rounds, times)


def test_transfers() -> None:
    """If passes took no time, a run would wait for just so many transfers; with passes it waits for no more."""
    for stages in range(2, of_all(9, few=5)):
        for rounds in range(2 * stages, 2 * stages + of_all(20, few=6)):
            waits = waited_hops(*_at(stages, rounds))
            assert simulated(stages, rounds, Times(0, 0, 0, 0), 0.5) == waits
            for hop in (0.125, 1.0, 16.0):
                times = Times(1, 1, 1, 2.5)
                assert simulated(stages, rounds, times, hop) <= formula(stages, rounds, times) + 2 * hop * waits


def _at(stages: int, rounds: int) -> tuple[DataflowInstance, Degrees]:
    problem, degrees = pipeline_of(stages, rounds)
    return problem.instance, degrees


def test_the_page() -> None:
    """The page's example: what a pair takes, and the batch."""
    assert layer_time((100, 100, 100), (0, 0, 0)) == 300
    assert layer_time((50, 50, 50), (50, 100, 0)) == Fraction(12 * 200 + 6 * 300, 18)
    assert layer_time((80, 50, 50), (70, 50, 0)) == Fraction(12 * 180 + 6 * 300, 18)
    # no network: as zb-h1, 2 · 9 · 300 - 2 · 2 · 100
    for method in (auto, mip, cpsat):
        run = run_of(staged(), method)
        assert run.upper is not None and abs(run.upper - 5_000_000) <= 100 and run.upper == run.lower.value  # type: ignore[union-attr]
    assert abs((check(staged(schedule="zb-h1"), MAPPING).objective or 0) - 5_000_000) <= 100


def layer_time(own: tuple[int, ...], network: tuple[int, ...]) -> Fraction:
    """T4 of the kernels `a`, `x`, `u` with these times."""
    problem = dataflow_problem(staged(), ROW, 1)
    sums = [
        sum(w * x for w, x in zip((*arm.own, *arm.network), (*own, *network), strict=True)) for arm in arms(problem)
    ]
    return Fraction(max(sums), shares(problem.instance, ROW).all)


def test_dram() -> None:
    """The page's: five passes of a layer hold 1,000 bytes each, and 500 bytes wait in one; or with large gradients two
    passes hold 1,000 bytes each, and gradients of one wait beside those of the layer that runs. In a byte less nothing
    fits."""
    for gradient, need in ((500, 5 * 1000 + 500), (4000, 2 * 1000 + 2 * 4000)):
        for limit in (need, need - 1):
            instance = staged(dram_bytes=limit, optimizer_bytes=0)
            a, x, u = instance.workload.kernels
            workload = instance.workload.replace(kernels=(a, x.replace(output_bytes=gradient), u))
            instance = instance.replace(workload=workload)
            certificate = check(instance, MAPPING)
            assert certificate.figures["dram_bytes"] == need and certificate.feasible is (limit == need)
            for method in (cpsat, auto, mip)[: 3 if LONG else 2 * (limit == need)]:
                assert (run_of(instance, method).best is not None) is (limit == need)


@pytest.mark.parametrize(
    ("schedule", "layers", "saved", "gradient"), [("zb-h1", 2, 5000, 8000), ("dualpipe-v", 4, 5000, 36_000)]
)
def test_another_moment_than_the_fullest_decides(schedule: str, layers: int, saved: int, gradient: int) -> None:
    """With `x` in halves (M) the moment without late updates needs most, with `x` whole (NONE, the faster one, as M is
    gathered again) that at which updates are late. In a byte less than that needs, every method finds M."""
    degrees = Degrees(tensor=2, pipeline=2, dimensions=("tensor", "pipeline"))
    kernels = {
        "a": {**ONE, "flop": 100 * NS, "output_bytes": saved},
        "x": {**ONE, "flop": 10 * NS, "output_bytes": gradient, "phase": "backward", "schemes": ["NONE", "M"]},
        "u": {**ONE, "flop": 100 * NS, "phase": "backward", "update": True},
    }
    given: dict[str, Any] = {"layers": layers, "batch": 8, "degrees": degrees, "utilisation": 1.0, "sizes": [2, 2]}
    given |= {"fused": False, "overlap": False, "schedule": schedule, "purpose": "training", "link_gbps": 1.0}
    need = saved + gradient + gradient
    for limit, scheme in ((need, "NONE"), (need - 1, "M")):
        instance = made(kernels, "ax xu", **given, optimizer_bytes=0, dram_bytes=limit)
        _, mapping = agreed(instance, "moments")
        assert mapping.schemes[1] == scheme
        problem = dataflow_problem(instance, degrees, 1)
        whole = problem.options[1][0]
        assert whole.scheme == "NONE" and problem.options[0][0].kept > problem.options[0][0].kept_by[0]
        first = sum(min(one.kept for one in some) for some in problem.options)
        assert first + whole.waits < limit, "the programs' own sum lets NONE pass"


def test_what_a_mapping_may_say() -> None:
    """C0: two chunks of equally many layers, two micro-batches for each stage; one stage runs as in 1f1b."""
    few: tuple[dict[str, Any], ...] = ({"batch": 3}, {"layers": 2})
    for changes in few:
        with pytest.raises(InputError, match=r"of a replica in schedule|of two chunks don't divide"):
            staged(**changes)
        free = staged(**changes, degrees=None)
        certificate = check(free, MAPPING)
        assert {one.label for one in certificate.violations} == {"C0"}
        assert run_of(free).best is not None  # two replicas of one stage
    alone = MAPPING.replace(degrees=Degrees(data=2, dimensions=("data",)))
    plain = check(staged(degrees=None, schedule="1f1b"), alone).objective
    assert check(staged(degrees=None), alone).objective == plain


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"mode": "dfmodel"}, "mode dfmodel"),
        ({"fused": True}, "kernels are fused"),
        ({"overlap": True}, "task.overlap"),
        ({"chunks": 2}, "one part of the network in schedule dualpipe-v"),
        ({"stage_layers": None}, "updates run late"),
        ({"overlap_gradients": True}, "sums run behind"),
        ({"keep": "phase"}, "updates run late"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        staged(**changes)
    with pytest.raises(InputError, match="Use the method dataflow/auto"):
        two_pass(staged(), Run(staged(), SolveOptions(), check))


def random_paired(random: Random) -> DataflowInstance | None:
    """A random instance with features of all kinds whose passes run in pairs; None where it can't be, or has too many
    mappings."""
    instance = random.choice((mixed_instance, outside_instance, outside_instance))(random)
    task = instance.task
    if task.across_layers or task.stages == "kernels" or not any(one.update for one in instance.workload.kernels):
        return None
    capacity = instance.system.memory.capacity_bytes
    task = task.replace(schedule="dualpipe-v", fused=False, together=(), utilisation=task.utilisation or 0.9)
    task = task.replace(overlap=False, overlap_gradients=False, partitions=None, exactly=False, keep=None)
    task = task.replace(micro_batch=random.choice((1, 1, None)), batch=random.choice((8, 16)))
    if random.random() < 0.3 and {one.phase for one in instance.workload.kernels} == {"forward", "backward"}:
        task = task.replace(recompute=None)
    system = instance.system.replace(memory=instance.system.memory.replace(capacity_bytes=None))
    workload = instance.workload.replace(layers=8)
    instance = instance.replace(task=task, mode="physical", system=system, workload=workload)
    try:
        instance.check()
    except InputError:
        return None
    if not 0 < count(instance) <= 500:
        return None
    return with_little_dram(instance, random) if capacity is not None else instance


@pytest.mark.parametrize("block", range(of_all(14, few=1)))
def test_every_method_is_brute_force(block: int) -> None:
    tried: Counter[str] = Counter()
    for seed in range(66 + 40 * block, 66 + 40 * block + of_all(40, few=12)):
        instance = random_paired(Random(seed))
        if instance is None:
            continue
        _, mapping = agreed(instance, seed, tolerance=1e-6)
        for one in islice(candidates(instance), 30):
            page, certificate = judged(instance, one), check(instance, one)
            assert page.broken == {finding.label for finding in certificate.violations}, seed
            assert (page.terms, page.objective) == (certificate.terms, certificate.objective), seed
        tried["all"] += 1
        tried["pipelines"] += mapping is not None and mapping.degrees.pipeline > 1
    assert tried["all"] and tried["pipelines"], tried
