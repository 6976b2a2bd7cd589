"""Rules of sums of products: matrix products of every kind, convolutions, attention."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import NamedTuple

from chipmap.networks.graph import Loops, Range
from chipmap.networks.importers.loops.call import Call, Operand, Outcome, place_of
from chipmap.networks.importers.loops.layouts import Place, Shape, placed

#: The index of each axis of an operand or result: a letter, or None for an axis of extent 1 that is spread.
Letters = tuple[str | None, ...]


class Terms(NamedTuple):
    """A sum of products of two operands: the letters of both and of the result."""

    left: Letters
    right: Letters
    made: Letters


def matrices(left: Shape, right: Shape, made: Shape, flip: tuple[bool, bool]) -> Terms | None:
    """The letters of a matrix product [..., m, k] · [..., k, n]; ``flip`` says which operands are transposed."""
    letters: list[Letters] = []
    for shape, own, turned in ((left, ("m", "k"), flip[0]), (right, ("k", "n"), flip[1])):
        if not shape:
            return None
        if len(shape) == 1:
            letters.append(("k",))
            continue
        batch = [f"b{len(shape) - 2 - i}" if size > 1 else None for i, size in enumerate(shape[:-2])]
        letters.append((*batch, *(own[::-1] if turned else own)))
    inner = [letter for letter in ("m", "n") if letter in (*letters[0], *letters[1])]
    count = len(made) - len(inner)
    batch = [f"b{count - i}" for i in range(count)]
    return Terms(letters[0], letters[1], (*batch, *inner)) if count >= 0 else None


def equation(text: str, operands: Sequence[Shape]) -> Terms | None:
    """The letters of an ``einsum`` of two operands without dots."""
    left, arrow, made = text.replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow or "." in text or len(terms) != 2 or any(len(set(t)) < len(t) for t in (*terms, made)):
        return None
    if [len(term) for term in terms] != [len(shape) for shape in operands]:
        return None
    return Terms(tuple(terms[0]), tuple(terms[1]), tuple(made))


def contraction(call: Call, terms: Terms | None, pair: tuple[int, int] = (0, 1)) -> Outcome:
    """A sum of products of the two operands at ``pair``; other operands are added to it."""
    if terms is None or len(call.operands) <= max(pair):
        return call.whole()
    left, right = (call.operands[i] for i in pair)
    added = [operand for i, operand in enumerate(call.operands) if i not in pair]
    sizes: dict[str, int] = {}
    made = call.made[0].shape
    for letters, shape in ((terms.left, left.shape), (terms.right, right.shape), (terms.made, made)):
        if len(letters) != len(shape):
            return call.whole()
        for letter, size in zip(letters, shape, strict=True):
            if letter is not None and sizes.setdefault(letter, size) != size:
                return call.whole()
    if right.fixed:
        return _weighted(call, sizes, (terms.right, right), (terms.left, left), terms.made, added)
    if left.fixed:
        return _weighted(call, sizes, (terms.left, left), (terms.right, right), terms.made, added)
    return _activations(call, sizes, (terms.left, left), (terms.right, right), terms.made, added)


def _extent(sizes: dict[str, int], letters: set[str | None]) -> int:
    return prod(sizes[letter] for letter in letters if letter is not None)


def _weighted(
    call: Call,
    sizes: dict[str, int],
    weights: tuple[Letters, Operand],
    activation: tuple[Letters, Operand],
    made: Letters,
    added: Sequence[Operand],
) -> Outcome:
    """A product with a parameter: its rows are the letters that only parameter and result have."""
    in_w, in_x, out = set(weights[0]), set(activation[0]), set(made)
    outer, rows, inner = in_w & in_x & out, (in_w & out) - in_x, (in_w & in_x) - out
    letters, operand = activation
    if not inner or (in_x - out - in_w) - {None} or (in_w - out - in_x) - {None}:
        return call.whole()
    whole = operand.layout == "whole"
    place = place_of(operand)
    letter = None if place is None else letters[place.axis]
    alone = all(one.fixed or one.layout == "whole" for one in added)
    at: Place | None = None
    splits: tuple[Range, ...] = ()
    if place is not None and letter in outer and alone:
        at, splits = place._replace(axis=made.index(letter)), ("outer",)
    else:
        axis = next((i for i, one in enumerate(made) if one in rows and call.made[0].shape[i] > 1), None)
        at = None if axis is None else call.chosen(axis)
        splits = ("rows",) if at is not None else ()
        if alone and (whole or letter in inner):
            splits = (*splits, "inner")
    loops = Loops(
        outer=_extent(sizes, outer),
        rows=_extent(sizes, rows),
        inner=_extent(sizes, inner),
        columns=_extent(sizes, out - in_w),
        weights=True,
        splits=splits,
        whole_bytes=0 if at is None else call.needed_whole(at, added),
    )
    return Outcome(loops, call.whole().layouts if at is None else call.layouts(at))


def _activations(
    call: Call,
    sizes: dict[str, int],
    left: tuple[Letters, Operand],
    right: tuple[Letters, Operand],
    made: Letters,
    added: Sequence[Operand],
) -> Outcome:
    """A product of two activations: split along a letter of the result along which all split operands are split."""
    in_a, in_b, out = set(left[0]), set(right[0]), set(made)
    outer, only_a, only_b = in_a & in_b & out, (in_a & out) - in_b, (in_b & out) - in_a
    inner = (in_a & in_b) - out
    if not inner or (in_a | in_b) - out - inner - {None}:
        return call.whole()
    at = _agreed(call, [left, right, *((made[-len(o.shape) :] if o.shape else (), o) for o in added)], made, outer)
    letter = None if at is None else made[at.axis]
    rows, columns = (only_b, only_a) if letter in only_b else (only_a, only_b)
    loops = Loops(
        outer=_extent(sizes, outer),
        rows=_extent(sizes, rows),
        inner=_extent(sizes, inner),
        columns=_extent(sizes, columns),
        splits=() if at is None else ("outer" if letter in outer else "rows",),
        whole_bytes=0 if at is None else call.needed_whole(at, added),
        heads=_of_one_sample(sizes[letter], _extent(sizes, outer)) if letter in outer and letter is not None else 0,
    )
    return Outcome(loops, call.whole().layouts if at is None else call.layouts(at))


def _of_one_sample(heads: int, outer: int) -> int:
    return heads if heads < outer else 0


def _agreed(
    call: Call, operands: Sequence[tuple[Letters, Operand]], made: Letters, outer: set[str | None]
) -> Place | None:
    """The place in the result along whose letter all operands that are split lie split; where none is split, that of
    the last letter of ``outer``. None where there isn't one."""
    shape = call.made[0].shape
    found: Place | None = None
    for letters, operand in operands:
        if operand.fixed or operand.layout == "whole":
            continue
        place = place_of(operand)
        letter = None if place is None else letters[place.axis]
        agrees = place is not None and letter is not None and letter in made
        if place is not None and agrees:
            place = place._replace(axis=made.index(letter))
            agrees = operand.shape[letters.index(letter)] == shape[place.axis]
            agrees = agrees and (found is None or (found.axis, found.extent) == (place.axis, place.extent))
        if place is None or not agrees:
            call.ask_whole([one for _, one in operands])
            return None
        found = place if found is None else found._replace(parts=gcd(found.parts, place.parts))
    if found is not None:
        return found if found.parts > 1 else None
    axis = next((i for i in reversed(range(len(made))) if made[i] in outer and shape[i] > 1), None)
    return None if axis is None else Place(axis, shape[axis], shape[axis], -1)


