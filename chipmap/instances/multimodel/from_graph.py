"""From operation graphs to a multimodel instance: each graph is a model, a chain of layers in topological order.

Convolutions and matrix products are layers. Any other operation runs in the layer of its last operand, and where it
depends on no layer, in the first that reads it. In a graph without products every computing operation is a layer.

Bytes follow tensors from the layer that makes them to the last that reads them: all that crosses the cut behind a layer
is its ``out_bytes``, and all of that which is read later the next layer's ``in_bytes``. The network's results travel on
to its end. Inputs are read at the start and travel to their last reader. A view of one tensor moves what is left of
that tensor, never more than all of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, prod

from chipmap.instances.multimodel.cost_files import cost_files, overlay
from chipmap.instances.multimodel.costs import CLASSES, PRESETS, ROOFLINE, Rates, Shape, cost, roofline
from chipmap.instances.multimodel.instance import Layer, Model, MultiInstance, Task
from chipmap.instances.multimodel.measured import of_operations, refuse, sums, timed_cost
from chipmap.instances.multimodel.modules import DEFAULT, System
from chipmap.instances.multimodel.modules import system as named
from chipmap.instances.products import Arguments, fixed_operations, guessed, hosts, works
from chipmap.networks.graph import Loops, Operation, OperationGraph
from chipmap.networks.importers.common import ImportedGraph
from chipmap.networks.words import word_bytes as word_of
from chipmap.records import InputError, counted
from chipmap.records.decimals import exact

#: Bytes of a number in the closed forms (:mod:`.costs`), and the most of any.
CLOSED_WORD, MOST_WORD = 1, 8
_SHAPELESS = (
    "Closed forms need convolutions of one or two dimensions with equal strides, or products. Leave out --costs: a "
    "roofline takes any operation. Or give this layer's costs with --costs FILE.csv."
)


@dataclass
class Part:
    """A layer before it has costs: its operation, bytes per sample, and what a sample computes and moves.

    ``copies``: bytes of constants that an earlier layer holds as well. ``fetched``: bytes of rows that look-ups read.
    ``moved``: weights, operands of other layers and what leaves it, once each. ``nanoseconds``: measured time (None:
    not measured). ``shape``: that of its operation, and how many times it is computed.
    """

    operation: Operation
    in_bytes: int = 0
    weight_bytes: int = 0
    out_bytes: int = 0
    flop: int = 0
    copies: int = 0
    fetched: int = 0
    moved: int = 0
    nanoseconds: float | None = None
    shape: tuple[Shape, int] | None = None


@dataclass
class _Storage:
    """Bytes that an operation made: its layer (-1: an input of the network), size, and who reads what of it.

    ``readers``: (view of it, bytes) -> layers that read this view. ``results``: views that the network returns.
    """

    home: int
    size: int
    readers: dict[tuple[int, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    results: set[tuple[int, int]] = field(default_factory=set)


def from_graphs(
    graphs: Sequence[tuple[ImportedGraph, str]], system: str = "", costs: Sequence[str] = (), word_bytes: str = ""
) -> MultiInstance:
    """The instance of several graphs (imported, name) on a system, one model each, with batch and mini-batch 1.

    ``system``: a file or a name (:func:`~..modules.system`). ``costs``: presets (default ``roofline``), files of costs
    (:mod:`~..cost_files`) and of times (:mod:`~..measured`), in their order. ``word_bytes``: bytes of a number.
    """
    chips, (preset, files) = named(system or DEFAULT), cost_files([one for one in costs if not of_operations(one)])
    names = _unique([name for _, name in graphs])
    imported = dict(zip(names, (graph for graph, _ in graphs), strict=True))
    chains = {name: chain(graph, name) for name, graph in imported.items()}
    words = {name: word_of(graph, graph.graph.constants_read()) for name, graph in imported.items()}
    if word_bytes:
        chains = {name: resized(parts, words[name], asked_word(word_bytes), name) for name, parts in chains.items()}
        words = dict.fromkeys(names, asked_word(word_bytes))
    listed = {name: [part.operation.name for part in parts] for name, parts in chains.items()}
    given = overlay(files, listed, chips.kinds)
    places = {name: layers_of(graph.graph, name)[1] for name, graph in imported.items()}
    measured, told = sums(costs, imported, places, chips.kinds)
    models = []
    for name, parts in chains.items():
        layers = []
        for i, part in enumerate(parts):
            own = {k: given.get((name, i, k)) or priced(part, k, preset, chips, name) for k in chips.kinds}
            for k in (k for k in chips.kinds if (name, i, k) in measured and (name, i, k) not in given):
                own[k] = timed_cost(own[k], part.flop, measured[name, i, k])
            sizes = {"in_bytes": part.in_bytes, "weight_bytes": part.weight_bytes, "out_bytes": part.out_bytes}
            layers.append(Layer(name=part.operation.name, costs=own, **sizes))
        models.append(Model(name=name, layers=tuple(layers)))
    notes = [
        *(f"{name}: {note}" for name, graph in imported.items() for note in graph.notes),
        *_assumed(chains, preset, chips, bool(given)),
        *told,
        *_words(words, preset, word_bytes),
        *(["groups of operations are not kept together"] if any(graph.together for graph, _ in graphs) else []),
    ]
    task = Task(windows=max(Task().windows, ceil(len(models) / len(chips.module.chiplets))))  # room for all models
    fields = {"name": "+".join(names), "task": task, "models": models, "module": chips.module}
    return MultiInstance.make(**fields, notes="; ".join(notes))


def asked_word(text: str) -> int:
    """Bytes of a number, as ``--word-bytes`` says them."""
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_WORD):
        raise InputError(f"is {text}", "--word-bytes", f"Give the bytes of a number, 1 to {MOST_WORD}.")
    return int(text)


def resized(parts: Sequence[Part], own: int | None, word: int, where: str) -> list[Part]:
    """The layers with numbers of ``word`` bytes instead of ``own``: each amount of bytes in proportion, rounded up."""
    if own is None:
        raise InputError("its tensors don't say how many bytes a number has", where, "Leave out --word-bytes.")
    names = ("in_bytes", "weight_bytes", "out_bytes", "copies", "fetched", "moved")
    return [replace(part, **{name: -(-getattr(part, name) * word // own) for name in names}) for part in parts]


def _words(words: Mapping[str, int | None], preset: str, asked: str) -> list[str]:
    """What is to be known of the bytes of numbers, for the instance's notes."""
    found = [f"all tensors have numbers of {counted(int(asked), 'byte')} (--word-bytes)"] if asked else []
    if preset in ("", "roofline"):
        return found
    others = {name: word for name, word in words.items() if word not in (None, CLOSED_WORD)}
    told = ", ".join(f"{word} in {name!r}" for name, word in others.items())
    if others:
        remedy = "" if asked else f"; --word-bytes {CLOSED_WORD} moves them as they are costed"
        costed = f"layers cost as with numbers of {counted(CLOSED_WORD, 'byte')}"
        found.append(f"{costed}, their tensors move with more: {told}{remedy}")
    return found


