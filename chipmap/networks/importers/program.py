"""From the operators of a compiler's program to an operation graph; what the readers of ONNX and PyTorch share.

**FLOP** and the bytes that an operator moves come with its step: :mod:`.operators.rules` has the rules, the tables of
``operators/aten.py`` and ``operators/onnx.py`` say which operator follows which.

**Weights.** :mod:`.weights` says where the bytes of parameters stand. What else depends on no input is a constant with
bytes, unless :mod:`.recomputed` says that each run computes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from chipmap.networks.graph import Operation, OperationGraph, Role, Tensor
from chipmap.networks.importers.common import MAX_BYTES, ImportedGraph, unique_names
from chipmap.networks.importers.counting import Counting, complex_notes, totals
from chipmap.networks.importers.loops import with_loops
from chipmap.networks.importers.operators.aten import EMPTY, FILLED
from chipmap.networks.importers.operators.kept import kept_bytes, ordered
from chipmap.networks.importers.operators.order import PLAIN, order
from chipmap.networks.importers.recomputed import is_dequantised, recomputed
from chipmap.networks.importers.steps import Program as Program
from chipmap.networks.importers.steps import Shape as Shape
from chipmap.networks.importers.steps import Step as Step
from chipmap.networks.importers.steps import Value as Value
from chipmap.networks.importers.steps import words as words
from chipmap.networks.importers.weights import Stored, settle
from chipmap.records import InputError, counted

#: More floating-point operations in one operator are taken for a mistake.
MAX_FLOP = 10**18
#: Larger dimensions, and more of them, are taken for mistakes as well (they keep the products of dimensions short).
MAX_DIMENSION, MAX_RANK = 2**40, 64


def checked_shape(shape: Iterable[int], name: str, where: str) -> Shape:
    """The shape; :class:`InputError` for one that no tensor has."""
    sizes = tuple(shape)
    if len(sizes) > MAX_RANK or not all(0 <= size <= MAX_DIMENSION for size in sizes):
        said = str(list(sizes[:8]))[:100]
        remedy = f"Dimensions run from 0 to {MAX_DIMENSION}, {MAX_RANK} at most."
        raise InputError(f"tensor {name!r} has the shape {said}", where, remedy)
    return sizes


def imported(
    program: Program, where: str, reader: str, notes: tuple[str, ...] = (), counting: Counting | None = None
) -> ImportedGraph:
    """The graph of ``program``, with notes that list parameters with several readers and operators without a rule.

    Raises :class:`InputError` that names the operator or tensor that is wrong.
    """
    counting = counting or Counting()
    building = _Building(program, where)
    for name in program.inputs:
        building.add(Step(name, "input", (), (name,)), "input")
    for name in program.parameters:
        kind = "buffer" if name in program.buffers else "frozen" if name in program.frozen else "parameter"
        building.add(Step(name, kind, (), (name,), parameter=True), "constant")
    building.parameters = len(program.parameters)
    for step in with_loops(program, counting.counted(program, where)):
        building.step(step)
    graph = building.finish()
    if building.shared:
        listed = ", ".join(name[:60] for name in building.shared[:10]) + (", ..." if len(building.shared) > 10 else "")
        notes = (*notes, f"parameters that several operations read: {listed}")
    if program.frozen:
        size = sum(program.values[name].bytes for name in program.frozen)
        count = counted(len(program.frozen), "parameter")
        notes = (*notes, f"frozen, as they ask for no gradient: {count} of {size:,} bytes")
    computing = [step for step, role in zip(building.steps, building.roles, strict=True) if role == "compute"]
    notes = (*notes, *counting.notes(program, computing, where), *complex_notes(program, computing))
    constant = [step for step, role in zip(building.steps, building.roles, strict=True) if role == "constant"]
    comes_to = totals(program, computing, constant, building.read)
    scopes = building.scopes if any(building.scopes) else ()
    return ImportedGraph(
        graph, None, reader, notes, totals=comes_to, scopes=scopes, states=building.states, classes=program.classes
    )


class _Building:
    def __init__(self, program: Program, where: str) -> None:
        self.program, self.where = program, where
        self.recomputed = recomputed(program)
        self.parameters = 0  # how many operations, after the inputs, stand for parameters
        self.steps: list[Step] = []
        self.roles: list[Role] = []
        self.makers: dict[str, int] = {}  # value -> operation
        self.readers: dict[str, list[int]] = {}
        self.dynamic: set[str] = set()
        self.stored: dict[str, Stored] = {}
        self.behind: dict[str, Stored] = {}  # a constant's value -> what is stored of it
        self.shared: list[str] = []
        self.read = 0  # bytes of parameters that are stored
        self.scopes: tuple[str, ...] = ()  # of the operations of the graph
        self.states: dict[str, str] = {}  # the module's name of a parameter -> its operation

    def step(self, step: Step) -> None:
        """Add an operator of the program in the role that what it reads gives it."""
        for name in step.reads:
            if name not in self.makers:
                remedy = "Operators must stand in an order in which each reads what those before it make."
                raise InputError(f"{step.name!r} reads {name!r}, which nothing before it makes", self.where, remedy)
        moving = not step.fixed and any(name in self.dynamic for name in step.reads)
        moving = moving or any(name in self.recomputed for name in step.makes)
        role: Role = "constant"
        if moving:
            role = "view" if step.view and step.reads[0] in self.dynamic else "compute"
        if step.view and role == "compute":  # a part of a constant, chosen by an input: a look-up
            values = self.program.values
            made = [values[name] for name in step.makes if name in values]
            chosen = sum(values[name].bytes for name in step.reads[1:])
            moved = chosen + 2 * sum(value.bytes for value in made)
            step = replace(step, flop=sum(value.elements for value in made), moved=moved)
        self.add(step, role)

    def add(self, step: Step, role: Role) -> None:
        """Add an operation."""
        v = len(self.steps)
        self.steps.append(step)
        self.roles.append(role)
        for name in dict.fromkeys(step.reads):
            if not step.fixed or name not in self.dynamic:
                self.readers[name].append(v)
            if role == "compute" and name in self.behind:
                self.behind[name].readers[v] = None
        for name in step.makes:
            if name in self.makers:
                raise InputError(f"tensor {name!r} is made twice", self.where, "Give each tensor a name of its own.")
            self.makers[name] = v
            self.readers[name] = []
            if role == "constant":
                self._store(name, step)
            else:
                self.dynamic.add(name)

    def _store(self, name: str, step: Step) -> None:
        """A constant's value: a storage of its own, a part that a view cuts out of one, or another name of one."""
        value = self.program.values.get(name)
        size, single = (value.bytes, value.elements == 1) if value else (0, False)
        same = step.view or is_dequantised(step)
        source = self.behind.get(step.reads[0]) if same and step.reads else None
        if source is not None and is_dequantised(step):
            source.beside |= {one: self.program.values[one].bytes for one in step.reads[1:] if one in self.behind}
        if source is not None and size >= source.bytes:
            source.names.append(name)
            self.behind[name] = source
            return
        parameter = step.parameter if source is None else source.parameter
        stored = self.behind[name] = Stored(name, size, single, parameter)
        if source is None:
            self.stored[name] = stored
        else:
            source.parts.append(stored)

    def finish(self) -> OperationGraph:
        """The graph of all that was added, checked."""
        program = self.program
        if "compute" not in self.roles:
            what = "nothing in it computes on an input"
            raise InputError(what, self.where, "A graph to map needs an input and operators that depend on it.")
        outputs = set(program.outputs)
        for name in program.outputs:
            if name not in self.makers:
                raise InputError(f"nothing makes the output {name!r}", self.where, "Remove it, or give the operator.")
        weights, frozen = Counter[int](), Counter[int]()
        carried: dict[str, int] = {}
        for stored in self.stored.values():
            if not stored.parameter and self._room(stored):
                carried |= dict.fromkeys(stored.values(), 0)
            settled = settle(stored)
            self.read += settled.read
            weights.update(settled.weights)
            if stored.name in program.buffers | program.frozen:
                frozen.update(settled.weights)
            carried |= settled.carried | dict.fromkeys(settled.empty, 0)
            self.shared += settled.shared
            for name in settled.views:
                self.roles[self.makers[name]] = "view"
        kept = self._kept(outputs)
        tensors, places = list[Tensor](), dict[str, int]()
        for name, v in self.makers.items():
            value = program.values.get(name)
            if value is None or v not in kept:  # neither read nor an output; or without an operation
                continue
            size = carried.get(name, value.bytes)
            if size > MAX_BYTES:
                what = f"tensor {name!r} has {size:.0e} bytes"
                raise InputError(what, self.where, f"At most {MAX_BYTES:.0e} are taken.")
            readers = tuple(kept[reader] for reader in self.readers[name])
            places[name] = len(tensors)
            tensors.append(Tensor(producer=kept[v], readers=readers, bytes=size, output=name in outputs))
        self.scopes = tuple(program.scopes.get(self.steps[v].name, "") for v in kept)
        names = unique_names([self.steps[v].name for v in kept], range(len(kept)))
        called = dict(zip(kept, names, strict=True))
        self.states = {
            own: called[v] for name, own in program.states.items() if (v := self.makers.get(name, -1)) in called
        }
        operations = [self._operation(v, name, weights[v], frozen[v], places) for v, name in called.items()]
        return OperationGraph.checked(program.name, operations, tensors, program.source, self.where)

    def _room(self, stored: Stored) -> bool:
        """Whether a constant is no data but room: nothing or one number fills it, and computing steps only write to it.

        Each run makes such room anew, and what stands there after a change has its bytes.
        """
        kind = self.steps[self.makers[stored.name]].kind
        readers = [self.steps[v] for part in stored.tree() for v in part.readers]
        return kind in EMPTY or (kind in FILLED and bool(readers) and all(map(_overwrites, readers)))

    def _kept(self, outputs: set[str]) -> dict[int, int]:
        """The operations of the graph and their positions; parameters that are no nodes are there only if shared."""
        first = len(self.program.inputs)
        hidden = range(first, first if self.program.parameter_nodes else first + self.parameters)
        wanted = {*self.shared, *outputs}
        kept = [v for v, step in enumerate(self.steps) if v not in hidden or step.name in wanted]
        return {v: i for i, v in enumerate(kept)}

    def _operation(self, v: int, name: str, weights: int, frozen: int, places: Mapping[str, int]) -> Operation:
        """An operation with ``weights`` bytes of its own, ``frozen`` ones among them; ``places`` of the tensors.

        :class:`InputError` for sizes that can't be meant.
        """
        step, role = self.steps[v], self.roles[v]
        computes = role == "compute"
        flop = step.flop if computes else 0
        way = order(step, self.program.values) if computes else PLAIN
        for what, count, most in (("FLOP", flop, MAX_FLOP), ("bytes of weights", weights, MAX_BYTES)):
            if count > most:
                raise InputError(f"{step.name!r} has {count:.0e} {what}", self.where, f"At most {most:.0e} are taken.")
        return Operation(
            name=name,
            kind=step.kind,
            role=role,
            flop=flop,
            weight_bytes=weights,
            moved_bytes=step.moved if computes else None,
            loops=step.loops if computes else None,
            node=step.node if step.node != name else "",
            frozen_bytes=frozen,
            layers=_layers(step) if computes else 1,
            detached=step.detached and role in ("compute", "view"),
            kept_bytes=kept_bytes(step, self.program.values) if computes else 0,
            operands=ordered(step, places) if computes else (),
            order=() if way == PLAIN else way,
        )


def _overwrites(step: Step) -> bool:
    """Whether a step changes its first operand in place without reading all of it, or shows it after such a change."""
    return step.kind == "alias" or (step.moved is not None and step.kind.endswith("_"))


def _layers(step: Step) -> int:
    """The layers that stand on each other in an operator, where it says so: a recurrent one."""
    count = step.arguments.get("num_layers", 1)
    return count if isinstance(count, int) and count > 0 else 1