def linear(call: Call) -> Outcome:
    """x · Wᵀ + b, with W [features, inner]."""
    if len(call.operands) < 2 or not call.operands[0].shape or len(call.operands[1].shape) != 2:
        return call.whole()
    before = tuple(f"b{i}" for i in range(len(call.operands[0].shape) - 1))
    return contraction(call, Terms((*before, "k"), ("n", "k"), (*before, "n")))


def product(call: Call, first: int = 0) -> Outcome:
    """The matrix product of operand ``first`` and the next one, as NumPy has it; ONNX's ``Gemm`` may transpose them."""
    if len(call.operands) < first + 2:
        return call.whole()
    left, right = (operand.shape for operand in call.operands[first : first + 2])
    flip = (bool(call.argument("transA")), bool(call.argument("transB")))
    return contraction(call, matrices(left, right, call.made[0].shape, flip), (first, first + 1))


def added_product(call: Call) -> Outcome:
    """``addmm`` and ``baddbmm``: the first operand is added to the product of the other two."""
    return product(call, 1)


def einsum(call: Call) -> Outcome:
    """A sum of products of two operands by its equation."""
    text = call.argument("equation")
    if not isinstance(text, str) or len(call.operands) != 2:
        return call.whole()
    return contraction(call, equation(text, [operand.shape for operand in call.operands]))


def grouped_product(call: Call) -> Outcome:
    """Rows of x [tokens, inner] times the matrix of each one's group, W [groups, inner, features]: every part has its
    features of all groups."""
    if len(call.operands) < 2 or (len(call.operands[0].shape), len(call.operands[1].shape)) != (2, 3):
        return call.whole()
    return contraction(call, Terms(("t", "k"), (None, "k", "n"), ("t", "n")))


