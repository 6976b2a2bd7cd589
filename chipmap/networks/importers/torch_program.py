"""Reader of programs exported by PyTorch (``torch.export``): the object, or the file that ``torch.export.save`` writes.

``torch.export.load`` unpickles parts of a file, which lets the file run code. A ``.pt2`` file is therefore not loaded:
it is a zip archive, and of it only the JSON of the graph is read (names, operators, shapes, types). No weight is read,
nothing is unpickled, and PyTorch need not be installed. A file holds the operators that were exported; a program
decomposed first (``program.run_decompositions()``) consists of core ATen operators, as published traces do.
:func:`import_exported` takes the object itself. Both give the same graph:

==================  ========================================================================================
``torch/file``      the archive and the JSON in it -> ``torch/graph``
``torch/object``    the object -> ``torch/graph``
``torch/steps``     ``torch/graph`` -> the program: wrappers inlined, sizes given values
``torch/control``   branches that are chosen, loops of known length
``torch/changes``   operators that change their operand in place
``torch/fixed``     operators that need only a shape
==================  ========================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from chipmap.networks.importers.common import UNSEEN_COPIES, ImportedGraph
from chipmap.networks.importers.counting import Counting, branch_notes
from chipmap.networks.importers.dimensions import Dimensions, check_ranges, check_used, from_shapes, no_value, symbols
from chipmap.networks.importers.operators.calls import Call
from chipmap.networks.importers.program import imported
from chipmap.networks.importers.steps import Program
from chipmap.networks.importers.torch.control import StepsWithControl
from chipmap.networks.importers.torch.file import accepts as accepts
from chipmap.networks.importers.torch.file import read_file
from chipmap.networks.importers.torch.fixed import settle_fixed
from chipmap.networks.importers.torch.graph import TorchGraph, TorchProgram, expressions, refs
from chipmap.networks.importers.torch.object import read_object
from chipmap.records import Source

if TYPE_CHECKING:
    from torch.export import ExportedProgram

FORMAT = "torch"


def read(source: Source, dimensions: Dimensions | None = None, counting: Counting | None = None) -> ImportedGraph:
    """The graph of a ``.pt2`` file; :class:`InputError` says what is wrong and where."""
    return _imported(*read_file(source), dimensions or {}, counting)


def import_exported(
    program: ExportedProgram,
    name: str,
    dimensions: Dimensions | None = None,
    decompose: bool = True,
    *,
    unknown: str = "bytes",
    formulas: Mapping[str, Callable[[Call], int]] | None = None,
    branch: str | None = None,
) -> ImportedGraph:
    """The graph of an exported program, of core ATen operators unless ``decompose`` is false.

    ``dimensions`` gives symbolic dimensions a value (``{"s77": (8,)}``) and inputs a shape (``{"tokens": (1, 128)}``).
    ``unknown``, ``formulas`` and ``branch`` are those of :class:`.counting.Counting`. Raises :class:`InputError` for
    control flow that isn't settled and for a dimension without a value.
    """
    exported = program.run_decompositions() if decompose else program
    return _imported(read_object(exported, name), name, dimensions or {}, Counting(unknown, formulas or {}, branch))


def _imported(read: TorchProgram, where: str, given: Dimensions, counting: Counting | None) -> ImportedGraph:
    program = Program(read.name, read.source, recomputes="all")
    steps = StepsWithControl(program, _values(read, given, where), where, counting or Counting())
    steps.run(read.graph)
    settle_fixed(program)
    notes = (*branch_notes(steps.branches), *([UNSEEN_COPIES] if steps.autocasts else []))
    return imported(program, where, FORMAT, notes, counting)


def _values(read: TorchProgram, given: Dimensions, where: str) -> Dimensions:
    """The values of all symbols, given by name or by the shapes of inputs."""
    found = expressions(read.graph)
    named = [ref.name for value in read.graph.inputs for ref in refs(value) if ref.name not in read.graph.stored]
    inputs = {name: read.graph.tensors[name].shape for name in named if name in read.graph.tensors}
    texts = [size for shape in inputs.values() for size in shape if isinstance(size, str)]
    every = dict.fromkeys(name for text in (*texts, *sorted(found)) for name in symbols(text))
    check_used(given, {*every, *found, *inputs, *read.ranges}, where)
    values = from_shapes({**given}, {name: shape for name, shape in inputs.items() if name not in every}, where)
    check_ranges(values, read.ranges, where)
    missing = [name for name in every if name not in values and not found <= values.keys()]
    if missing:
        raise no_value(missing[0], _first(read.graph, missing[0], inputs), where, _suggested(read, missing))
    return values


def _first(graph: TorchGraph, symbol: str, inputs: Iterable[str]) -> str:
    """A tensor with a size that names ``symbol``, an input if there is one."""
    shapes = [*((name, graph.tensors[name]) for name in inputs), *graph.tensors.items()]
    return next((n for n, meta in shapes for s in meta.shape if isinstance(s, str) and symbol in symbols(s)), "")


def _suggested(read: TorchProgram, missing: list[str]) -> list[str]:
    """``s77=6`` for each symbol: its value in the export, or one in its range."""
    hints: dict[str, int] = {}
    for text, value in read.hints.items():
        if _is_symbol(text):
            hints.setdefault(symbols(text)[0], value)
    options = []
    for name in missing:
        least, most = read.ranges.get(name, (None, None))
        hint = hints.get(name, 8)
        options.append(f"{name}={max(least or 0, min(hint, hint if most is None else most))}")
    return options


def _is_symbol(text: str) -> bool:
    return text.isidentifier() or (text.startswith("Symbol(") and text.count("(") == 1)
