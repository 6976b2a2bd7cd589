"""What crosses a boundary: what depends on the data of an input. Tables and masks are made again where they are read.

Brute force follows a random program value by value: which are of an input, which of constants and sizes alone, and
which are views of others.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from chipmap.inputs.reading import read
from chipmap.instances.placement.from_graph import from_graph as placement_of
from chipmap.instances.placement.problem import placement_problem
from chipmap.instances.ring.from_graph import from_graph as ring_of
from chipmap.instances.ring.instance import RingSolution
from chipmap.networks.importers.reading import import_graph
from chipmap.validation.ring.checker import check
from tests.instances.test_torch_graphs import SQUARE, call, graph, program
from tests.lanes import of_all

BYTES, CHIPS = 4 * 9, 3


class Drawn:
    """A random program: of each value what it reads, the storage behind it, and whether an input's data are in it."""

    def __init__(self, seed: int) -> None:
        self.random, self.nodes = Random(seed), list[Any]()
        self.reads: dict[str, list[str]] = {"x": []}
        self.base, self.moves = {"x": "x"}, {"x": True}
        for i in range(self.random.randrange(8, 20)):
            self._one(f"v{i}")
        left = self._unread()
        while len(left) > 1:
            self._add(f"w{len(left)}", "add.Tensor", *left[:2])
            left = self._unread()
        self.out = left[0]

    def _unread(self) -> list[str]:
        read = {one for names in self.reads.values() for one in names}
        return [name for name in self.reads if name not in read]

    def _add(self, name: str, operator: str, *reads: str) -> None:
        self.nodes.append(call(name, f"aten.{operator}", *reads))
        self.reads[name] = list(reads)
        self.moves[name] = any(self.moves[one] for one in reads)
        self.base[name] = self.base[reads[0]] if operator == "t.default" else name

    def _one(self, name: str) -> None:
        """A table, a size of something that is read beside it, a view, or a function of what there is."""
        known = [name for name in self.reads if name[-1] != "z"]
        kind = self.random.choice(["table", "size", "view", "one", "one", "two", "two"])
        if kind == "table":
            self._add(name, "arange.default")
        elif kind == "size":
            of = self.random.choice(known)
            self._add(f"{name}z", "zeros_like.default", of)
            self.moves[f"{name}z"] = False
            self._add(name, "mul.Tensor", of, f"{name}z")
        elif kind == "view":
            self._add(name, "t.default", self.random.choice(known))
        else:
            reads = self.random.sample(known, min(len(known), 1 + (kind == "two")))
            self._add(name, "mul.Tensor" if len(reads) > 1 else "cos.default", *reads)

    def crossing(self, place: dict[str, int]) -> list[int]:
        """Bytes over each link: a storage with data of an input goes from its maker to its farthest reader."""
        found, last = [0] * (CHIPS - 1), dict[str, int]()
        for name, reads in self.reads.items():
            if name in place:
                for one in reads:
                    last[self.base[one]] = max(last.get(self.base[one], 0), place[name])
        for storage, end in last.items():
            if self.moves[storage] and storage in place:
                for link in range(place[storage], end):
                    found[link] += BYTES
        return found

    @property
    def data(self) -> bytes:
        """The program as a file."""
        return program(graph(["x"], self.nodes, [self.out], dict.fromkeys(self.reads, SQUARE)))


@pytest.mark.parametrize("seed", range(of_all(120, few=40)))
def test_what_is_made_of_constants_and_sizes_crosses_no_boundary(seed: int) -> None:
    """Random programs on a ring of three chips, operators placed at random along it; storages of ``placement``."""
    drawn = Drawn(seed)
    if not drawn.moves[drawn.out]:
        return
    imported = import_graph("m.pt2", drawn.data)
    instance = ring_of(imported, "drawn")
    package = instance.package.replace(chips=CHIPS, link_bytes_per_ns=1.0, sram_bytes=10**9)
    instance = instance.replace(package=package, constraints=("C1", "C4"))
    computing = {one.name for one in imported.graph.operations if one.role == "compute"}
    assert computing == {name for name in drawn.moves if drawn.moves[name] and drawn.base[name] == name} - {"x"}
    cuts = sorted(drawn.random.sample(range(len(drawn.nodes) + 1), 2))
    chip = {name: sum(i >= cut for cut in cuts) for i, name in enumerate(n for n in drawn.reads if n != "x")}
    chips = tuple(chip.get(one.name, 0) for one in imported.graph.operations)
    fixed = RingSolution(instance="drawn", chips=_followed(drawn, imported.graph, chips))
    certificate = check(instance, fixed)
    assert certificate.feasible, certificate.violations
    place = {name: at for name, at in chip.items() if name in computing}
    assert certificate.terms["T2"] == 100 * max(drawn.crossing(place))
    storages = placement_problem(placement_of(imported, "drawn")).storages
    moving = {drawn.base[one] for name in computing for one in drawn.reads[name]} & computing
    assert len(storages.bytes) - int(storages.resident.sum()) >= len(moving)


def _followed(drawn: Drawn, graph: Any, chips: tuple[int, ...]) -> tuple[int, ...]:
    """Constants where their first reader is, and the input on the first chip, so that no edge leads back."""
    found, reads = list(chips), graph.reads()
    readers: list[list[int]] = [[] for _ in chips]
    for v, sources in enumerate(reads):
        for u in sources:
            readers[u].append(v)
    for v in reversed(graph.topological_order()):
        if graph.operations[v].role in ("constant", "input") and readers[v]:
            found[v] = min(found[w] for w in readers[v])
    return tuple(found)


@pytest.mark.parametrize("file", ["llama-plain.pt2", "llama-onnx.onnx", "qwen2-decomposed.pt2"])
def test_rotary_tables_and_masks_rest(file: str) -> None:
    """They are among what an operator reads, not among what is sent: whatever is, is made of an input."""
    found: Any = read(f"tests/instances/zoo/{file}", family="placement")
    problem = placement_problem(found)
    graph, reads = found.graph, found.graph.reads()
    moving = [False] * len(graph.operations)
    for v in graph.topological_order():
        moving[v] = graph.operations[v].role == "input" or any(moving[u] for u in reads[v])
    assert any(one.kind.lower() in ("cos", "arange", "range") for one in graph.operations) or file.endswith("onnx")
    for u in problem.storages.producer.tolist():
        assert moving[problem.position[u]], graph.operations[problem.position[u]].name
