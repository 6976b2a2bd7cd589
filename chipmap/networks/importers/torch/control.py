"""Control flow of PyTorch programs: a branch is chosen, a loop of known length is unrolled, all else is refused.

``scan`` and ``map`` become their graph once per row of what they read: the nodes of row 3 are called ``scan.3.node``.
That is what an export of the same Python loop has, with ``select`` for the row and ``stack`` for what all rows yield.
A ``cond`` is the branch that its condition or the user says.
"""

from __future__ import annotations

from typing import Any

from chipmap.networks.importers.operators import aten
from chipmap.networks.importers.steps import MAX_UNROLLED, Program, Step, Value
from chipmap.networks.importers.torch.graph import Call, Ref, TorchGraph, operands
from chipmap.networks.importers.torch.steps import Scope, Steps
from chipmap.records import InputError

#: What to write instead of control flow that isn't settled.
_REMEDIES = {
    "cond": "Add --branch heavier (or true, false) to the command. Or fix the branch: export the model with a Python "
    "bool in place of the predicate (torch.cond(True, ...)).",
    "while_loop": "Unroll it: export the model with a Python loop of a fixed number of rounds (for _ in range(3)).",
    "map_impl": "Unroll it: export the model with torch.stack([f(x) for x in xs]) in place of map.",
    "scan": "Unroll it: export the model with a Python loop over the rows, and torch.stack of what it yields.",
    "associative_scan": "Unroll it: export the model with a Python loop over the rows.",
}


class StepsWithControl(Steps):
    """Adds the calls of a graph to a program, those with branches and loops as well."""

    def control(self, call: Call, kind: str, graphs: list[TorchGraph], scope: Scope) -> None:
        """Add a branch that is chosen or a loop of known length; :class:`InputError` if what happens isn't settled."""
        if kind == "cond" and len(graphs) == 2 and _branch(self, call, graphs, scope):
            return
        if kind in ("scan", "map_impl") and len(graphs) == 1 and _loop(self, call, kind, graphs[0], scope):
            return
        what = f"control flow: node {scope.prefix + call.name!r} ({kind}) has graphs inside the graph"
        remedy = _REMEDIES.get(kind, "Export the model with its branches fixed and its loops unrolled.")
        raise InputError(what, self.where, remedy)


def _branch(steps: Steps, call: Call, graphs: list[TorchGraph], scope: Scope) -> bool:
    """Add the branch of a ``cond``; False if nothing says which."""
    name, (yes, no) = steps.entered(call, scope), graphs
    asked = scope.resolved(call.arguments[0][1])
    value = steps.numbers.get(asked.name) if isinstance(asked, Ref) else asked
    if not isinstance(value, int):
        value = steps.counting.chosen(
            lambda which: _weight(steps, yes if which else no, scope.depth + 1), steps.branches, name
        )
    if value is None:
        return False
    passed = list(operands(scope.passed(call)))
    steps.results(call, scope, steps.inline(yes if value else no, passed, name, scope))
    return True


def _weight(steps: Steps, graph: TorchGraph, depth: int) -> tuple[int, int]:
    """FLOP and bytes of a branch, read as a program of its own."""
    if id(graph) not in steps.weights:
        trial = type(steps)(Program("", ""), steps.given, steps.where, steps.counting)
        trial.weights = steps.weights
        trial.run(graph, depth)
        steps.weights[id(graph)] = steps.counting.weight(trial.program, steps.where)
    return steps.weights[id(graph)]


def _loop(steps: Steps, call: Call, kind: str, body: TorchGraph, scope: Scope) -> bool:
    """Add the graph of a ``scan`` or ``map`` once per row; False if it isn't known how many there are."""
    name = steps.entered(call, scope)
    groups = [list(operands([value])) for value in scope.passed(call)]
    if kind == "map_impl":
        groups.insert(0, [])
    if len(groups) < 2:
        return False
    (carried, sources), others = groups[:2], [value for group in groups[2:] for value in group]
    rows = {_rows(steps, source) for source in sources}
    count = rows.pop() if len(rows) == 1 else None
    if count is None:
        return False
    gathered: list[list[Any]] = [[] for _ in body.outputs[len(carried) :]]
    states = len(carried)
    for i in range(count):
        if i and len(steps.program.steps) > MAX_UNROLLED:
            what = f"with the loop {name!r} unrolled it has more than {MAX_UNROLLED:,} operators"
            raise InputError(what, steps.where, "Export the model with as many rows as are to be mapped.")
        parts = [_part(steps, f"{name}.{i}.part{j}", source.name, i) for j, source in enumerate(sources)]
        made = steps.inline(body, [*carried, *parts, *others], f"{name}.{i}", scope, stored_in=name)
        carried = made[:states]
        for row, one in zip(gathered, made[states:], strict=True):
            row.append(one)
    stacked = zip(call.makes[states:], gathered, strict=False)
    stacks = [_stack(steps, f"{name}.stack{j}", own, parts, scope) for j, (own, parts) in enumerate(stacked)]
    steps.results(call, scope, [*carried, *stacks])
    return True


def _rows(steps: Steps, source: Any) -> int | None:
    """The first dimension of a tensor; None for what has none."""
    value = steps.program.values.get(source.name) if isinstance(source, Ref) else None
    return value.shape[0] if value is not None and value.shape else None


def _part(steps: Steps, name: str, source: str, i: int) -> Ref:
    """Row ``i`` of a tensor."""
    whole = steps.program.values[source]
    made = _like(steps, name, source, whole.shape[1:])
    kept = {"dim": 0, "index": i}
    _append(steps, Step(name, "select", (steps.changes.read(source),), (made.name,), view=True, arguments=kept))
    return Ref(name)


def _stack(steps: Steps, step: str, own: str, parts: list[Any], scope: Scope) -> Ref:
    """What all rows made, put together under the name that the loop gives it; without rows, its shape is the file's."""
    name = scope.prefix + own
    tensors = [part.name for part in parts if isinstance(part, Ref) and part.name in steps.program.values]
    if tensors:
        shape = (len(tensors), *steps.program.values[tensors[0]].shape)
        made = _like(steps, name, tensors[0], shape)
    else:
        made = steps.declare(own, name, scope)
    work = aten.work("stack", [steps.program.values[part] for part in tensors], [made], {"dim": 0})
    reads = tuple(steps.changes.read(part) for part in tensors)
    dim = {"dim": 0}
    _append(steps, Step(step, "stack", reads, (name,), work.flop, fixed=not reads, moved=work.moved, arguments=dim))
    return Ref(name)


def _like(steps: Steps, name: str, source: str, shape: tuple[int, ...]) -> Value:
    """A new tensor with elements as those of ``source``."""
    if name in steps.program.values:
        raise InputError(f"tensor {name!r} is made twice", steps.where, "Give each tensor a name of its own.")
    made = steps.program.values[name] = Value(name, shape, steps.program.values[source].bits)
    steps.types[name] = steps.types.get(source, "")
    if source in steps.program.complex:
        steps.program.complex.add(name)
    return made


def _append(steps: Steps, step: Step) -> None:
    steps.changes.add(step)
    steps.program.steps.append(step)