def equip(instance: MultiInstance, system: str = "", costs: Sequence[str] = (), word_bytes: str = "") -> MultiInstance:
    """The instance on another system (empty: its own), with costs of files instead of its own."""
    if word_bytes:
        what = "an instance doesn't say how many bytes its numbers have"
        raise InputError(what, "--word-bytes", "Convert the graphs again, with this option.")
    refuse(costs)
    preset, files = cost_files(costs)
    if preset:
        what = f"preset {preset!r} needs graphs: an instance holds no shapes"
        raise InputError(what, "--costs", "Convert the graphs again, or give a file of costs.")
    chips = named(system) if system else System(instance.module)
    listed = {model.name: [layer.name for layer in model.layers] for model in instance.models}
    given = overlay(files, listed, chips.kinds)
    models = []
    for model in instance.models:
        layers = []
        for i, layer in enumerate(model.layers):
            own = {kind: pair for kind in chips.kinds if (pair := given.get((model.name, i, kind))) is not None}
            layers.append(layer.replace(costs={**layer.costs, **own}) if own else layer)
        models.append(model.replace(layers=layers))
    notes = "; ".join([*filter(None, [instance.notes]), *(["costs of layers from files"] if given else [])])
    return instance.replace(models=models, module=chips.module, notes=notes)


