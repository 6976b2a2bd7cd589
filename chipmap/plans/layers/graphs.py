"""Plans of layers of a graph: where its blocks, and what comes before and behind them, run.

Layers are the blocks of the network's largest list (:mod:`chipmap.instances.grain`), by number. What computes before
them is the embedding, but for operations that several blocks read and that hold hardly any parameters (a mask, rotary
tables): each stage of a runtime makes these again, so that a plan says nothing of them. What computes behind the blocks
is the loss, or the head; modules called ``mtp`` there are layers of multi-token prediction.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

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


class Part(NamedTuple):
    """A part of the network: a layout's ``symbol``, its operations, and the module that it is (empty: it is none)."""

    symbol: str
    operations: tuple[int, ...]
    module: Path = ()

    @property
    def text(self) -> str:
        """The part in words."""
        words = {
            "E": "what comes before the layers",
            "m": "multi-token prediction",
            "L": "what comes behind the layers",
        }
        return ".".join(self.module) or words[self.symbol]


@dataclass(frozen=True)
class Layers:
    """A graph by layers: its ``parts`` in order, and ``again``: the operations that each stage makes again. All
    operations compute, and are live."""

    parts: tuple[Part, ...]
    again: tuple[int, ...]
    found: Modules

    @property
    def blocks(self) -> list[str]:
        """The names of the layers."""
        return [part.text for part in self.parts if part.symbol == "t"]

    def fine(self) -> Layers:
        """The same with a part for each module before and behind the layers."""
        made: list[Part] = []
        for part in self.parts:
            units: dict[Path, list[int]] = {}
            for v in part.operations if not part.module else ():
                units.setdefault(self.found.unit(v, "blocks"), []).append(v)
            made += [Part(part.symbol, tuple(each), unit) for unit, each in units.items()] if units else [part]
        return replace(self, parts=tuple(made))


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
    more = [v for v in rest if v in behind and any("mtp" in part.lower() for part in found.path[v])]
    parts = [Part("E", tuple(v for v in rest if v in before and v not in again))]
    parts += [Part("t", tuple(members[block]), block) for block in blocks]
    parts += [Part("m", tuple(more))] if more else []
    parts += [Part("L", tuple(v for v in rest if v in behind and v not in set(more)))]
    return Layers(tuple(parts), tuple(v for v in rest if v in again), found)


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
    direct: dict[int, list[int]] = {v: [] for v in before}
    for tensor in graph.tensors:
        if tensor.producer in direct:
            direct[tensor.producer] += tensor.readers
    through = graph.computing_readers({w for each in direct.values() for w in each})
    readers = {v: dict.fromkeys(u for w in each for u in through[w]) for v, each in direct.items()}
    read = graph.constants_read()
    weights = {v: graph.operations[v].weight_bytes + sum(graph.tensors[t].bytes for t in read[v]) for v in before}
    most = SMALL * sum(one.weight_bytes for one in graph.operations) + SMALL * graph.stored_bytes(read)
    found: set[int] = set()
    for v in reversed(before):
        blocks = {block[w] for w in readers[v] if w in block}
        others = [w for w in readers[v] if w not in block]
        if weights[v] <= most and all(w in found for w in others) and (len(blocks) > 1 or (others and not blocks)):
            found.add(v)
    return found


