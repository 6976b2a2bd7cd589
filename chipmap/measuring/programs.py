"""A program of torch.export that runs operation by operation (extra ``torch``).

Nodes run in the order of the graph, on one machine. A node that is an operation of the graph that chipmap reads
has the operation's name, so that its time is that operation's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from chipmap.deadline import Stop
from chipmap.instances.measured import fingerprint
from chipmap.networks.importers.common import ImportedGraph
from chipmap.networks.importers.reading import import_graph
from chipmap.networks.works import works
from chipmap.records import InputError, SolverUnavailableError

#: Whole numbers of made-up inputs are below this one, so that they are rows of any table.
_INDEX = 2
#: Characters of PyTorch's own words in an error.
_SAID = 200


def require() -> None:
    """Raise :class:`SolverUnavailableError` unless torch is installed."""
    if find_spec("torch") is None:
        raise SolverUnavailableError(
            'measuring needs PyTorch, which is not installed\n  Install it: pip install "chipmap[torch]"'
        )


def register(modules: list[str]) -> None:
    """Import modules, which may register operators. Raises :class:`InputError` for one that can't be imported."""
    for name in modules:
        try:
            import_module(name)
        except Exception as error:  # it is the user's
            what = f"{name!r} can't be imported: {type(error).__name__}: {error}"
            raise InputError(what, "--import", "Name a module of this Python.") from None


#: Runs an operation (its name, a call that computes its results) and returns the results.
Timer = Callable[[str, Callable[[], Any]], Any]


class Program:
    """A program in a file, with the graph that chipmap reads of it. Raises :class:`InputError` for one that can't run
    here: no program of torch.export, or with sizes that it leaves open. ``device``: where it runs, cpu or cuda."""

    def __init__(self, path: str, device: str = "cpu") -> None:
        self.path, self.device = path, device
        if not Path(path).is_file():
            raise InputError("is no file", path, "Give a program that torch.export.save has written (.pt2).")
        self.imported: ImportedGraph = import_graph(path)
        if self.imported.totals is None or not self.imported.graph.source.startswith("torch.export"):
            raise InputError("is no program of torch.export", path, "Save one: torch.export.save(program, FILE).")
        self.exported = _loaded(path, device)
        self.graph = fingerprint(self.imported.graph)
        operations, scopes = self.imported.graph.operations, self.imported.scopes
        self.operations = {
            operation.name: (scope, operation.kind)
            for operation, scope in zip(operations, scopes or [""] * len(operations), strict=True)
            if operation.role == "compute"
        }
        found = zip(operations, works(self.imported.graph), strict=True)
        self.works: dict[str, tuple[int | str, ...]] = {
            one.name: (*work.sizes, work.sort, work.parts, work.row, work.apart, work.turned) for one, work in found
        }
        self.notes: list[str] = []
        self.inputs = self._inputs()
        self.last_read = self._last_read()
        signature = self.exported.graph_signature
        self.buffers = {name: self._stored(name).clone() for name in signature.buffers}

    def _inputs(self) -> list[Any]:
        """What the program is called with: the example that it was exported with, else numbers of the right shapes."""
        import torch
        from torch.utils import _pytree

        names = set(self.exported.graph_signature.user_inputs)
        held = self.exported.example_inputs
        if held is not None:
            return [_moved(leaf, self.device) for leaf in _pytree.tree_leaves(held)]
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
        return [_moved(one, self.device) for one in made]

    def run(self, timer: Timer) -> None:
        """Run the program once; ``timer`` runs its operations. Raises :class:`InputError` where a call fails."""
        import torch

        held = self._held()
        for node in self.exported.graph.nodes:
            if node.op == "get_attr":
                held[node.name] = _attribute(self.exported.graph_module, node.target)
            elif node.op == "call_function":
                args, fields = torch.fx.node.map_arg((node.args, node.kwargs), lambda one: held[one.name])
                call = partial(node.target, *args, **fields)
                try:
                    held[node.name] = timer(node.name, call) if node.name in self.operations else call()
                except Stop:
                    raise
                except Exception as error:  # what the program's operators raise
                    what = f"{node.name!r} fails: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
                    raise InputError(what, self.path, "Export it with example inputs that it runs with.") from None
            for name in self.last_read.get(node.name, ()):
                held.pop(name, None)

    def whole(self) -> Callable[[], Any]:
        """A call that runs the program from end to end, as its user would."""
        from torch.utils import _pytree

        module = self.exported.module()
        spec = self.exported.call_spec.in_spec
        args, fields = _pytree.tree_unflatten(self.inputs, spec)
        return lambda: module(*args, **fields)

    def _held(self) -> dict[str, Any]:
        """The value of each placeholder: of inputs and buffers a copy, as the program may change them in place."""
        found, inputs = dict[str, Any](), iter(self.inputs)
        for spec in self.exported.graph_signature.input_specs:
            if spec.kind.name == "USER_INPUT":
                found[spec.arg.name] = _copied(next(inputs))
            elif spec.target in self.buffers:
                found[spec.arg.name] = _copied(self.buffers[spec.target])
            else:
                found[spec.arg.name] = self._stored(spec.target)
        return found

    def _stored(self, name: str) -> Any:
        """The value of a parameter, buffer or constant."""
        held = self.exported.state_dict
        return held[name] if name in held else self.exported.constants.get(name)

    def _last_read(self) -> dict[str, list[str]]:
        """Node -> the nodes that none behind it reads."""
        last: dict[str, str] = {}
        for node in self.exported.graph.nodes:
            for read in node.all_input_nodes:
                last[read.name] = node.name
        found: dict[str, list[str]] = {}
        for read_name, at in last.items():
            found.setdefault(at, []).append(read_name)
        return found


def _loaded(path: str, device: str) -> Any:
    """The program, with the values of its parameters, on a device."""
    import torch

    with _warnings_of("torch.export") as warned:
        try:
            exported = torch.export.load(path)
            if device == "cpu":
                return exported
            from torch.export.passes import move_to_device_pass

            return move_to_device_pass(exported, device)
        except Exception as error:  # PyTorch raises what it likes
            said = " ".join(str(warned[-1] if warned else error).split()) or type(error).__name__
            what = f"can't be run here: PyTorch can't load it with its parameters and operators: {said[:_SAID]}"
            remedy = (
                "Save it again: torch.export.save(program, FILE) keeps its parameters. If a module registers operators"
            )
            raise InputError(what, path, f"{remedy} or classes of results, name it: --import MODULE.") from None


@contextmanager
def _warnings_of(logger: str) -> Iterator[list[BaseException]]:
    """The errors that a logger warns of meanwhile, which it doesn't print."""
    log, found = logging.getLogger(logger), list[BaseException]()

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info and record.exc_info[1]:
                found.append(record.exc_info[1])

    handlers, passes_on = log.handlers, log.propagate
    log.handlers, log.propagate = [Kept()], False
    try:
        yield found
    finally:
        log.handlers, log.propagate = handlers, passes_on


def _moved(value: Any, device: str) -> Any:
    """A tensor on the device; anything else as it is."""
    return value.to(device) if hasattr(value, "to") else value


def _copied(value: Any) -> Any:
    """A tensor of the same numbers; anything else as it is."""
    return value.clone() if hasattr(value, "clone") else value


def _attribute(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module
