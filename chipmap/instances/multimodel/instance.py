"""The records of family ``multimodel``: models, module and task (MultiInstance), and a schedule (MultiSolution).

The problem is stated in ``docs/families/multimodel.md``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import msgspec

from chipmap.instances.multimodel.places import Asked, Places, checked_places
from chipmap.instances.multimodel.rates import check_rates
from chipmap.records import InputError, Record, counted

Objective = Literal["latency", "energy", "weighted", "edp", "frames"]
#: Who pays for a transfer between chiplets with its time: the sender, or both ends.
Charge = Literal["sender", "both"]

#: Larger counts, bytes and costs are taken for mistakes (they keep sums within 64 bits).
MAX_WINDOWS, MAX_LAYERS, MAX_BATCH, MAX_AMOUNT = 64, 5_000, 10**6, 10**15
#: Where a chiplet may be drawn, from the origin.
MAX_PLACE = 10**6
#: What sums of times (ns) and energies (pJ) of a schedule stay below.
MAX_TOTAL = 2**62


class Layer(Record, frozen=True, kw_only=True):
    """A layer of a chain.

    Bytes per sample: ``in_bytes`` are read where a window begins with the layer, ``out_bytes`` cross a cut behind it
    (skip connections over the cut included). ``weight_bytes`` once. ``costs``: (ns, pJ) per sample by class of chiplet.
    """

    name: str
    in_bytes: int = 0
    weight_bytes: int = 0
    out_bytes: int = 0
    costs: dict[str, tuple[int, int]]


class Model(Record, frozen=True, kw_only=True):
    """A model: ``layers`` in the order of the chain, run on ``batch`` samples, ``mini_batch`` at a time.

    ``deadline_ns``: when its last window's work must be done, counted from the start of the first window.

    For objective ``frames``: ``frames_per_s`` frames come per second, each ``release_ns`` late, and are to be done
    ``deadline_ns`` after that (None: a period of the model). A frame follows the frame with its number of the model
    ``after``. One that is dropped costs ``frame_weight``.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("frames_per_s", "release_ns", "after", "frame_weight")

    name: str
    batch: int = 1
    mini_batch: int = 1
    deadline_ns: int | None = None
    layers: tuple[Layer, ...]
    frames_per_s: float | None = None
    release_ns: int = 0
    after: str | None = None
    frame_weight: int = 1


class Chiplet(Record, frozen=True, kw_only=True):
    """A chiplet of a class (``class`` in JSON), ``hops`` links away from the nearest interface to DRAM."""

    name: str
    kind: str = msgspec.field(name="class")
    hops: int
    x: int = 0
    y: int = 0
    sram_bytes: int | None = None


class Module(Record, frozen=True, kw_only=True):
    """Chiplets and the ``links`` between them (each in both directions), with rates and energies per byte.

    What the segments of a window share, where given: ``shared_dram_bytes_per_ns`` of the whole module from and to DRAM,
    ``shared_link_bytes_per_ns`` of each link and direction. ``static_watts``: what the module takes at all times.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("shared_dram_bytes_per_ns", "shared_link_bytes_per_ns", "static_watts")

    chiplets: tuple[Chiplet, ...]
    links: tuple[tuple[str, str], ...] = ()
    nop_bytes_per_ns: float = 100.0
    dram_bytes_per_ns: float = 64.0
    hop_ns: int = 35
    dram_ns: int = 200
    hop_pj_per_byte: float = 16.32
    dram_pj_per_byte: float = 118.4
    shared_dram_bytes_per_ns: float | None = None
    shared_link_bytes_per_ns: float | None = None
    static_watts: float = 0.0


class Task(Record, frozen=True, kw_only=True):
    """What is asked: the objective, at most ``windows`` windows, limits.

    ``watts`` weighs latency in the objective ``weighted``.
    """

    objective: Objective = "edp"
    windows: int = 5
    latency_limit_ns: int | None = None
    energy_limit_pj: int | None = None
    watts: float = 1.0
    charge: Charge = "sender"


class Pin(Record, frozen=True, kw_only=True):
    """Layer ``layer`` (``model/layer``) must run on ``chiplet``, in whatever window."""

    layer: str
    chiplet: str


class Forbidden(Record, frozen=True, kw_only=True):
    """Layer ``layer`` (``model/layer``) must run on none of ``chiplets``."""

    layer: str
    chiplets: tuple[str, ...]


class MultiInstance(Record, frozen=True, kw_only=True):
    """One problem: models to run on a module, and the task.

    C6: ``pins`` and ``forbidden`` chiplets; layers of a group of ``together`` share a chiplet, no two of a group of
    ``apart`` do.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("pins", "forbidden", "together", "apart")

    schema: Literal["multimodel/1"] = "multimodel/1"
    name: str
    task: Task = Task()
    models: tuple[Model, ...]
    module: Module
    notes: str = ""
    pins: tuple[Pin, ...] = ()
    forbidden: tuple[Forbidden, ...] = ()
    together: tuple[tuple[str, ...], ...] = ()
    apart: tuple[tuple[str, ...], ...] = ()

    def check(self) -> None:
        """Raise :class:`InputError` for anything that the types alone don't exclude."""
        _check_task(self.task)
        check_module(self.module)
        if not self.models:
            raise InputError("there is no model", "models", "Give at least one.")
        _unique((model.name for model in self.models), "models")
        kinds = sorted({chiplet.kind for chiplet in self.module.chiplets})
        for i, model in enumerate(self.models):
            _check_model(model, kinds, f"models[{i}]")
        if asked_places(self).any:
            places_of(self)
        if self.task.objective == "frames":
            check_rates(self)


