"""A layer with free schemes: what chipmap calls its best mapping, timed with the exchanges that it needs."""

from __future__ import annotations

from benchmarks.exchanges.cases import CHIPS, schemes
from benchmarks.exchanges.timed import Timed, timed
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution, Degrees, Task
from chipmap.instances.dataflow.systems import system
from chipmap.instances.dataflow.workload import Scheme
from chipmap.instances.dataflow.workloads.llama import llama_network
from chipmap.plans.jax.steps import layer_of
from chipmap.solve import solve

#: Bytes per nanosecond of an H100's memory, and of its links through a switch, one way.
HBM, NVLINK = 3350.0, 450.0


def h100_layer(**task: object) -> DataflowInstance:
    """Llama3-8B forward and backward, 2,048 tokens, on a switch of eight H100 that don't fuse, without latencies."""
    degrees = Degrees(tensor=CHIPS, pipeline=1, data=1, dimensions=("tensor",))
    chips = system("h100", (CHIPS,))
    chips = chips.replace(
        chip=chips.chip.replace(fused=False),
        memory=chips.memory.replace(capacity_bytes=None, bytes_per_ns=HBM),
        network=tuple(one.replace(topology="switch", bytes_per_ns=NVLINK, latency_ns=0.0) for one in chips.network),
    )
    workload = llama_network(step="forward", backward=True, split_tokens=True)
    return DataflowInstance.make(
        name="h100-llama3-8b",
        workload=workload,
        system=chips,
        task=Task(degrees=degrees, micro_batch=1, fused=False, **task),  # type: ignore[arg-type]
    )


def solved(instance: DataflowInstance, seconds: float) -> tuple[DataflowSolution, str]:
    """The best mapping within a time, and its status."""
    result = solve(instance, time_limit=seconds)
    if result.solution is None:
        raise RuntimeError(f"no mapping within {seconds:.0f} s")
    return DataflowSolution.make(**result.solution), result.status


def _line(name: str, status: str, one: Timed) -> str:
    return f"| {name} | {status} | " + " | ".join(f"{time:.2f}" for time in one) + " |\n"


def free_schemes(seconds: float) -> str:
    """A section of the page: the best mapping with free schemes, and tensor parallelism with sequences split."""
    text = (
        "## Free schemes\nA layer of Llama3-8B on a switch of eight H100, forward and backward, us per layer. A sum of "
        "products that are added up counts with the last of them, or with the kernel that adds.\n\n"
        "| mapping | | charged | needed, layouts kept | sums with the adder | made again backward | with the adder |\n"
        "|---|---|--:|--:|--:|--:|--:|\n"
    )
    instance = h100_layer()
    layer = layer_of(instance.workload.replace(layers=1))
    pinned = schemes(instance.workload, "TP + SP")
    for name, one in (("free", instance), ("TP + SP", h100_layer(schemes=pinned))):
        solution, status = solved(one, seconds)
        names = (kernel.name for kernel in one.workload.kernels)
        own: dict[str, Scheme] = dict(zip(names, solution.schemes, strict=True))
        text += _line(name, status, timed(one, solution, layer, own))
    return text + "\n"
