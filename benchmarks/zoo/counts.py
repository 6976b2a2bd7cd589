"""What PyTorch says of an exported program: FLOP by its own counter, node by node, and its parameters."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

_WRAPPERS = "wrap_with_"
_STORED = frozenset({"PARAMETER", "BUFFER", "CONSTANT_TENSOR"})


def _grouped(rows: Any, matrices: Any, *rest: Any, **named: Any) -> int:
    """2 · rows · length · width: each row is multiplied with the matrix of its group alone."""
    return 2 * rows[0] * rows[1] * matrices[-1]


def _attention(query: Any, key: Any, value: Any, *rest: Any, **named: Any) -> int:
    return int(sdpa_flop_count(query, key, value))


def _missing() -> dict[Any, Any]:
    """Formulas for operators that torch's counter leaves out: its own one for attention, and grouped products."""
    formulas: dict[Any, Any] = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention}
    with contextlib.suppress(AttributeError, RuntimeError):
        formulas[torch.ops.transformers.grouped_mm_fallback] = _grouped
    return formulas


@dataclass
class _Noted:
    """What is noted of the nodes of a program and of the graphs in its wrappers.

    By name (``wrapper.node``), by operator, or by storage. ``trained``: the storages of the parameters.
    """

    flop: dict[str, int] = field(default_factory=dict)
    operators: Counter[str] = field(default_factory=Counter)
    read: dict[int, int] = field(default_factory=dict)
    results: dict[str, int] = field(default_factory=dict)
    constants: dict[str, int] = field(default_factory=dict)
    trained: set[int] = field(default_factory=set)


class _Counting(fx.Interpreter):  # type: ignore[misc]
    """Runs a graph on fake tensors; notes each node's FLOP, and which data known beforehand are read.

    ``moving`` are nodes that each run computes: their result depends on an input, or is made of a parameter and no view
    of it. ``noted.read``: storages of other results that a moving node reads, with their bytes.
    """

    def __init__(self, module: fx.GraphModule, noted: _Noted, moving: set[str], prefix: str = "") -> None:
        super().__init__(module)
        self.noted, self.moving, self.prefix = noted, moving, prefix

    def run_node(self, n: fx.Node) -> Any:
        """Run a node, or the graph inside a wrapper."""
        moves = any(node.name in self.moving for node in n.all_input_nodes)
        if n.op != "call_function":
            return super().run_node(n)
        if getattr(n.target, "__name__", "").startswith(_WRAPPERS):
            if moves:
                self.moving.add(n.name)
            return self._wrapped(n)
        moves = moves or self._made_of_a_parameter(n)
        if moves:
            self.moving.add(n.name)
            for node in n.all_input_nodes:
                if node.name not in self.moving:
                    tensors = [value for value in tree_leaves(self.env[node]) if isinstance(value, torch.Tensor)]
                    self.noted.read |= {_storage(value): value.untyped_storage().nbytes() for value in tensors}
        with FlopCounterMode(display=False, custom_mapping=_missing()) as counter:
            made = super().run_node(n)
        if counter.get_total_flops():
            self.noted.flop[self.prefix + n.name] = counter.get_total_flops()
            self.noted.operators[str(n.target).rpartition(".")[0]] += counter.get_total_flops()
        tensors = [value for value in tree_leaves(made) if isinstance(value, torch.Tensor)]
        size = sum(value.numel() * value.element_size() for value in tensors)
        (self.noted.results if moves else self.noted.constants)[self.prefix + n.name] = size
        return made

    def _made_of_a_parameter(self, n: fx.Node) -> bool:
        """Whether a node reads a parameter, or a view of one, and what it makes is no view of one."""
        read = [value for node in n.all_input_nodes for value in tree_leaves(self.env[node])]
        if not any(isinstance(value, torch.Tensor) and _storage(value) in self.noted.trained for value in read):
            return False
        made = [value for value in tree_leaves(super().run_node(n)) if isinstance(value, torch.Tensor)]
        return any(_storage(value) not in self.noted.trained for value in made)

    def _wrapped(self, n: fx.Node) -> Any:
        args, _ = self.fetch_args_kwargs_from_env(n)
        at = next(i for i, value in enumerate(args) if isinstance(value, fx.GraphModule))
        outer, graph = n.args[at + 1 :], args[at]
        inner = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
        moving = {own for own, node in zip(inner, outer, strict=True) if getattr(node, "name", "") in self.moving}
        return _Counting(graph, self.noted, moving, f"{self.prefix}{n.name}.").run(*args[at + 1 :])


