"""The oracle, a constraint of the user's own: any yes/no function H(instance, solution), asked about valid mappings.

H is given as ``--oracle module:function`` or in Python, never in an instance file. It returns True, False, a
:class:`Verdict` or several of them (one per rejected chip). How much a rejection says is H's *scope*, an attribute
``scope`` of the function or of a verdict. The scope ``mapping`` (the default) means that this mapping is no good and
says nothing about any other. A family that has more scopes names them, with their meaning, in ``Family.scopes``.

Bounds rest on an honest scope. H must be a function of its arguments: same question, same answer. The label of the
constraint that H states is ``Family.oracle``; a family without one takes no oracle.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import sys
import time
import tokenize
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from chipmap.family import Family
from chipmap.records import ChipmapError, InputError, Record, counted

#: The scope that every family with an oracle has.
MAPPING = "mapping"


class OracleError(ChipmapError):
    """H raised an exception or returned something else than a verdict."""


@dataclass(frozen=True)
class Verdict:
    """What H says of a mapping, or of one chip of it.

    ``scope`` None takes the function's own. ``chip`` is the rejected chip, for scopes that are about one chip;
    ``operations`` (positions in the graph) are those to blame (empty: all on the chip).
    """

    accepts: bool
    scope: str | None = None
    chip: int | None = None
    operations: tuple[int, ...] = ()
    message: str = ""


@dataclass(frozen=True)
class Rejection:
    """A mapping that H rejected, and why (scopes filled in; never empty)."""

    solution: Any
    verdicts: tuple[Verdict, ...]


@dataclass(eq=False)
class Oracle:
    """H with its name, version and scope, the ``scopes`` it may use, and what it said so far.

    Each mapping is asked about once.

    ``on_chip(instance, operations) -> bool``, if H has that attribute, judges the operations (positions) of one chip
    alone: then blocks are judged before any mapping is made of them.
    """

    name: str
    version: str
    scope: str
    scopes: tuple[str, ...]
    function: Callable[[Any, Any], Any]
    on_chip: Callable[[Any, tuple[int, ...]], bool] | None = None
    rejections: list[Rejection] = field(default_factory=list)
    asked: int = 0
    blocks_asked: int = 0
    blocks_rejected: int = 0
    seconds: float = 0.0
    _known: dict[str, tuple[Verdict, ...]] = field(default_factory=dict)

    def ask(self, instance: Record, solution: Record) -> tuple[Verdict, ...]:
        """The rejections of ``solution`` (empty: H accepts). Raises :class:`OracleError`."""
        key = f"{instance.content_hash} {solution.content_hash}"
        if key not in self._known:
            self.asked += 1
            self._known[key] = self._rejections(self._timed(self.function, instance, solution))
            if self._known[key]:
                self.rejections.append(Rejection(solution, self._known[key]))
        return self._known[key]

    def accepts_chip(self, instance: Record, operations: tuple[int, ...]) -> bool:
        """Whether one chip may hold exactly ``operations``, by H's own ``on_chip``. Raises :class:`OracleError`."""
        assert self.on_chip is not None
        self.blocks_asked += 1
        accepted = self._timed(self.on_chip, instance, operations)
        if not isinstance(accepted, bool):
            raise OracleError(f"the oracle {self.name} returned {accepted!r} from on_chip, neither True nor False")
        self.blocks_rejected += not accepted
        return accepted

    def _timed(self, function: Callable[..., Any], *arguments: Any) -> Any:
        began = time.monotonic()
        try:
            return function(*arguments)
        except Exception as error:
            raise OracleError(f"the oracle {self.name} raised {type(error).__name__}: {error}") from error
        finally:
            self.seconds += time.monotonic() - began

    def _rejections(self, answer: Any) -> tuple[Verdict, ...]:
        items = tuple(answer) if isinstance(answer, list | tuple) else (answer,)
        verdicts = []
        for item in items:
            if not isinstance(item, bool | Verdict):
                raise OracleError(f"the oracle {self.name} returned {item!r}: give True, False or a Verdict")
            verdict = Verdict(item) if isinstance(item, bool) else item
            scope = verdict.scope or self.scope
            if scope not in self.scopes:
                raise OracleError(f"the oracle {self.name} declares scope {scope!r}: choose from {self.scopes}")
            if not verdict.accepts:
                known = scope if verdict.chip is not None else MAPPING
                verdicts.append(Verdict(False, known, verdict.chip, tuple(verdict.operations), verdict.message))
        return tuple(verdicts)

    @property
    def title(self) -> str:
        """Name and version."""
        return f"{self.name} {self.version}"

    def report(self) -> dict[str, Any]:
        """What a result records: which H, how often it was asked and what it rejected, with the commonest reasons."""
        reasons = Counter(v.message or "no reason given" for r in self.rejections for v in r.verdicts)
        return {
            "name": self.name,
            "version": self.version,
            "scope": self.scope,
            "asked": self.asked,
            "rejected": len(self.rejections),
            "blocks_asked": self.blocks_asked,
            "blocks_rejected": self.blocks_rejected,
            "seconds": round(self.seconds, 3),
            "reasons": dict(reasons.most_common(5)),
        }

    def note(self) -> str:
        """The report in a sentence."""
        asked = counted(self.asked, "mapping")
        text = f"oracle {self.title} (scope {self.scope}): {len(self.rejections)} of {asked} rejected"
        if self.blocks_asked:
            text += f", {self.blocks_rejected} of {counted(self.blocks_asked, 'block')}"
        first = next((v.message for r in self.rejections for v in r.verdicts if v.message), "")
        return f"{text}; first: {first}" if first else text


