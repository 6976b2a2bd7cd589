"""What an operation makes for its gradient alone: masks, statistics, places, and copies of a product's operands."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from itertools import combinations

from chipmap.instances import saved
from chipmap.networks.graph import Operation

#: Bytes of a statistic and of a place.
_STATISTIC, _PLACE = 4, 8
#: Stands for operands that their sizes don't tell.
UNTOLD = -1


def made_beside(
    one: Operation, gradients: Sequence[bool], results: Sequence[int], scales: Sequence[int], word: int
) -> list[int]:
    """Bytes of it for an operation that is no product; nothing where these are results already.

    ``gradients``: whether each operand has one; ``results``: bytes of the results; ``scales``: of the weights that it
    reads; ``word``: of a number. States beside a recurrent layer's result aren't what its gates keep. A cosine has half
    where only one operand has a gradient.
    """
    extra = saved.saves(one.kind, len(results), len(gradients)).extra
    if one.kept_bytes and len(results) == 1:
        half = saved.plain(one.kind) == "cosine_similarity" and sorted(gradients) == [False, True]
        return [one.kept_bytes // 2 if half else one.kept_bytes]
    if not extra or (len(results) != 1 and extra not in ("gates", "inner")):
        return []
    size = max(results)
    inner = (one.layers - 1) * size  # the results of all layers but the last
    if extra == "inner":
        return [inner] if inner else []
    gates = 5 * one.layers * size + inner  # five numbers per result of each layer
    if extra in ("statistics", "deviation"):
        each = 2 if extra == "statistics" else 1  # a scale and a shift are one tensor of weights
        one_row = max(scales, default=0) // (each if len(scales) == 1 and one.weight_bytes else 1)
        return [each * _STATISTIC * size // one_row] if one_row else []
    return [{"mask": size // word, "places": _PLACE * size // word, "gates": gates}[extra]]


def factors(
    kind: str, reads: Mapping[int, int], wanting: Collection[int], told: Sequence[Collection[int]] = ()
) -> list[int]:
    """Of operands that are multiplied or divided (tensor -> how often), those that gradients read.

    Each whose partner is ``wanting`` a gradient; not one that is just added; a divisor that wants one itself.
    ``told``: the tensors of each operand, in their order, where that is said.
    """
    added = set(told[0]) if told and saved.plain(kind) in ("addcmul", "addcdiv") else set()
    left = {t: often - (t in added) for t, often in reads.items() if often > (t in added)}
    kept = [t for t, often in left.items() if often > 1 or any(s != t and s in left for s in wanting)]
    divisors = told[-1] if told and saved.saves(kind).operands == "quotient" else ()
    return [*dict.fromkeys([*kept, *(t for t in divisors if t in wanting)])]


def copies(
    one: Operation, read: Sequence[int], sizes: Mapping[int, int] | Sequence[int], weights: Set[int], having: Set[int]
) -> dict[int, int]:
    """Operand of a product -> bytes of its copy (:mod:`chipmap.networks.importers.operators.copied`).

    Copied are the one or the two operands whose ``sizes`` add up to its ``kept_bytes``, or the only computed one, of
    which a part is read. ``read``: the operands, tensors of the draft; ``weights``: those that aren't computed, which
    come last. An operand whose partner isn't among those ``having`` a gradient is left out, as no gradient reads its
    copy.
    """
    operands, kept = sorted(dict.fromkeys(read), key=lambda t: t in weights), one.kept_bytes
    if saved.plain(one.kind) == "einsum" and max(len(one.operands), len(read)) > 2:
        return {UNTOLD: kept} if kept else {}  # no copies, but products of two, which the next pair reads
    for many in (1, 2):
        for some in combinations(operands, many):
            if sum(sizes[t] for t in some) == kept:
                return {t: sizes[t] for t in some if any(s != t and s in having for s in read)}
    if kept and len(operands) > 1 and operands[1] in weights and operands[0] not in weights:
        return {operands[0]: kept} if any(s in having for s in operands[1:]) else {}
    return {UNTOLD: kept} if kept else {}
