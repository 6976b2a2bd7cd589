"""Models written to files that other programs read: LP and MPS for MIP models, ``CpModelProto`` for CP-SAT's."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chipmap.family import Model
from chipmap.records import InputError

if TYPE_CHECKING:
    from chipmap.solvers.lowering import LoweredModel

#: Suffix -> kind of model that it can hold.
SUFFIXES = {".lp": "mip", ".mps": "mip", ".pb": "cpsat", ".pbtxt": "cpsat"}

#: What an LP reader would take for a number or a word of its own.
RESERVED = re.compile(
    r"\d.*|e\d*|e\d.*|(max|min)(imi[sz]e|imum)?|st|subject|such|to|that|bounds?|free|inf(inity)?|end"
    r"|bin(ar(y|ies))?|gen(erals?)?|int(egers?)?|semis?|sos[12]?",
    re.IGNORECASE,
)
#: LP readers allow 255 characters; room is left for a distinguishing number.
NAME_LENGTH = 240


def export(model: Model, path: str | Path) -> None:
    """Write a model to ``path``, in the format that its suffix names. The objective's constant is part of the file.

    Raises :class:`InputError` for a suffix that this kind of model has no use for, or a file that can't be written.
    """
    path = Path(path)
    fitting = [suffix for suffix, kind in SUFFIXES.items() if kind == model.kind]
    if path.suffix not in fitting:
        what = f"a {model.kind} model can't be written as {path.suffix or 'a file without suffix'}"
        raise InputError(what, str(path), f"Formats for it: {', '.join(fitting)}.")
    try:
        path.open("w").close()  # HiGHS would crash on a path that it can't write
    except OSError as error:
        raise InputError(f"can't be written: {error.strerror}", str(path), "Check the folder.") from None
    if model.kind == "mip":
        export_mip(model.native, path)
    else:
        from chipmap.solvers.cpsat import export_cpsat

        export_cpsat(model, path)


def export_mip(native: Any, path: Path) -> None:
    """Write a Pyomo model as ``.lp`` or ``.mps``, with names made from Pyomo's (``y[a,3]`` -> ``y_a_3``).

    An LP file holds the objective's constant as the cost of a column that is fixed at 1: readers differ on a bare one.
    """
    import highspy

    from chipmap.solvers.highs import highs_lp
    from chipmap.solvers.lowering import lower

    lowered = lower(native)
    lp = highs_lp(lowered)
    lp.col_names_ = names = column_names(lowered)
    lp.row_names_ = safe_names(constraint.name for constraint in lowered.constraints)
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.passModel(lp)
    if path.suffix == ".lp" and lowered.offset:
        highs.changeObjectiveOffset(0.0)
        highs.addCol(lowered.offset, 1.0, 1.0, 0, [], [])
        # It must be unique, too.
        highs.passColName(lowered.columns, safe_names([*names, "objective_constant"])[-1])
    if highs.writeModel(str(path)) == highspy.HighsStatus.kError or not _ends(path):
        raise InputError("can't be written as a whole", str(path), "Check the disk: it may be full.")


def _ends(path: Path) -> bool:
    """Whether the file goes on to its end mark: HiGHS says nothing of a disk that is full."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 64))
        return file.read(64).rstrip().lower().endswith(b"end" if path.suffix == ".lp" else b"endata")


def column_names(lowered: LoweredModel) -> list[str]:
    """The columns' names in LP and MPS files, in their order: Pyomo's, made safe."""
    return safe_names(variable.name for variable in lowered.variables)


def safe_names(names: Iterable[str]) -> list[str]:
    """Unique names of letters, digits and ``_`` that LP and MPS readers accept, in the same order."""
    safe: list[str] = []
    used: set[str] = set()
    for original in names:
        name = re.sub(r"[^A-Za-z0-9]+", "_", original).strip("_")[:NAME_LENGTH]
        if not name or RESERVED.fullmatch(name):
            name = f"v_{name}"
        if name in used:
            name = f"{name}__{len(used)}"
        used.add(name)
        safe.append(name)
    return safe
