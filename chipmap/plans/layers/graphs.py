"""Plans of layers of a graph: where its blocks, and what comes before and behind them, run.

Layers are the blocks of the network's largest list (:mod:`chipmap.instances.grain`), by number. What computes before
them is the embedding, but for operations that several blocks read and that hold hardly any parameters (a mask, rotary
tables): each stage of a runtime makes these again, so that a plan says nothing of them. What computes behind the blocks
is the loss, or the head; modules called ``mtp`` there are layers of multi-token prediction.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from chipmap.instances import grain
from chipmap.instances.grain import Modules, Path, modules
from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.ring.instance import RingInstance
from chipmap.networks.graph import OperationGraph, neighbours
from chipmap.plans.layers.plan import LayerPlan, rounds
from chipmap.records import InputError, counted, kept, listed

Place = str | int
#: Parameters of what each stage makes again, at most, as a share of the network's.
SMALL = 1e-4


@dataclass(frozen=True)
class Layers:
    """A graph by layers. ``symbols`` of a layout, each with its operations; ``again``: those that each stage makes
    again. All compute, and are live."""

    symbols: tuple[tuple[str, tuple[int, ...]], ...]
    again: tuple[int, ...]
    found: Modules
    blocks: tuple[Path, ...]

    @property
    def count(self) -> int:
        """How many layers there are."""
        return len(self.blocks)


def layers(instance: Any) -> Layers:
    """The layers of an instance with a graph. Raises :class:`InputError` where it isn't made of layers in a row."""
    found: Layers = kept(instance, "_layers", _layers)
    return found


def _layers(instance: Any) -> Layers:
    graph: OperationGraph = instance.graph
    found = modules(graph, getattr(instance, "scopes", ()))
    blocks = tuple(sorted(found.largest, key=lambda block: int(block[-1].rpartition("_")[2])))
    if not blocks:
        what = (
            "no modules are told apart by numbers (layers.0, layers.1, ...), so that nothing says what its layers are"
        )
        raise InputError(what, str(instance.name), "Use a format of operations, or convert a model with module names.")
    live = _live(graph)
    members: dict[Path, list[int]] = {block: [] for block in blocks}
    for v in live:
        if found.block[v] in members:
            members[found.block[v]].append(v)
    inside = {v for each in members.values() for v in each}
    before, behind = _reach(graph, inside, back=True) - inside, _reach(graph, inside, back=False) - inside
    rest = [v for v in live if v not in inside]
    for v in rest:
        if (v in before) == (v in behind):
            where = "between layers" if v in before else "beside the layers"
            what = f"{graph.operations[v].name!r} lies {where}, in none of them"
            raise InputError(what, str(instance.name), "Use a format of operations, such as csv.")
    again = _again(graph, [v for v in rest if v in before], members)
    first = tuple(v for v in rest if v in before and v not in again)
    last = [v for v in rest if v in behind]
    more = [v for v in last if any("mtp" in part.lower() for part in found.path[v])]
    symbols = [("E", first), *(("t", tuple(members[block])) for block in blocks)]
    symbols += [("m", tuple(more))] if more else []
    symbols += [("L", tuple(v for v in last if v not in set(more)))]
    return Layers(tuple(symbols), tuple(v for v in rest if v in again), found, blocks)


def _live(graph: OperationGraph) -> list[int]:
    """The computing operations that what the network returns depends on, in topological order."""
    order = graph.topological_order()
    needed = {tensor.producer for tensor in graph.tensors if tensor.output} or set(range(len(order)))
    reads = graph.reads()
    for v in reversed(order):
        if v in needed:
            needed.update(reads[v])
    return [v for v in order if v in needed and graph.operations[v].role == "compute"]


def _reach(graph: OperationGraph, start: set[int], back: bool) -> set[int]:
    """The operations that ``start`` depends on, or that depend on it."""
    pairs = ((one.producer, reader) for one in graph.tensors for reader in one.readers)
    near = neighbours(len(graph.operations), ((w, u) if back else (u, w) for u, w in pairs))
    seen, left = set(start), list(start)
    while left:
        for w in near[left.pop()]:
            if w not in seen:
                seen.add(w)
                left.append(w)
    return seen


def _again(graph: OperationGraph, before: Sequence[int], members: dict[Path, list[int]]) -> set[int]:
    """Those ``before`` the layers that only several layers read, or what these make, and that hold hardly any
    parameters, with all that they depend on."""
    block = {v: name for name, each in members.items() for v in each}
    readers = graph.computing_readers(before)
    read = graph.constants_read()
    weights = {v: graph.operations[v].weight_bytes + sum(graph.tensors[t].bytes for t in read[v]) for v in before}
    most = SMALL * sum(one.weight_bytes for one in graph.operations) + SMALL * graph.stored_bytes(read)
    found: set[int] = set()
    for v in reversed(before):
        blocks = {block[w] for w in readers[v] if w in block}
        others = [w for w in readers[v] if w != v and w not in block]
        if weights[v] <= most and all(w in found for w in others) and (len(blocks) > 1 or (others and not blocks)):
            found.add(v)
    return found