def load_oracle(given: str | Callable[..., Any] | None, family: Family) -> Oracle | None:
    """The oracle for ``family`` that ``given`` names (``"module:function"``, on the path or in the folder) or is.

    Raises :class:`InputError` for a family that takes none, and for what can't be imported or called, or declares a
    scope that the family doesn't have.
    """
    if given is None:
        return None
    if not family.oracle:
        raise InputError(f"family {family.name!r} takes no oracle", "--oracle", "Leave the oracle out.")
    function = imported(given, "--oracle") if isinstance(given, str) else given
    if not callable(function):
        raise InputError(f"{given!r} is not a function", "--oracle", "Name a function (instance, solution) -> bool.")
    name = given if isinstance(given, str) else name_of(function)
    scope, scopes = getattr(function, "scope", MAPPING), (MAPPING, *family.scopes)
    if scope not in scopes:
        raise InputError(f"{name} declares scope {scope!r}", "--oracle", f"Scopes: {', '.join(scopes)} (see the page).")
    return Oracle(name, version_of(function), scope, scopes, function, getattr(function, "on_chip", None))


def imported(spec: str, option: str) -> Any:
    """What ``"module:name"`` names, on the path or in the current folder; :class:`InputError` at ``option``."""
    module, _, name = spec.partition(":")
    if not module or not name:
        raise InputError(f"{spec!r} names no function", option, "Write module:function.")
    here = os.getcwd()
    added = here not in sys.path
    if added:
        sys.path.append(here)
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found
    except AttributeError:
        raise InputError(f"module {module!r} has no {name!r}", option, "Check the spelling.") from None
    except Exception as error:
        what = f"module {module!r} can't be imported: {type(error).__name__}: {error}"
        remedy = "Write module:function, with the module on PYTHONPATH or in the current folder."
        raise InputError(what, option, remedy) from None
    finally:
        if added:
            sys.path.remove(here)


def name_of(function: Any) -> str:
    """``module:function``, or the class of an object that can be called."""
    kind = function if hasattr(function, "__qualname__") else type(function)
    return f"{kind.__module__}:{kind.__qualname__}"


def version_of(function: Any) -> str:
    """``VERSION`` of the function or its module, the module's ``__version__``, or a hash of the source."""
    module = inspect.getmodule(function) or inspect.getmodule(type(function))
    for holder, name in ((function, "VERSION"), (module, "VERSION"), (module, "__version__")):
        version = getattr(holder, name, None)
        if version is not None:
            return str(version)
    kind = function if hasattr(function, "__qualname__") else type(function)
    try:
        source = inspect.getsource(kind)
    except (OSError, TypeError, SyntaxError, tokenize.TokenError):  # code that stands in a page, say
        return "unknown"
    return "source " + hashlib.sha256(source.encode()).hexdigest()[:12]
