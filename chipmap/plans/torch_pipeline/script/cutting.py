"""Cuts an exported program into stages: a module per stage, and what crosses the boundaries between them.

A stage makes what the plan says, and what no stage is said to make and it reads all the same: views, constants of the
network (rotary tables, masks), single results of operators that have several. What else it reads, it receives. So what
crosses a boundary is what operators of the plan make, once each, handed on by stages that don't read it.

Stages can be trained: their parameters ask for gradients as the program's do, and what ran under ``torch.no_grad``
passes none. A parameter that several stages read is a copy in each: :func:`shared` names these, whose gradients are to
be summed.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

#: Wrappers whose graph runs once as it stands: its operators are called ``wrapper.operator`` in the plan.
WRAPPERS = ("wrap_with_set_grad_enabled", "wrap_with_autocast", "tag_activation_checkpoint", "invoke_subgraph")
#: Operators that need only the shape of what they read -> the number that they fill it with (None: an operand).
FILLS = {"zeros_like": 0, "ones_like": 1, "new_zeros": 0, "new_ones": 1, "full_like": None, "new_full": None}
AGAIN = "export it with run_decompositions({}), and convert that"


class PlanError(Exception):
    """The plan and the program don't fit together."""


def is_tensor(value: Any) -> bool:
    """Whether it is a tensor."""
    return isinstance(value, torch.Tensor)


def fixed(value: Any) -> Any:
    """The value of a node with numbers instead of symbols."""
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        hint = getattr(value.node, "hint", None)
        if hint is None:
            raise PlanError(f"the number {value} depends on the data: export the program with fixed sizes")
        return hint
    if is_tensor(value) and any(not isinstance(size, int) for size in (*value.shape, *value.stride())):
        shape, strides = ([fixed(size) for size in sizes] for sizes in (value.shape, value.stride()))
        return torch.empty_strided(shape, strides, dtype=value.dtype, device="meta")
    return value


def order(value: Any) -> list[int]:
    """The dimensions of a tensor, that of the largest stride first: in this order a dense one is contiguous."""
    return sorted(range(value.dim()), key=lambda d: (-value.stride(d), -value.shape[d]))


def sent(value: Any) -> list[int]:
    """The shape in which a tensor is sent."""
    return [value.shape[d] for d in order(value)] or [1]