def convolution(call: Call) -> Outcome:
    """A convolution with kernel [out, in / groups, window]; transposed ones have [in, out / groups, window].

    The parts of several groups are split by groups, else by output channels, or by input channels with sums. One whose
    kernel is computed isn't split.
    """
    turned = "transpose" in call.step.kind.lower() or call.argument("transposed") is True
    if call.step.kind in ("convolution", "_convolution") and call.argument("transposed") is None:
        return call.whole()
    if len(call.operands) < 2 or len(call.operands[1].shape) < 3:
        return call.whole()
    x, kernel = call.operands[:2]
    made, window = call.made[0].shape, kernel.shape[2:]
    axis = len(made) - len(window) - 1  # of the channels
    if axis not in (0, 1) or len(x.shape) != len(made):
        return call.whole()
    channels, outputs = x.shape[axis], made[axis]
    groups = outputs // max(1, kernel.shape[1]) if turned else channels // max(1, kernel.shape[1])
    if groups < 1 or channels % groups or outputs % groups:
        return call.whole()
    samples = made[0] if axis else 1
    alone = all(one.fixed or one.layout == "whole" for one in call.operands[2:])
    place = place_of(x)
    at, splits = _channels(call, axis, groups, place, alone) if kernel.fixed else (None, ())
    area = prod(window)
    steps = tuple(call.numbers("stride", "strides") or (1,))
    loops = Loops(
        outer=groups,
        rows=outputs // groups * (area if turned else 1),
        inner=channels // groups * (1 if turned else area),
        columns=samples * prod(x.shape[axis + 1 :] if turned else made[axis + 1 :]),
        weights=kernel.fixed,
        splits=splits,
        window=window,
        stride=steps * len(window) if len(steps) == 1 else steps,
        places=made[axis + 1 :],
        transposed=turned,
    )
    return Outcome(loops, call.whole().layouts if at is None else call.layouts(at))


def _channels(
    call: Call, axis: int, groups: int, place: Place | None, alone: bool
) -> tuple[Place | None, tuple[Range, ...]]:
    """Where the result's channels are split, and by which ranges."""
    x, made = call.operands[0], call.made[0].shape
    whole = x.layout == "whole"
    if groups > 1:
        along = place is not None and place.axis == axis and place.extent == x.shape[axis]
        parts = gcd(groups, place.parts) if place is not None and not whole else groups
        if (whole or along) and alone and parts > 1:
            return Place(axis, made[axis], parts, -1), ("outer",)
        return None, ()
    at = call.chosen(axis)
    rows: tuple[Range, ...] = ("rows",) if at is not None else ()
    if alone and (whole or (place is not None and place.axis == axis)):
        return at, (*rows, "inner")
    return at, rows


def attention(call: Call) -> Outcome:
    """softmax(Q · Kᵀ) · V, heads in the third axis from the last: as one product that makes as much and has as many
    FLOP. Fewer heads of keys and values are shared by equal numbers of heads of queries."""
    if len(call.operands) < 3 or any(len(o.shape) < 3 for o in call.operands[:3]):
        return call.whole()
    query, key, value = call.operands[:3]
    made = call.made[0].shape
    axis = len(made) - 3
    if any(len(o.shape) != len(made) for o in (query, key, value)) or made[axis] != query.shape[axis]:
        return call.whole()
    both = query.shape[-1] + made[-1]
    loops = Loops(
        outer=prod(made[:-2]),
        rows=made[-1],
        inner=-(-key.shape[-2] * both // max(1, made[-1])),
        columns=made[-2],
    )
    at: Place | None = None
    for operand in call.operands:
        if operand.fixed or operand.layout == "whole":
            continue
        place, offset = place_of(operand), len(made) - len(operand.shape)
        if place is None or place.axis + offset != axis or place.extent != operand.shape[place.axis]:
            call.ask_whole(call.operands)
            return call.whole(loops)
        parts = place.parts if at is None else gcd(at.parts, place.parts)
        at = Place(axis, made[axis], parts, place.maker)
    heads = gcd(query.shape[axis], key.shape[axis]) if key.shape[axis] > 1 else query.shape[axis]
    at = at or Place(axis, made[axis], heads, -1)
    if at.parts < 2 or placed(at, made) == "lost":
        return call.whole(loops)
    fixed = sum(o.stored for o in call.operands if o.fixed and (len(o.shape) < 3 or o.shape[-3] not in (made[axis], 0)))
    one = _of_one_sample(made[axis], loops.outer)
    return Outcome(loops.replace(splits=("outer",), whole_bytes=fixed, heads=one), call.layouts(at))
