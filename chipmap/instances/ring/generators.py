"""Named generators of ring instances: a network of :mod:`chipmap.instances.networks` on a package."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import msgspec

from chipmap.instances import networks
from chipmap.instances.graph import OperationGraph
from chipmap.instances.ring.instance import CostMode, Forbidden, Label, Package, Pin, RingInstance, Traffic
from chipmap.records import InputError, Record

_MIB = 1024 * 1024
_REMEDY = "docs/instances.md lists the parameters with their types and ranges."


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

    def package(self) -> Package:
        """The package, with SRAM in bytes."""
        if not 0 <= self.sram_mib <= 1e9:
            raise InputError(f"is {self.sram_mib}", "sram_mib", "Give 0 or more MiB (at most 1e9).")
        shared = set(Package.__struct_fields__) & set(Setting.__struct_fields__)
        return Package(sram_bytes=round(self.sram_mib * _MIB), **{field: getattr(self, field) for field in shared})


class InstanceGenerator:
    """Makes ring instances from keyword parameters: those of ``network`` and those of :class:`Setting`.

    ``defaults`` are the generator's own, where they differ. A parameter that doesn't exist or has the wrong type or
    range raises :class:`InputError` that names the valid ones.
    """

    def __init__(self, name: str, network: Callable[..., OperationGraph], **defaults: Any) -> None:
        self.name, self.network, self.defaults = name, network, defaults
        self.__doc__ = network.__doc__

    def parameters(self) -> dict[str, Any]:
        """Every parameter with its default (``inspect.Parameter.empty`` where one must be given)."""
        own = {p.name: p.default for p in inspect.signature(self.network).parameters.values()}
        return own | msgspec.structs.asdict(Setting()) | self.defaults

    def __call__(self, **parameters: Any) -> RingInstance:
        """The instance with these parameters."""
        known = self.parameters()
        for name in parameters:
            if name not in known:
                raise InputError(f"{self.name} has no parameter {name!r}", "parameters", f"It has: {', '.join(known)}.")
        given = self.defaults | parameters
        for name, default in known.items():
            if default is inspect.Parameter.empty and name not in given:
                raise InputError("is missing", f"{self.name}: {name}", _REMEDY)
        checked = self._checked(given)
        settings = {name: checked.pop(name) for name in Setting.__struct_fields__ if name in checked}
        setting = Setting(**settings)
        shared = set(RingInstance.__struct_fields__) & set(Setting.__struct_fields__) - {"name"}
        instance = RingInstance.make(
            name=setting.name or f"{self.name}-{setting.chips}",
            graph=self.network(**checked),
            package=setting.package(),
            **{field: getattr(setting, field) for field in shared},
        )
        instance.check()
        return instance

    def _checked(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters, converted to the types and checked against the ranges of their annotations."""
        hints = get_type_hints(self.network, include_extras=True) | get_type_hints(Setting)
        checked = {}
        for name, value in parameters.items():
            try:
                checked[name] = msgspec.convert(value, hints[name])
            except msgspec.ValidationError as error:
                raise InputError(f"{error} (given: {value!r})", f"{self.name}: {name}", _REMEDY) from None
            if isinstance(value, float) and not math.isfinite(value):
                raise InputError(f"is {value}", f"{self.name}: {name}", "Give a finite number.")
        return checked


bert_large = InstanceGenerator("bert-large", networks.bert_encoder, sram_mib=64.0)
gpt2 = InstanceGenerator("gpt2", networks.gpt2, sram_mib=96.0)
resnet50 = InstanceGenerator("resnet50", networks.resnet)
densenet121 = InstanceGenerator("densenet121", networks.densenet)
unet = InstanceGenerator("unet", networks.unet, sram_mib=96.0)
rnn = InstanceGenerator("rnn", networks.rnn)
chain = InstanceGenerator("chain", networks.chain)
random = InstanceGenerator("random", networks.random_dag)
explicit = InstanceGenerator("explicit", networks.explicit)