class Program:
    """An exported program as one flat graph of calls that change nothing in place.

    ``names``: node -> its name in the plan. ``state``: node -> the module's name of a parameter or buffer, ``tensors``:
    that name -> the tensor. ``given``: (the input's name, None for a number; the example) for all that a caller passes.
    """

    def __init__(self, exported: Any) -> None:
        self.exported, self.graph = exported, fx.Graph()
        self.names: dict[Any, str] = {}
        self.state: dict[Any, str] = {}
        self.tensors: dict[str, Any] = {}
        self.base: dict[Any, Any] = {}  # node -> the node whose storage it is a view of
        self.stale: dict[Any, Any] = {}  # node -> what changed its storage by another name
        self.now: dict[Any, Any] = {}  # node -> what it became by changes in place
        self.without = set[Any]()  # nodes that run under torch.no_grad
        self.grad = True  # whether what is copied now has gradients
        signature = exported.graph_signature
        if signature.buffers_to_mutate or signature.user_inputs_to_mutate:
            raise PlanError("the program changes buffers or inputs: export it in evaluation mode, without a cache")
        stored = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        stored |= signature.inputs_to_lifted_tensor_constants
        held, env, outputs = {**exported.constants, **exported.state_dict}, {}, list[Any]()
        for node in exported.graph.nodes:
            if node.op == "placeholder":
                env[node] = self.graph.placeholder(node.name)
                env[node].meta["val"] = fixed(node.meta.get("val"))
                if node.name in stored:
                    self.state[env[node]] = stored[node.name]
                    self.tensors[stored[node.name]] = held[stored[node.name]]
            elif node.op == "output":
                outputs = list(node.args[0])
            else:
                self._copy(node, env, "", exported.graph_module)
        users = [node for node in exported.graph.nodes if node.op == "placeholder" and node.name not in stored]
        passed = list(zip(users, tree_leaves(exported.example_inputs), strict=True))
        self.given = [(node.name if is_tensor(value) else None, value) for node, value in passed]
        self.numbers = {env[node]: value for node, value in passed if not is_tensor(value)}
        made = [self._current(env[one]) for one in outputs if isinstance(one, fx.Node)]
        self.outputs = [one for one in made if isinstance(one, fx.Node) and is_tensor(one.meta["val"])]
        self.at = {node: i for i, node in enumerate(self.graph.nodes)}

    def _copy(self, node: Any, env: dict[Any, Any], prefix: str, module: Any) -> None:
        """Add a node: numbers are replaced by their values, wrappers by what is in them."""
        value = fixed(node.meta.get("val"))
        if node.op == "get_attr":
            env[node] = module.get_submodule(node.target)
        elif node.target is operator.getitem and isinstance(env.get(node.args[0]), list):
            env[node] = env[node.args[0]][node.args[1]]
        elif isinstance(value, int | float):
            env[node] = value
        elif getattr(node.target, "namespace", "") == "higher_order":
            self._inline(node, env, prefix)
        elif value is not None:
            args, kwargs = fx.map_arg((node.args, dict(node.kwargs)), lambda one: self._current(env[one]))
            target = self._functional(node, args)
            new = env[node] = self.graph.create_node("call_function", target, args, kwargs, name=node.name)
            new.meta["val"], self.names[new] = value, prefix + node.name
            if not self.grad:
                self.without.add(new)
            self._note(node, new)

    def _inline(self, node: Any, env: dict[Any, Any], prefix: str) -> None:
        """Add what is in a wrapper."""
        kind, values = node.target.name(), [env[one] if isinstance(one, fx.Node) else one for one in node.args]
        inner = [i for i, one in enumerate(values) if isinstance(one, torch.nn.Module)]
        if kind not in WRAPPERS or len(inner) != 1 or (kind == "wrap_with_autocast" and node.args[2]):
            raise PlanError(f"operator {prefix + node.name!r} ({kind}) has a graph of its own that can't be split")
        module, own = values[inner[0]], dict[Any, Any]()
        passed = [one for one in values[inner[0] + 1 :] if kind != "invoke_subgraph" or not isinstance(one, str)]
        before, self.grad = self.grad, bool(node.args[0]) if kind == WRAPPERS[0] else self.grad
        for one in module.graph.nodes:
            if one.op == "placeholder":
                own[one] = passed.pop(0)
            elif one.op == "output":
                results = one.args[0] if isinstance(one.args[0], tuple | list) else [one.args[0]]
                env[node] = [own[result] if isinstance(result, fx.Node) else result for result in results]
            else:
                self._copy(one, own, f"{prefix}{node.name}.", module)
        self.grad = before

    def _current(self, value: Any) -> Any:
        """What a node stands for now, after changes in place."""
        if isinstance(value, fx.Node) and value in self.stale:
            raise PlanError(f"{self.names[self.stale[value]]!r} changes {value.name!r} in place: {AGAIN}")
        return self.now.get(value, value) if isinstance(value, fx.Node) else value

    def _functional(self, node: Any, args: Sequence[Any]) -> Any:
        """The operator of a call, or the one that makes a new tensor instead of changing its first operand."""
        schema = getattr(node.target, "_schema", None)
        if schema is None or not schema.is_mutable:
            return node.target
        written = [i for i, one in enumerate(schema.arguments) if one.alias_info and one.alias_info.is_write]
        packet = getattr(torch.ops.aten, schema.name.removeprefix("aten::").removesuffix("_"), None)
        found = getattr(packet, schema.overload_name or "default", None)
        if written != [0] or not schema.name.endswith("_") or found is None or args[0] not in self.names:
            raise PlanError(f"operator {node.name!r} changes an operand in place: {AGAIN}")
        return found

    def _note(self, node: Any, new: Any) -> None:
        """Keep whose storage a result is, and what became of a tensor that was to be changed in place."""
        schema, reads = getattr(node.target, "_schema", None), new.all_input_nodes
        self.base[new] = new
        if schema is not None and schema.is_mutable:
            changed = new.args[0]
            storage = self.base[changed]
            self.stale |= {one: new for one, of in self.base.items() if of is storage and one is not changed}
            self.now |= {one: new for one, to in self.now.items() if to is changed} | {changed: new}
        elif schema is None and self.base.get(reads[0]) is reads[0]:
            return  # one of several results, each with a storage of its own
        elif reads and (schema is None or any(one.alias_info for one in schema.arguments)):
            self.base[new] = self.base.get(reads[0], reads[0])


