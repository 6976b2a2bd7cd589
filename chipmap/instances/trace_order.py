"""Where the trace of a network can be cut so that runtimes can say it.

The trace is the order in which a program's operations stand in its file, and so in the graph. A cut at position p puts
the first p operations before it.

========  =============================================================================================================
cut       what can say it
========  =============================================================================================================
``list``  lists of modules per stage: no module that it divides computes anything itself, outside the modules in it
``split`` split points: the operation behind the cut is the first of a module
``any``   each other position: a program that is cut node by node
========  =============================================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Literal, NamedTuple

Cut = Literal["list", "split", "any"]
Path = tuple[str, ...]


class Cuts(NamedTuple):
    """Positions 1 … n - 1 of a trace of n operations at which it can be cut; each row holds the rows before it."""

    list: tuple[int, ...]
    split: tuple[int, ...]
    any: tuple[int, ...]


def cuts(paths: Sequence[Path]) -> Cuts:
    """The cuts of a trace whose operations are in the modules ``paths`` (outermost first; empty: in none).

    >>> cuts([("embed",), ("layers", "0"), ("layers", "0", "mlp"), ("layers", "1"), ("head",)])
    Cuts(list=(1, 3, 4), split=(1, 2, 3, 4), any=(1, 2, 3, 4))
    """
    first: dict[Path, int] = {}
    last: dict[Path, int] = {}
    for at, path in enumerate(paths):
        for depth in range(len(path) + 1):
            first.setdefault(path[:depth], at)
            last[path[:depth]] = at
    divided = [0] * (len(paths) + 1)  # differences of the number of modules that a cut divides and that compute
    for path in set(paths):
        divided[first[path] + 1] += 1
        divided[last[path] + 1] -= 1
    whole = [not count for count in accumulate(divided)]
    begins = {at for path, at in first.items() if path}
    every = range(1, len(paths))
    split = tuple(at for at in every if at in begins)
    return Cuts(tuple(at for at in split if whole[at]), split, tuple(every))
