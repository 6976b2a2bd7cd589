"""From a published graph to a placement instance: one sample's step on two devices, or on a system of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from chipmap.instances import grain
from chipmap.instances.measured import times
from chipmap.instances.optimizer import Optimizer
from chipmap.instances.placement.instance import PlacementInstance, Task
from chipmap.instances.placement.operands import FROZEN
from chipmap.instances.placement.presets import preset
from chipmap.instances.placement.presets import system as named
from chipmap.instances.placement.training import WORD, Recipe, training
from chipmap.networks.importers.common import UNSEEN_COPIES, ImportedGraph
from chipmap.records import InputError, choices, counted

#: Formats measured on devices, mostly for whole training batches: their tensors say nothing of a device's memory.
PROFILES = frozenset({"pipedream", "dnn-partitioning", "piper"})
#: The system of a converted graph, and what its notes say of it.
SYSTEM, DEVICES = "p100-pcie", 2
NOTE = f"on {DEVICES} devices of preset {SYSTEM} unless --system says otherwise"


def from_graph(imported: ImportedGraph, name: str) -> PlacementInstance:
    """The instance of ``imported`` on two P100 over PCIe, with its measured times and groups, minimising the step.

    Memory is limited over time, except for profiles; ``notes`` says so.
    """
    notes = (*imported.notes, NOTE)
    profile = imported.format in PROFILES
    if profile:
        notes = (*notes, "the memory rule is 'none' unless asked for: the tensors are those of whole batches")
    system = preset(SYSTEM, DEVICES)
    kind = system.classes[0].name
    instance = PlacementInstance.make(
        name=name,
        task=Task(memory="none" if profile else "live"),
        graph=imported.graph.without_loops(),
        system=system,
        time_ns={} if imported.time_ns is None else {kind: imported.time_ns},
        together=imported.together,
        notes="; ".join(notes),
        scopes=imported.scopes,
        states=dict(imported.states),
        module_classes=dict(imported.classes),
        word_bytes=_word(imported),
    )
    instance.check()
    return instance


def _word(imported: ImportedGraph) -> int:
    """Bytes of the mean parameter; 4 where nothing is known of any."""
    totals = imported.totals
    return min(max(1, round(totals.bytes / totals.numbers)), 8) if totals is not None and totals.numbers else WORD


def equip(instance: PlacementInstance, system: str = "", costs: Sequence[str] = ()) -> PlacementInstance:
    """The instance on another system: that of a file, or of a name such as ``p100-nvlink-4``; with measured times of
    its operations from tables ``costs`` (:mod:`chipmap.instances.measured`).

    Measured times that the instance has stay with the class of that name. Those of one class become those of the only
    class of the new system.
    """
    found = _on_system(instance, system) if system else instance
    if not costs:
        return found
    classes = tuple(one.name for one in found.system.classes)
    told = times(found.graph, found.scopes, costs, classes)
    none = (None,) * len(found.graph.operations)
    merged = {
        kind: tuple(old if new is None else new for old, new in zip(found.time_ns.get(kind, none), given, strict=True))
        for kind, given in told.by_class.items()
    }
    notes = "; ".join(filter(None, (found.notes, told.note)))
    return found.replace(time_ns=found.time_ns | merged, notes=notes, time_spread=told.spread or ())


def _on_system(instance: PlacementInstance, system: str) -> PlacementInstance:
    found, measured, renamed = named(system), dict(instance.time_ns), ""
    known = {one.name for one in found.classes}
    if measured and not known & measured.keys():
        if len(measured) > 1 or len(known) > 1:
            what = f"the times are those of class {' and '.join(map(repr, measured))}, which the system hasn't"
            raise InputError(what, "--system", f"Call the class of the system so that has them ({', '.join(known)}?).")
        (old,), (new,) = measured, known
        measured, renamed = {new: measured[old]}, f"measured times are taken as those of class {new!r}"
    measured = {kind: times for kind, times in measured.items() if kind in known}
    notes = [note for note in instance.notes.split("; ") if note and note != NOTE]
    notes += [f"on system {system}", *([renamed] if renamed else [])]
    return instance.replace(system=found, time_ns=measured, notes="; ".join(notes))


@dataclass(frozen=True)
class Changed:
    """A changed instance, and what the change adds (what -> how many)."""

    instance: PlacementInstance
    report: dict[str, int]


def training_step(
    instance: PlacementInstance, names: Sequence[str] = (), optimizer: str = "", recompute: Sequence[str] = ()
) -> Changed:
    """The training step of an instance's forward graph (:mod:`chipmap.instances.placement.training`), on its system.

    ``optimizer``: ``NAME[:BYTES][:master]``, such as ``momentum``, ``adam:1`` or ``adam:4:master``. ``recompute`` names
    modules as ``no_split`` does: what they make inside is computed again for their gradients, and not kept.
    """
    recipe = _recipe(optimizer, instance.word_bytes)
    remedy = "Give the forward graph without them."
    if instance.backward:
        raise InputError("has gradients already: it names backward operations", "backward", "Take it as it is.")
    if UNSEEN_COPIES in instance.notes:
        remedy = "Save `program.run_decompositions({})`, which has them as operators, and convert that. "
        remedy += "It drops torch.no_grad: freeze parameters that only run there before the export."
        raise InputError(f"{UNSEEN_COPIES}: a training step keeps them", instance.name, remedy)
    if instance.time_ns or instance.transfer_ns:
        where = "time_ns" if instance.time_ns else "transfer_ns"
        raise InputError("measured times say nothing of gradients", where, f"Times follow from FLOP then. {remedy}")
    lost = {pin.operation for pin in instance.pins} | {one.operation for one in instance.forbidden}
    lost |= {name for group in (*instance.together, *instance.apart) for name in group}
    again = grain.named(instance, recompute, "--recompute") if recompute else ()
    step = training(instance.graph, recipe, again)
    said = [f"computed again for gradients: {', '.join(recompute)} ({counted(len(again), 'module')})"] if again else []
    names_now = {one.name for one in step.graph.operations}
    gone = sorted(lost - names_now)
    if gone:
        raise InputError(
            f"{gone[0]!r} isn't part of a training step", "pins, forbidden, together or apart", "Leave it out."
        )
    scopes = dict(zip((one.name for one in instance.graph.operations), instance.scopes, strict=False))
    changed = instance.replace(
        task=instance.task.replace(weights="variable"),
        graph=step.graph,
        together=(*instance.together, *step.together),
        backward=step.backward,
        scopes=tuple(_scope(one.name, scopes) for one in step.graph.operations) if scopes else (),
        states=_states(instance, names_now),
        notes="; ".join([*filter(None, [instance.notes]), "a training step made of the forward graph", *said]),
    )
    backward = len(step.backward)
    return Changed(changed, {"operations of the backward pass": backward, "weights placed": len(step.together)})


def _recipe(text: str, word: int) -> Recipe:
    """The recipe of an optimiser as it is written, for weights of so many bytes a number."""
    if not text:
        return Recipe(word_bytes=word)
    name, *rest = text.split(":")
    master = rest[-1:] == ["master"]
    width, *more = [*rest[: len(rest) - master], ""]
    if len(more) > 1 or not (width or "0").isdecimal() or len(width) > 9:
        what = f"is no optimiser: {text[:40]!r}"
        raise InputError(what, "optimizer", "Give NAME[:BYTES][:master]: momentum, adam:2, adam:4:master.")
    known: dict[str, Optimizer] = {one: one for one in get_args(Optimizer)}
    if name not in known:
        raise InputError(f"no optimiser is called {name[:40]!r}", "optimizer", choices(name, known))
    return Recipe("autograd", known[name], int(width) if width else None, master, word).checked()


def _states(instance: PlacementInstance, there: set[str]) -> dict[str, str]:
    """The operation of each parameter in the training step, whose operations are ``there``.

    It is a weight of its own, or that of its first reader; "" where nothing reads the parameter.
    """
    operations = instance.graph.operations
    position = {one.name: v for v, one in enumerate(operations)}
    readers = instance.graph.computing_readers({position[name] for name in instance.states.values() if name})
    found: dict[str, str] = {}
    for state, name in instance.states.items():
        first = next((operations[v].name for v in readers[position[name]]), "") if name else ""
        part = "frozen" if name and operations[position[name]].kind in FROZEN else "weight"
        found[state] = next((one for one in (name, f"{first}/{part}", first) if one in there), "")
    return found


def _scope(name: str, scopes: dict[str, str]) -> str:
    """The scope of an operation, or of the one that it is a gradient, a sum or an update of (``linear/gradient 3``)."""
    while name not in scopes and "/" in name:
        name = name.rpartition("/")[0]
    return scopes.get(name, "")
