"""From a graph of torch.export to the steps of a program: wrappers inlined, sizes given values, changes in place told.

**Names.** A step has the name of its node, one inside a wrapper ``wrapper.node``. Every node that calls something is a
step, bookkeeping included (getitem, sizes, assertions), so that whoever splits the graph finds each of its nodes.

**Changes in place.** A tensor and its views are one storage. Who reads it after an operator changed it through one of
its names reads what that operator made. Where another name is read, a step of kind ``alias`` stands between.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from chipmap.networks.importers.counting import Counting
from chipmap.networks.importers.dimensions import Dimensions, value_of
from chipmap.networks.importers.operators import aten
from chipmap.networks.importers.program import checked_shape
from chipmap.networks.importers.steps import Program, Step, Value, words
from chipmap.networks.importers.torch.changes import Changes
from chipmap.networks.importers.torch.graph import Call, Operator, Ref, TorchGraph, operands, refs
from chipmap.networks.importers.unreached import unreached
from chipmap.records import InputError, counted

#: Higher-order operators that run the one graph among their arguments once, as it stands.
WRAPPERS = words(
    """dynamo_bypassing_wrapper hints_wrapper invoke_quant invoke_quant_packed invoke_subgraph local_map_hop
    run_const_graph strict_mode tag_activation_checkpoint wrap wrap_activation_checkpoint wrap_with_autocast
    wrap_with_set_grad_enabled"""
)
#: The wrapper that switches autograd on or off.
GRADIENTS = "wrap_with_set_grad_enabled"
#: The wrapper that has operators compute in half precision.
AUTOCAST = "wrap_with_autocast"
#: Higher-order operators that call the operator among their arguments.
CALLERS = words(
    """auto_functionalized auto_functionalized_v2 graphsafe_run_with_rng_state out_dtype run_and_save_rng_state
    run_dtensor_rng_op run_with_rng_state with_effects"""
)
#: Higher-order operators whose graphs are elementwise parts of one kernel.
KERNELS = words("flex_attention flex_attention_backward foreach_map")
#: Higher-order operators with branches or loops.
CONTROL = words("associative_scan cond map_impl scan while_loop")
#: Operators that check or declare something and make no tensor.
BOOKKEEPING = words(
    """_assert_async _assert_scalar _assert_tensor_metadata _functional_assert_async _functional_assert_scalar
    _functional_sym_constrain_range _functional_sym_constrain_range_for_size _print sym_constrain_range
    sym_constrain_range_for_size"""
)
#: Shapes between these lack the dimension that is mapped over.
_VMAP = ("torch._functorch", "_add_batch_dim")
_HIGHER = "torch.ops.higher_order."
_DEEPEST = 100
#: Characters of a wrapper's name, which begins the name of everything in it.
_LONGEST = 2_000
_DECOMPOSE = "Save program.run_decompositions() (or .run_decompositions({}) to keep the operators) instead."


@dataclass
class Scope:
    """Where names are resolved: ``prefix`` begins those of the graph itself, ``env`` holds what others stand for.

    ``detached``: autograd is off.
    """

    graph: TorchGraph
    prefix: str = ""
    depth: int = 0
    detached: bool = False
    env: dict[str, Any] = field(default_factory=dict)

    def resolved(self, value: Any) -> Any:
        """A value with the names that hold everywhere."""
        if isinstance(value, Ref):
            return self.env.get(value.name, Ref(self.prefix + value.name))
        return [self.resolved(item) for item in value] if isinstance(value, list) else value

    def passed(self, call: Call) -> list[Any]:
        """What a call passes to the graphs among its arguments, which stand before it, resolved."""
        values = [value for _, value in call.arguments]
        last = max(i for i, value in enumerate(values) if isinstance(value, TorchGraph))
        return [self.resolved(value) for value in values[last + 1 :]]


class Steps:
    """Adds the calls of a graph to ``program``; ``given`` are the values of its symbols.

    ``counting`` says which branches are read where the inputs decide.
    """

    def __init__(self, program: Program, given: Dimensions, where: str, counting: Counting) -> None:
        self.program, self.given, self.where, self.counting = program, given, where, counting
        self.branches: list[str] = []  # those that were read where the inputs decide, in words
        self.weights: dict[int, tuple[int, int]] = {}  # a branch (its id) -> FLOP, bytes
        self.numbers: dict[str, int | None] = {}  # symbolic numbers -> value, where it can be told
        self.known: dict[str, int | None] = {}  # expressions -> value
        self.types: dict[str, str] = {}  # tensor -> its element type
        self.changes = Changes(program)
        self.lasting: set[str] = set()  # inputs, parameters and buffers
        self.autocasts = False  # whether something runs under autocast

    def run(self, graph: TorchGraph, depth: int = 0) -> None:
        """Add inputs, steps and outputs of the program's graph, which stands ``depth`` graphs deep."""
        scope = Scope(graph, depth=depth)
        for ref in (ref for value in graph.inputs for ref in refs(value)):
            self.declare(ref.name, ref.name, scope)
            (self.program.parameters if ref.name in graph.stored else self.program.inputs).append(ref.name)
        self.program.buffers |= graph.buffers
        if graph.frozen != graph.stored - graph.buffers:  # where none has a gradient, nothing is known of training
            self.program.frozen |= graph.frozen
        self.program.states |= graph.states
        self.lasting.update(self.program.inputs, self.program.parameters)
        self._calls(scope)
        outputs = [self.changes.read(ref.name) for value in graph.outputs for ref in refs(scope.resolved(value))]
        self.program.outputs += dict.fromkeys([*outputs, *self.changes.kept()])
        changed = set(self.program.parameters) - self.program.buffers - self.program.frozen
        if beside := unreached(self.program) & changed:
            self.program.frozen |= beside if beside != changed else set()  # else nothing is known of training

    def _calls(self, scope: Scope) -> None:
        known = scope.graph.scopes.items()
        self.program.classes |= scope.graph.classes
        self.program.scopes |= {scope.prefix + name: module for name, module in known if module}
        for call in scope.graph.calls:
            kind = call.target.removeprefix(_HIGHER)
            inner = [value for _, value in call.arguments if isinstance(value, TorchGraph)]
            if kind in WRAPPERS and kind != call.target and len(inner) == 1:
                self._inline(call, inner[0], scope)
            elif (inner and kind not in KERNELS) or kind in CONTROL:
                self.control(call, kind, inner, scope)
            else:
                called = (value.target for _, value in call.arguments if isinstance(value, Operator))
                self._step(call, next(called, call.target) if kind in CALLERS else call.target, scope)

    def _inline(self, call: Call, graph: TorchGraph, scope: Scope) -> None:
        """Add the calls of a wrapper's graph; its results stand for those of the wrapper."""
        name, around = self.entered(call, scope), scope
        if call.target == f"{_HIGHER}{GRADIENTS}":
            around = replace(scope, detached=call.arguments[0][1] is False)
        self.autocasts |= call.target == f"{_HIGHER}{AUTOCAST}" and call.arguments[2][1] is True
        self.results(call, scope, self.inline(graph, list(operands(scope.passed(call))), name, around))

    def control(self, call: Call, kind: str, graphs: list[TorchGraph], scope: Scope) -> None:
        """Add a call with branches or loops, for which :mod:`.control` has a class."""
        raise NotImplementedError

    def entered(self, call: Call, scope: Scope) -> str:
        """The name of a call with a graph inside; :class:`InputError` if it is too deep or too long."""
        name = scope.prefix + call.name
        if scope.depth >= _DEEPEST:
            raise InputError(f"wrappers in wrappers, {_DEEPEST} deep, at {name[-60:]!r}", self.where, _DECOMPOSE)
        if len(name) > _LONGEST:
            what = f"a wrapper's name has more than {_LONGEST:,} characters"
            raise InputError(what, self.where, "Give it a shorter one: the names of its nodes begin with it.")
        return name

    def inline(self, graph: TorchGraph, passed: list[Any], name: str, around: Scope, stored_in: str = "") -> list[Any]:
        """Add the calls of a graph inside that of ``around``, whose names begin with ``name``; its results.

        What the graph itself stores is there once in all graphs of the same ``stored_in``.
        """
        if len(passed) < len(graph.inputs):
            given = counted(len(passed), "operand")
            what = f"the wrapper {name!r} passes {given} to a graph with {counted(len(graph.inputs), 'input')}"
            raise InputError(what, self.where, _DECOMPOSE)
        inner = Scope(graph, f"{name}.", around.depth + 1, around.detached)
        for own, value in zip(graph.inputs, passed, strict=False):
            if isinstance(own, Ref):
                inner.env[own.name] = value
        for stored in sorted(graph.stored):
            once = f"{stored_in or name}.{stored}"
            inner.env[stored] = Ref(once)
            if once not in self.program.values:
                self.declare(stored, once, inner)
                self.program.parameters.append(once)
        self._calls(inner)
        return [inner.resolved(value) for value in graph.outputs]

    def results(self, call: Call, scope: Scope, made: list[Any]) -> None:
        """Let what was made stand for the results of ``call``."""
        for own, result in zip(call.makes, made, strict=False):
            scope.env[own] = result

    def declare(self, name: str, everywhere: str, scope: Scope) -> Value:
        """Say what is known of a tensor or a symbolic number that ``scope`` calls ``name``."""
        meta = scope.graph.tensors.get(name)
        if meta is not None:
            shape = [size if isinstance(size, int) else self._size(size, everywhere) for size in meta.shape]
            strides = [step if isinstance(step, int) else self._known(step) for step in meta.strides]
            lies = tuple(step for step in strides if step is not None) if len(strides) == len(shape) else ()
            checked = checked_shape(shape, everywhere, self.where)
            value = Value(everywhere, checked, meta.bits, lies if len(lies) == len(shape) else None)
            self.types[everywhere] = meta.type
            if meta.complex:
                self.program.complex.add(everywhere)
        elif name in scope.graph.numbers:
            said = scope.graph.numbers[name]
            self.numbers[everywhere] = self._known(said) if isinstance(said, str) else said
            value = Value(everywhere, (), 0)
        else:
            remedy = "Write the file with torch.export.save of PyTorch 2.5 or later."
            raise InputError(f"nothing tells the shape of {everywhere!r}", self.where, remedy)
        if everywhere in self.program.values:
            raise InputError(f"tensor {everywhere!r} is made twice", self.where, "Give each tensor a name of its own.")
        self.program.values[everywhere] = value
        return value

    def _known(self, expression: str) -> int | None:
        if expression not in self.known:
            self.known[expression] = value_of(expression, self.given)
        return self.known[expression]

    def _size(self, expression: str, tensor: str) -> int:
        value = self._known(expression)
        if value is None:
            what = f"a size of tensor {tensor!r} is no whole number with these dimensions, or isn't understood"
            raise InputError(what, self.where, f"Give values that suit {expression[:200]}, or export it fixed.")
        return value

    def _plain(self, value: Any) -> Any:
        """A value of :attr:`Step.arguments`; None for what isn't one."""
        if isinstance(value, Ref):
            return self.numbers.get(value.name)
        if isinstance(value, list):
            items = [self._plain(item) for item in value]
            return None if any(item is None or isinstance(item, list) for item in items) else items
        return value if isinstance(value, bool | int | float | str) else None

    def _step(self, call: Call, target: str, scope: Scope) -> None:
        """Add a call of ``target``."""
        if any(part in target for part in _VMAP):
            what = f"node {scope.prefix + call.name!r} is part of a vmap, whose shapes lack a dimension"
            raise InputError(what, self.where, _DECOMPOSE)
        kind, name = aten.kind_of(target), scope.prefix + call.name
        arguments = [(key, scope.resolved(value)) for key, value in call.arguments]
        named = [ref.name for _, value in arguments for ref in refs(value)]
        for read in named:
            if read not in self.program.values:
                what = f"{name!r} reads {read!r}, which nothing before it makes"
                raise InputError(what, self.where, "Write the file again: operators must stand in order.")
        makes = [own for own in call.makes if own in scope.graph.tensors or own in scope.graph.numbers]
        if call.single and len(makes) < len(call.makes):
            self.declare(call.makes[0], name, scope)  # raises
        counts = not any(own in scope.graph.tensors for own in makes)  # it makes numbers, or nothing
        kept = {key: value for key, argument in arguments if key and (value := self._plain(argument)) is not None}
        shown = [self.program.values[read] for read in named if read not in self.numbers]
        shown = shown[:1] if kind in aten.LIKE_ANOTHER else shown
        reads = [self.changes.read(read) for read in named]
        if counts:  # a number counts as a view of what moves, a constant may stand before that
            reads.sort(key=lambda read: read not in self.changes.moving)
        made = [self.declare(own, scope.prefix + own, scope) for own in makes]
        if not made and kind not in BOOKKEEPING and shown:
            what = f"{name!r} ({kind}) returns nothing, so that what it changes can't be told"
            raise InputError(what, self.where, _DECOMPOSE)
        replaces = not scope.prefix and call.name in scope.graph.changed and bool(reads) and reads[0] in self.lasting
        work = aten.work(
            f"{kind}_" if replaces else kind, shown, [value for value in made if value.name not in self.numbers], kept
        )
        view = kind in aten.VIEWS or kind in BOOKKEEPING or (counts and not target.startswith("torch.ops."))
        if kind in aten.DROPOUTS and kept.get("train") is True and kept.get("p"):
            view = False  # exported for training: a mask is drawn
        if kind in aten.CONVERSIONS and kept.get("copy") is not True and named and made:
            view = self.types.get(named[0]) == self.types.get(made[0].name)
        if kind in aten.AVERAGES and aten.single(kept.get("output_size")):
            kind = "mean"  # as PyTorch computes it
        if kind == "pad" and kept.get("mode") in aten.PADDINGS and isinstance(kept.get("pad"), list):
            kind = aten.PADDINGS[kept["mode"]].format(len(kept["pad"]) // 2)
        step = Step(
            name=name,
            kind=kind,
            reads=tuple(reads),
            makes=tuple(value.name for value in made),
            flop=work.flop,
            view=view,
            fixed=kind in aten.FIXED,
            moved=work.moved,
            arguments=kept,
            known=work.known or view,
            detached=kind in aten.DETACHES or (scope.detached and not kind.endswith("_")),
        )
        self.changes.add(step)
        self.program.steps.append(step)
