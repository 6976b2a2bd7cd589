"""An explicit change of an instance: one operation in N parts, and what puts the results together. Never done unasked.

What a part gets depends on the range of the operation's loop nest that is split
(:class:`~chipmap.networks.graph.Loops` names the ranges; an instance may know no loop nests, so the user says which):

===========  ===============================  ====  ================  ===========  ==========  ==============
way          N parts of the                   FLOP  weights and       activations  makes       put together by
                                                    constants
===========  ===============================  ====  ================  ===========  ==========  ==============
``rows``     output features or channels      1/N   1/N               whole        1/N         a gather
``columns``  tokens or places                 1/N   whole             1/N          1/N         a gather
``heads``    heads, groups or experts         1/N   1/N               1/N          1/N         a gather
``inner``    terms of each sum                1/N   1/N               1/N          all of it   a sum
===========  ===============================  ====  ================  ===========  ==========  ==============

Shares of FLOP and bytes are whole numbers that add up to the whole. It is another problem: a mapping of the split
instance is no mapping of the original, as each part may be on a chip of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

import msgspec

from chipmap.instances.ring.draft import Draft, Loose, Transformed, positions
from chipmap.instances.ring.instance import MAX_CHIPS, Forbidden, RingInstance
from chipmap.instances.ring.problem import storages_behind
from chipmap.networks.graph import Loops, Operation, Range, neighbours
from chipmap.records import InputError, choices
from chipmap.records.decimals import exact

Way = Literal["rows", "columns", "heads", "inner"]
WAYS: tuple[Way, ...] = get_args(Way)
#: Way -> the range of a loop nest that it divides.
RANGES: dict[str, Range] = {"rows": "rows", "columns": "columns", "heads": "outer", "inner": "inner"}
#: Ways in which a part reads a share of activations.
SLICED = ("columns", "heads", "inner")


def split(instance: RingInstance, names: Sequence[str], parts: int, way: str = "rows") -> Transformed:
    """The one operation of ``names`` in ``parts`` parts, ``name/part1`` …, that share its work.

    A part reads its share of an activation through a view, so that links carry the whole tensor, once to all parts. Its
    share of a constant is a constant of its own. Operands of fewer bytes than there are parts stay whole. For each
    tensor that an operation computes with, ``name/gather`` reads what the parts make and writes the whole, at the rate
    of SRAM; else (views, and what the network returns) the parts' tensors take its place. ``name/sum`` (``inner``)
    reads a whole tensor of each part and takes a FLOP per byte and addition, no less than it needs, as numbers have a
    byte or more. A measured time is divided evenly. Forbidden chips are those of every part.

    Raises :class:`InputError` for a name that isn't that of a computing operation or that pins or keep-together groups
    hold, and for fewer than 2 parts or more than there is to share out.
    """
    (name,) = names
    (v,) = positions(instance, names)
    whole = instance.graph.operations[v]
    _refuse(instance, v, parts, way)
    draft = Draft(instance)
    made = [
        Operation(
            name=draft.fresh(f"{name}/part{i + 1}"),
            kind=whole.kind,
            flop=_share(whole.flop, parts, i),
            weight_bytes=whole.weight_bytes if way == "columns" else _weights(whole, parts, i),
            moved_bytes=_moved(instance, v, parts, way, i),
            loops=_loops(whole, parts, way, i),
        )
        for i in range(parts)
    ]
    time = draft.times[v]
    time = None if time is None else _part_of(time, parts)
    draft.operations[v], draft.times[v] = made[0], time
    draft.taken.add(made[0].name)
    here = [v, *(draft.add(part, v, (v, i), time) for i, part in enumerate(made[1:], 1))]
    _operands(draft, here, way)
    joins = _results(draft, name, here, way)
    report = {
        "parts": parts,
        "sums" if way == "inner" else "gathers": len(joins),
        "bytes that these write": sum(joins.values()),
        "flop of sums": sum(draft.operations[w].flop for w in joins),
    }
    forbidden = tuple(
        Forbidden(operation=one, chips=entry.chips)
        for entry in instance.forbidden
        for one in ([part.name for part in made] if entry.operation == name else [entry.operation])
    )
    return draft.finish(f"split in {parts} by {way}: {name}", report, forbidden=forbidden)


def _part_of(time: float, parts: int) -> float:
    """The time of one of so many equal parts, together no less than the whole."""
    part = time / parts
    return part if exact(part) * parts >= exact(time) else math.nextafter(part, math.inf)


def _share(total: int, parts: int, i: int) -> int:
    """Share ``i`` of ``total``: all shares add up to it, and differ by 1 at most."""
    return total * (i + 1) // parts - total * i // parts


def _weights(whole: Operation, parts: int, i: int) -> int:
    """What a part holds of the weights: those that every part needs, where the loop nest knows any, and its share."""
    kept = min(whole.weight_bytes, whole.loops.whole_bytes) if whole.loops is not None else 0
    return kept + _share(whole.weight_bytes - kept, parts, i)


def _moved(instance: RingInstance, v: int, parts: int, way: str, i: int) -> int | None:
    """A share of what a look-up moves; all parts of an ``inner`` one write the whole result."""
    moved = instance.graph.operations[v].moved_bytes
    if moved is None:
        return None
    written = sum(t.bytes for t in instance.graph.tensors if t.producer == v) if way == "inner" else 0
    written = min(moved, written)
    return written + _share(moved - written, parts, i)


def _loops(whole: Operation, parts: int, way: str, i: int) -> Loops | None:
    """The loop nest of a part, where that of the whole is known."""
    if whole.loops is None:
        return None
    return msgspec.structs.replace(whole.loops, **{RANGES[way]: _share(getattr(whole.loops, RANGES[way]), parts, i)})


def _refuse(instance: RingInstance, v: int, parts: int, way: str) -> None:
    operation = instance.graph.operations[v]
    name = operation.name
    if way not in WAYS:
        raise InputError(f"no operation can be split by {way!r}", "way", choices(way, WAYS))
    if any(pin.operation == name for pin in instance.pins):
        raise InputError(f"{name!r} is pinned", "names", "Free it first: its parts would all be on that chip.")
    if any(name in group for group in instance.together):
        raise InputError(f"{name!r} is in a keep-together group", "names", "Take it out of together: its parts part.")
    if any(name in group for group in instance.apart):
        raise InputError(f"{name!r} is in a group apart", "names", "Take it out of apart: its parts have other names.")
    if operation.loops is not None and RANGES[way] not in operation.loops.splits:
        remedy = f"Choose from: {', '.join(one for one in WAYS if RANGES[one] in operation.loops.splits) or 'none'}."
        raise InputError(f"parts of {name!r} by {way} can't be computed apart", "way", remedy)
    most, why = _most(instance, v, way)
    if not 2 <= parts <= most:
        what = f"{why}, fewer than {parts:,}" if parts > most else f"is {parts}"
        raise InputError(what, "parts", f"Give 2 to {most:,} parts." if most > 1 else "Leave the operation whole.")


def _most(instance: RingInstance, v: int, way: str) -> tuple[int, str]:
    """The most parts of operation ``v`` by ``way``, 1 where it can't be split that way; and why there are no more.

    Each part has a step of the range, where that is known, and a byte of what is shared out.
    """
    operation, tensors = instance.graph.operations[v], instance.graph.tensors
    limits = [(MAX_CHIPS, f"a package has {MAX_CHIPS:,} chips at most")]
    touched = [t.bytes for t in tensors if (v in t.readers if way == "inner" else t.producer == v)]
    if touched:
        most = max([operation.weight_bytes, *touched] if way == "inner" else touched)
        limits.append((most, f"{operation.name!r} {'reads' if way == 'inner' else 'makes'} {most:,} bytes at most"))
    if operation.loops is not None:
        size = getattr(operation.loops, RANGES[way]) if RANGES[way] in operation.loops.splits else 1
        limits.append((size, f"{operation.name!r} has {size:,} {way}"))
    return min(limits)


def option_to_split(instance: RingInstance, v: int, parts: int, ways: Sequence[str] = WAYS) -> str:
    """What ``--split`` takes to divide operation ``v`` into so many parts; empty where none of ``ways`` has as many."""
    name = instance.graph.operations[v].name
    way = next((way for way in ways if 2 <= parts <= _most(instance, v, way)[0]), "")
    return f"{name}:{parts}{'' if way == WAYS[0] else ':' + way}" if way else ""


def option_to_fit(instance: RingInstance, v: int, limit: int) -> str:
    """What ``--split`` takes so that each part of operation ``v`` has weights of ``limit`` bytes at most; empty where
    no way to split it does that."""
    whole = instance.graph.operations[v]
    kept = min(whole.weight_bytes, whole.loops.whole_bytes) if whole.loops is not None else 0
    if kept >= limit:
        return ""
    parts = -(-(whole.weight_bytes - kept) // (limit - kept))
    return option_to_split(instance, v, parts, [way for way in WAYS if way != "columns"])


def _operands(draft: Draft, parts: list[int], way: str) -> None:
    """Let the parts read what the whole read: each its share, where the way has one, or all of it."""
    graph, v = draft.instance.graph, parts[0]
    count = len(graph.operations)
    makes = neighbours(count, ((tensor.producer, t) for t, tensor in enumerate(graph.tensors)))
    reads = neighbours(count, ((u, t) for t, tensor in enumerate(graph.tensors) for u in set(tensor.readers)))
    behind = storages_behind(draft.instance, reads, makes, graph.topological_order())
    for t in reads[v]:
        tensor, roots = draft.tensors[t], behind[t]
        constant = all(graph.operations[graph.tensors[r].producer].role == "constant" for r in roots) and bool(roots)
        size = min(tensor.bytes, sum(graph.tensors[r].bytes for r in roots))
        whole = way == "columns" if constant else way not in SLICED
        if whole or size < len(parts):
            tensor.readers += parts[1:]
            continue
        tensor.readers[:] = [u for u in tensor.readers if u != v]
        for i, part in enumerate(parts):
            name = draft.fresh(f"{draft.operations[part].name}/{draft.operations[tensor.producer].name}")
            role: Literal["constant", "view"] = "constant" if constant else "view"
            operand = draft.add(Operation(name=name, kind="slice", role=role), None, (v, -count), None)
            if not constant:
                tensor.readers.append(operand)
            draft.tensors.append(Loose(operand, [part], _share(size, len(parts), i), False))


def _results(draft: Draft, name: str, parts: list[int], way: str) -> dict[int, int]:
    """Let gathers or sums make what the whole made; their positions -> the bytes that they write."""
    joins: dict[int, int] = {}
    for tensor in [t for t in draft.tensors if t.producer == parts[0]]:
        joined = _computed_with(draft, tensor) or (way == "inner" and (bool(tensor.readers) or tensor.output))
        sizes = [tensor.bytes if way == "inner" else _share(tensor.bytes, len(parts), i) for i in range(len(parts))]
        output, readers = tensor.output and not joined, tensor.readers
        if joined:
            flop = (len(parts) - 1) * tensor.bytes if way == "inner" else 0
            kind = "sum" if way == "inner" else "gather"
            operation = Operation(name=draft.fresh(f"{name}/{kind}"), kind=kind, flop=flop)
            join = draft.add(operation, None, (parts[0], len(parts) + len(joins)), None)
            joins[join], readers = tensor.bytes, [join]
            tensor.producer = join
        else:
            draft.tensors[:] = [other for other in draft.tensors if other is not tensor]
        draft.tensors += [Loose(part, list(readers), size, output) for part, size in zip(parts, sizes, strict=True)]
    return joins


def _computed_with(draft: Draft, tensor: Loose) -> bool:
    """Whether an operation that computes reads the tensor, through views or not."""
    after: dict[int, set[int]] = {}
    for other in draft.tensors:
        after.setdefault(other.producer, set()).update(other.readers)
    waiting, seen = list(tensor.readers), set[int]()
    while waiting:
        reader = waiting.pop()
        if draft.operations[reader].role == "compute":
            return True
        if reader not in seen:
            seen.add(reader)
            waiting += after.get(reader, ())
    return False
