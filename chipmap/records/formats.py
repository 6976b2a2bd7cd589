"""Formats of files that a family's record names: the field's own, and plans for runtimes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class FileFormat:
    """A text format of the field's own, beside JSON, for a family's instances or solutions.

    A file is of this format if its name ends in ``ending`` or its content begins with what the regular expression
    ``begins`` matches. ``read`` is ``"module:function"``: (bytes, where) -> instance, or (bytes, where, instance) ->
    solution; ``write`` the way back: (instance) or (instance, solution) -> bytes.
    """

    ending: str
    begins: str
    holds: Literal["instance", "solution"]
    read: str
    write: str

    def fits(self, data: bytes, name: str) -> bool:
        """Whether a file of that name and content is of this format (JSON never is)."""
        if data.lstrip()[:1] == b"{":
            return False
        return name.lower().endswith(self.ending) or re.match(self.begins.encode(), data) is not None


@dataclass(frozen=True)
class PlanFormat:
    """A mapping as a runtime takes it, or as people have it: what `chipmap emit` writes and `chipmap adopt` reads.

    ``name`` is that of ``--as``; ``title`` says in words what is written, ``files`` how the files are called. The
    functions are ``"module:function"``; without ``adopt`` it isn't read, without ``emit`` and ``suits`` not written.

    =============  ====================================================================================================
    ``emit``       (instance, solution, :class:`chipmap.plans.plan.EmitOptions`) -> dict of file name -> text or bytes
    ``suits``      (instance, solution or None) -> None, or why the format can't say this pair (None: any solution)
    ``adopt``      (instance, bytes, where) -> :class:`chipmap.plans.plan.Plan`
    ``recognise``  (bytes, where, instance) -> bool: whether a file of that name (``where``) and content is of it
    =============  ====================================================================================================

    ``model``: it carries the program, so that the model's file is needed. ``extra``: the extra of chipmap that it
    needs, which brings the module ``package``. ``inside``: ``emit`` writes what is said of the run (``options.told``)
    into the file; else it is written beside it.
    """

    name: str
    title: str
    files: str
    emit: str = ""
    suits: str = ""
    adopt: str = ""
    recognise: str = ""
    model: bool = False
    extra: str = ""
    package: str = ""
    inside: bool = False
