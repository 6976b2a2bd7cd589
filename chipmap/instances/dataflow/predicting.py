"""Which shipped profile predicts what an instance on a data sheet's machine takes, and how far that is off elsewhere.

``docs/families/dataflow-machines.md``, "A prediction beside the limit".
"""

from __future__ import annotations

from typing import Any, NamedTuple

from chipmap.instances.dataflow.equipping import utilisation
from chipmap.instances.dataflow.formats import BITS, Format
from chipmap.instances.dataflow.instance import DataflowInstance, Task
from chipmap.instances.dataflow.machines import MACHINES
from chipmap.instances.dataflow.profiles import ENDINGS, PROFILED
from chipmap.instances.dataflow.system import System
from chipmap.records import InputError, kept, listed

#: Most forward kernels of a layer in the rows that profiles are fitted to or judged by: engines fuse the others.
FUSED_KERNELS = 11
_TENSORRT = (
    "https://github.com/NVIDIA/TensorRT-LLM/blob/77d24b5fa178f11ed7fafdd9833b7245e075f721/docs/source/performance.md"
)
_PALM = "Pope et al., Efficiently Scaling Transformer Inference, 2022, tables 2 and 3 and section 4.4"
_CARD = "benchmarks/results/calibrated-machines.md"


class Judged(NamedTuple):
    """What a profile is fitted to: words, formats, and where its links count as known: within the first dimension
    (1), over all of them (5), or on one chip alone (0); then measured rows that it isn't fitted to, the median and the
    largest relative error of these, and the source."""

    engine: str
    formats: frozenset[Format]
    dimensions: int
    rows: int
    median: float
    worst: float
    source: str


_PURPOSE = {"training": "training", "prefill": "a prefill", "decode": "decoding"}
_HALF: frozenset[Format] = frozenset({"bf16", "fp16"})
_KERNELS = "PyTorch's kernels in bf16 on one card"
#: By the name of the profiled machine; ``tests/dataflow/test_profiles.py`` computes what it can of them anew.
JUDGED = {
    "h100-sxm-typical": Judged(
        "an engine of 2023, TensorRT-LLM v0.5 and v0.6 in fp8", frozenset({"fp8"}), 1, 12, 0.074, 0.262, _TENSORRT
    ),
    "a100-80gb-typical": Judged(
        "an engine of 2023, TensorRT-LLM v0.5 and v0.6 in fp16", _HALF, 1, 11, 0.099, 0.298, _TENSORRT
    ),
    "tpu-v4-typical": Judged(
        "PaLM's inference in bf16 and int8", _HALF | frozenset({"int8"}), 5, 4, 0.107, 0.378, _PALM
    ),
    "h100-sxm-calibrated": Judged(_KERNELS, _HALF, 0, 15, 0.018, 0.125, _CARD),
    "h200-calibrated": Judged(_KERNELS, _HALF, 0, 15, 0.028, 0.136, _CARD),
}


class Predicted(NamedTuple):
    """The instance on the profiled machine, the profile's name and record, and what it isn't fitted to, in words."""

    instance: DataflowInstance
    profile: str
    judged: Judged
    beyond: str

    @property
    def facts(self) -> dict[str, Any]:
        """The fields of :class:`chipmap.certificate.Prediction` that no time is needed for."""
        engine, _, _, *errors, source = self.judged
        named = dict(zip(("rows", "median_error", "worst_error"), errors, strict=True))
        return {"profile": self.profile, "fitted_to": engine, "beyond": self.beyond, "source": source, **named}


def is_limit(instance: DataflowInstance) -> bool:
    """Whether the data sheet's time of an instance is a limit: in mode ``physical`` with at least the usual
    utilisation, as a lower one was measured somewhere; mode ``dfmodel`` has the costs of a paper."""
    share = instance.task.utilisation
    return instance.mode == "physical" and (share is None or share >= (Task().utilisation or 0))


