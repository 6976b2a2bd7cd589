"""Named generators of ring instances: a network of :mod:`chipmap.networks.generators` on a package."""

from __future__ import annotations

import msgspec

from chipmap.instances.generator import NamedGenerator
from chipmap.instances.ring.instance import CostMode, Forbidden, Label, Package, Pin, RingInstance, Traffic
from chipmap.networks import generators as networks
from chipmap.networks.graph import OperationGraph
from chipmap.records import InputError, Record

_MIB = 1024 * 1024


class Setting(Record, frozen=True, kw_only=True):
    """What every generator takes beside the parameters of its network: the package and what is asked.

    ``sram_mib`` is the SRAM of a chip in MiB; the other names are those of :class:`Package` and :class:`RingInstance`.
    ``name`` is the instance's name (empty: the generator's, with the number of chips).
    """

    name: str = ""
    chips: int = 36
    sram_mib: float = 32.0
    link_bytes_per_ns: float | None = 32.0
    hop_ns: float = 1000.0
    flop_per_ns: float = 4000.0
    sram_bytes_per_ns: float = 200.0
    launch_ns: float = 0.0
    efficiency: dict[str, float] = {}
    cost_mode: CostMode = "period"
    traffic: Traffic = "in_out"
    constraints: tuple[Label, ...] = ("C1", "C2", "C3", "C4")
    pins: tuple[Pin, ...] = ()
    together: tuple[tuple[str, ...], ...] = ()
    forbidden: tuple[Forbidden, ...] = ()

    def instance(self, generator: str, graph: OperationGraph) -> RingInstance:
        """The instance of ``graph``; SRAM is in bytes there."""
        if not 0 <= self.sram_mib <= 1e9:
            raise InputError(f"is {self.sram_mib}", "sram_mib", "Give 0 or more MiB (at most 1e9).")
        own = msgspec.structs.asdict(self)
        package = {field: own[field] for field in Package.__struct_fields__ if field in own}
        return RingInstance.make(
            **{field: own[field] for field in RingInstance.__struct_fields__ if field in own}
            | {"name": self.name or f"{generator}-{self.chips}", "graph": graph.without_operands()},
            package=Package(sram_bytes=round(self.sram_mib * _MIB), **package),
        )


class InstanceGenerator(NamedGenerator[RingInstance]):
    """Makes ring instances: a network on a package, with a :class:`Setting`."""

    setting = Setting


bert_large = InstanceGenerator("bert-large", networks.bert_encoder, sram_mib=64.0)
gpt2 = InstanceGenerator("gpt2", networks.gpt2, sram_mib=96.0)
resnet50 = InstanceGenerator("resnet50", networks.resnet)
densenet121 = InstanceGenerator("densenet121", networks.densenet)
unet = InstanceGenerator("unet", networks.unet, sram_mib=96.0)
rnn = InstanceGenerator("rnn", networks.rnn)
decoder = InstanceGenerator("decoder", networks.decoder, sram_mib=1024.0)
t5 = InstanceGenerator("t5", networks.t5, sram_mib=96.0)
whisper = InstanceGenerator("whisper", networks.whisper, sram_mib=96.0)
mamba = InstanceGenerator("mamba", networks.mamba, sram_mib=96.0)
conv_tasnet = InstanceGenerator("conv-tasnet", networks.conv_tasnet)
coat = InstanceGenerator("coat", networks.coat)
mspn = InstanceGenerator("mspn", networks.mspn)
chain = InstanceGenerator("chain", networks.chain)
random = InstanceGenerator("random", networks.random_dag)
layered = InstanceGenerator("layered", networks.layered)
explicit = InstanceGenerator("explicit", networks.explicit)
