"""``convert --system``: an instance on another machine, a shipped one by its name or one's own from a file."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from chipmap.instances.dataflow.instance import DataflowInstance, Task
from chipmap.instances.dataflow.machines import MACHINES, machine
from chipmap.instances.dataflow.profiles import PROFILED
from chipmap.instances.dataflow.system import Group, Link, System
from chipmap.instances.dataflow.systems import CHIPS
from chipmap.instances.dataflow.systems import system as of_chips
from chipmap.instances.system_files import plain_system
from chipmap.records import InputError, choices
from chipmap.records.fields import from_json

_SIZES = re.compile(r"(?P<name>.+?)(?:-(?P<sizes>\d{1,9}(?:x\d{1,9}){0,9}))?")
#: Chips of a kind that isn't a machine, where no sizes are given.
_USUAL = (8,)


def on_system(instance: DataflowInstance, system: str = "") -> DataflowInstance:
    """The instance on another system: that of a file, or of a name such as ``h100-8x4`` (sizes of its dimensions)."""
    if not system:
        return instance
    notes, found = [note for note in instance.notes.split("; ") if note], named(system)
    task = instance.task.replace(utilisation=utilisation(found, instance.task.utilisation))
    return instance.replace(system=found, task=task, notes="; ".join([*notes, f"on system {system}"]))


def utilisation(system: System, asked: float | None) -> float | None:
    """``task.utilisation`` on a system: 1 where its chip states the shares that products reach, unless another than the
    usual one is asked for."""
    stated = system.chip.efficiency or system.chip.blocks
    return 1.0 if stated and asked == Task().utilisation else asked


def beside(own: System, names: Sequence[str], gbps: float, latency_ns: float) -> dict[str, Any]:
    """Further groups of these machines beside a system's own chips, and the links between groups; of one name the
    second group is called ``…#2``."""
    found, known = list[Group](), [own.name]
    for text in names:
        system = named(text)
        if len(system.network) > 1:
            raise InputError(
                f"{text!r} has several dimensions", "others", "Name a machine with one, such as h100-sxm-8."
            )
        count = known.count(system.name)
        name = system.name + (f"#{count + 1}" if count else "")
        found.append(Group(name=name, chip=system.chip, memory=system.memory, network=system.network[0]))
        known.append(system.name)
    return {"others": tuple(found), "between": Link(bytes_per_ns=gbps, latency_ns=latency_ns)}


def named(text: str) -> System:
    """The system in a file (the ``system`` of an instance in JSON, or an instance), or that of a name: a machine, or
    chips in a ring, with the sizes of its dimensions behind it."""
    if os.path.exists(text):
        found: System = from_json(System, msgspec.json.encode(plain_system(text, "dataflow")), text)
        return found
    parts = _SIZES.fullmatch(text)
    name, sizes = (parts["name"], parts["sizes"]) if parts else (text, None)
    if text in MACHINES or text in CHIPS or text in PROFILED:
        name, sizes = text, None
    known = tuple(map(int, sizes.split("x"))) if sizes else ()
    try:
        if name in MACHINES or name in PROFILED:
            return machine(name, known)
        if name in CHIPS:
            return of_chips(name, known or _USUAL)
    except InputError as error:
        raise InputError(error.what, "--system", error.remedy) from None
    remedy = choices(name, [*MACHINES, *PROFILED, *CHIPS], "Names are") + " Sizes may follow: -8x4."
    raise InputError(f"no file and no system is called {text!r}", "--system", remedy)
