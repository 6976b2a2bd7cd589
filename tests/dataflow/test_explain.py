"""``explain``: parts that add up to the objective, proved statements against brute force, a case for each resource."""

from __future__ import annotations

from itertools import islice
from random import Random
from typing import Any

import pytest

from chipmap.certificate import Certificate
from chipmap.explaining.dataflow import explain as explaining
from chipmap.explaining.dataflow.changes import DataflowTrial, changes
from chipmap.explaining.dataflow.explain import explain
from chipmap.explaining.dataflow.solved import solve, without_bubble
from chipmap.explaining.dataflow.spent import spent
from chipmap.explaining.dataflow.statements import at_most
from chipmap.explanation import Change, Explanation
from chipmap.instances.dataflow import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.loads import sram_bytes, times
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.run import Run, SolveOptions
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow.candidates import candidates, count
from chipmap.validation.dataflow.checker import breakdown, check
from chipmap.validation.dataflow.mapping import mapping_of
from chipmap.validation.dataflow.times import held
from tests.dataflow.feature_mix import feature_mix
from tests.dataflow.parallel_instances import parallel_instance
from tests.dataflow.random_instances import made, mixed_instance, tiny_instance, variants
from tests.dataflow.staged_instances import staged_instance
from tests.dataflow.test_pairs import MAPPING, random_paired
from tests.dataflow.test_pairs import staged as in_pairs
from tests.dataflow.test_zero_bubble import random_late, staged
from tests.lanes import of_all

#: 100 ns of compute on an SN10 at its peak for each sample, and nothing else.
WORK: dict[str, Any] = {"flop": 30_720_000, "output_bytes": 0, "weight_bytes": 0, "schemes": ["NONE"]}
#: Candidates that brute force may look at for each change.
MOST = 400
#: Changes that are compared for each kind of instance.
ENOUGH = of_all(14, few=7)
KINDS = {"twice", "free", "without", "alone", "choice"}
PATIENT = SolveOptions(time_limit=300.0, threads=1)


def alone(kernels: dict[str, dict[str, Any]], edges: str = "", **parameters: Any) -> DataflowInstance:
    """One layer on one chip at its whole peak, kernel by kernel, one sample; DRAM of 100 bytes/ns."""
    given = {"sizes": [1], "utilisation": 1.0, "fused": False, "batch": 1, "purpose": "prefill", "mode": "physical"}
    return made(kernels, edges, **{**given, "sram_bytes": 10**9, **parameters})


def explained(instance: DataflowInstance, solution: DataflowSolution | None = None) -> Explanation:
    return explain(instance, solution, PATIENT)


def change(found: Explanation, what: str) -> Change:
    return next(one for one in found.changes if one.what == what)


def told(found: Explanation, topic: str) -> list[str]:
    return [one.message for one in found.statements if one.topic == topic]


def resource(found: Explanation, name: str) -> dict[str, Any]:
    return next(one.figures for one in found.statements if one.topic == "resource" and one.figures["resource"] == name)


def instances() -> list[DataflowInstance]:
    """Instances with features of all kinds."""
    makers = (tiny_instance, mixed_instance, feature_mix, parallel_instance, staged_instance)
    late = [one for one in (random_late(Random(seed)) for seed in range(of_all(40, few=16))) if one is not None]
    late += [one for one in (random_paired(Random(seed)) for seed in range(of_all(80, few=24))) if one is not None]
    return [
        *variants().values(),
        staged(),
        *late,
        *(maker(Random(seed)) for maker in makers for seed in range(of_all(15, few=6))),
    ]


def test_parts_add_up_to_the_objective() -> None:
    """Of every valid mapping, to the picosecond; T1 to T3 and the fullest SRAM are the checker's."""
    seen, divided, late, pairs = 0, 0, 0, 0
    for instance in instances():
        for solution in islice(candidates(instance), 3, 250, 8):
            certificate = check(instance, solution)
            if not certificate.feasible:
                continue
            seen, divided = seen + 1, divided + bool(solution.stages)
            parts = spent(instance, solution, certificate.terms)
            late += bool(parts.filled)
            pairs += instance.task.schedule == "dualpipe-v" and solution.degrees.pipeline > 1
            assert sum(parts.parts.values()) == certificate.objective, (instance.name, solution)
            problem = dataflow_problem(instance, solution.degrees, *solution.plan)
            found = {p: (one.compute, one.memory, one.network) for p, one in times(problem, solution).items()}
            assert found == breakdown(instance, solution), (instance.name, solution)
            sizes = {p: sum(both) for p, both in sram_bytes(problem, solution).items()}
            assert {p: size for p, size in sizes.items() if size} == {
                p: size for p, size in held(mapping_of(instance, solution)).items() if size
            }
    assert seen > of_all(500, few=150) and divided > of_all(25, few=8) and late > 0 and pairs > 0