def _unique(names: Iterable[str]) -> list[str]:
    """The names, with -2, -3, … behind those that stand there already."""
    found: list[str] = []
    for name in names:
        own, count = name, 2
        while own in found:
            own, count = f"{name}-{count}", count + 1
        found.append(own)
    return found


def _assumed(chains: Mapping[str, Sequence[Part]], preset: str, chips: System, given: bool) -> list[str]:
    """What was assumed of the graphs, for the instance's notes."""
    parts = [part for chain in chains.values() for part in chain]
    fetched, copies = sum(part.fetched for part in parts), sum(part.copies for part in parts)
    alike = not chips.classes and len(chips.kinds) > 1
    how = "a roofline" if preset in ("", "roofline") else f"the closed forms of preset {preset}"
    remarks = (
        "a sample is one run of a graph as it was exported",
        "batch and mini-batch are 1 where --set models.0.batch=8 doesn't say otherwise",
        f"costs of {how}" + (", and of files" if given else ""),
        "all classes cost the same: a roofline knows no dataflow" if "roofline" in how and alike and not given else "",
        "only convolutions and products take time" if "closed" in how else "",
        f"layers that read the same parameter or constant hold a copy each, {copies:,} bytes in all" if copies else "",
        f"rows of {fetched:,} bytes are fetched from tables that rest in DRAM" if fetched else "",
        "measured times stand as those of every class"
        if any(part.nanoseconds is not None for part in parts) and "roofline" in how
        else "",
    )
    return [remark for remark in remarks if remark]


def priced(part: Part, kind: str, preset: str, chips: System, model: str) -> tuple[int, int]:
    """(ns, pJ) of a sample of a layer on a chiplet of class ``kind``, by a preset."""
    if preset in ("", "roofline"):
        rates = _rates(kind, chips)
        if part.nanoseconds is None:
            return roofline(part.flop, part.moved, rates)
        worth = max(Fraction(part.flop), exact(part.nanoseconds) * exact(rates.flop_per_ns))
        return ceil(part.nanoseconds), roofline(worth, part.moved, rates)[1]
    if kind not in CLASSES:
        what = f"preset {preset!r} has no costs for class {kind!r}, so that layer {part.operation.name!r} has none"
        raise InputError(what, model, f"Give them with --costs FILE.csv; it has classes {' and '.join(CLASSES)}.")
    if part.shape is None:
        what = f"{part.operation.kind} {part.operation.name!r} has no shape, which class {kind!r} needs"
        raise InputError(what, model, _SHAPELESS)
    shape, times = part.shape
    ns, pj = cost(shape, kind, PRESETS[preset])
    return ns * times, pj * times


def _rates(kind: str, chips: System) -> Rates:
    if chips.classes and kind not in chips.classes:
        what = f"class {kind!r} has no rates"
        raise InputError(what, "--system", f"`classes` has some for {', '.join(chips.classes)}: give them for all.")
    return chips.classes.get(kind, ROOFLINE)


def chain(imported: ImportedGraph, where: str) -> list[Part]:
    """The layers of a graph, in topological order."""
    graph = imported.graph
    order, place = layers_of(graph, where)
    computing = [v for v, operation in enumerate(graph.operations) if operation.role == "compute"]
    parts = [Part(graph.operations[v]) for v in order]
    _fill_sizes(parts, graph, place)
    _fill_flow(parts, _storages(graph, place))
    timed = imported.time_ns if imported.time_ns is not None and not any(o.flop for o in graph.operations) else None
    for v in computing:
        part = parts[place[v]]
        part.flop += graph.operations[v].flop
        if timed is not None:
            part.nanoseconds = (part.nanoseconds or 0.0) + (timed[v] or 0.0)
    _, recovered = guessed(
        graph, [v for v in order if works(graph.operations[v]) and graph.operations[v].loops is None]
    )
    for v, part in zip(order, parts, strict=True):
        loops = part.operation.loops
        if v in recovered:
            part.shape = _of_arguments(recovered[v])
        elif loops is not None:
            part.shape = shaped(loops, part.operation.kind)
    return parts


