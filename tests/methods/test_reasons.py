"""Reasons of infeasibility come from a proof, or there are none: asked of instances that have solutions."""

from __future__ import annotations

from typing import Any

import pytest

from chipmap.deadline import Deadline
from chipmap.family import family_of, resolve
from chipmap.inputs import reading
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.multimodel.problem import multi_problem
from chipmap.instances.placement.problem import placement_problem
from chipmap.methods import clashes
from chipmap.methods.clashes import WORK, clashing, labels_of
from chipmap.methods.dataflow import infeasibility as dataflow
from chipmap.methods.dataflow.cases import least_demanding
from chipmap.methods.dataflow.shortages import Questions
from chipmap.methods.multimodel import reasons as multimodel
from chipmap.methods.placement import reasons as placement
from chipmap.methods.ring import infeasibility as ring
from chipmap.run import Run, SolveOptions
from chipmap.solvers.outcome import SolveRequest


def read(name: str) -> Any:
    """The shipped instance, of whatever family."""
    return reading.read(name)


def new_run(instance: Any, **options: Any) -> Run:
    """A run of ``instance`` on one thread."""
    check = resolve(family_of(instance).check)
    return Run(instance, SolveOptions(threads=1).replace(**options), check)


def test_no_reason_is_invented_for_a_placement() -> None:
    for name in ("tiny-bus", "tiny-throughput"):
        instance = read(f"placement/{name}")
        run = new_run(instance)
        assert placement.clash(placement_problem(instance), run) == []
        assert [note.text for note in run.notes] == [
            "no placement exists; which constraints contradict each other isn't known"
        ]


def test_no_reason_is_invented_for_a_schedule() -> None:
    """With limits that can be kept, and without."""
    tiny = read("multimodel/tiny-energy")
    for instance in (tiny, tiny.replace(task=tiny.task.replace(latency_limit_ns=10**9))):
        run = new_run(instance)
        assert multimodel.clash(multi_problem(instance), run) == [] and run.notes


def test_no_reason_is_invented_for_a_mapping_of_kernels() -> None:
    """It was "no mapping has at most 0 partitions per phase"."""
    instance = read("dataflow/tiny-chain")
    problems = least_demanding(instance)
    assert dataflow.reasons(instance, problems, Questions(Deadline())) == []
    plan = problems[0].plan
    assert dataflow_problem(instance, problems[0].degrees, *plan).n == problems[0].n


def test_no_advice_follows_from_a_wrong_proof() -> None:
    """The least SRAM of a graph without weights is 0 bytes, on one chip: it is no remedy, as there are more."""
    tiny = read("ring/tiny-skip")
    operations = [operation.replace(weight_bytes=0) for operation in tiny.graph.operations]
    graph = tiny.graph.replace(operations=tuple(operations))
    for instance in (tiny, tiny.replace(graph=graph, package=tiny.package.replace(sram_bytes=1))):
        run = new_run(instance)
        assert ring.reasons(instance, run) == [] and run.notes


def test_a_remedy_of_sram_is_checked() -> None:
    """Only bytes above those that there are, with a mapping that the checker accepts."""
    tiny = read("ring/tiny-skip")
    operations = [operation.replace(weight_bytes=10) for operation in tiny.graph.operations]
    least = 10 * len(operations)
    graph, package = tiny.graph.replace(operations=tuple(operations)), tiny.package.replace(sram_bytes=20)
    instance = tiny.replace(graph=graph, package=package)
    mapping, run = tiny_mapping(instance), new_run(instance)
    assert ring.does(instance, run, least, mapping) and not ring.does(instance, run, least - 1, mapping)
    roomy = instance.replace(package=package.replace(sram_bytes=least))
    assert not ring.does(roomy, run, least, mapping)


def tiny_mapping(instance: Any) -> Any:
    """Everything on the first chip."""
    return ring.RingSolution(instance=instance.name, chips=(0,) * len(instance.graph.operations))


def test_what_lies_between_a_group_is_merged_by_c1() -> None:
    """b and d share a chip, c lies between them: by their weights alone they would fit beside a and c."""
    from benchmarks.infeasible.__main__ import pairs

    found = [pair for pair in pairs("ring", 6, 1046) if pair.tight.together and pair.what == "SRAM"]
    for pair in found:
        for reason in ring.reasons(pair.tight, new_run(pair.tight)):
            assert pair.contradict(frozenset(reason.labels)), reason
    assert found


@pytest.mark.parametrize("deterministic", [False, True])
def test_reasons_count_work(monkeypatch: pytest.MonkeyPatch, deterministic: bool) -> None:
    """CP-SAT's own unit in any case; of the time left a part, or with ``--deterministic`` all of it."""
    asked = list[SolveRequest]()

    def noted(_: Any, request: SolveRequest) -> tuple[str, ...]:
        asked.append(request)
        return ("c6_memory", "c1_together")

    monkeypatch.setattr(clashes, "infeasible_labels", noted)
    run = new_run(read("placement/tiny-bus"), deterministic=deterministic, time_limit=1000.0, native={"num_workers": 7})
    assert labels_of(clashing(run, lambda: None)) == ("C1", "C6")  # type: ignore[arg-type, return-value]
    (request,) = asked
    assert request.work_limit == WORK and request.deterministic and not request.native
    assert request.time_limit is not None and (request.time_limit > 600) is deterministic