def test_pairs_are_told_with_what_sets_their_pace() -> None:
    """The page's layer of 100 ns forward and 200 back: without exchanges both passes at once take as long as both. Of
    the batch's 5,000 ns a chip computes 8 · 2 · 300, waits (2 - 1) · 2 · 300 and spares 2 · 200 by late updates."""
    found = explained(in_pairs(memory_gbps=1e12), MAPPING)
    said = next(one for one in found.statements if one.topic == "pairs")
    assert said.message.endswith("one after the other 300.005 ns: the pace is set by compute and DRAM of both.")
    assert said.figures["pair_ps"] == said.figures["apart_ps"] == 300_005
    parts = next(one.figures for one in found.statements if one.topic == "time")
    assert (parts["compute_ps"], parts["late_updates_ps"]) == (8 * 2 * 300_000, -400_000)
    assert parts["bubble_ps"] == 2 * 300_005


def optimum(trial: DataflowTrial) -> int | None:
    """By brute force, in the objective that the trial counts."""
    return brute_force(trial.instance, check if trial.bubble else full_pipeline)[0]


def full_pipeline(instance: DataflowInstance, solution: DataflowSolution) -> Certificate:
    """The page: T4 · layers per stage · m + T5 + T6 + T8, or m steps where stages share out kernels, by the terms."""
    certificate = check(instance, solution)
    if certificate.objective is None:
        return certificate
    task, terms = mapping_of(instance, solution).instance.task, certificate.terms
    rounds = task.batch // (solution.degrees.data * task.samples)
    if task.stages == "kernels":
        steps = rounds + solution.degrees.pipeline - 1
        return certificate.replace(objective=rounds * (terms["T7"] + terms["T5"] // steps))
    layers = 1 if task.across_layers else instance.workload.layers // solution.degrees.pipeline
    beside = terms["T5"] + terms["T6"] + terms["T8"]
    return certificate.replace(objective=terms["T4"] * layers * rounds + beside)


def solved(trial: DataflowTrial) -> Run:
    run = Run(trial.instance, PATIENT, check if trial.bubble else without_bubble(check))
    solve(trial.instance, run, trial.bubble)
    return run


@pytest.mark.parametrize("maker", [tiny_instance, mixed_instance, feature_mix, staged_instance])
def test_changes_against_brute_force(maker: Any) -> None:
    """Every change's optimum is that of all candidates of the changed instance, and no bound lies above it."""
    seen, kinds, full = 0, set[str](), 0
    for seed in range(400):
        random = Random(seed)
        instance = maker(random)
        if count(instance) > MOST or brute_force(instance, check)[0] is None:
            continue
        for trial in changes(instance, infeasible=False):
            if count(trial.instance) > MOST or random.random() < 0.6:
                continue
            best, run = optimum(trial), solved(trial)
            assert run.upper == best, (maker.__name__, seed, trial.what)
            assert run.lower is None or best is None or run.lower.value <= best, (seed, trial.what)
            seen, full = seen + 1, full + (not trial.bubble and trial.kind == "without")
            kinds.add(trial.kind)
        if seen >= ENOUGH and kinds == KINDS and (full or maker is tiny_instance):
            break
    assert full or maker is tiny_instance, "no pipeline was told without its bubble"
    assert seen >= ENOUGH and kinds == KINDS, (seen, kinds)


# One instance for each resource that binds, with its arithmetic (the page's table).
DRAM: dict[str, Any] = {"flop": 0, "output_bytes": 0, "weight_bytes": 10_000, "schemes": ["NONE"]}


def launched(instance: DataflowInstance, ns: float) -> DataflowInstance:
    return instance.replace(
        system=instance.system.replace(chip=instance.system.chip.replace(launch_ns=ns, streams=True))
    )


def test_compute_binds() -> None:
    """Two kernels of 100 ns and no bytes: 200 ns, 100 with twice the peak, 250 at 0.8 of it."""
    found = explained(alone({"a": WORK, "b": WORK}))
    assert (found.objective, found.bound) == (200_000, 200_000)
    now = resource(found, "compute")
    assert (now["twice_ps"], now["twice_bound_ps"]) == (100_000, 100_000)
    assert now["free_ps"] <= 2, "a picosecond each is left"
    assert resource(found, "DRAM")["twice_bound_ps"] == 200_000
    assert told(found, "twice") == ["Twice as fast by one change: compute at twice the rate."]
    slow = explained(alone({"a": WORK, "b": WORK}, utilisation=0.8))
    assert slow.objective == 250_000
    assert change(slow, "kernels that reach the whole peak").objective == 200_000


def test_dram_binds() -> None:
    """Two kernels that read 10,000 bytes of weights at 100 bytes/ns: 200 ns, 100 at twice the rate, compute no gain."""
    found = explained(launched(alone({"a": DRAM, "b": DRAM}), 0.0))
    assert found.objective == 200_000
    assert resource(found, "DRAM")["twice_ps"] == 100_000
    assert resource(found, "compute")["free_bound_ps"] == 200_000
    assert "no gain (proved)" in next(one for one in told(found, "resource") if one.startswith("Compute"))


def test_sram_binds() -> None:
    """A tensor of 10,000 bytes that a makes and b reads: 2 · 100 ns of DRAM for two partitions, none for one. Both
    kernels' weights (600 bytes each) and the tensor's buffers (2 · 10,000 = 20,000, all tokens are a tile) take 21,200
    bytes; with 21,199 they are two partitions, which read their weights (6 ns each) too."""
    kernels = {"a": {**DRAM, "weight_bytes": 600, "output_bytes": 10_000}, "b": {**DRAM, "weight_bytes": 600}}
    asked: dict[str, Any] = {"fused": True, "tokens": 1, "tile_tokens": 1, "layers": 2}
    found = explained(alone(kernels, "ab", **asked, sram_bytes=21_199))
    assert found.objective == 2 * 2 * (100_000 + 6_000)
    now = resource(found, "SRAM")
    assert (now["twice_ps"], now["twice_bound_ps"]) == (2 * 12_000, 2 * 12_000)
    assert "SRAM doubled" in told(found, "twice")[0]
    enough = explained(alone(kernels, "ab", **asked, sram_bytes=21_200))
    assert enough.objective == 2 * 12_000 and resource(enough, "SRAM")["free_bound_ps"] == 2 * 12_000


def test_links_bind() -> None:
    """Two chips: a product whose sums (K) of 1,024 bytes are reduced at 1 byte/ns over a switch: 2 · 1,024 · 1/2 =
    1,024 ns, 512 at twice the rate. Nothing else takes as long."""
    product = {"kind": "gemm", "M": 64, "K": 64, "N": 8, "weights": True, "schemes": ["K"]}
    asked: dict[str, Any] = {"sizes": [2], "topology": "switch", "link_gbps": 1.0, "memory_gbps": 1e6}
    instance = alone({"a": product}, degrees={"tensor": 2, "dimensions": ["tensor"]}, **asked)
    found = explained(instance)
    assert found.objective == 1_024_000
    assert resource(found, "links")["twice_bound_ps"] == 512_000
    assert resource(found, "compute")["twice_bound_ps"] == 1_024_000


def test_launches_bind() -> None:
    """Two kernels of 100 ns with launches of 900: 2,000 ns; 1,100 in half the time, 200 if free, 1,900 with free
    compute (and a picosecond for each kernel)."""
    found = explained(launched(alone({"a": WORK, "b": WORK}), 900.0))
    assert found.objective == 2_000_000
    now = resource(found, "launches")
    assert (now["twice_ps"], now["free_ps"]) == (1_100_000, 200_000)
    assert resource(found, "compute")["free_ps"] in (1_800_000, 1_800_002)


def test_the_bubble_binds() -> None:
    """Two stages of one layer (100 ns), one sample: 100 · (1 + 1/1) = 200 ns, of which the bubble is 100."""
    row = {"pipeline": 2, "dimensions": ["pipeline"]}
    found = explained(alone({"a": WORK}, sizes=[2], layers=2, degrees=row, memory_gbps=1e9))
    assert found.objective == 200_000
    assert resource(found, "bubble")["without_ps"] == 100_000 == resource(found, "bubble")["without_bound_ps"]
    parts = next(one.figures for one in found.statements if one.topic == "time")
    assert parts == {"compute_ps": 100_000, "bubble_ps": 100_000}
    assert all(one.what != "a pipeline that is always full" for one in found.changes), "no instance is that"


def test_the_limit_of_dram_binds() -> None:
    """The page on micro-batches: with 199,999 bytes three samples at a time (16,000 ns), with 200,000 four (14,400),
    without a limit all twelve (11,200)."""
    kernel = {"flop": 30_720_000, "output_bytes": 10_000, "weight_bytes": 20_000, "schemes": ["NONE"]}
    asked: dict[str, Any] = {"layers": 4, "batch": 12, "micro_batch": None, "dram_bytes": 199_999}
    found = explained(alone({"a": kernel, "b": {**kernel, "output_bytes": 0}}, "ab", **asked))
    assert found.objective == 16_000_000
    now = resource(found, "DRAM capacity")
    assert now["free_ps"] == 11_200_000 == now["free_bound_ps"]
    assert "micro-batch 12 instead of 3" in told(found, "forced")[0]


def test_the_step_binds() -> None:
    """40,000 parameters of two bytes, (2 · 2 + 2 · 12) bytes each through 100 bytes/ns: 11,200 ns of the optimiser."""
    weights = {"flop": 0, "output_bytes": 0, "weight_bytes": 80_000, "schemes": ["NONE"]}
    update = {**weights, "weight_bytes": 0, "phase": "backward", "update": True}
    found = explained(launched(alone({"a": weights, "u": update}, "au", purpose="training", optimizer_step=True), 0.0))
    assert found.objective == 800_000 + 11_200_000
    assert change(found, "without the optimiser's step").objective == 800_000
    assert resource(found, "optimiser's step")["without_bound_ps"] == 800_000


def test_at_most_is_rounded_up() -> None:
    assert [at_most(part, 3) for part in (0, 1, 2, 3)] == ["0%", "33.4%", "66.7%", "100%"]
    assert at_most(1, 10**6) == "0.0001%"


# What a user gives.
def test_mappings_at_hand() -> None:
    """One that is refused, one that is slower than the best, and two side by side."""
    instance = made({"a": WORK, "b": WORK}, "ab", sizes=[1], fused=False, utilisation=1.0, memory_gbps=1e9)
    best = explained(instance)
    slow = next(one for one in candidates(instance) if check(instance, one).feasible)
    refused = slow.replace(partitions=(1, 0))
    found = explained(instance, refused)
    assert told(found, "given")[0].startswith("The mapping given is refused (1 violation): C1 'a' -> 'b' goes from")
    assert found.given is not None and not found.given.feasible and found.objective == best.objective
    both = explain(instance, slow, PATIENT, slow.replace(partitions=(0, 2)))
    assert both.difference is not None and both.difference.before.objective == both.difference.after.objective


def test_without_a_mapping() -> None:
    """What is short is said as a solve says it; changes that allow a mapping are found."""
    found = explained(alone({"a": DRAM}, dram_bytes=9_999))
    assert found.status == "infeasible" and found.statements[0].message == "No mapping exists (proved)."
    assert found.infeasibility and found.infeasibility[0].label == "C6"
    assert change(found, "DRAM capacity doubled").standing == "proved"
    useless = {one.what for one in found.changes if one.standing == "infeasible"}
    assert useless == {"SRAM doubled", "SRAM without limit", "the micro-batch chosen"}


def test_what_changes_say_of_the_instance_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known of it by a solve of its own: its mapping comes from a change, a bound from a doubled rate."""
    instance = made({"a": WORK, "b": WORK}, "ab", sizes=[1], utilisation=1.0, memory_gbps=1e9)

    def only_changes(given: DataflowInstance, run: Run, bubble: bool) -> Any:
        return run.terminate() if given == instance else solve(given, run, bubble)

    monkeypatch.setattr(explaining, "solve", only_changes)
    found = explained(instance)
    assert found.objective == brute_force(instance, check)[0]
    assert found.bound == found.objective and found.status == "optimal"
    assert told(found, "verdict")[0].endswith("the least there is (proved).")
    twice = change(found, "compute at twice the rate")
    assert twice.objective is not None and found.objective is not None
    assert twice.gain == (found.objective - twice.objective) / found.objective


def test_what_there_is_no_time_for_is_said() -> None:
    """A limit that has passed: the instance is solved within the least seconds, and all changes are named."""
    found = explain(made({"a": WORK, "b": WORK}, "ab"), options=SolveOptions(time_limit=0.001))
    assert not found.changes and "not tried for lack of time: compute at twice the rate; " in found.notes[-1].text