def layers_of(graph: OperationGraph, where: str) -> tuple[list[int], dict[int, int]]:
    """The operations that make layers, in their order, and the layer of each operation that depends on an input (-1 for
    inputs). Raises :class:`InputError` for a graph that computes nothing."""
    computing = {v for v, operation in enumerate(graph.operations) if operation.role == "compute"}
    if not computing:
        raise InputError("has no computing operation", where, "Give a graph that computes something.")
    made = {v for v in computing if works(graph.operations[v])} or computing
    order = [v for v in graph.topological_order() if v in made]
    return order, _places(graph, order)


def _places(graph: OperationGraph, order: Sequence[int]) -> dict[int, int]:
    """The layer of each operation that depends on an input; -1 for inputs."""
    rank = {v: i for i, v in enumerate(order)}
    place = {v: rank[host] for v, host in hosts(graph, set(order)).items()}
    fixed = fixed_operations(graph)
    readers: list[list[int]] = [[] for _ in graph.operations]
    for tensor in graph.tensors:
        readers[tensor.producer] += tensor.readers
    for v in reversed(graph.topological_order()):
        if graph.operations[v].role == "input":
            place[v] = -1
        elif v not in place and not fixed[v]:
            place[v] = min((place[w] for w in readers[v] if w in place), default=0)
    return place


def _fill_sizes(parts: Sequence[Part], graph: OperationGraph, place: Mapping[int, int]) -> None:
    """The weights of each layer, a constant that it reads once, and the rows that its look-ups fetch."""
    read, written = graph.constants_read(), graph.written_bytes()
    constants: list[dict[int, None]] = [{} for _ in parts]
    for v, operation in enumerate(graph.operations):
        if operation.role != "compute":
            continue
        stored = operation.weight_bytes + sum(graph.tensors[t].bytes for t in read[v])
        if operation.looks_up(stored, written[v]):
            parts[place[v]].fetched += min(stored, written[v])
        else:
            parts[place[v]].weight_bytes += operation.weight_bytes
            constants[place[v]] |= dict.fromkeys(read[v])
    held: set[int] = set()
    for part, tensors in zip(parts, constants, strict=True):
        part.weight_bytes += sum(graph.tensors[t].bytes for t in tensors)
        part.copies = sum(graph.tensors[t].bytes for t in held & tensors.keys())
        held |= tensors.keys()


def _storages(graph: OperationGraph, place: Mapping[int, int]) -> list[_Storage]:
    """What operations of the network make and others read; views of one tensor belong to its storage."""
    moving = [tensor.producer in place for tensor in graph.tensors]
    operands: dict[int, list[int]] = defaultdict(list)
    made: dict[int, list[int]] = defaultdict(list)
    for t, tensor in enumerate(graph.tensors):
        made[tensor.producer].append(t)
        for w in tensor.readers:
            if moving[t]:
                operands[w].append(t)
    renames = {
        v for v, o in enumerate(graph.operations) if o.role == "view" and v in place and len(set(operands[v])) == 1
    }
    ends = not any(tensor.output for tensor in graph.tensors)
    found: dict[int, _Storage] = {}
    root: dict[int, int] = {}
    for v in graph.topological_order():
        for t in made[v]:
            if not moving[t]:
                continue
            tensor = graph.tensors[t]
            root[t] = root[operands[v][0]] if v in renames else t
            if root[t] == t:
                found[t] = _Storage(place[v], tensor.bytes)
            storage, view = found[root[t]], (t, tensor.bytes)
            for w in tensor.readers:
                if w not in renames:
                    storage.readers[view].add(place[w])
            if tensor.output or (ends and not tensor.readers):
                storage.results.add(view)
    return list(found.values())