class Piece(Record, frozen=True, kw_only=True):
    """Layers ``first`` to ``last`` of ``model`` (positions from 0) on ``chiplet``: a segment."""

    model: str
    first: int
    last: int
    chiplet: str


class FrameRun(Record, frozen=True, kw_only=True):
    """Frame number ``frame`` (from 0) of ``model``: when each of the model's segments begins it, in ns."""

    model: str
    frame: int
    starts: tuple[int, ...]


class MultiSolution(Record, frozen=True, kw_only=True):
    """A schedule: for each window its segments, in any order.

    For objective ``frames`` there is one window, and ``frames`` are those of a hyperperiod that are run.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("frames",)

    schema: Literal["multimodel-solution/1"] = "multimodel-solution/1"
    instance: str = ""
    windows: tuple[tuple[Piece, ...], ...]
    frames: tuple[FrameRun, ...] = ()


def asked_places(instance: MultiInstance) -> Asked:
    """What C6 asks for."""
    pins = tuple((pin.layer, pin.chiplet) for pin in instance.pins)
    forbidden = tuple((one.layer, one.chiplets) for one in instance.forbidden)
    return Asked(pins, forbidden, instance.together, instance.apart)


def places_of(instance: MultiInstance) -> Places:
    """Where C6 lets layers run."""
    layers = [f"{model.name}/{layer.name}" for model in instance.models for layer in model.layers]
    return checked_places(asked_places(instance), layers, [chiplet.name for chiplet in instance.module.chiplets])


def of_models(instance: MultiInstance, which: tuple[int, ...]) -> MultiInstance:
    """Some of the models alone (positions), with what C6 asks of their layers."""
    models = tuple(instance.models[m] for m in which)
    names = {f"{model.name}/{layer.name}" for model in models for layer in model.layers}
    together, apart = (
        tuple(kept for group in groups if len(kept := tuple(name for name in group if name in names)) > 1)
        for groups in (instance.together, instance.apart)
    )
    pins = tuple(pin for pin in instance.pins if pin.layer in names)
    forbidden = tuple(one for one in instance.forbidden if one.layer in names)
    return instance.replace(models=models, pins=pins, forbidden=forbidden, together=together, apart=apart)


def in_force(instance: MultiInstance) -> frozenset[str]:
    """The labels that matter: C4 only with a limit or deadline, C5 only where a chiplet's SRAM is limited, C6 only with
    pins, forbidden chiplets or groups. For objective ``frames`` C7 and T3 do, C8 where a model comes after another, and
    T1 doesn't."""
    task = instance.task
    limits = [task.latency_limit_ns, task.energy_limit_pj, *(model.deadline_ns for model in instance.models)]
    found = {"C0", "C1", "C2", "C3", "T2"}
    found |= {"C4", "C7", "T3"} if task.objective == "frames" else {"T1"}
    after = task.objective == "frames" and any(model.after is not None for model in instance.models)
    found |= {"C8"} if after else set()
    found |= {"C4"} if any(limit is not None for limit in limits) else set()
    found |= {"C5"} if any(chiplet.sram_bytes is not None for chiplet in instance.module.chiplets) else set()
    found |= {"C6"} if asked_places(instance).any else set()
    return frozenset(found)


def _unique(names: Iterable[str], where: str) -> None:
    seen: set[str] = set()
    for i, name in enumerate(names):
        if name in seen:
            raise InputError(f"{name!r} is named twice", f"{where}[{i}].name", "Give each a name of its own.")
        seen.add(name)


