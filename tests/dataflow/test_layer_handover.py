"""Changes of layout of the tensors that a layer passes to the next, in mode ``physical``."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from chipmap.instances.dataflow import DataflowInstance, DataflowSolution, layer_handover
from chipmap.instances.dataflow.batch_time import layer_ticks
from chipmap.instances.dataflow.layer_handover import handover_cases, handovers
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.partition_loads import loads
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.methods.dataflow.chain import auto
from chipmap.methods.dataflow.two_pass import two_pass
from chipmap.records import InputError
from chipmap.run import Run, SolveOptions
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow.candidates import candidates, count
from chipmap.validation.dataflow.checker import breakdown, check
from tests.dataflow.agreement import agreed
from tests.dataflow.random_instances import ELEMENT, GEMM, TENSOR, made, mixed_instance
from tests.dataflow.test_wide import solved_as_wide
from tests.lanes import of_all

CHAIN: dict[str, Any] = {"a": ELEMENT, "b": GEMM, "c": {**GEMM, "K": 512}}
#: 512 x 64 words of two bytes.
OUTPUT = 512 * 64 * 2


def chain(carries: str = "ca", **parameters: Any) -> DataflowInstance:
    given = {"layers": 3, "link_gbps": 1.0, "sram_bytes": 10**7, "degrees": TENSOR, **parameters}
    return made(CHAIN, "ab bc", carries=carries, **given)


def network(instance: DataflowInstance, schemes: tuple[str, ...], partitions: tuple[int, ...] = (0, 1, 2)) -> list[int]:
    """Picoseconds of the network by partition: the checker's, which are those of the fast evaluation."""
    (degrees,) = allowed_degrees(instance)
    solution = DataflowSolution(degrees=degrees, schemes=schemes, partitions=partitions)  # type: ignore[arg-type]
    found = [network for _, _, network in breakdown(instance, solution).values()]
    assert [one.network for one in loads(instance, solution)] == found
    return found


def test_changes_by_hand() -> None:
    """c leaves its rows split (M), a wants all of them (NONE) or split rows (M). On a ring of two an all-gather of
    S bytes takes S / 2 at 1 byte per ns: once for each tensor that is passed on, in the partition that reads it."""
    gather = OUTPUT // 2 * 1000
    inside = network(chain(""), ("NONE", "M", "M"))
    assert network(chain(), ("NONE", "M", "M")) == [inside[0] + gather, *inside[1:]]
    assert network(chain(), ("NONE", "M", "M"), (0, 0, 0)) == [sum(inside) + gather]
    assert network(chain("ca cb ba"), ("NONE", "M", "M")) == [inside[0] + 2 * gather, inside[1] + gather, inside[2]]
    assert network(chain(), ("M", "M", "M")) == network(chain(""), ("M", "M", "M"))
    assert network(chain("bb"), ("M", "M", "M"))[1] == network(chain(""), ("M", "M", "M"))[1] + gather
    assert network(chain("aa"), ("NONE", "M", "M")) == inside


@pytest.mark.parametrize("fields", [{"mode": "dfmodel"}, {"layers": 1}])
def test_no_changes_are_counted(fields: dict[str, Any]) -> None:
    """In the published model, and where there is no next layer."""
    instance = chain(**fields)
    assert network(instance, ("NONE", "M", "M")) == network(chain("", **fields), ("NONE", "M", "M"))
    assert not handovers(dataflow_problem(instance, allowed_degrees(instance)[0]))


def test_across_layers_the_first_layer_reads_its_input_for_free() -> None:
    """A layer of several counts the change always, with partitions across layers only the second of two does."""
    across, gather = chain(layers=2, across_layers=True), OUTPUT // 2 * 1000
    schemes = ("NONE", "M", "M") * 2
    free = network(chain("", layers=2, across_layers=True), schemes, (0, 1, 2, 3, 4, 5))
    assert network(across, schemes, (0, 1, 2, 3, 4, 5)) == [*free[:3], free[3] + gather, *free[4:]]
    assert network(chain(layers=2), schemes[:3])[0] == free[0] + gather


def test_the_intra_chip_pass_counts_them() -> None:
    """a wants all of what c leaves split: the best partitions at the checker's price."""
    instance = chain(link_gbps=0.01)
    pins: dict[str, Any] = {"a": "NONE", "b": "M", "c": "M"}
    instance = instance.replace(task=instance.task.replace(schemes=pins))
    state = Run(instance, SolveOptions(time_limit=60.0, threads=1), check)
    two_pass(instance, state)
    assert state.best is not None and state.best.claimed == state.upper == brute_force(instance, check)[0]


