"""The shipped workloads by name: which generator makes each, and its parameters."""

from __future__ import annotations

from typing import Any

from chipmap.instances.dataflow import generators
from chipmap.instances.dataflow.generators import DataflowGenerator
from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.instances.dataflow.workloads.gpt import GPT
from chipmap.instances.dataflow.workloads.llama import LLAMA
from chipmap.instances.dataflow.workloads.moe import MIXTURES
from chipmap.instances.dataflow.workloads.vision import DIT, VIT
from chipmap.records import InputError, choices

#: Name of a workload -> (its generator, what that takes for it).
WORKLOADS: dict[str, tuple[DataflowGenerator, dict[str, Any]]] = {
    **{
        name: (generators.gpt, {"hidden": hidden, "heads": heads, "layers": layers})
        for name, (hidden, heads, layers) in GPT.items()
    },
    **{name: (generators.llama, {"model": name}) for name in LLAMA},
    **{name: (generators.moe, {"model": name}) for name in MIXTURES},
    **{name: (generators.vit, {"model": name}) for name in VIT},
    **{name: (generators.dit, {"model": name}) for name in DIT},
    "dlrm-793b": (generators.dlrm, {}),
    "hpl-5m": (generators.hpl, {}),
    "fft-2e40": (generators.fft, {}),
}


def preset(workload: str, **parameters: Any) -> DataflowInstance:
    """The instance of a shipped ``workload`` with these further parameters of its generator (system and task).

    Raises :class:`InputError` for a name that isn't one of ``WORKLOADS``, or a parameter that the generator hasn't.
    """
    if workload not in WORKLOADS:
        raise InputError(f"no workload is called {workload!r}", "workload", choices(workload, WORKLOADS))
    generator, own = WORKLOADS[workload]
    return generator(**(own | parameters))
