"""Tiny random instances of family ``dataflow`` at fixed degrees, and what the exact program says of them."""

from __future__ import annotations

from random import Random
from typing import Any

from chipmap.family import Model
from chipmap.heuristics.dataflow.program.program import Program
from chipmap.instances.dataflow import (
    Chip,
    DataflowInstance,
    Degrees,
    Dimension,
    Kernel,
    Memory,
    System,
    Task,
    Workload,
)
from chipmap.instances.dataflow.batch_time import caching, resident, total_ticks
from chipmap.instances.dataflow.layer_handover import handover_cases
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.systems import system
from chipmap.instances.dataflow.workloads.gpt import gpt_network
from chipmap.solvers import solve_model
from chipmap.solvers.outcome import Outcome, SolveRequest
from chipmap.validation.dataflow.checker import check


def random_kernel(random: Random, name: str, **fields: Any) -> Kernel:
    """A gemm with or without weights, with an outer dimension or not, or an element-wise kernel."""
    sizes: dict[str, Any] = {"M": 8 * random.randint(1, 8), "N": 16, "outer": random.choice([1, 1, 1, 4])}
    if random.random() < 0.2:
        sizes |= {"fetch_bytes": 900, "exchange": "all_to_all", "exchange_bytes": 1500}
    if random.random() < 0.4:
        return Kernel(name=name, kind="elementwise", **sizes, **fields)
    return Kernel(name=name, kind="gemm", K=8 * random.randint(1, 8), weights=random.random() < 0.7, **sizes, **fields)


def random_workload(random: Random, kernels: int, backward: bool, layers: int) -> Workload:
    """A connected random graph, its last kernels perhaps of the backward phase."""
    first = random.randint(1, kernels - 1) if backward else kernels
    made = [
        random_kernel(random, f"k{i}", phase="forward" if i < first else "backward", update=i > first + 1)
        for i in range(kernels)
    ]
    edges = {(random.randrange(v), v) for v in range(1, kernels)}
    edges |= {(u, v) for u in range(kernels) for v in range(u + 1, kernels) if random.random() < 0.2}
    return Workload(
        name="tiny",
        kernels=tuple(made),
        edges=tuple((f"k{u}", f"k{v}") for u, v in sorted(edges)),
        carries=((f"k{first - 1}", "k0"),) if not backward else (),
        layers=layers,
        tokens=16,
    )


def random_task(random: Random, kernels: int, degrees: Degrees) -> Task:
    """At most, exactly or any number of partitions, kernel by kernel, with groups, or none of these."""
    kind = random.choice(["most", "most", "exactly", "any", "single", "groups"])
    names = random.sample([f"k{i}" for i in range(kernels)], 3)
    return Task(
        micro_batch=1,
        batch=24,
        all_reduce_factor=random.choice([1, 2]),
        degrees=degrees,
        partitions=random.randint(1, 3) if kind in ("most", "exactly", "groups") else None,
        exactly=kind == "exactly",
        fused=kind != "single",
        tile_tokens=random.choice([1, 4]),
        together=((names[0], names[1]), (names[2],)) if kind == "groups" else (),
    )


def random_instance(seed: int, mode: Any) -> DataflowInstance:
    """Up to 6 kernels on rings, switches and full networks, with SRAM that may or may not be short."""
    random = Random(seed)
    kernels, layers = random.randint(3, 6), random.choice([1, 2, 6])
    topology: Any = random.choice(["ring", "switch", "full"])
    network = [Dimension(size=random.choice([2, 4]), topology=topology, bytes_per_ns=random.choice([0.1, 1.0]))]
    degrees = Degrees(tensor=network[0].size, dimensions=("tensor",))
    if layers > 1:
        network.append(Dimension(size=2, bytes_per_ns=1.0))
        degrees = Degrees(tensor=network[0].size, pipeline=2, dimensions=("tensor", "pipeline"))
    chip = Chip(
        tiles=4, lanes=2, stages=2, ghz=random.choice([0.1, 1.0]), sram_bytes=random.choice([2000, 6000, 10**6])
    )
    memory = Memory(bytes_per_ns=random.choice([0.05, 0.5, 5.0]))
    return DataflowInstance(
        name=f"random-{seed}",
        workload=random_workload(random, kernels, random.random() < 0.3, layers),
        system=System(name="tiny", chip=chip, memory=memory, network=tuple(network)),
        task=random_task(random, kernels, degrees).replace(
            overlap=random.random() < 0.7, purpose=random.choice(["training", "decode"])
        ),
        mode=mode,
    )


