"""At what grain a network may be cut: by operations, or so that a module, or a block, stays whole.

A **path** says which module an operation is part of (``layers.3.attention``): its scope, where the reader of the file
knows it, else what its name says (``layers.3.attention.addmm_1``, or the node ``/layers.3/attention/Add`` of an ONNX
model). A **list** is a module whose parts are told apart by numbers (``layers.0``, ``layers.1``; ``block_0``,
``block_1``), two at least. The parts of the outermost lists are the network's **blocks**.

=========  ============================================================================================================
grain      what stays together
=========  ============================================================================================================
any        nothing
modules    the operations of each child of a block (``layers.3.attention``); those that stand in the block itself (the
           sum of a residual) are free
blocks     all operations of a block
=========  ============================================================================================================

At both grains each other module stays together: the largest that holds no block (``embeddings``). Operations that
stand in a module which holds blocks are free, and so are those without a path.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

from chipmap.networks.graph import OperationGraph
from chipmap.records import InputError, choices, counted, nearest

Grain = Literal["any", "modules", "blocks"]
GRAINS: tuple[Grain, ...] = get_args(Grain)

Path = tuple[str, ...]
#: So many modules are named in a remedy.
SOME = 12
_NUMBERED = re.compile(r"(?:(.*)_)?(\d+)")


@dataclass(frozen=True)
class Modules:
    """The modules of a graph: ``path`` of each operation (empty: none is known), ``block`` the block that it is part
    of (empty: it is in none), and ``blocks``: those of each list, in the order of their first operations."""

    path: tuple[Path, ...]
    block: tuple[Path, ...]
    blocks: dict[Path, tuple[Path, ...]]

    @property
    def largest(self) -> tuple[Path, ...]:
        """The blocks of the largest list; of several the first."""
        return max(self.blocks.values(), key=len, default=())

    def unit(self, v: int, grain: Grain) -> Path:
        """The module that operation ``v`` stays with at that grain; empty: it is free."""
        path, block = self.path[v], self.block[v]
        if grain == "any" or not path:
            return ()
        if block:
            return block if grain == "blocks" else self._child(path, len(block))
        holds = {held[:depth] for held in self.blocks for depth in range(1, len(held) + 1)}
        return next((path[:depth] for depth in range(1, len(path) + 1) if path[:depth] not in holds), ())

    @staticmethod
    def _child(path: Path, depth: int) -> Path:
        """The child of a block of ``depth`` parts; that of a list in it, where the block's child is one."""
        if len(path) <= depth:
            return ()
        listed = len(path) > depth + 1 and _NUMBERED.fullmatch(path[depth + 1]) is not None
        return path[: depth + 2] if listed else path[: depth + 1]


def modules(graph: OperationGraph, scopes: Sequence[str] = ()) -> Modules:
    """The modules of ``graph``; ``scopes``: those of its operations, where they are known."""
    known = scopes if any(scopes) else [""] * len(graph.operations)
    paths = tuple(path_of(operation.name, scope) for operation, scope in zip(graph.operations, known, strict=True))
    if any(scopes):  # a name without its module's says nothing where others' are known
        paths = tuple(path if scope else () for path, scope in zip(paths, known, strict=True))
    lists = _outermost(paths)
    block = tuple(_block(path, lists) for path in paths)
    found: dict[Path, dict[Path, None]] = {}
    for one in block:
        if one:
            found.setdefault(_list_of(one), {})[one] = None
    return Modules(paths, block, {key: tuple(each) for key, each in found.items()})


def path_of(name: str, scope: str = "") -> Path:
    """The path of the module of an operation of that name.

    >>> path_of("layer.3.attention.addmm_1"), path_of("/model/layers.0/mlp/Add"), path_of("add")
    (('layer', '3', 'attention'), ('model', 'layers', '0', 'mlp'), ())
    """
    if scope:
        return tuple(part for part in re.split(r"[./]", scope) if part)
    outer, slash, _ = name.strip("/").rpartition("/")
    parts = [part for part in re.split(r"[./]", outer if slash else name.rpartition(".")[0]) if part]
    return tuple(parts)


def groups(
    graph: OperationGraph, grain: Grain, scopes: Sequence[str] = (), placed: Collection[str] = ("compute",)
) -> tuple[tuple[str, ...], ...]:
    """The operations that stay together at that grain, by name; those of a role in ``placed``, two or more each.

    Raises :class:`InputError` for another grain, and where no operation says what module it is part of, or none is in
    a block.
    """
    if grain not in GRAINS:
        raise InputError(f"is {grain!r}", "--cut", choices(grain, GRAINS))
    if grain == "any":
        return ()
    found = modules(graph, scopes)
    _check(found, grain, any(found.path[v] for v, one in enumerate(graph.operations) if one.role in placed))
    units: dict[Path, list[str]] = {}
    for v, operation in enumerate(graph.operations):
        if operation.role in placed and (unit := found.unit(v, grain)):
            units.setdefault(unit, []).append(operation.name)
    return tuple(tuple(names) for names in units.values() if len(names) > 1)


@dataclass(frozen=True)
class Cut:
    """An instance that is cut at a grain only, and what that adds (what -> how many)."""

    instance: Any
    report: dict[str, int]


def cut(instance: Any, names: Sequence[str]) -> Cut:
    """``instance``, which has a graph and groups ``together``, with more of these: the grain that ``names`` has alone.

    At grain ``any`` it is as it was. Its ``notes`` say the grain. Raises as :func:`groups`.
    """
    grain: Grain = names[0]  # type: ignore[assignment]  # groups refuses others
    more = groups(instance.graph, grain, getattr(instance, "scopes", ()), _placed(instance))
    return _with(instance, more, f"cut at grain {grain}")


