"""Costs of layers from a user's files, and what ``--costs`` says.

``--costs`` names a preset (``roofline``, or one of :data:`~..costs.PRESETS`) or a file; it can be repeated. Costs of a
file stand before those of the preset, those of a later file before an earlier one's. Two kinds of files are read:

========  =============================================================================================================
own       columns ``model,layer,class,ns,pj``: whole ns and pJ of a sample; layers and classes that the file leaves out
          keep the costs that they have
MAESTRO   the results of one dataflow, as MAESTRO writes them (maestro-project, ``Runtime (Cycles)`` and ``Activity
          count-based Energy (nJ)``); ``FILE,class=nvdla,mhz=500`` says of which class and at which clock
========  =============================================================================================================

Of a MAESTRO file ``model=NAME`` names the model where the network's name isn't that of one. Rows belong to layers by
name, or else one by one in order. ``pj=N`` is what a unit of the energy column is worth (1000: nJ, as its heading says;
files of older versions hold far larger numbers under the same heading).
"""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isfinite

from chipmap.instances.multimodel.costs import PRESETS
from chipmap.instances.multimodel.instance import MAX_AMOUNT
from chipmap.records import InputError, Source, counted, listed

COLUMNS = ("model", "layer", "class", "ns", "pj")
NETWORK, LAYER = "Neural Network Name", "Layer Number"
CYCLES, ENERGY = "Runtime (Cycles)", "Activity count-based Energy (nJ)"
_OPTIONS = ("model", "class", "mhz", "pj")
_FORMAT = f"A file of costs has the columns {','.join(COLUMNS)}, or is one that MAESTRO wrote."
#: (model, position of the layer, class) -> (ns, pJ).
Given = dict[tuple[str, int, str], tuple[int, int]]


@dataclass(frozen=True)
class CostFile:
    """A file of costs, with what is said of it behind its name: ``FILE,class=nvdla,mhz=500``."""

    path: str
    said: Mapping[str, str]


@dataclass(frozen=True)
class _Row:
    """A line of a file: where it stands, and its cells by column."""

    where: str
    cells: Mapping[str, str]


def cost_files(texts: Sequence[str]) -> tuple[str, list[CostFile]]:
    """The preset (empty: none is named) and the files that the values of ``--costs`` name."""
    preset, files = "", []
    for text in texts:
        if text in ("roofline", *PRESETS):
            if preset:
                raise InputError(f"names two presets, {preset!r} and {text!r}", "--costs", "Name one, and files.")
            preset = text
            continue
        path, *rest = text.split(",")
        said = dict(part.partition("=")[::2] for part in rest)
        wrong = next((name for name, value in said.items() if name not in _OPTIONS or not value.strip()), None)
        if wrong is not None:
            remedy = f"Behind the file's name may stand {', '.join(f'{name}=...' for name in _OPTIONS)}."
            raise InputError(f"{text!r} has a part {wrong!r} that says nothing", "--costs", remedy)
        if not path.lower().endswith(".csv") and not _exists(path):
            presets = ", ".join(("roofline", *PRESETS))
            raise InputError(f"no file and no preset is called {path!r}", "--costs", f"Presets: {presets}. {_FORMAT}")
        files.append(CostFile(path, said))
    return preset, files


def overlay(files: Sequence[CostFile], layers: Mapping[str, Sequence[str]], kinds: Sequence[str]) -> Given:
    """The costs that the files give, for models with these names of ``layers`` and the classes of a module.

    Raises :class:`InputError` that names file, line and remedy: for an unknown model, layer or class, a layer named
    twice, and what is no cost.
    """
    given: Given = {}
    for file in files:
        rows = _rows(file.path)
        given |= (_maestro if CYCLES in rows[0].cells else _own)(file, rows, layers, kinds)
    return given


def _exists(path: str) -> bool:
    try:
        Source(path)
    except InputError:
        return False
    return True


def _rows(path: str) -> list[_Row]:
    """The lines of a file below its first; separated by commas, semicolons or tabs."""
    try:
        text = Source(path).content().decode("utf-8")
    except UnicodeDecodeError as error:
        remedy = "Save it as CSV in UTF-8 (spreadsheets offer that by name)."
        raise InputError(f"is not UTF-8 text (byte {error.start})", path, remedy) from None
    first = text.lstrip().partition("\n")[0]
    if not first:
        raise InputError("is empty", path, _FORMAT)
    try:
        lines = list(csv.reader(io.StringIO(text), delimiter=next((d for d in ",;\t" if d in first), ",")))
    except csv.Error as error:
        raise InputError(f"is no CSV file: {error}", path, _FORMAT) from None
    numbered = [(n, [cell.strip() for cell in line]) for n, line in enumerate(lines, 1) if any(map(str.strip, line))]
    (_, names), *rest = numbered
    if not {LAYER, CYCLES, ENERGY} <= set(names) and sorted(names) != sorted(COLUMNS):
        raise InputError(f"has the columns {_listed(names)}", path, _FORMAT)
    if not rest:
        raise InputError("has no row below its columns", path, "Give a row for each layer and class.")
    # of columns with the same name the first counts (MAESTRO has some; its rows may end before the last columns)
    places = {names[i]: i for i in reversed(range(len(names)))}
    needed = 1 + max(places.get(name, 0) for name in (*COLUMNS, LAYER, CYCLES, ENERGY, NETWORK))
    for n, cells in rest:
        if len(cells) < needed:
            raise InputError(
                f"has {counted(len(cells), 'cell')} of {needed}", f"{path}: line {n}", "Give one for each column."
            )
    return [
        _Row(f"{path}: line {n}", {name: cells[i] for name, i in places.items() if i < len(cells)}) for n, cells in rest
    ]


