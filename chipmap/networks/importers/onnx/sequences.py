"""Sequences of tensors in ONNX models whose items are known one by one, as exporters write ``split`` and ``unbind``.

A sequence is no tensor: it is the list of its items, each of which is one. Operators that make or take sequences become
views of the items, under the node's name; ``ConcatFromSequence`` copies them into one tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chipmap.networks.importers.onnx.arguments import whole
from chipmap.networks.importers.program import Step, words
from chipmap.records import InputError, counted

if TYPE_CHECKING:
    import onnx

    from chipmap.networks.importers.onnx.state import Place, ProgramState

#: Longer sequences aren't read.
MAX_ITEMS = 10**4
#: Operators of sequences that are read.
KINDS = words(
    """SplitToSequence SequenceConstruct SequenceAt ConcatFromSequence SequenceEmpty SequenceInsert SequenceErase
    SequenceLength"""
)
#: Operators that hand on what they read, a sequence too.
PASSING = words("Identity Optional OptionalGetElement OptionalHasElement")


def passed(state: ProgramState, node: onnx.NodeProto, place: Place, scope: dict[str, str]) -> bool:
    """Let an operator of ``PASSING`` hand on a sequence, or say that there is one; False if it reads none."""
    source = scope.get(node.input[0], "") if node.input else ""
    if source not in state.sequences or not node.output:
        return False
    made = node.output[0]
    if node.op_type == "OptionalHasElement":
        scope[made] = state.constant(f"{place.prefix}{made}", np.asarray(True))
    else:
        scope[made] = source
    return True


def sequence(
    state: ProgramState, node: onnx.NodeProto, place: Place, scope: dict[str, str], plain: dict[str, Any]
) -> None:
    """Add an operator of ``KINDS``; :class:`InputError` where the items of a sequence can't be told."""
    name, read = place.name(node), [scope[local] for local in node.input if local]
    if len(node.output) != 1 or not node.output[0]:
        raise InputError(
            f"{name!r} makes {counted(len(node.output), 'result')}", state.where, "Check the model with onnx.checker."
        )
    fresh = scope[node.output[0]] = f"{place.prefix}{node.output[0]}"
    state.makers[fresh] = f"made by {node.op_type} {name!r}"
    lists = [state.sequences[one] for one in read[:1] if one in state.sequences]
    if node.op_type == "SequenceEmpty":
        state.sequences[fresh] = []
    elif node.op_type == "SequenceConstruct":
        state.sequences[fresh] = [_view(state, node, name, fresh, i, one) for i, one in enumerate(read)]
    elif node.op_type == "SplitToSequence" and read:
        state.sequences[fresh] = _split(state, node, name, fresh, read, plain)
    elif node.op_type == "SequenceAt" and lists and len(read) > 1 and _numbers(state, read[1]):
        place_in_list = _numbers(state, read[1])[0]
        if not -len(lists[0]) <= place_in_list < len(lists[0]):
            what = f"{name!r} asks for item {place_in_list} of {len(lists[0])}"
            raise InputError(what, state.where, "Check the model with onnx.checker.")
        item = lists[0][place_in_list]
        state.view(name, node.op_type, item, fresh)
    elif node.op_type in ("SequenceInsert", "SequenceErase") and lists and _changed(state, node, fresh, read, lists[0]):
        pass
    elif node.op_type == "SequenceLength" and lists:
        state.constant(fresh, np.asarray(len(lists[0]), np.int64))
    elif node.op_type == "ConcatFromSequence" and lists and lists[0]:
        _concatenated(state, node, name, fresh, lists[0], plain)
    else:
        what = f"which items the {node.op_type} {name!r} takes depends on the inputs"
        raise InputError(what, state.where, "Export the model with sequences whose lengths and items are fixed.")


def _changed(state: ProgramState, node: onnx.NodeProto, fresh: str, read: list[str], items: list[str]) -> bool:
    """Let ``fresh`` be the sequence with an item more or less; False if it isn't known where."""
    inserts = node.op_type == "SequenceInsert"
    at = read[2 if inserts else 1 :]
    places = _numbers(state, at[0]) if at else [len(items) if inserts else -1]
    if not places or not -len(items) <= places[0] < len(items) + inserts:
        return False
    place = places[0] % len(items) if places[0] < 0 else places[0]
    state.sequences[fresh] = [*items[:place], *(read[1:2] if inserts else ()), *items[place + (not inserts) :]]
    return True


def _view(state: ProgramState, node: onnx.NodeProto, name: str, fresh: str, i: int, source: str) -> str:
    """Item ``i`` of a new sequence, another name of ``source``."""
    item = f"{fresh}/{i}"
    state.view(f"{name}:{i}" if i else name, node.op_type, source, item)
    return item


def _split(
    state: ProgramState, node: onnx.NodeProto, name: str, fresh: str, read: list[str], plain: dict[str, Any]
) -> list[str]:
    """The items of a tensor that is cut along an axis: into the sizes that the second operand gives, or into ones."""
    shape, axis = list(state.shape(read[0])), whole(plain, "axis", 0)
    if not -len(shape) <= axis < len(shape) or (len(read) > 1 and not _numbers(state, read[1])):
        raise InputError(f"where {name!r} cuts is not known", state.where, "Export the model with fixed sizes.")
    extent = shape[axis]
    sizes = _numbers(state, read[1]) if len(read) > 1 else [1] * min(extent, MAX_ITEMS + 1)
    if len(read) > 1 and state.known[read[1]].ndim == 0 and sizes[0] > 0:  # one number: the size of all but the last
        count, rest = divmod(extent, sizes[0])
        sizes = [*sizes * min(count, MAX_ITEMS + 1), *([rest] if rest else [])]
    if len(sizes) > MAX_ITEMS or sum(sizes) != extent or min(sizes, default=0) < 0:
        what = f"{name!r} cuts {counted(extent, 'element')} into {counted(len(sizes), 'part')} of {sum(sizes)}"
        raise InputError(what, state.where, f"At most {MAX_ITEMS} parts are read, which add up to the whole.")
    items = [f"{fresh}/{i}" for i in range(len(sizes))]
    for item, size in zip(items, sizes, strict=True):
        shape[axis] = size
        kept = shape if len(read) > 1 or plain.get("keepdims", 1) else shape[:axis] + shape[axis + 1 :]
        state.typed(item, state.types[read[0]], tuple(kept), name)
    state.append(Step(name, node.op_type, tuple(read), tuple(items), view=True, arguments=plain))
    return items


def _numbers(state: ProgramState, name: str) -> list[int]:
    """The whole numbers of a tensor that is known beforehand; none for others."""
    value = state.known.get(name)
    return [] if value is None or value.dtype.kind not in "iu" else [int(one) for one in value.reshape(-1)]


def _concatenated(
    state: ProgramState, node: onnx.NodeProto, name: str, fresh: str, items: list[str], plain: dict[str, Any]
) -> None:
    shapes, axis = [state.shape(item) for item in items], whole(plain, "axis", 0)
    rank = len(shapes[0]) + bool(plain.get("new_axis"))
    if not -rank <= axis < rank:
        raise InputError(f"{name!r} has no axis {axis}", state.where, "Check the model with onnx.checker.")
    axis %= rank
    shape = list(shapes[0])
    if plain.get("new_axis"):
        shape.insert(axis, len(items))
    else:
        shape[axis] = sum(one[axis] for one in shapes if len(one) == rank)
    elements = sum(state.program.values[item].elements for item in items)
    step = Step(name, node.op_type, tuple(items), (fresh,), flop=elements, arguments=plain)
    state.add(step, state.types[items[0]], tuple(shape))
