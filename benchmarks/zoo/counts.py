"""What PyTorch says of an exported program: FLOP by its own counter, node by node, and its parameters."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx
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


class _Counting(fx.Interpreter):  # type: ignore[misc]
    """Runs a graph on fake tensors and counts the FLOP of each node."""

    def __init__(self, module: fx.GraphModule, flop: dict[str, int]) -> None:
        super().__init__(module)
        self.flop = flop

    def run_node(self, n: fx.Node) -> Any:
        if n.op != "call_function":
            return super().run_node(n)
        if getattr(n.target, "__name__", "").startswith(_WRAPPERS):
            args, _ = self.fetch_args_kwargs_from_env(n)
            graph = next(i for i, value in enumerate(args) if isinstance(value, fx.GraphModule))
            return _Counting(args[graph], self.flop).run(*args[graph + 1 :])
        with FlopCounterMode(display=False, custom_mapping=_missing()) as counter:
            made = super().run_node(n)
        if counter.get_total_flops():
            self.flop[n.name] = counter.get_total_flops()
        return made


def flop_by_node(program: Any) -> dict[str, int]:
    """FLOP of each node of the exported program that torch's counter counts; those of wrapped graphs by inner name."""
    flop: dict[str, int] = {}
    placeholders = [node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"]
    mode = next(value.fake_mode for value in placeholders if hasattr(value, "fake_mode"))
    with mode, torch.no_grad():
        inputs = [
            mode.from_tensor(v) if isinstance(v, torch.Tensor) and not hasattr(v, "fake_mode") else v
            for v in placeholders
        ]
        _Counting(program.graph_module, flop).run(*inputs)
    return flop


def kinds(program: Any, flop: Mapping[str, int]) -> dict[str, int]:
    """FLOP by operator (``aten.mm``)."""
    found: Counter[str] = Counter()
    for graph in _graphs(program.graph_module):
        for node in graph.nodes:
            if node.name in flop:
                found[str(node.target).rpartition(".")[0]] += flop[node.name]
    return dict(sorted(found.items()))


def _graphs(module: fx.GraphModule) -> list[fx.Graph]:
    return [each.graph for each in module.modules() if isinstance(each, fx.GraphModule)]


def parameters(program: Any, module: torch.nn.Module) -> dict[str, int]:
    """Bytes of each parameter, buffer and constant of the program that a node reads, by name; tied ones once."""
    read = {node.name for node in program.graph.nodes if node.op == "placeholder" and node.users}
    own: dict[str, int] = {}
    tensors = {
        **dict(module.named_buffers(remove_duplicate=False)),
        **dict(module.named_parameters(remove_duplicate=False)),
    }
    seen: dict[int, str] = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind.name not in _STORED or spec.arg.name not in read:
            continue
        tensor = tensors.get(spec.target)
        if tensor is None:
            tensor = program.constants.get(spec.target, program.state_dict.get(spec.target))
        if seen.setdefault(id(tensor), spec.target) == spec.target:
            own[spec.target] = tensor.numel() * tensor.element_size()
    return own