def test_recomputed_layers_read_twice() -> None:
    """Forward partitions count twice then, with all of their network."""
    graph = {**CHAIN, "x": {**ELEMENT, "phase": "backward"}}
    fields: dict[str, Any] = {"layers": 3, "link_gbps": 0.001, "sram_bytes": 10**7, "degrees": TENSOR}
    terms = []
    for carries in ("", "ca"):
        instance = made(graph, "ab bc cx", carries=carries, recompute=True, **fields)
        (degrees,) = allowed_degrees(instance)
        mapping = DataflowSolution(degrees=degrees, schemes=("NONE", "M", "M", "M"), partitions=(0, 0, 0, 1))
        terms.append(check(instance, mapping).terms["T4"])
    assert terms[1] - terms[0] == 2 * OUTPUT // 2 * 10**6


def test_every_mapping_is_in_one_case() -> None:
    """Every combination of schemes is in one of the problems, with what the checker says of its network."""
    instance = chain("ca bb cb ba")
    problem = dataflow_problem(instance, allowed_degrees(instance)[0])
    each = list(handover_cases(problem))
    assert len(each) == 4  # b and c pass on split or whole rows
    seen = set()
    for case in each:
        for a in case.options[0]:
            for b in case.options[1]:
                for c in case.options[2]:
                    schemes = a.scheme, b.scheme, c.scheme
                    seen.add(schemes)
                    own = a.collective + b.collective + c.collective
                    read = [case.options[v].index(o) for v, o in enumerate((a, b, c))]
                    inside = case.converts(0, 1, read[0], read[1]) + case.converts(1, 2, read[1], read[2])
                    assert sum(network(instance, schemes)) == own + inside, schemes
    assert len(seen) == sum(len(case.options[0]) * len(case.options[1]) * len(case.options[2]) for case in each) == 18


def test_too_many_cases_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_handover, "MOST_CASES", 3)
    state = Run(chain("ca bb cb ba"), SolveOptions(time_limit=60.0, threads=1), check)
    with pytest.raises(InputError, match=r"2 kernels \(b, c, …\) pass to the next layer can have 4 layouts"):
        auto(chain("ca bb cb ba"), state)


def circular(random: Random) -> DataflowInstance:
    """A random instance of several layers that pass tensors on, over slow links."""
    while True:
        instance = mixed_instance(random)
        workload, task = instance.workload, instance.task
        names = [kernel.name for kernel in workload.kernels if kernel.phase == "forward"]
        if task.across_layers or len(names) < 2 or workload.layers == 1:
            continue
        carries = {(random.choice(names), random.choice(names)) for _ in range(random.choice((1, 2, 3)))}
        network = tuple(one.replace(bytes_per_ns=random.choice((0.05, 1.0))) for one in instance.system.network)
        instance = instance.replace(
            mode="physical",
            workload=workload.replace(carries=tuple(sorted(carries))),
            system=instance.system.replace(network=network),
            task=task.replace(schemes={}),
        )
        if 4 <= count(instance) <= 400 and any(
            handovers(dataflow_problem(instance, d)) for d in allowed_degrees(instance)
        ):
            return instance


@pytest.mark.parametrize("block", range(of_all(2, few=1)))
def test_every_method_is_brute_force(block: int) -> None:
    tried, costs = {"optimal": 0, "infeasible": 0}, 0
    for seed in range(6 * block, 6 * block + 6):
        instance = circular(Random(seed))
        optimum, _ = agreed(instance, seed)
        tried["infeasible" if optimum is None else "optimal"] += 1
        free = instance.replace(workload=instance.workload.replace(carries=()))
        costs += optimum is not None and optimum != brute_force(free, check)[0]
    assert tried["optimal"] >= 3 and costs >= 2, (tried, costs)


def test_so_is_the_method_for_wide_graphs() -> None:
    tried = 0
    for seed in range(60):
        instance = circular(Random(1000 + seed))
        task = instance.task.replace(degrees=allowed_degrees(instance)[0], overlap=True, recompute=False)
        memory = instance.system.memory.replace(capacity_bytes=None)
        system = instance.system.replace(memory=memory)
        instance = instance.replace(task=task, system=system)
        if task.utilisation is None or not handovers(dataflow_problem(instance, allowed_degrees(instance)[0])):
            continue
        optimum = brute_force(instance, check)[0]
        if optimum is None:
            continue
        run, bound = solved_as_wide(instance)
        assert run.upper is not None and bound is not None and bound <= optimum <= run.upper, seed
        tried += 1
        if tried == 2:
            break
    assert tried == 2


def test_layers_by_the_batch_and_back() -> None:
    """The layer of the least batch is the checker's (T4), with changes in it."""
    instance = chain(link_gbps=0.05)
    (degrees,) = allowed_degrees(instance)
    optimum, best = brute_force(instance, check)
    assert optimum is not None and best is not None
    problem = dataflow_problem(instance, degrees)
    assert layer_ticks(problem, optimum, 0, 0, 0) == check(instance, best).terms["T4"]
    found = [check(instance, one) for one in candidates(instance)]
    assert all(one.objective is None or one.objective >= optimum for one in found if one.feasible)