def _fill_flow(parts: Sequence[Part], storages: Iterable[_Storage]) -> None:
    """Bytes in and out of each layer, and all that it moves."""
    for storage in storages:
        home, size = storage.home, storage.size
        read = {view: max(layers) for view, layers in storage.readers.items()}
        kept = read | dict.fromkeys(storage.results, len(parts))  # results leave behind the last layer
        for cut, amount in _crossing(read, size, home + 1):
            parts[cut].in_bytes += amount
        for cut, amount in _crossing(kept, size, max(home, 0) + 1):
            parts[cut - 1].out_bytes += amount
        for layer in set().union(*storage.readers.values()) - {home}:
            parts[layer].moved += min(size, sum(v[1] for v, layers in storage.readers.items() if layer in layers))
        if home >= 0:
            parts[home].moved += min(size, sum(view[1] for view, last in kept.items() if last > home))
    for part in parts:
        part.moved += part.weight_bytes + part.fetched
        part.in_bytes += part.fetched


def _crossing(views: Mapping[tuple[int, int], int], size: int, first: int) -> Iterator[tuple[int, int]]:
    """(cut, bytes) for the cuts before layers ``first`` and on: bytes of ``views``, {(view, bytes): last layer}, that
    are read behind it, at most the ``size`` of their storage."""
    ends = sorted(((last, view[1]) for view, last in views.items()), reverse=True)
    total = 0
    for k, (last, own) in enumerate(ends):
        total += own
        before = ends[k + 1][0] if k + 1 < len(ends) else first - 1
        for cut in range(max(before + 1, first), last + 1):
            yield cut, min(size, total)


def shaped(loops: Loops, kind: str) -> tuple[Shape, int] | None:
    """The shape of an operation with that loop nest, and how often it is computed; None without one.

    A convolution of G groups is G convolutions (one channel each: depthwise), several samples are as many. A transposed
    convolution is the product that makes all its windows. A product has its columns as places in Y; heads and groups
    are products of their own. Three dimensions and unequal strides have no shape, nor has a product with a matrix per
    group of columns.
    """
    if "grouped" in kind or not loops.inner:
        return None
    if loops.window and not loops.transposed:
        if len(loops.window) > 2 or len(set(loops.stride)) != 1:
            return None
        (rows, columns), (step,) = (*loops.places, 1)[:2], set(loops.stride)
        (height, width), samples = (*loops.window, 1)[:2], loops.columns // max(1, rows * columns)
        channels = loops.inner // max(1, prod(loops.window))
        depthwise = loops.outer > 1 and channels == 1
        high, wide, filters, times = (rows - 1) * step + height, (columns - 1) * step + width, loops.rows, samples
        if depthwise:
            filters, channels = 1, loops.outer * loops.rows
        else:
            times *= loops.outer
        found = Shape(K=filters, C=channels, Y=high, X=wide, R=height, S=width, stride=step, depthwise=depthwise)
    else:
        found, times = Shape(K=loops.rows, C=loops.inner, Y=loops.columns, X=1), loops.outer
    dimensions = (found.K, found.C, found.Y, found.X, found.R, found.S, found.stride, times)
    return (found, times) if min(dimensions) >= 1 else None


def _of_arguments(given: Arguments) -> tuple[Shape, int]:
    """The shape of a recovered convolution or product (:mod:`chipmap.instances.products`)."""
    rows, columns, window, step = given["H"] // given["T"], given["W"] // given["U"], given["R"], given["T"]
    if window == step == 1:
        return Shape(K=given["K"], C=given["C"], Y=rows * columns, X=1), 1
    high, wide = (rows - 1) * step + window, (columns - 1) * step + window
    return Shape(K=given["K"], C=given["C"], Y=high, X=wide, R=window, S=window, stride=step), 1
