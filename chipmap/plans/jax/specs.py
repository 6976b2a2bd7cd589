"""Layouts of parameters as JAX has them, a plan that leaves the rest open: each says which schemes its kernel may have.

Axes are rows (outputs), columns (inputs), or rows, experts, columns. Split rows are scheme OUTER or M, split columns K,
K_RS or K_N, split experts E, none N or NONE. A tensor that is split along two axes can't be stated here.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.instances.dataflow.sharding import schemes
from chipmap.instances.dataflow.workload import Kernel, Scheme
from chipmap.plans.jax.metadata import once
from chipmap.plans.plan import Plan
from chipmap.records import InputError, choices, counted, shown

#: Split axis (-1: none) -> the schemes in which parameters, or what a kernel makes, lie so.
_OF_PARAMETERS: dict[int, tuple[Scheme, ...]] = {
    0: ("OUTER", "M"),
    1: ("E",),
    2: ("K", "K_RS", "K_N"),
    -1: ("N", "NONE"),
}
_OF_INPUT: dict[int, tuple[Scheme, ...]] = {0: ("OUTER", "M"), 1: ("E",), 2: ("N",), -1: ("NONE",)}
_AXES = {0: "rows", 1: "experts", 2: "columns", -1: "nothing"}
_SPEC = re.compile(r"(?:jax\.sharding\.)?(?:P|PartitionSpec)\s*\((.*)\)\s*", re.DOTALL)
_REMEDY = 'Give parameter -> PartitionSpec, in JSON {"Q": ["x", null]}, or in Python {"Q": P("x", None)}.'


@dataclass(frozen=True)
class Specs:
    """What was read: the split axes of each parameter, and the size of each mesh axis, where it is said."""

    axes: dict[str, tuple[Any, ...]]
    mesh: dict[str, int]


def in_json(data: bytes) -> Specs | None:
    """The specs of a file in JSON; None: it has none."""
    try:
        plain = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(plain, dict):
        return None
    mesh = plain.get("mesh") if isinstance(plain.get("specs"), dict) else None
    table = plain["specs"] if isinstance(plain.get("specs"), dict) else plain
    axes = {name: _of_text(value) for name, value in table.items()}
    if not axes or any(value is None for value in axes.values()):
        return None
    return Specs({name: value for name, value in axes.items() if value is not None}, _mesh(mesh))


def in_python(values: Mapping[str, ast.expr], where: str) -> Specs | None:
    """The specs of a file of Python: its table SPECS, or the first that has some; None: it has none."""
    if "MESH" in values:
        once("MESH", values["MESH"], where)
    mesh = _literal(values["MESH"]) if "MESH" in values else None
    if mesh is None and "CHIPS" in values and isinstance(size := _literal(values["CHIPS"]), int):
        mesh = {"x": size}
    first = {"SPECS": values["SPECS"]} if "SPECS" in values else {}
    for table, value in {**first, **values}.items():
        if not isinstance(value, ast.Dict):
            continue
        axes = {
            _literal(key) if key else None: _of_call(one) for key, one in zip(value.keys, value.values, strict=True)
        }
        if axes and all(isinstance(name, str) and one is not None for name, one in axes.items()):
            once(table, value, where)
            return Specs({str(name): one for name, one in axes.items() if one is not None}, _mesh(mesh))
    return None


def _mesh(plain: Any) -> dict[str, int]:
    if not isinstance(plain, dict):
        return {}
    return {str(name): size for name, size in plain.items() if isinstance(size, int) and size > 0}


def _of_text(value: Any) -> tuple[Any, ...] | None:
    """A spec in JSON: a list of axes, or what Python prints."""
    if value is None:
        return ()
    if isinstance(value, list):
        return tuple(tuple(one) if isinstance(one, list) else one for one in value)
    match = _SPEC.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    try:
        found = ast.literal_eval(f"[{match[1]}]")
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    return tuple(found)


def _of_call(node: ast.expr) -> tuple[Any, ...] | None:
    """A spec in Python: a call of PartitionSpec, or a tuple."""
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("P", "PartitionSpec"):
        found = [_literal(one) for one in node.args]
        return None if Ellipsis in found else tuple(found)
    plain = _literal(node) if isinstance(node, ast.Tuple) else None
    return plain if isinstance(plain, tuple) else None


def _literal(node: ast.expr) -> Any:
    """The value of a constant expression; ``...`` where it is none."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError):
        return ...