class Stage:
    """A stage: ``receives`` and ``gives`` are what crosses its boundaries (name, what it is like), in order; ``inputs``
    the network's inputs that it reads; ``parameters`` the bytes that it holds, ``handed`` those that it
    receives for what the network returns alone; ``module`` runs it."""

    def __init__(self, program: Program, homes: dict[Any, list[int]], s: int) -> None:
        self.program, self.homes, self.s = program, homes, s
        self.graph = fx.Graph()
        self.needs, self.used = set[Any](), set[Any]()
        self.env: dict[Any, Any] = {}
        self.held: dict[str, Any] = {}
        self.receives: list[tuple[str, Any]] = []
        self.gives: list[tuple[str, Any]] = []
        self.inputs: list[str] = []
        self.operators = self.parameters = self.handed = 0
        self.module: Any = None

    def _here(self, node: Any) -> bool:
        return self.s in self.homes.get(node, (self.s,))

    def want(self, roots: Iterable[Any]) -> None:
        """Note what this stage makes and what it must receive to give ``roots``."""
        left = list(roots)
        while left:
            node = left.pop()
            if node in self.needs or node in self.used:
                continue
            picked = node.target is operator.getitem and not self._here(node.args[0])
            if node.op == "call_function" and (picked or not self._here(node)):
                self.needs.add(node)
                continue
            self.used.add(node)
            if node.op == "call_function" and fill(node) is None:
                left += node.all_input_nodes

    def build(self, gives: Sequence[Any], last: bool) -> None:
        """Make the module, which gives ``gives``."""
        for node in sorted(self.needs, key=self.program.at.__getitem__):
            self.receives.append((node.name, node.meta["val"]))
            self.env[node] = self._arrived(self.graph.placeholder(node.name), node.meta["val"])
        made = sorted(self.used, key=self.program.at.__getitem__)
        for node in made:
            if node.op == "placeholder" and node not in self.program.state and node not in self.program.numbers:
                self.inputs.append(node.name)
                given = self.graph.placeholder(node.name)
                self.env[node] = given if node.meta["val"].dim() else self._call("reshape", given, [])
        for node in made:
            self._add(node)
        results = []
        for node in gives:
            value = node.meta["val"]
            results.append(self._handed(self.env[node], value, last))
            shape = (list(value.shape) or [1]) if last else sent(value)
            self.gives.append((node.name, torch.empty(shape, dtype=value.dtype, device="meta")))
        self.graph.output(tuple(results))
        self.module = fx.GraphModule(self.held, self.graph)
        self.module.register_forward_pre_hook(contiguous_gradients)
        self.parameters = sum(one.nbytes for one in self.held.values())

    def _arrived(self, given: Any, value: Any) -> Any:
        """A tensor that arrived, with the shape and the strides that it had."""
        places = order(value)
        if not places:
            return self._call("reshape", given, [])
        inverse = [places.index(d) for d in range(len(places))]
        return self._call("permute", given, inverse) if inverse != sorted(inverse) else given

    def _handed(self, ours: Any, value: Any, last: bool) -> Any:
        """A tensor as it leaves: contiguous, the dimension of the largest stride first."""
        if not value.dim():
            return self._call("reshape", ours, [1])
        if last:
            return ours
        places = order(value)
        return self._call("contiguous", self._call("permute", ours, places) if places != sorted(places) else ours)

    def _call(self, name: str, *args: Any) -> Any:
        return self.graph.call_function(getattr(torch.ops.aten, name).default, args)

    def _add(self, node: Any) -> None:
        """Add what this stage makes itself."""
        if node in self.program.state:
            name = self.program.state[node]
            self.held[name] = self.program.tensors[name]
            self.env[node] = self.graph.create_node("get_attr", name)
        elif node in self.program.numbers:
            self.env[node] = self.program.numbers[node]
        elif node.op == "call_function":
            self.operators += 1
            if (filled := fill(node)) is None:
                self.env[node] = self.graph.node_copy(node, self._operand(node))
            else:
                kind = {"dtype": node.meta["val"].dtype}
                self.env[node] = self.graph.call_function(torch.ops.aten.full.default, filled, kind)

    def _operand(self, node: Any) -> Any:
        """From what a node reads to what it reads here: detached, where the node runs under ``torch.no_grad``."""
        if node not in self.program.without:
            return self.env.__getitem__
        return lambda one: self._call("detach", self.env[one]) if is_tensor(one.meta["val"]) else self.env[one]