def plan_of(instance: Any, places: Sequence[Place | None]) -> LayerPlan:
    """The plan of layers that puts each operation on its place. Raises :class:`InputError` where it is none: it says
    with which command there is one."""
    parts = layers(instance)
    graph, at = instance.graph, list[tuple[str, Place]]()
    for i, (symbol, operations) in enumerate(parts.symbols):
        here = {places[v] for v in operations}
        if len(here) > 1:
            name = "layer " + ".".join(parts.blocks[i - 1]) if symbol == "t" else _WORDS[symbol]
            some = listed([str(one) for one in sorted(here, key=str)])
            what = f"{name} runs on {some}: a plan of layers can't say so"
            ends = [next(v for v in operations if places[v] == place) for place in here]
            raise InputError(what, instance.name, cut_command(instance, *([] if symbol == "t" else [ends])))
        at += [(symbol, place) for place in here if place is not None]
        if not here:
            at.append((symbol, ""))
    at = _placed(at)
    chunks, order = list[str](), list[Place]()
    for symbol, place in at:
        if order and order[-1] == place:
            chunks[-1] += symbol
        else:
            chunks.append(symbol)
            order.append(place)
    stages = rounds(order)
    if stages is None:
        what = f"its layers run on {listed([str(one) for one in order[:12]])} in this order: stages don't take turns"
        raise InputError(what, instance.name, _contiguous(instance))
    others = {places[v] for v in _live(graph)} - {*stages}
    if others:
        what = f"{listed([str(one) for one in sorted(others, key=str)])} runs none of the layers, but other operations"
        raise InputError(what, instance.name, cut_command(instance))
    names = tuple(stages) if isinstance(instance, PlacementInstance) else ()
    return LayerPlan(stages=len(stages), chunks=tuple(chunks), parts=len(chunks) // len(stages), names=names)  # type: ignore[arg-type]


_WORDS = {"E": "what comes before the layers", "m": "multi-token prediction", "L": "what comes behind the layers"}


def _placed(at: list[tuple[str, Place]]) -> list[tuple[str, Place]]:
    """Symbols without operations (no embedding) stand where their neighbours are."""
    if at[0][1] == "":
        at[0] = (at[0][0], at[1][1])
    for i in range(1, len(at)):
        if at[i][1] == "":
            at[i] = (at[i][0], at[i - 1][1])
    return at


def cut_command(instance: Any, *groups: Sequence[int]) -> str:
    """What to do so that blocks, and each of these groups of operations, stay whole."""
    names = [[instance.graph.operations[v].name for v in sorted(group)] for group in groups]
    made = set(grain.groups(instance.graph, "blocks", getattr(instance, "scopes", ())))
    own = [list(group) for group in instance.together if group not in made]
    whole = json.dumps([*own, *names], ensure_ascii=False) if names else ""
    if len(whole) > 400:
        return f"Keep {'; '.join(' with '.join(group) for group in names)} (`together`), and solve with --cut blocks"
    more = f" --set 'together={whole}'" if whole else ""
    return f"This finds one that it can: chipmap solve {instance.name} --cut blocks{more}"


def _contiguous(instance: Any) -> str:
    if isinstance(instance, PlacementInstance) and instance.task.objective == "throughput":
        return f"This finds one: chipmap solve {instance.name} --cut blocks --set task.contiguous=true"
    return cut_command(instance)


def places_of(instance: RingInstance | PlacementInstance, solution: Any) -> list[Place | None]:
    """The chip, or the device's name, of each operation (None: it has none)."""
    if isinstance(instance, RingInstance):
        return list(solution.chips)
    return [solution.devices.get(operation.name) for operation in instance.graph.operations]


def named(instance: Any, plan: LayerPlan, stages: Sequence[Place], where: str) -> dict[str, Place]:
    """Operation -> place, as ``plan`` says; what each stage makes again is left out.

    Raises :class:`InputError` where the plan has more or fewer layers than the network.
    """
    parts = layers(instance)
    chunks = plan.chunks
    mine = "".join(symbol for symbol, _ in parts.symbols)
    its = "".join(chunks)
    if its.count("t") != parts.count:
        first, last = ".".join(parts.blocks[0]), ".".join(parts.blocks[-1])
        what = f"has {counted(its.count('t'), 'layer')}, the network {parts.count:,} ({first} to {last})"
        raise InputError(what, where, "Give the plan of this network, whose stages have all of its layers.")
    if its.count("m") != mine.count("m"):
        what = f"has {its.count('m')} layers of multi-token prediction, the network {mine.count('m')}"
        raise InputError(what, where, "Leave m out, or name the network's modules for it mtp.")
    return dict(_pairs(instance.graph, parts, chunks, stages))


def _pairs(
    graph: OperationGraph, parts: Layers, chunks: Sequence[str], stages: Sequence[Place]
) -> Iterator[tuple[str, Place]]:
    where = [stages[i % len(stages)] for i, chunk in enumerate(chunks) for _ in chunk]
    for (_, operations), place in zip(parts.symbols, where, strict=True):
        for v in operations:
            yield graph.operations[v].name, place
