"""Named generators of dataflow instances: a workload on equal chips, with what is asked of the mapping."""

from __future__ import annotations

from inspect import signature
from typing import Any, Literal

import msgspec

from chipmap.instances.dataflow.axes import with_axes
from chipmap.instances.dataflow.equipping import beside, named, utilisation
from chipmap.instances.dataflow.formats import Format
from chipmap.instances.dataflow.from_graph import from_graph
from chipmap.instances.dataflow.instance import CostMode, DataflowInstance, Task
from chipmap.instances.dataflow.machines import machine
from chipmap.instances.dataflow.system import System, Topology
from chipmap.instances.dataflow.systems import system
from chipmap.instances.dataflow.workload import Kernel, Workload
from chipmap.instances.dataflow.workloads.dlrm import dlrm_network
from chipmap.instances.dataflow.workloads.engine import engine_network
from chipmap.instances.dataflow.workloads.fft import fft_network
from chipmap.instances.dataflow.workloads.gpt import gpt_network
from chipmap.instances.dataflow.workloads.hpl import hpl_network
from chipmap.instances.dataflow.workloads.layer import Count, WordBytes
from chipmap.instances.dataflow.workloads.llama import llama_network
from chipmap.instances.dataflow.workloads.moe import moe_network
from chipmap.instances.dataflow.workloads.vision import dit_network, vit_network
from chipmap.instances.generator import NamedGenerator
from chipmap.networks.generators.resnet import resnet
from chipmap.networks.importers.common import ImportedGraph
from chipmap.records import InputError

#: What a step's kernels may be for, the usual first; the step of each purpose.
_PURPOSES = {"forward": ("training", "prefill"), "prefill": ("prefill",), "decode": ("decode",)}
_STEPS = {"training": "forward", "prefill": "prefill", "decode": "decode"}


class Setting(Task, frozen=True, kw_only=True):
    """What every generator takes beside the parameters of its workload: the fields of :class:`Task`, and the system.

    ``machine`` is the name of a shipped machine or of a file (``mine.json``), or a whole :class:`System`; its chip,
    memory and links are taken instead of those that the other parameters describe. If its chip states shares of its
    peak (``efficiency``, ``blocks``), ``utilisation`` is 1 unless another than the usual one is given. ``sizes`` are
    those of the network's dimensions (none: eight chips, or those of the machine), ``topology`` that of all or of each;
    ``memory`` and ``link`` name technologies with their rates, prices and powers, instead of ``memory_gbps`` and
    ``link_gbps``; ``sram_bytes`` replaces the chip's own, ``dram_bytes`` is the DRAM capacity (null: never the limit,
    or the machine's own).
    ``others`` name further groups of chips of other machines, such as ``a100-80gb-8``, and ``between_gbps`` and
    ``between_ns`` the links from group to group (page, "Unequal chips").
    ``weight_format``, ``activation_format`` and ``cache_format`` are those of the workload.
    """

    name: str = ""
    machine: str | System = ""
    chip: str = "sn10"
    sizes: tuple[int, ...] = ()
    topology: Topology | tuple[Topology, ...] = "ring"
    memory_gbps: float = 200.0
    link_gbps: float = 25.0
    memory: str = ""
    link: str = ""
    latency_ns: float = 0.0
    sram_bytes: int | None = None
    dram_bytes: int | None = None
    others: tuple[str, ...] = ()
    between_gbps: float = 50.0
    between_ns: float = 0.0
    mode: CostMode = "physical"
    notes: str = ""
    weight_format: Format = ""
    activation_format: Format = ""
    cache_format: Format = ""

    def instance(self, generator: str, workload: Workload) -> DataflowInstance:
        """The instance of ``workload``."""
        own, where = msgspec.structs.asdict(self), self._system()
        if self.sram_bytes is not None:
            where = where.replace(chip=where.chip.replace(sram_bytes=self.sram_bytes))
        if self.dram_bytes is not None:
            where = where.replace(memory=where.memory.replace(capacity_bytes=self.dram_bytes))
        own["utilisation"] = utilisation(where, self.utilisation)
        if self.others:
            where = where.replace(**beside(where, self.others, self.between_gbps, self.between_ns))
        if workload.last and not self.uneven:
            own["stage_layers"] = None  # what the ends take belongs to two stages alone
        formats = {name: own[name] for name in ("weight_format", "activation_format", "cache_format")}
        return DataflowInstance.make(
            name=self.name or f"{generator}-{'x'.join(str(one.size) for one in where.network)}",
            workload=with_axes(workload).replace(**formats),
            system=where,
            task=Task(**{field: own[field] for field in Task.__struct_fields__}),
            mode=self.mode,
            notes=self.notes,
        )

    def _system(self) -> System:
        """The machine, or the chips, memories and links that are described."""
        if not self.machine:
            described = {name: getattr(self, name) for name in signature(system).parameters}
            return system(**(described | {"sizes": self.sizes or (8,)}))
        for name in ("topology", "memory_gbps", "link_gbps", "memory", "link", "latency_ns"):
            if getattr(self, name) != getattr(Setting(), name):
                remedy = "Leave it out, or change the instance that is made."
                raise InputError("is given, but a machine has its own", name, remedy)
        if isinstance(self.machine, str) and not self.machine.endswith(".json"):
            return machine(self.machine, self.sizes)
        if self.sizes:
            raise InputError("are given, but the machine has its own", "sizes", "Leave them out.")
        return named(self.machine) if isinstance(self.machine, str) else self.machine