def contiguous_gradients(_module: Any, received: tuple[Any, ...]) -> None:
    """Have gradients of what a stage receives go back contiguous: others can't be sent."""
    for one in received:
        if one.requires_grad:
            one.register_hook(torch.Tensor.contiguous)


def shared(stages: Sequence[Stage]) -> list[dict[int, str]]:
    """Stage -> its name of a parameter, for each parameter with gradients that several stages hold."""
    found: dict[tuple[Any, ...], dict[int, str]] = {}
    for stage in stages:
        for name, one in stage.held.items():
            if one.requires_grad:  # two parts of one storage are two parameters
                found.setdefault((one.data_ptr(), one.shape, one.stride()), {})[stage.s] = name
    return [where for where in found.values() if len(where) > 1]


def fill(node: Any) -> tuple[list[int], Any] | None:
    """(shape, number) of an operator that needs only a shape; None for any other."""
    name = getattr(node.target, "_opname", "")
    if name not in FILLS:
        return None
    number = FILLS[name] if FILLS[name] is not None else node.args[-1]
    return None if isinstance(number, fx.Node) else (list(node.meta["val"].shape), number)


def _read_by(operators: Iterable[Any], homes: dict[Any, list[int]]) -> set[Any]:
    """What operators read, directly and through what no stage is the home of: views, and results of constants."""
    found, left = set[Any](), [one for node in operators if fill(node) is None for one in node.all_input_nodes]
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left += node.all_input_nodes if node not in homes and fill(node) is None else []
    return found


def split(program: Program, named: Sequence[Sequence[str]]) -> list[Stage]:
    """The stages of a program, given the operations of each as the plan calls them.

    Copies of an operator (``name@reader``) are the operator in several stages, a relay (``name/relay1``) is none.
    """
    nodes, homes = {name: node for node, name in program.names.items()}, dict[Any, list[int]]()
    for s, names in enumerate(named):
        for name in dict.fromkeys(one.partition("@")[0] for one in names if "/relay" not in one):
            if name not in nodes:
                raise PlanError(f"the program has no operator {name!r}, which stage {s} is to run")
            homes.setdefault(nodes[name], []).append(s)
    stages, roots, gives = [Stage(program, homes, s) for s in range(len(named))], program.outputs, list[list[Any]]()
    for stage in reversed(stages):
        stage.want(roots)
        gives.append(roots)
        roots = sorted(stage.needs, key=program.at.__getitem__)
    if roots:
        raise PlanError(f"an earlier stage reads what {roots[0].name!r} makes in a later one")
    for stage, given in zip(stages, reversed(gives), strict=True):
        stage.build(given, stage is stages[-1])
    computed = set[Any]()  # what operators of this stage and later ones read
    for stage in reversed(stages):
        computed |= _read_by([node for node in stage.used if node in homes], homes)
        stage.handed = sum(node.meta["val"].nbytes for node in stage.needs - computed)
    return stages
