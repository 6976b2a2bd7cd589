"""Where the bytes of parameters and other constants of a program stand in its graph.

===============================================  ==================================================================
what is stored                                   where its bytes stand
===============================================  ==================================================================
parameter that one computing operation reads     in that operation's ``weight_bytes``; no tensor carries them
parameter that several read                      in its tensor, made by an operation of role ``constant``; views of
                                                 it have the role ``view``, so that all readers read one storage
parameter that is read in parts only             each part is a parameter of its own: a view that cuts it out makes
(which together are no larger than it)           it (one expert of a stack, the first rows of a table of positions);
                                                 what no part holds is stored nowhere
parameter of a single element                    in the ``weight_bytes`` of every reader
another constant                                 in its tensor; a part that a view cuts out is a constant of its own
===============================================  ==================================================================

Numbers that are dequantised beforehand count as a view of the quantised ones: they rest, and are read, as these, with
their scales and zero points.
"Read" means by a computing operation, directly or through views. A parameter that only constants read, or nothing at
all, has no bytes: what is made of it beforehand is stored instead.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice


@dataclass
class Stored:
    """Data that are known before the network runs: ``name`` of the value, its ``bytes``, whether it has a ``single``
    element, and whether it is a ``parameter`` (or a part of one) or computed from others.

    ``names`` are views of all of it, ``parts`` what views cut out of it, ``readers`` the computing operations that read
    it or one of ``names`` (in order, as keys). ``beside``: bytes of the scales and zero points of quantised numbers, by
    their values; they rest where the numbers do.
    """

    name: str
    bytes: int
    single: bool = False
    parameter: bool = True
    names: list[str] = field(default_factory=list)
    parts: list[Stored] = field(default_factory=list)
    readers: dict[int, None] = field(default_factory=dict)
    beside: dict[str, int] = field(default_factory=dict)

    @property
    def rests(self) -> int:
        """Bytes of it and of what goes with it."""
        return self.bytes + sum(self.beside.values())

    def tree(self) -> list[Stored]:
        """It, its parts and theirs, each after what it is part of."""
        found = [self]
        for stored in found:
            found += stored.parts
        return found

    def values(self) -> list[str]:
        """Its name, and those of all values that are views of it or of its parts."""
        return [name for each in self.tree() for name in (each.name, *each.names)]


@dataclass
class Settled:
    """``weights``: bytes that operations hold by themselves. Values: ``empty`` ones carry no bytes, ``shared`` ones are
    parameters whose tensors do, ``views`` are made by operations of role ``view``; ``carried`` are bytes of tensors
    that carry more than their own. ``read``: bytes of it that are stored, each once.
    """

    weights: Counter[int] = field(default_factory=Counter)
    empty: list[str] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)
    views: list[str] = field(default_factory=list)
    carried: dict[str, int] = field(default_factory=dict)
    read: int = 0


def settle(stored: Stored) -> Settled:
    """Where the bytes of ``stored`` stand (the table at the top)."""
    settled = Settled()
    few = _few_readers(stored)
    todo = [stored]
    while todo:
        part = todo.pop()
        if part.beside:
            settled.carried[part.name] = part.rests
        if not part.parameter:
            settled.views += part.names
            todo += reversed(part.parts)
        elif not part.readers and sum(each.bytes for each in part.parts if few[each.name]) <= part.bytes:
            settled.empty += [part.name, *part.names]
            todo += reversed(part.parts)
        elif len(few[part.name]) < 2 or part.single:
            settled.weights.update(dict.fromkeys(few[part.name] | part.readers.keys(), part.rests))
            settled.empty += part.values()
            settled.read += part.rests if few[part.name] else 0
        else:
            settled.shared.append(part.name)
            settled.read += part.rests
            settled.views += part.values()[1:]
    return settled


def _few_readers(stored: Stored) -> dict[str, set[int]]:
    """Of each part the computing operations that read any of it; two of them where there are more."""
    few: dict[str, set[int]] = {}
    for part in reversed(stored.tree()):
        found = set(islice(part.readers, 2)).union(*(few[each.name] for each in part.parts))
        few[part.name] = set(sorted(found)[:2])
    return few
