"""Named generators of wafer instances: a network of :mod:`chipmap.instances.wafer.networks` on a fabric."""

from __future__ import annotations

from chipmap.instances.generator import NamedGenerator
from chipmap.instances.wafer import networks
from chipmap.instances.wafer.fabric import Fabric
from chipmap.instances.wafer.instance import Protocol, WaferInstance, Weights
from chipmap.instances.wafer.networks import KernelGraph
from chipmap.records import Record


class Setting(Record, frozen=True, kw_only=True):
    """What every generator takes beside the parameters of its network: the fabric, the weights, the adapters' rule.

    ``name`` is the instance's name (empty: the generator's, with the number of kernels to place).
    """

    name: str = ""
    width: int = 633
    height: int = 633
    memory_words: int = 24_576
    time_weight: int = 1
    wire_weight: int = 1
    adapter_weight: int = 0
    protocol: Protocol = "c_n"
    notes: str = ""

    def instance(self, generator: str, graph: KernelGraph) -> WaferInstance:
        """The instance of ``graph``."""
        return WaferInstance.make(
            name=self.name or f"{generator}-{sum(kernel.placed for kernel in graph.kernels)}",
            kernels=graph.kernels,
            edges=graph.edges,
            fabric=Fabric(width=self.width, height=self.height, memory_words=self.memory_words),
            weights=Weights(time=self.time_weight, wire=self.wire_weight, adapter=self.adapter_weight),
            protocol=self.protocol,
            notes=self.notes,
        )


class WaferGenerator(NamedGenerator[WaferInstance]):
    """Makes wafer instances: a kernel graph, with a :class:`Setting`."""

    setting = Setting


resnet = WaferGenerator("wafer-resnet", networks.resnet)
unet = WaferGenerator("wafer-unet", networks.unet)
fully_connected = WaferGenerator("wafer-fc", networks.fully_connected)
bert = WaferGenerator("wafer-bert", networks.transformer)
gpt2 = WaferGenerator("wafer-gpt2", networks.transformer, layers=12, hidden=768, heads=12, vocabulary=50_257)
explicit = WaferGenerator("wafer-explicit", networks.explicit)
