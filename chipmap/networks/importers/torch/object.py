"""A program that torch.export made, as the object: a :class:`TorchProgram` like the one that its file gives."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from chipmap.networks.importers.torch.graph import (
    GETITEM,
    Call,
    Meta,
    Operator,
    Ref,
    TorchGraph,
    TorchProgram,
    leaves,
    slot,
)
from chipmap.records import InputError

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_BUFFERS = frozenset({"BUFFER", "CONSTANT_TENSOR"})
_STORED = _BUFFERS | {"PARAMETER"}
_NAMED = frozenset({"PARAMETER", "BUFFER"})
_CHANGED = frozenset({"BUFFER_MUTATION", "USER_INPUT_MUTATION"})


def read_object(exported: ExportedProgram, name: str) -> TorchProgram:
    """The program in the object."""
    stored = {spec.arg.name for spec in exported.graph_signature.input_specs if spec.kind.name in _STORED}
    graph = _Module(exported.graph_module, name).graph
    graph.stored |= stored
    graph.buffers |= {s.arg.name for s in exported.graph_signature.input_specs if s.kind.name in _BUFFERS}
    parameters = graph.stored - graph.buffers
    metas = {node.name: node.meta.get("val") for node in exported.graph_module.graph.nodes if node.name in parameters}
    graph.frozen |= {name for name, value in metas.items() if not getattr(value, "requires_grad", True)}
    graph.scopes |= {
        spec.arg.name: spec.target.rpartition(".")[0]
        for spec in exported.graph_signature.input_specs
        if spec.kind.name in _STORED and spec.target
    }
    graph.states |= {
        spec.arg.name: spec.target
        for spec in exported.graph_signature.input_specs
        if spec.kind.name in _NAMED and spec.target
    }
    specs = exported.graph_signature.output_specs
    graph.changed |= {spec.arg.name for spec in specs if spec.kind.name in _CHANGED}
    ranges = {str(symbol): (_bound(r.lower), _bound(r.upper)) for symbol, r in exported.range_constraints.items()}
    return TorchProgram(name, "torch.export", graph, ranges, _hints(exported.graph_module.graph.nodes))


def _bound(value: Any) -> int | None:
    """A bound of a range; None for infinity."""
    text = str(value)
    return int(text) if text.lstrip("-").isdigit() else None


def _hints(nodes: Any) -> dict[str, int]:
    """The value in the export of each size that is an expression."""
    sizes = [size for node in nodes for value in leaves(node.meta.get("val")) for size in getattr(value, "shape", ())]
    known = [(size, getattr(getattr(size, "node", None), "hint", None)) for size in sizes if not isinstance(size, int)]
    return {str(size): int(hint) for size, hint in known if isinstance(hint, int)}


class _Module:
    """A graph module; those inside it are arguments of its calls."""

    def __init__(self, module: Any, where: str) -> None:
        self.module, self.where, self.graph = module, where, TorchGraph()
        self.asked: dict[str, dict[int, str]] = {}  # call with several results -> position -> the getitem for it
        self.lists: dict[str, list[Any]] = {}  # node that is a list -> what is in it
        self.done: set[str] = set()  # getitem nodes that stand behind their call already, as in a file
        nodes = list(module.graph.nodes)
        for node in nodes:
            if node.target is operator.getitem and isinstance(node.args[1], int):
                self.asked.setdefault(node.args[0].name, {}).setdefault(node.args[1], node.name)
        for node in nodes:
            self._add(node)

    def _add(self, node: Any) -> None:
        value = node.meta.get("val", node.meta.get("example_value"))
        if node.op == "output":
            self.graph.single = not isinstance(node.args[0], tuple | list)
            self.graph.outputs = [self._argument(item) for item in leaves(node.args[0])]
        elif node.op == "placeholder":
            self._note(node.name, value)
            self.graph.inputs.append(self._ref(node.name))
        elif node.op == "get_attr":
            held = _attribute(self.module, node.target)
            if hasattr(held, "element_size"):
                self._note(node.name, held if value is None else value)
                self.graph.stored.add(node.name)
        elif node.op == "call_function" and node.name not in self.done:
            self._call(node, value)

    def _call(self, node: Any, value: Any) -> None:
        arguments, target = self._arguments(node), _target(node.target)
        modules = list((node.meta.get("nn_module_stack") or {}).values())
        self.graph.scopes[node.name] = modules[-1][0] if modules else ""
        for path, kind in (one[:2] for one in modules if one[0]):
            self.graph.classes[path] = (kind if isinstance(kind, str) else kind.__qualname__).rpartition(".")[2]
        if not isinstance(value, tuple | list):
            self._note(node.name, value)
            makes = (node.name,) if self._ref(node.name) else ()
            self.graph.calls.append(Call(node.name, target, arguments, makes, single=bool(makes)))
            return
        results = list(self._results(node.name, value))
        slots = tuple(slot(node.name, k) for k in range(len(results)))
        self.graph.calls.append(Call(node.name, target, arguments, slots, single=False))
        for k, (inner, (name, result)) in enumerate(zip(slots, results, strict=True)):
            self._note(inner, result)
            self._note(name, result)
            if self._ref(name):
                self.graph.calls.append(Call(name, GETITEM, (("a", Ref(inner)), ("b", k)), (name,)))
                self.graph.scopes[name] = self.graph.scopes[node.name]
            self.done.add(name)
        self.lists[node.name] = [self._ref(name) for name, _ in results]

    def _results(self, call: str, value: Any) -> Iterator[tuple[str, Any]]:
        """Each result of a call with the name of the getitem node for it, as a file has them."""
        for i, item in enumerate(value):
            name = self.asked.get(call, {}).get(i, f"{call}_unused_{i}")
            if isinstance(item, tuple | list):
                inner = [
                    (self.asked.get(name, {}).get(j, f"{call}_unused_{i}_{j}"), each) for j, each in enumerate(item)
                ]
                yield from inner
                self.lists[name] = [Ref(own) for own, _ in inner]
                self.done.add(name)
            else:
                yield name, item

    def _note(self, name: str, value: Any) -> None:
        """Keep what a tensor or a symbolic number is."""
        if hasattr(value, "element_size"):
            if "sparse" in str(value.layout):
                remedy = "Export the program with dense tensors."
                raise InputError(f"tensor {name!r} is sparse: its shape doesn't tell its bytes", self.where, remedy)
            shape, strides = (
                tuple(one if isinstance(one, int) else str(one) for one in each)
                for each in (value.shape, value.stride())
            )
            self.graph.tensors[name] = Meta(shape, value.element_size() * 8, str(value.dtype), strides)
        elif type(value).__name__ == "SymInt":
            self.graph.numbers[name] = str(value)
        elif type(value).__name__ in ("SymBool", "SymFloat"):
            self.graph.numbers[name] = None

    def _ref(self, name: str) -> Ref | None:
        return Ref(name) if name in self.graph.tensors or name in self.graph.numbers else None

    def _arguments(self, node: Any) -> tuple[tuple[str, Any], ...]:
        schema = getattr(node.target, "_schema", None)
        names = [argument.name for argument in schema.arguments] if schema else []
        if getattr(node.target, "__module__", "") in ("_operator", "math"):
            names = ["a", "b"]
        names += [""] * (len(node.args) - len(names))
        given = [*zip(names, node.args, strict=False), *node.kwargs.items()]
        return tuple((name, self._argument(value)) for name, value in given)

    def _argument(self, value: Any) -> Any:
        """An argument as :class:`Call` has them."""
        if isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, dict | list | tuple):
            return [self._argument(item) for item in (value.values() if isinstance(value, dict) else value)]
        if hasattr(value, "all_input_nodes"):
            if value.name in self.lists:
                return self.lists[value.name]
            held = _attribute(self.module, value.target) if value.op == "get_attr" else None
            return _Module(held, self.where).graph if hasattr(held, "graph") else self._ref(value.name)
        return Operator(_target(value)) if hasattr(value, "_schema") else None


def _attribute(module: Any, path: str) -> Any:
    """What a module holds at a dotted path; None if nothing."""
    for name in path.split("."):
        module = getattr(module, name, None)
    return module


def _target(target: Any) -> str:
    """The target's name as a file has it."""
    if hasattr(target, "_schema"):
        return f"torch.ops.{target}"
    if getattr(target, "namespace", "") == "higher_order":
        return f"torch.ops.higher_order.{target.name()}"
    return f"{target.__module__}.{target.__name__}"