def _storage(value: torch.Tensor) -> int:
    return int(value.untyped_storage()._cdata)


@dataclass(frozen=True)
class Counts:
    """What torch says of a program.

    ``flop`` of each node and ``operators``: of each operator (``aten.mm``), where its counter counts them. Bytes of the
    parameters, buffers and constants that a moving node reads, and of those ``folded`` into others, by name, tied ones
    once; ``made``: of these others. ``results``: bytes of the tensors that each node makes that each run computes, and
    ``constants``: of each other node.
    """

    flop: dict[str, int]
    operators: dict[str, int]
    parameters: dict[str, int]
    folded: dict[str, int]
    made: int
    results: dict[str, int]
    constants: dict[str, int]


def count(program: Any) -> Counts:
    """Run the exported program on fake tensors and count."""
    noted = _Noted()
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    values = [node.meta["val"] for node in placeholders]
    mode = next(value.fake_mode for value in values if hasattr(value, "fake_mode"))
    kinds = {spec.arg.name: spec for spec in program.graph_signature.input_specs}
    tensors = {**program.state_dict, **program.constants}
    own: dict[int, tuple[str, int]] = {}
    fresh: dict[int, torch.Tensor] = {}
    inputs, moving = [], set()
    with mode, torch.no_grad():
        for node, value in zip(placeholders, values, strict=True):
            spec = kinds[node.name]
            if spec.kind.name not in _STORED:
                moving.add(node.name)
                inputs.append(value)
                continue
            # one fake tensor for each tensor of the module, so that tied ones stay one
            said = tensors[spec.target]
            held = fresh.setdefault(_storage(said), torch.empty_like(value))
            if spec.kind.name == "PARAMETER":
                noted.trained.add(_storage(held))
            if node.users:
                own.setdefault(_storage(held), (spec.target, held.untyped_storage().nbytes()))
            inputs.append(held)
        _Counting(program.graph_module, noted, moving).run(*inputs)
    read = noted.read
    parameters = {name: size for key, (name, size) in own.items() if key in read}
    folded = {name: size for key, (name, size) in own.items() if key not in read}
    made = sum(size for key, size in read.items() if key not in own)
    return Counts(noted.flop, dict(noted.operators), parameters, folded, made, noted.results, noted.constants)


#: Operators of ONNX that give the data of a constant another name or order.
_RENAMING = frozenset({"Identity", "Reshape", "Transpose", "Unsqueeze", "Squeeze", "Flatten"})


def initializers(model: Any) -> tuple[dict[str, int], dict[str, int]]:
    """Bytes of each initializer of an ONNX model that a node with an input's data reads, and of the other ones."""
    import onnx

    graph = model.graph
    sizes = {}
    for tensor in graph.initializer:
        bits = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize * 8
        sizes[tensor.name] = math.prod(tensor.dims) * bits // 8
    behind = {name: name for name in sizes}
    moving = {value.name for value in graph.input} - sizes.keys()
    read = set()
    for node in graph.node:
        if any(name in moving for name in node.input):
            moving |= set(node.output)
            read |= {behind[name] for name in node.input if name in behind}
        elif node.op_type in _RENAMING and node.input[0] in behind:
            behind[node.output[0]] = behind[node.input[0]]
    return {n: b for n, b in sizes.items() if n in read}, {n: b for n, b in sizes.items() if n not in read}