class DataflowGenerator(NamedGenerator[DataflowInstance]):
    """Makes dataflow instances: a workload on equal chips, with a :class:`Setting`."""

    setting = Setting

    def read(self, parameters: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """As for all generators; of ``step`` and ``purpose`` the one that isn't given follows from the other.

        Raises :class:`InputError` where they contradict each other, and for a decode step of what has none.
        """
        step, purpose = parameters.get("step"), parameters.get("purpose")
        if "step" in self.parameters() and (step in _PURPOSES or (step is None and purpose in _STEPS)):
            purpose = purpose or _PURPOSES[step][0]  # type: ignore[index]
            step = step or _STEPS[purpose]
            if purpose in _STEPS and purpose not in _PURPOSES[step]:
                what = f"is {purpose}, but the kernels are those of step {step}"
                raise InputError(
                    what, f"{self.name}: purpose", f"Leave out one of the two, or give step={_STEPS[purpose]}."
                )
            parameters = {**parameters, "step": step, "purpose": purpose}
        elif purpose == "decode" and "step" not in self.parameters() and self.name != "dataflow-explicit":
            what = "is decode, but this workload makes no tokens one after the other"
            raise InputError(what, f"{self.name}: purpose", "Give prefill (one pass) or training.")
        return super().read(parameters)


def explicit_network(
    kernels: dict[str, dict[str, Any]],
    edges: tuple[tuple[str, str], ...] = (),
    carries: tuple[tuple[str, str], ...] = (),
    layers: int = 1,
    word_bytes: int = 2,
    tokens: int = 1,
) -> Workload:
    """A workload given in words: the fields of each kernel by its name (``kind``: ``opaque`` where none is given)."""
    made = []
    for name, fields in kernels.items():
        blank = {"flop": 0, "output_bytes": 0, "weight_bytes": 0} if fields.get("kind", "opaque") == "opaque" else {}
        made.append(Kernel.make(**{"kind": "opaque", **blank, **fields, "name": name}))
    return Workload(
        name="explicit",
        kernels=tuple(made),
        edges=edges,
        carries=carries,
        layers=layers,
        word_bytes=word_bytes,
        tokens=tokens,
    )


def resnet_network(
    depth: Literal[18, 34, 50, 101, 152] = 50,
    image: Count = 224,
    classes: Count = 1000,
    word_bytes: WordBytes = 2,
) -> Workload:
    """ResNet, forward (:func:`chipmap.networks.generators.resnet.resnet`): its operations are opaque kernels of one
    layer, each whole on every chip of a group (no halos are counted, so that none is split)."""
    graph = resnet(depth=depth, image=image, classes=classes, word_bytes=word_bytes)
    graph = graph.replace(operations=[operation.replace(loops=None) for operation in graph.operations])
    return from_graph(ImportedGraph(graph, None, "network"), graph.name).workload.replace(counted="images")


gpt = DataflowGenerator("dataflow-gpt", gpt_network)
llama = DataflowGenerator("dataflow-llama", llama_network, chip="sn40l", purpose="decode")
engine = DataflowGenerator("dataflow-engine", engine_network, chip="sn40l", purpose="decode")
dlrm = DataflowGenerator("dataflow-dlrm", dlrm_network, batch=16_384)
hpl = DataflowGenerator("dataflow-hpl", hpl_network, batch=1024)
fft = DataflowGenerator("dataflow-fft", fft_network, batch=1024)
moe = DataflowGenerator("dataflow-moe", moe_network)
resnets = DataflowGenerator("dataflow-resnet", resnet_network, purpose="prefill", stages="kernels")
vit = DataflowGenerator("dataflow-vit", vit_network, purpose="prefill")
dit = DataflowGenerator("dataflow-dit", dit_network, purpose="prefill")
explicit = DataflowGenerator("dataflow-explicit", explicit_network)
