"""Where the bytes of parameters and other constants of a program stand in its graph.

===============================================  ==================================================================
what is stored                                   where its bytes stand
===============================================  ==================================================================
parameter that one computing operation reads     in that operation's ``weight_bytes``; no tensor carries them
parameter that several read                      in its tensor, made by an operation of role ``constant``; views of
                                                 it have the role ``view``, so that all readers read one storage
parameter that several read, each only a part    each part is a parameter of its own: a view that cuts it out makes
(the parts together no larger than it)           it (one expert of a stack, one third of a joint projection)
parameter of a single element                    in the ``weight_bytes`` of every reader
another constant                                 in its tensor; a part that a view cuts out is a constant of its own
===============================================  ==================================================================

"Read" means by a computing operation, directly or through views. A parameter that only constants read, or nothing at
all, has no bytes: what is made of it beforehand is stored instead.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Stored:
    """Data that are known before the network runs: ``name`` of the value, its ``bytes``, whether it has a ``single``
    element, and whether it is a ``parameter`` (or a part of one) or computed from others.

    ``names`` are views of all of it, ``parts`` what views cut out of it, ``readers`` the computing operations that read
    it or one of ``names`` (in order, as keys).
    """

    name: str
    bytes: int
    single: bool = False
    parameter: bool = True
    names: list[str] = field(default_factory=list)
    parts: list[Stored] = field(default_factory=list)
    readers: dict[int, None] = field(default_factory=dict)

    def all_readers(self) -> dict[int, None]:
        """Computing operations that read any of it."""
        found = dict(self.readers)
        for part in self.parts:
            found |= part.all_readers()
        return found

    def below(self) -> list[str]:
        """All values that are views of it or of its parts."""
        return [*self.names, *(name for part in self.parts for name in (part.name, *part.below()))]


@dataclass
class Settled:
    """``weights``: bytes that operations hold by themselves. Values: ``empty`` ones carry no bytes, ``shared`` ones are
    parameters whose tensors do, ``views`` are made by operations of role ``view``.
    """

    weights: dict[int, int] = field(default_factory=dict)
    empty: list[str] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)
    views: list[str] = field(default_factory=list)

    def add(self, other: Settled) -> None:
        """Add what was settled elsewhere."""
        for v, size in other.weights.items():
            self.weights[v] = self.weights.get(v, 0) + size
        self.empty += other.empty
        self.shared += other.shared
        self.views += other.views


def settle(stored: Stored) -> Settled:
    """Where the bytes of ``stored`` stand (the table at the top)."""
    settled = Settled()
    readers = stored.all_readers()
    if not stored.parameter:
        settled.views += stored.names
        for part in stored.parts:
            settled.add(settle(part))
    elif len(readers) < 2 or stored.single:
        settled.weights = dict.fromkeys(readers, stored.bytes)
        settled.empty += [stored.name, *stored.below()]
    elif not stored.readers and sum(part.bytes for part in stored.parts if part.all_readers()) <= stored.bytes:
        settled.empty += [stored.name, *stored.names]
        for part in stored.parts:
            settled.add(settle(part))
    else:
        settled.shared.append(stored.name)
        settled.views += stored.below()
    return settled