def by_program(instance: DataflowInstance) -> int | None:
    """The batch's optimum by the exact program; None: no mapping fits."""
    assert instance.task.degrees is not None
    task, ticks = instance.task, list[int]()
    for problem in handover_cases(dataflow_problem(instance, instance.task.degrees)):
        most, exactly = (task.partitions, task.exactly) if task.fused else (None, False)
        found = [Program(problem).best(most, exactly, task.fused)]
        if resident(problem) and (task.fused or problem.n == 1) and not (task.exactly and task.partitions != 1):
            for cached in (False, True) if caching(problem) else (False,):
                found.append(Program(problem, resident=True, cached=cached).best(1, True, task.fused))
        ticks += [total_ticks(problem, chain.ticks, chain.chosen) for chain in found if chain is not None]
    return min(ticks, default=None)


def solved(model: Model, **request: Any) -> Outcome:
    """The outcome of the default solver, on one thread."""
    return solve_model(model, SolveRequest(**{"time_limit": 60.0, "threads": 1, **request}))


def optimum(instance: DataflowInstance, model: Model) -> int | None:
    """The checked value of what the solver proved optimal; None: proved infeasible."""
    outcome = solved(model)
    if outcome.value_of is None:
        assert outcome.termination.reason == "infeasible", outcome.termination
        return None
    assert outcome.termination.reason == "optimal", outcome.termination
    certificate = check(instance, model.decode(outcome.value_of))
    assert certificate.feasible, certificate.violations
    return certificate.objective


def table6(mode: Any = "dfmodel", partitions: int | None = 4, **task: Any) -> DataflowInstance:
    """GPT3-175B forward on eight SN10 in a ring, as in the paper's table VI, with the sharding that it took."""
    workload = gpt_network(hidden=12_288, heads=96, tokens=2048, layers=96)
    alone = [kernel.name for kernel in workload.kernels if kernel.kind == "elementwise" and kernel.outer == 1]
    schemes = dict.fromkeys(alone, "NONE") | {"GeLU": "M", "Proj": "K", "FFN0": "M", "FFN1": "K"}
    fields: dict[str, Any] = {"batch": 2304, "all_reduce_factor": 2, "schemes": schemes, "partitions": partitions}
    fields["degrees"] = Degrees(tensor=8, dimensions=("tensor",))
    return DataflowInstance(
        name="table-6",
        workload=workload,
        system=system("sn10", (8,), memory_gbps=100, link_gbps=50),
        task=Task(**{"micro_batch": 1} | fields | task),
        mode=mode,
    )


def gpt3_1t(mode: Any = "dfmodel") -> DataflowInstance:
    """GPT3-1T forward and backward, 41 kernels, on 8 x 128 SN30 with three partitions per phase and free sharding."""
    workload = gpt_network(hidden=25_600, heads=160, tokens=2048, layers=128, backward=True)
    degrees = Degrees(tensor=8, pipeline=128, dimensions=("tensor", "pipeline"))
    return DataflowInstance(
        name="gpt3-1t",
        workload=workload,
        system=system("sn30", (8, 128), memory_gbps=300, link_gbps=50),
        task=Task(batch=3072, micro_batch=1, all_reduce_factor=2, partitions=3, degrees=degrees),
        mode=mode,
    )
