"""Named generators of wafer instances: a network of :mod:`chipmap.instances.wafer.networks` on a fabric."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chipmap.instances.generator import NamedGenerator
from chipmap.instances.wafer import networks
from chipmap.instances.wafer.instance import Fabric, Protocol, WaferInstance, Weights
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


class WaferGenerator(NamedGenerator[Setting]):
    """Makes wafer instances from keyword parameters: those of ``network`` and those of :class:`Setting`."""

    def __init__(self, name: str, network: Callable[..., KernelGraph], **defaults: Any) -> None:
        super().__init__(name, network, Setting, **defaults)

    def __call__(self, **parameters: Any) -> WaferInstance:
        """The instance with these parameters. Raises :class:`InputError` that names the valid ones."""
        setting, own = self.read(parameters)
        graph = self.network(**own)
        instance = WaferInstance.make(
            name=setting.name or f"{self.name}-{sum(kernel.placed for kernel in graph.kernels)}",
            kernels=graph.kernels,
            edges=graph.edges,
            fabric=Fabric(width=setting.width, height=setting.height, memory_words=setting.memory_words),
            weights=Weights(time=setting.time_weight, wire=setting.wire_weight, adapter=setting.adapter_weight),
            protocol=setting.protocol,
            notes=setting.notes,
        )
        instance.check()
        return instance


resnet = WaferGenerator("wafer-resnet", networks.resnet)
unet = WaferGenerator("wafer-unet", networks.unet)
fully_connected = WaferGenerator("wafer-fc", networks.fully_connected)
bert = WaferGenerator("wafer-bert", networks.transformer)
gpt2 = WaferGenerator("wafer-gpt2", networks.transformer, layers=12, hidden=768, heads=12, vocabulary=50_257)
explicit = WaferGenerator("wafer-explicit", networks.explicit)
