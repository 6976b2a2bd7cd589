"""Plans of family ``multimodel`` as tables: a line per segment, as ``schedule.csv`` of a run has them.

Columns are found by their names: ``window``, ``model``, ``chiplet``, and the first and last layer by position
(``first``, ``last``) or by name (``first_layer``, ``last_layer``). Others say nothing.
"""

from __future__ import annotations

from chipmap.instances.multimodel.describe import files
from chipmap.instances.multimodel.instance import MultiInstance, MultiSolution, Piece
from chipmap.plans import rows
from chipmap.plans.plan import Plan
from chipmap.records import InputError, choices

NEEDED = ("window", "model", "chiplet")
_REMEDY = "Give a table with the columns window, model, first, last and chiplet, as schedule.csv of a run has them."


def emit(instance: MultiInstance, solution: MultiSolution) -> bytes:
    """The table of a schedule; with objective ``frames`` that of its frames."""
    return files(instance, solution)["frames.csv" if instance.task.objective == "frames" else "schedule.csv"]


def recognise(data: bytes) -> bool:
    """Whether the first line names windows, models and chiplets."""
    return set(NEEDED) <= set(rows.heading(data))


def adopt(instance: MultiInstance, data: bytes, where: str) -> Plan:
    """The schedule that the table says; the checker says whether all layers are in it."""
    layers = {model.name: [layer.name for layer in model.layers] for model in instance.models}
    chiplets = dict.fromkeys(chiplet.name for chiplet in instance.module.chiplets)
    windows: dict[int, list[Piece]] = {}
    for here, cells in rows.lines(data, where, {one: (one,) for one in NEEDED}, _REMEDY):
        model, chiplet = rows.named(cells["model"], layers), rows.named(cells["chiplet"], chiplets)
        if model not in layers:
            raise InputError(f"no model is called {model!r}", here, choices(model, layers, "There are"))
        if chiplet not in chiplets:
            raise InputError(f"no chiplet is called {chiplet!r}", here, choices(chiplet, chiplets, "There are"))
        first, last = (_layer(cells, end, layers[model], here) for end in ("first", "last"))
        window = rows.number(cells["window"], "window", here)
        if window >= instance.task.windows:
            what = f"there is no window {window}"
            raise InputError(what, here, f"They run from 0 to {instance.task.windows - 1} (task.windows).")
        piece = Piece(model=model, first=first, last=last, chiplet=chiplet)
        windows.setdefault(window, []).append(piece)
    _whole(layers, windows, where)
    count = max(windows, default=-1) + 1
    made = tuple(tuple(windows.get(window, ())) for window in range(count))
    return Plan(solution=MultiSolution(instance=instance.name, windows=made))


def _layer(cells: dict[str, str], end: str, layers: list[str], here: str) -> int:
    """The position of the first or last layer of a line."""
    if cells.get(end):
        position = rows.number(cells[end], "layer", here)
        if position >= len(layers):
            raise InputError(f"there is no layer {position}", here, f"Layers run from 0 to {len(layers) - 1} here.")
        return position
    name = rows.named(cells.get(f"{end}_layer", ""), dict.fromkeys(layers))
    if layers.count(name) != 1:
        what = f"no layer is called {name!r}" if name not in layers else f"several layers are called {name!r}"
        raise InputError(what, here, f"Give its position as {end}. {choices(name, layers, 'There are')}")
    return layers.index(name)


def _whole(layers: dict[str, list[str]], windows: dict[int, list[Piece]], where: str) -> None:
    """Refuse a table without some layer, or with one on two chiplets."""
    for model, names in layers.items():
        of: dict[int, str] = {}
        for piece in (one for pieces in windows.values() for one in pieces if one.model == model):
            for layer in range(piece.first, piece.last + 1):
                if layer in of:
                    what = f"layer {names[layer]!r} of {model!r} is on {of[layer]!r} and on {piece.chiplet!r}"
                    raise InputError(what, where, "Name it once.")
                of[layer] = piece.chiplet
        for layer, name in enumerate(names):
            if layer not in of:
                raise InputError(f"layer {name!r} of {model!r} is in no segment", where, "Name each layer once.")
