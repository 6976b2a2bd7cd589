"""A program of torch.export that runs operation by operation (extra ``torch``).

Nodes run in the order of the graph, on one machine. A node that is an operation of the graph that chipmap reads
has the operation's name, so that its time is that operation's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from chipmap.instances.measured import fingerprint
from chipmap.networks.importers.common import ImportedGraph
from chipmap.networks.importers.reading import import_graph
from chipmap.records import InputError, SolverUnavailableError

#: Largest index that a made-up input holds: it must be a row of any table.
_INDEX = 2


def require() -> None:
    """Raise :class:`SolverUnavailableError` unless torch is installed."""
    if find_spec("torch") is None:
        raise SolverUnavailableError(
            'measuring needs PyTorch, which is not installed\n  Install it: pip install "chipmap[torch]"'
        )


@dataclass(frozen=True)
class Timed:
    """An operation about to run: its name, module and kind, and a call that computes its results once more."""

    name: str
    module: str
    kind: str
    call: Callable[[], Any]


class Program:
    """A program in a file, with the graph that chipmap reads of it. Raises :class:`InputError` for one that can't run
    here: no program of torch.export, or with sizes that it leaves open."""

    def __init__(self, path: str) -> None:
        self.path = path
        if not Path(path).is_file():
            raise InputError("is no file", path, "Give a program that torch.export.save has written (.pt2).")
        self.imported: ImportedGraph = import_graph(path)
        if self.imported.totals is None or not self.imported.graph.source.startswith("torch.export"):
            raise InputError("is no program of torch.export", path, "Save one: torch.export.save(program, FILE).")
        self.exported = _loaded(path)
        self.graph = fingerprint(self.imported.graph)
        operations, scopes = self.imported.graph.operations, self.imported.scopes
        self.operations = {
            operation.name: (scope, operation.kind)
            for operation, scope in zip(operations, scopes or [""] * len(operations), strict=True)
            if operation.role == "compute"
        }
        self.notes: list[str] = []
        self.inputs = self._inputs()

    def _inputs(self) -> list[Any]:
        """What the program is called with: the example that it was exported with, else numbers of the right shapes."""
        import torch
        from torch.utils import _pytree

        names = set(self.exported.graph_signature.user_inputs)
        held = self.exported.example_inputs
        if held is not None:
            return list(_pytree.tree_leaves(held))
        made: list[Any] = []
        for node in self.exported.graph.nodes:
            if node.op != "placeholder" or node.name not in names:
                continue
            value = node.meta["val"]
            if any(not isinstance(size, int) for size in value.shape):
                what = f"input {node.name!r} has a size that the program leaves open"
                raise InputError(what, self.path, "Export it with sizes that are numbers, or with its example inputs.")
            real = value.dtype.is_floating_point or value.dtype.is_complex
            shape = tuple(value.shape)
            made.append(
                torch.randn(shape, dtype=value.dtype)
                if real
                else torch.zeros(shape, dtype=value.dtype)
                if value.dtype == torch.bool
                else torch.randint(0, _INDEX, shape, dtype=value.dtype)
            )
        self.notes.append("the file has no example inputs: floats are random, whole numbers 0 or 1")
        return made

    def run(self) -> Iterator[Timed]:
        """Run the program. Each operation is handed out before it runs, so that it can be timed; then it runs once."""
        import torch

        held = self._held()
        last = self._last_uses()
        for node in self.exported.graph.nodes:
            if node.op == "get_attr":
                held[node.name] = _attribute(self.exported.graph_module, node.target)
            elif node.op == "call_function":
                args, fields = torch.fx.node.map_arg((node.args, node.kwargs), lambda one: held[one.name])
                if node.name in self.operations:
                    yield Timed(node.name, *self.operations[node.name], _call(node.target, args, fields))
                held[node.name] = node.target(*args, **fields)
            for name in last.get(node.name, ()):
                held.pop(name, None)

    def whole(self) -> Callable[[], Any]:
        """A call that runs the program from end to end, as its user would."""
        from torch.utils import _pytree

        module = self.exported.module()
        spec = self.exported.call_spec.in_spec
        args, fields = _pytree.tree_unflatten(self.inputs, spec)
        return lambda: module(*args, **fields)

    def _held(self) -> dict[str, Any]:
        """The value of each placeholder."""
        found, inputs = dict[str, Any](), iter(self.inputs)
        for spec in self.exported.graph_signature.input_specs:
            if spec.kind.name == "USER_INPUT":
                found[spec.arg.name] = next(inputs)
            elif spec.target in self.exported.state_dict:
                found[spec.arg.name] = self.exported.state_dict[spec.target]
            else:
                found[spec.arg.name] = self.exported.constants.get(spec.target)
        return found

    def _last_uses(self) -> dict[str, list[str]]:
        """Node -> the nodes that none behind it reads."""
        last: dict[str, str] = {}
        for node in self.exported.graph.nodes:
            for read in node.all_input_nodes:
                last[read.name] = node.name
        found: dict[str, list[str]] = {}
        for read_name, at in last.items():
            found.setdefault(at, []).append(read_name)
        return found


def _loaded(path: str) -> Any:
    """The program, with the values of its parameters."""
    import logging

    import torch

    log = logging.getLogger("torch.export")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        return torch.export.load(path)
    except Exception:  # PyTorch raises what it likes
        what = "can't be run here: PyTorch can't load it with its parameters"
        raise InputError(what, path, "Save it again: torch.export.save(program, FILE) keeps its parameters.") from None
    finally:
        log.setLevel(level)


def _call(target: Callable[..., Any], args: Any, fields: Any) -> Callable[[], Any]:
    """The call; one that changes its arguments changes copies of them, so that the program's values stay."""
    import torch

    if getattr(getattr(target, "_schema", None), "is_mutable", False):
        args, fields = torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, (args, fields))
    return lambda: target(*args, **fields)


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module