def _within(value: Any, low: int, high: int, where: str) -> None:
    if value is not None and not low <= value <= high:
        raise InputError(f"is {value:,}", where, f"Give {low:,} to {high:,}.")


def _check_task(task: Task) -> None:
    _within(task.windows, 1, MAX_WINDOWS, "task.windows")
    _within(task.latency_limit_ns, 0, MAX_TOTAL, "task.latency_limit_ns")
    _within(task.energy_limit_pj, 0, MAX_TOTAL, "task.energy_limit_pj")
    _within(task.watts, 0, 10**6, "task.watts")


def check_module(module: Module) -> None:
    """Raise :class:`InputError` for a module that no instance can have."""
    if not module.chiplets:
        raise InputError("there is no chiplet", "module.chiplets", "Give at least one.")
    _unique((chiplet.name for chiplet in module.chiplets), "module.chiplets")
    for i, chiplet in enumerate(module.chiplets):
        _within(chiplet.hops, 0, 10**4, f"module.chiplets[{i}].hops")
        for place in ("x", "y"):
            _within(getattr(chiplet, place), -MAX_PLACE, MAX_PLACE, f"module.chiplets[{i}].{place}")
        _within(chiplet.sram_bytes, 0, MAX_AMOUNT, f"module.chiplets[{i}].sram_bytes")
    names, seen = {chiplet.name for chiplet in module.chiplets}, set()
    for i, link in enumerate(module.links):
        for name in link:
            if name not in names:
                raise InputError(f"no chiplet is called {name!r}", f"module.links[{i}]", "Use a name from chiplets.")
        if link[0] == link[1]:
            raise InputError(f"{link[0]!r} is linked to itself", f"module.links[{i}]", "Leave the link out.")
        if frozenset(link) in seen:
            what = f"{link[0]!r} and {link[1]!r} are linked twice"
            raise InputError(what, f"module.links[{i}]", "A link leads both ways: name it once.")
        seen.add(frozenset(link))
    for name in ("nop_bytes_per_ns", "dram_bytes_per_ns", "shared_dram_bytes_per_ns", "shared_link_bytes_per_ns"):
        rate = getattr(module, name)
        if rate is not None and not 1e-6 <= rate <= 1e9:
            raise InputError(f"is {rate}", f"module.{name}", "Give 1e-6 to 1e9 bytes per ns.")
    _within(module.static_watts, 0, 10**6, "module.static_watts")
    for name in ("hop_ns", "dram_ns"):
        _within(getattr(module, name), 0, 10**9, f"module.{name}")
    for name in ("hop_pj_per_byte", "dram_pj_per_byte"):
        value = getattr(module, name)
        if not 0 <= value <= 10**6 or abs(value * 100 - round(value * 100)) > 1e-6:
            raise InputError(f"is {value}", f"module.{name}", "Give 0 to 1e6 pJ with at most two decimals.")


def _check_model(model: Model, kinds: list[str], where: str) -> None:
    if not 1 <= len(model.layers) <= MAX_LAYERS:
        raise InputError(
            f"{model.name!r} has {len(model.layers)} layers", f"{where}.layers", f"Give 1 to {MAX_LAYERS}."
        )
    _within(model.batch, 1, MAX_BATCH, f"{where}.batch")
    _within(model.deadline_ns, 0, MAX_TOTAL, f"{where}.deadline_ns")
    if not 1 <= model.mini_batch <= model.batch or model.batch % model.mini_batch:
        what = f"{counted(model.mini_batch, 'sample')} at a time of {model.batch}"
        raise InputError(what, f"{where}.mini_batch", "Give a divisor of the batch.")
    _unique((layer.name for layer in model.layers), f"{where}.layers")
    for i, layer in enumerate(model.layers):
        here = f"{where}.layers[{i}]"
        for name in ("in_bytes", "weight_bytes", "out_bytes"):
            _within(getattr(layer, name), 0, MAX_AMOUNT, f"{here}.{name}")
        for kind in kinds:
            if kind not in layer.costs:
                what = f"layer {layer.name!r} of {model.name!r} has no cost on chiplets of class {kind!r}"
                remedy = "Give [ns, pJ] per sample for each class of the module, or a file of costs (convert --costs)."
                raise InputError(what, f"{here}.costs", remedy)
        for kind, pair in layer.costs.items():
            for cost in pair:
                _within(cost, 0, MAX_AMOUNT, f"{here}.costs.{kind}")


def small(instance: MultiInstance) -> bool:
    """Whether its kernels run as plain Python: all of the work is less than compiling or loading them."""
    layers = sum(len(model.layers) for model in instance.models)
    return layers <= 6 and len(instance.module.chiplets) <= 4 and instance.task.windows <= 3