def plan_of(instance: DataflowInstance, specs: Specs, where: str) -> Plan:
    """The plan that they are: an instance whose kernels have the schemes that they leave."""
    kernels = {kernel.name: kernel for kernel in instance.workload.kernels}
    tensor, changes, notes = _degree(specs), dict[str, Any](), list[str]()
    degrees = [one for one in allowed_degrees(instance) if tensor in (None, one.tensor)]
    if not degrees:
        known = ", ".join(sorted({str(one.tensor) for one in allowed_degrees(instance)}))
        what = f"its mesh has {counted(tensor or 0, 'chip')} that share a layer, which the network can't be here"
        raise InputError(what, where, f"Tensor degrees are: {known or 'none'}.")
    if tensor is not None and instance.task.degrees is None:
        changes["degrees"] = degrees[0]
        if len(degrees) > 1:
            notes.append(f"the plan says tensor {tensor} alone of the degrees: taken as {degrees[0].text}")
    said = dict[str, tuple[Scheme, ...]]()
    for name, axes in specs.axes.items():
        if name == "again":
            continue
        kernel = _kernel(name, kernels, instance, where)
        axis = _axis(axes, kernel, f"{where}: {name}")
        said[kernel.name] = _left(instance, kernel, axis, [one.tensor for one in degrees], f"{where}: {name}")
    if not any(kernels[name].has_parameters for name in said):
        raise InputError("says nothing of any parameter", where, _REMEDY)
    workload = instance.workload.replace(
        kernels=[kernel.replace(schemes=said.get(kernel.name, kernel.schemes)) for kernel in kernels.values()]
    )
    pinned = instance.replace(workload=workload, task=instance.task.replace(**changes))
    pinned.check()
    covered = f"the layouts of {counted(len(said), 'tensor')}, not how other kernels are split and fused"
    return Plan(pinned=pinned, covered=covered, left="the plan has no scheme for each kernel", notes=tuple(notes))


def _degree(specs: Specs) -> int | None:
    """How many chips share a layer, where the mesh is said."""
    used = {part for axes in specs.axes.values() for one in axes for part in _named(one)}
    if not specs.mesh or not used <= specs.mesh.keys():
        return None
    return prod(specs.mesh[name] for name in (used or specs.mesh))


def _named(one: Any) -> tuple[str, ...]:
    return tuple(one) if isinstance(one, tuple) else () if one is None else (str(one),)


def _kernel(name: str, kernels: Mapping[str, Kernel], instance: DataflowInstance, where: str) -> Kernel:
    """The forward kernel whose parameters are called so, or the kernel that is the layer's input."""
    of = name.removeprefix("W:")
    known = [one.name for one in kernels.values() if one.has_parameters and one.phase == "forward"]
    if of not in kernels:
        raise InputError(f"no kernel with parameters is called {of!r}", where, choices(of, known, "There are"))
    kernel = kernels[of]
    reads = any(reader == of for _, reader in instance.workload.edges)
    if of not in known and (reads or kernel.phase == "backward"):
        raise InputError(f"{of!r} has no parameters", where, f"Name kernels that have some: {', '.join(known)}.")
    return kernel


def _axis(axes: tuple[Any, ...], kernel: Kernel, where: str) -> int:
    """The axis that is split: of rows, experts and columns; -1 for none."""
    if len(axes) > 3:
        raise InputError(f"has {len(axes)} axes", where, "Give rows and columns, or rows, experts and columns.")
    places = (0, 2) if len(axes) == 2 else (0, 1, 2)
    split = [place for place, one in zip(places, axes, strict=False) if _named(one)]
    if len(split) > 1:
        what = f"splits {' and '.join(_AXES[place] for place in split)} of {kernel.name!r}: {shown(axes)}"
        raise InputError(what, where, "Kernels are split along one axis here (what replicas share out is task.shard).")
    return split[0] if split else -1


def _left(instance: DataflowInstance, kernel: Kernel, axis: int, tensor: list[int], where: str) -> tuple[Scheme, ...]:
    """The schemes of a kernel that a spec leaves it."""
    has = schemes(kernel, instance.mode)
    if (pinned := instance.task.schemes.get(kernel.name)) is not None:
        has = (pinned,)
    meant = (_OF_PARAMETERS if kernel.has_parameters else _OF_INPUT)[axis]
    if axis == -1:  # of fewer heads than chips each is on several, and the spec doesn't say so; one chip has all
        meant = has if max(tensor) == 1 else meant
        meant = (*meant, "OUTER") if any(kernel.outer % chips for chips in tensor) and "OUTER" not in meant else meant
    found = tuple(scheme for scheme in has if scheme in meant)
    if not found:
        what = f"splits {_AXES[axis]} of {kernel.name!r}, whose schemes are {', '.join(has)}"
        remedy = f"That needs {' or '.join(meant)}: add it to the kernel's schemes, or give another layout."
        raise InputError(what, where, remedy)
    return found