def plan_of(instance: Any, places: Sequence[Place | None], of: Layers | None = None) -> LayerPlan:
    """The plan of layers that puts each operation on its place; ``of``: the parts (those of :func:`layers`).

    Raises :class:`InputError` where it is none: it says with which command there is one.
    """
    parts = (of or layers(instance)).parts
    at: list[tuple[str, Place]] = []
    for part in parts:
        here = sorted({str(places[v]): v for v in part.operations}.items())
        if len(here) > 1:
            what = f"{part.text} runs on {listed([place for place, _ in here])}: a plan of layers can't say so"
            ends = [] if part.symbol == "t" else _ends(instance, parts)
            raise InputError(what, instance.name, cut_command(instance, *ends))
        place = places[here[0][1]] if here else None
        at.append((part.symbol, "" if place is None else place))
    chunks, order = list[str](), list[Place]()
    for symbol, place in _placed(at):
        if order and order[-1] == place:
            chunks[-1] += symbol
        else:
            chunks.append(symbol)
            order.append(place)
    stages = rounds(order)
    if stages is None:
        what = f"its layers run on {listed([str(one) for one in order[:12]])} in this order: stages don't take turns"
        raise InputError(what, instance.name, _contiguous(instance))
    others = {str(places[v]) for v in _live(instance.graph)} - {str(one) for one in stages}
    if others:
        what = f"{listed(sorted(others))} runs none of the layers, but other operations"
        raise InputError(what, instance.name, cut_command(instance))
    names = tuple(str(one) for one in stages) if isinstance(instance, PlacementInstance) else ()
    return LayerPlan(stages=len(stages), chunks=tuple(chunks), parts=len(chunks) // len(stages), names=names)


def _ends(instance: Any, parts: Sequence[Part]) -> list[list[int]]:
    """Of each part that isn't a layer the operations to keep together; of those that blocks keep together, one."""
    made = grain.groups(instance.graph, "blocks", getattr(instance, "scopes", ()))
    first = {name: group[0] for group in made for name in group}
    name = [one.name for one in instance.graph.operations]
    each = [
        list({first.get(name[v], name[v]): v for v in part.operations}.values()) for part in parts if part.symbol != "t"
    ]
    return [group for group in each if len(group) > 1]


def _placed(at: list[tuple[str, Place]]) -> list[tuple[str, Place]]:
    """Symbols without operations (no embedding) stand where their neighbours are."""
    if at[0][1] == "":
        at[0] = (at[0][0], at[1][1])
    for i in range(1, len(at)):
        if at[i][1] == "":
            at[i] = (at[i][0], at[i - 1][1])
    return at


def cut_command(instance: Any, *groups: Sequence[int], keep: str = "--cut blocks") -> str:
    """What to do so that blocks (what ``keep`` keeps), and each of these groups of operations, stay whole."""
    names = [[instance.graph.operations[v].name for v in sorted(group)] for group in groups]
    blocks = keep == "--cut blocks"
    made = set(grain.groups(instance.graph, "blocks", getattr(instance, "scopes", ())) if blocks else ())
    own = [list(group) for group in instance.together if group not in made]
    whole = json.dumps([*own, *names], ensure_ascii=False) if names else ""
    if len(whole) > 400:
        return f"Keep {'; '.join(' with '.join(group) for group in names)} (`together`), and solve with {keep}"
    more = f" --set 'together={whole}'" if whole else ""
    return f"This finds one that it can: chipmap solve {_called(instance)} {keep}{more}"


def _called(instance: Any) -> str:
    """What a command calls an instance: by name, if it is shipped."""
    return str(instance.name) if "/" in instance.name else "INSTANCE"


def _contiguous(instance: Any) -> str:
    if isinstance(instance, PlacementInstance) and instance.task.objective == "throughput":
        return f"This finds one: chipmap solve {_called(instance)} --cut blocks --set task.contiguous=true"
    return cut_command(instance)


def places_of(instance: RingInstance | PlacementInstance, solution: Any) -> list[Place | None]:
    """The chip, or the device's name, of each operation (None: it has none)."""
    if isinstance(instance, RingInstance):
        return list(solution.chips)
    return [solution.devices.get(operation.name) for operation in instance.graph.operations]


def named(
    instance: Any, plan: LayerPlan, stages: Sequence[Place], where: str, of: Layers | None = None
) -> dict[str, Place]:
    """Operation -> place, as ``plan`` says of the parts ``of``; what each stage makes again is left out.

    Raises :class:`InputError` where the plan has more or fewer layers than the network.
    """
    parts = of or layers(instance)
    mine, its = "".join(part.symbol for part in parts.parts), "".join(plan.chunks)
    names = parts.blocks
    if its.count("t") != len(names):
        what = f"has {counted(its.count('t'), 'layer')}, the network {len(names):,} ({names[0]} to {names[-1]})"
        raise InputError(what, where, "Give the plan of this network, whose stages have all of its layers.")
    if its.count("m") != mine.count("m"):
        what = f"has {its.count('m')} layers of multi-token prediction, the network {mine.count('m')}"
        raise InputError(what, where, "Leave m out, or name the network's modules for it mtp.")
    on = [stages[i % len(stages)] for i, chunk in enumerate(plan.chunks) for _ in chunk]
    operations = instance.graph.operations
    pairs = zip(parts.parts, on, strict=True)
    return {operations[v].name: place for part, place in pairs for v in part.operations}