def no_split(instance: Any, names: Sequence[str]) -> Cut:
    """``instance`` with a group ``together`` for each module that one of ``names`` means: all operations in it.

    A name is a class of modules (``Block``), where the file says classes, or a path. In a path each part may be a
    pattern (``layers.*.attention``). Of modules inside each other the outermost counts. Raises :class:`InputError` for
    a name that means no module, and where no operation says what module it is part of.
    """
    units = named(instance, names, "--no-split", _placed(instance))
    more = tuple(group for group in units if len(group) > 1)
    return _with(instance, more, f"modules that stay whole ({', '.join(names)})")


def named(
    instance: Any, names: Sequence[str], option: str, placed: Collection[str] = ("compute", "view")
) -> tuple[tuple[str, ...], ...]:
    """The operations of each module that one of ``names`` means, as :func:`no_split` reads them for an ``option``;
    those of a role in ``placed``."""
    graph = instance.graph
    paths = modules(graph, getattr(instance, "scopes", ())).path
    paths = tuple(path if one.role in placed else () for path, one in zip(paths, graph.operations, strict=True))
    if not any(paths):
        remedy = "Convert a PyTorch program, or an ONNX model whose nodes are named by module; or leave it out."
        raise InputError("no operation that is placed says what module it is part of", option, remedy)
    every = list(dict.fromkeys(path[:depth] for path in paths for depth in range(1, len(path) + 1)))
    classes = {path_of("", path): kind for path, kind in getattr(instance, "module_classes", {}).items()}
    whole = set[Path]()
    for name in names:
        meant = {path for path in every if name in (classes.get(path), name_of(path)) or _matches(path, name)}
        if not meant:
            kinds = list(dict.fromkeys(kind for path in every if (kind := classes.get(path))))
            near = nearest(name, [*kinds, *map(name_of, every)])
            some = kinds or [name_of(path) for path in every if len(path) == 1]
            remedy = f"Did you mean {' or '.join(near)}? " if near else ""
            remedy += f"There are {', '.join(some[:SOME])}{', ...' if len(some) > SOME else '.'}"
            raise InputError(f"no module and no class of modules is called {name[:80]!r}", option, remedy)
        whole |= meant
    units: dict[Path, list[str]] = {}
    for path, operation in zip(paths, graph.operations, strict=True):
        unit = next((path[:depth] for depth in range(1, len(path) + 1) if path[:depth] in whole), ())
        if unit:
            units.setdefault(unit, []).append(operation.name)
    return tuple(map(tuple, units.values()))


def name_of(path: Path) -> str:
    """A path as it is written: ``layers.3.attention``."""
    return ".".join(path)


def _matches(path: Path, name: str) -> bool:
    """Whether a path fits a name part by part."""
    parts = path_of("", name)
    return len(parts) == len(path) and all(fnmatchcase(one, part) for one, part in zip(path, parts, strict=True))


def _placed(instance: Any) -> tuple[str, ...]:
    """The roles that are placed: with weights rule ``variable`` weights, too."""
    constants = getattr(getattr(instance, "task", None), "weights", "") == "variable"
    return ("compute", "constant") if constants else ("compute",)


def _with(instance: Any, made: Sequence[tuple[str, ...]], why: str) -> Cut:
    """``instance`` with those groups that it hasn't yet, of which its notes say ``why``."""
    known = set(instance.together)
    more = [one for one in made if one not in known]
    if not more:
        return Cut(instance, {})
    said = f"{why}: {counted(len(more), 'more group')} of operations kept together"
    changed = instance.replace(
        together=(*instance.together, *more), notes="; ".join([*filter(None, [instance.notes]), said])
    )
    changed.check()
    return Cut(changed, {"groups": len(more), "operations in them": sum(map(len, more))})


def _check(found: Modules, grain: Grain, said: bool) -> None:
    if not said:
        what = f"is {grain}, but no operation that is placed says what module it is part of"
        remedy = "Convert a PyTorch program, or an ONNX model whose nodes are named by module; or leave it out."
        raise InputError(what, "--cut", remedy)
    if not found.blocks:
        what = f"is {grain}, but no modules are told apart by numbers (layers.0, layers.1, ...)"
        raise InputError(what, "--cut", "Leave it out, or name groups in `together`.")


def _list_of(block: Path) -> Path:
    """The list whose part a path ends with: ``layers.3`` is one of ``layers``, ``block_3`` of ``block``."""
    stem = (_NUMBERED.fullmatch(block[-1]) or [None, None])[1]
    return (*block[:-1], *([] if stem is None else [f"{stem}_*"]))


def _outermost(paths: Sequence[Path]) -> set[Path]:
    """The lists with two parts or more that lie in no part of another one."""
    parts: dict[Path, set[Path]] = {}
    for path in dict.fromkeys(paths):
        for depth, part in enumerate(path, 1):
            if _NUMBERED.fullmatch(part):
                parts.setdefault(_list_of(path[:depth]), set()).add(path[:depth])
    lists = {key for key, each in parts.items() if len(each) > 1}
    inside = {one for key in lists for one in parts[key]}
    return {
        key for key in lists if not any(path[:depth] in inside for path in parts[key] for depth in range(1, len(path)))
    }


def _block(path: Path, lists: set[Path]) -> Path:
    for depth, part in enumerate(path, 1):
        if _NUMBERED.fullmatch(part) and _list_of(path[:depth]) in lists:
            return path[:depth]
    return ()