def _own(file: CostFile, rows: Sequence[_Row], layers: Mapping[str, Sequence[str]], kinds: Sequence[str]) -> Given:
    if file.said:
        what = f"names models and classes itself, but {next(iter(file.said))}=... stands behind it"
        raise InputError(what, file.path, f"Give just {file.path}.")
    at = {model: {name: i for i, name in enumerate(names)} for model, names in layers.items()}
    given: Given = {}
    for row in rows:
        model, layer, kind = (row.cells[name] for name in COLUMNS[:3])
        _known(model, list(at), "model", row.where)
        _known(layer, list(at[model]), f"layer of {model!r}", row.where)
        _known(kind, kinds, "class of the module", row.where)
        key = model, at[model][layer], kind
        if key in given:
            what = f"layer {layer!r} of {model!r} has a second cost on class {kind!r}"
            raise InputError(what, row.where, "Give one row per layer and class.")
        given[key] = _whole(row, "ns"), _whole(row, "pj")
    return given


def _known(name: str, known: Sequence[str], what: str, where: str) -> None:
    if name not in known:
        near = difflib.get_close_matches(name[:200], known, n=3)
        remedy = f"Did you mean {' or '.join(near)}?" if near else f"There are: {_listed(known)}."
        raise InputError(f"no {what} is called {name[:60]!r}", where, remedy)


def _listed(names: Iterable[str]) -> str:
    """The first names, on one line."""
    return listed((" ".join(name.split())[:40] for name in names), 8)


def _whole(row: _Row, column: str) -> int:
    """A cost as the file's own format has it."""
    text = row.cells[column]
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= MAX_AMOUNT):
        remedy = f"Give whole ns and pJ from 0 to {MAX_AMOUNT:.0e}, rounded up."
        raise InputError(f"{column} is {text[:40]!r}", row.where, remedy)
    return int(text)


def _maestro(file: CostFile, rows: Sequence[_Row], layers: Mapping[str, Sequence[str]], kinds: Sequence[str]) -> Given:
    kind = file.said.get("class", kinds[0] if len(kinds) == 1 else "")
    example = f"Write --costs {file.path},class={kind or kinds[0]},mhz=500"
    if not kind or "mhz" not in file.said:
        what = "holds cycles of one dataflow: it needs " + ("a clock" if kind else "a class")
        raise InputError(what, file.path, f"{example}.")
    _known(kind, kinds, "class of the module", f"--costs {file.path}")
    clock, worth = (_positive(file.said.get(name, "1000"), f"--costs {file.path}: {name}") for name in ("mhz", "pj"))
    given: Given = {}
    for model, own in _by_model(file, rows, layers, f"{example},model=NAME."):
        for i, row in _by_layer(own, layers[model], model, file.path):
            cycles, energy = (_amount(row, column) for column in (CYCLES, ENERGY))
            given[model, i, kind] = ceil(cycles * 1000 / clock), ceil(energy * worth)
            if max(given[model, i, kind]) > MAX_AMOUNT:
                what = f"comes to {max(given[model, i, kind]):.1e} ns or pJ"
                raise InputError(what, row.where, "Check mhz=... and pj=... behind the file's name.")
    return given


def _by_model(
    file: CostFile, rows: Sequence[_Row], layers: Mapping[str, Sequence[str]], example: str
) -> Iterator[tuple[str, list[_Row]]]:
    """The rows of each model."""
    networks = list(dict.fromkeys(row.cells.get(NETWORK, "") for row in rows))
    named = file.said.get("model")
    if named is not None:
        _known(named, list(layers), "model", f"--costs {file.path}")
        if len(networks) > 1:
            what = f"holds networks {_listed(networks)}, but model={named} stands behind it"
            raise InputError(what, file.path, "Give a file per network, or leave out model=...")
        yield named, list(rows)
        return
    for network in networks:
        if network not in layers:
            what = f"is of network {network!r}, and no model is called so"
            raise InputError(what, file.path, f"{example} Models: {_listed(layers)}.")
        yield network, [row for row in rows if row.cells.get(NETWORK, "") == network]


def _by_layer(rows: Sequence[_Row], names: Sequence[str], model: str, path: str) -> list[tuple[int, _Row]]:
    """(position of the layer, row): by name where all rows have names of layers, each once, else one by one."""
    at = {name: i for i, name in enumerate(names)}
    called = [row.cells[LAYER] for row in rows]
    if len(set(called)) == len(called) and all(name in at for name in called):
        return [(at[name], row) for name, row in zip(called, rows, strict=True)]
    if len(rows) == len(names):
        return list(enumerate(rows))
    unknown = next((row for row in rows if row.cells[LAYER] not in at), rows[0])
    held = f"has {counted(len(rows), 'row')} for {model!r}, which has {counted(len(names), 'layer')}"
    what = f"{held}; {unknown.cells[LAYER]!r} is none of them"
    if unknown.cells[LAYER] in at:
        what = f"{held}, and some layers twice"
    raise InputError(what, path, "Give one row per layer in order, or rows with the names of layers, each once.")


def _amount(row: _Row, column: str) -> Fraction:
    """A number that MAESTRO wrote."""
    try:
        value = float(row.cells[column])
    except ValueError:
        value = -1.0
    if not 0 <= value <= MAX_AMOUNT:
        remedy = f"Give 0 to {MAX_AMOUNT:.0e}."
        raise InputError(f"{column} is {row.cells[column][:40]!r}", row.where, remedy)
    return Fraction(repr(value))


def _positive(text: str, where: str) -> Fraction:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not isfinite(value) or not 1e-6 <= value <= 1e9:
        raise InputError(f"is {text[:40]!r}", where, "Give a number from 1e-6 to 1e9.")
    return Fraction(repr(value))
