"""What the family predicts for one H100: each kernel of a layer of Llama3-8B as a partition of its own."""

from __future__ import annotations

from typing import Any, NamedTuple

from chipmap.instances.dataflow.batch import kept_for_backward
from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.loads import times
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.presets import preset
from chipmap.instances.dataflow.sizes import output_bytes
from chipmap.networks.graph import neighbours, topological

MODEL, MACHINE, LAYERS = "llama3-8b", "h100-sxm", 32
#: Of DRAM, so that a training step of all layers fits: a layer alone is asked about.
PLENTY = 10**13


class Fields(NamedTuple):
    """What the family's machine can be told: shares of the peak by FLOP, a share of DRAM's rate, a launch in ns."""

    efficiency: tuple[tuple[float, float], ...]
    memory: float
    launch_ns: float


class Layer(NamedTuple):
    """Microseconds of each kernel of a layer, and bytes that its forward kernels leave for the backward phase."""

    kernels: dict[str, float]
    kept: int

    @property
    def us(self) -> float:
        """Microseconds of the layer: kernels run one after the other."""
        return sum(self.kernels.values())

    def of(self, *names: str) -> float:
        """Microseconds of these kernels."""
        return sum(self.kernels[name] for name in names)


def layer_of(instance: DataflowInstance) -> Layer:
    """The layer of an instance on one chip, T4 of each kernel: its launch, and the longer of compute and DRAM."""
    problem = dataflow_problem(instance, Degrees(dimensions=("tensor",)))
    place = {v: i for i, v in enumerate(topological(neighbours(problem.n, problem.edges.tolist())))}
    mapping = problem.mapping([one[0].scheme for one in problem.options], [place[i] for i in range(problem.n)], ())
    each, kernels = times(problem, mapping), problem.instance.workload.kernels
    longest = [(problem.launch + max(each[place[i]].compute, each[place[i]].memory)) / 1e6 for i in range(problem.n)]
    kept = kept_for_backward(instance)
    return Layer(
        dict(zip((one.name for one in kernels), longest, strict=True)),
        sum(int(output_bytes(one, problem.instance)) for one in kernels if one.name in kept),
    )


def _instance(batch: int, told: Fields | None, **fields: Any) -> DataflowInstance:
    asked: dict[str, Any] = {"machine": MACHINE, "sizes": (1,), "rotary": True, "micro_batch": batch, "batch": batch}
    if told is not None:
        asked["utilisation"] = 1.0
    made = preset(MODEL, name="measured", dram_bytes=PLENTY, **asked, **fields)
    if told is None:
        return made
    chip = made.system.chip.replace(efficiency=told.efficiency, launch_ns=told.launch_ns)
    memory = made.system.memory.replace(efficiency=told.memory)
    return made.replace(system=made.system.replace(chip=chip, memory=memory))


def decode(batch: int, context: int, ends: bool = False, told: Fields | None = None) -> Layer:
    """A token of each sample, which sees ``context`` tokens with itself; with an equal part of embedding and head."""
    return layer_of(_instance(batch, told, step="decode", context=context - 1, ends=ends))


def prefill(tokens: int, told: Fields | None = None) -> Layer:
    """A prompt."""
    return layer_of(_instance(1, told, step="prefill", tokens=tokens))


def training(tokens: int, told: Fields | None = None) -> Layer:
    """A sample forward and backward."""
    return layer_of(_instance(1, told, step="forward", tokens=tokens, backward=True))