def origin(system: System) -> str:
    """The shipped machine that ``system`` is by its name and all numbers that times depend on; "" for any other.

    The sizes of its dimensions are free, and so are capacities, prices and powers.
    """
    name = next((name for name in MACHINES if system.name.startswith(f"{name}-")), "")
    if not name or system.others:
        return ""
    try:
        shipped = MACHINES[name].system(name, [one.size for one in system.network])
    except InputError:
        return ""
    return name if _timed(system) == _timed(shipped) else ""


def _timed(system: System) -> System:
    """What times depend on, of chips that hold no weights in their SRAM."""
    free = {"usd_per_gbps": 0.0, "watts_per_gbps": 0.0}
    chip = system.chip
    if chip.streams:
        chip = chip.replace(sram_bytes=1)
    network = [one.replace(size=1, links_per_chip=0.0, **free) for one in system.network]
    memory = system.memory.replace(name="", capacity_bytes=None, **free)
    chip = chip.replace(name="", price_usd=0.0, watts=0.0)
    return system.replace(name="", notes="", chip=chip, memory=memory, network=network)


def predicted(instance: DataflowInstance) -> Predicted | str:
    """The instance as its machine's profile prices it; else why not, in a few words ("": nothing is shipped for it).

    A step that serves takes the typical profile, training the calibrated one; a step without the first takes the
    second. A calibrated one tells products of 16 bits alone.
    """
    return kept(instance, "_predicted", _predicted)


def _predicted(instance: DataflowInstance) -> Predicted | str:
    name = origin(instance.system) if is_limit(instance) else ""
    known = [f"{name}{ending}" for ending, machines in ENDINGS.items() if name in machines]
    if not known:
        return ""
    computes, serves = _computes(instance), instance.task.purpose != "training"
    if not _is_language(instance):
        return f"{listed(known)} {_tell(known)} of language models alone"
    for full in known:
        judged, typical = JUDGED[full], full.endswith("-typical")
        if not (serves if typical else computes in _HALF):
            continue
        system = PROFILED[full][1].on(instance.system)
        task = instance.task.replace(utilisation=utilisation(system, instance.task.utilisation))
        changed = instance.replace(system=system, task=task)
        try:
            changed.check()
        except InputError:
            continue
        return Predicted(changed, full, judged, _beyond(instance, judged, computes))
    purpose = _PURPOSE[instance.task.purpose]
    return f"{listed(known)} {_tell(known)} nothing of {purpose} in {computes or 'this format'} here"


def _is_language(instance: DataflowInstance) -> bool:
    """Whether layers count tokens and have attention: a product of two activations."""
    products = (one for one in instance.workload.kernels if one.kind == "gemm" and one.phase == "forward")
    return instance.workload.counted == "tokens" and any(not one.has_parameters for one in products)


def _tell(known: list[str]) -> str:
    return "tells" if len(known) == 1 else "tell"


def _computes(instance: DataflowInstance) -> Format:
    """The widest format of weights and activations; where none is named, bf16 for words of two bytes, "" for others."""
    workload = instance.workload
    named = [one for one in (workload.activation_format, workload.weight_format) if one]
    if named:
        return max(named, key=BITS.__getitem__)
    return "bf16" if workload.word_bytes == 2 else ""


def _beyond(instance: DataflowInstance, judged: Judged, computes: Format) -> str:
    """What of the instance the profile isn't fitted to, in words; "" where nothing of it is known to be."""
    used = [one.size > 1 for one in instance.system.network]
    links = "links between chips" if judged.dimensions == 0 else "links between nodes"
    beyond: list[str] = [*([computes or "this format"] if computes not in judged.formats else [])]
    beyond += [links] if any(used[judged.dimensions :]) else []
    forward = sum(one.phase == "forward" for one in instance.workload.kernels)
    beyond += (
        [f"layers of {forward} kernels (an engine fuses them to {FUSED_KERNELS} at most, and is faster)"]
        if forward > FUSED_KERNELS
        else []
    )
    beyond += ["experts"] if any(one.experts for one in instance.workload.kernels) else []
    return listed(beyond, len(beyond))
