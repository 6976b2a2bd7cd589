"""The table of features: by hand, whatever the units, however operations are numbered, and without torch."""

from __future__ import annotations

import numpy as np
import pytest

import chipmap
from chipmap.instances.placement import Device, DeviceClass, Forbidden, Links, PlacementInstance, System
from chipmap.instances.placement.problem import placement_problem
from chipmap.instances.ring import Package, RingInstance
from chipmap.instances.ring.contraction import computing_only, contract
from chipmap.instances.ring.problem import ring_problem
from chipmap.learned import needs
from chipmap.learned.features import COLUMNS, Graph, of_placement, of_ring, table
from chipmap.learned.ring.recipe import Recipe
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.records import InputError, SolverUnavailableError

COLUMN = {name: k for k, name in enumerate(COLUMNS)}


def diamond() -> Graph:
    """0 → 1, 2 → 3, with work 1, 2, 3, 2."""
    work = np.array([1.0, 2.0, 3.0, 2.0])
    return Graph(
        kinds=["a", "b", "b", "a"],
        work=work,
        flop=10 * work,
        weights=np.array([0.0, 4.0, 0.0, 0.0]),
        output=np.zeros(4),
        edges=np.array([(0, 1), (0, 2), (1, 3), (2, 3)]),
        order=np.array([0, 2, 1, 3]),
    )


def permuted(graph: Graph, places: list[int]) -> Graph:
    """The graph in which operation v has number places[v]."""
    to, back = np.array(places), np.argsort(places)
    return Graph(
        kinds=[graph.kinds[v] for v in back],
        work=graph.work[back],
        flop=graph.flop[back],
        weights=graph.weights[back],
        output=graph.output[back],
        edges=to[graph.edges],
        order=to[graph.order],
    )


def test_the_columns_by_hand() -> None:
    found = table(diamond())
    assert found.shape == (4, len(COLUMNS))
    assert found[:, COLUMN["work"]] == pytest.approx(np.log1p([0.5, 1.0, 1.5, 1.0]))
    assert found[:, COLUMN["weights"]] == pytest.approx(np.log1p([0.0, 4.0, 0.0, 0.0]))
    assert found[:, COLUMN["output"]].tolist() == [0.0] * 4
    assert found[:, COLUMN["in"]] == pytest.approx(np.log1p([0, 1, 1, 2]))
    assert found[:, COLUMN["out"]] == pytest.approx(np.log1p([2, 1, 1, 0]))
    assert found[:, COLUMN["depth"]].tolist() == [0.0, 0.5, 0.5, 1.0]
    assert found[:, COLUMN["height"]].tolist() == [1.0, 0.5, 0.5, 0.0]
    assert found[:, COLUMN["position"]] == pytest.approx([0.5 / 8, 5 / 8, 2.5 / 8, 7 / 8])
    kinds = found[:, COLUMN["kind 0"] :]
    assert kinds.sum(axis=1).tolist() == [1.0] * 4
    assert (kinds[0] == kinds[3]).all() and (kinds[1] == kinds[2]).all() and (kinds[0] != kinds[1]).any()


def test_graphs_by_hand() -> None:
    """All tensors of an operation are its output; an edge counts once, however many tensors go along it."""
    operations = tuple(Operation(name=name, kind="k", flop=flop) for name, flop in (("a", 2), ("b", 6)))
    tensors = tuple(Tensor(producer=0, readers=(1,), bytes=size) for size in (3, 5))
    graph = OperationGraph(name="two", operations=operations, tensors=tensors)
    ring = RingInstance(name="two", graph=graph, package=Package(chips=2))
    found = of_ring(ring_problem(ring))
    assert found.output.tolist() == [8.0, 0.0] and found.edges.tolist() == [[0, 1]]
    kinds = tuple(
        DeviceClass(name=name, flop_per_ns=rate, memory_bytes_per_ns=1e9) for name, rate in (("s", 1), ("f", 2))
    )
    devices = tuple(Device(name=kind.name, kind=kind.name) for kind in kinds)
    system = System(classes=kinds, devices=devices, links=Links(kind="pair"))
    forbidden = (Forbidden(operation="b", devices=("f",)),)
    instance = PlacementInstance(name="two", graph=graph, system=system, forbidden=forbidden)
    placed = of_placement(placement_problem(instance))
    assert placed.work.tolist() == [1.0, 6.0], "both are twice as fast on f, where b may not be"
    assert placed.output.tolist() == [8.0, 0.0] and placed.edges.tolist() == [[0, 1]]


def test_recipes_without_torch() -> None:
    Recipe(rollouts=4, batches=4).check()
    with pytest.raises(InputError, match="is 5 for 4 rollouts"):
        Recipe(rollouts=4, batches=5).check()


def test_units_change_nothing_and_a_permutation_permutes() -> None:
    graph, places = diamond(), [2, 0, 3, 1]
    other = permuted(graph, places)
    assert table(other)[places] == pytest.approx(table(graph))
    scaled = Graph(
        graph.kinds, graph.work * 7, graph.flop / 3, graph.weights * 1024, graph.output, graph.edges, graph.order
    )
    assert table(scaled) == pytest.approx(table(graph))


@pytest.mark.parametrize("name", ["ring/tiny-diamond", "ring/tiny-skip", "placement/tiny-bus"])
def test_graphs_of_families_have_finite_features(name: str) -> None:
    instance = chipmap.read(name)
    if isinstance(instance, RingInstance):
        problem = computing_only(ring_problem(contract(instance).instance))
        found, count = table(of_ring(problem)), problem.n
    else:
        assert isinstance(instance, PlacementInstance)
        placed = placement_problem(instance)
        found, count = table(of_placement(placed)), placed.operations
    assert np.isfinite(found).all() and found.shape == (count, len(COLUMNS))


def test_without_torch_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "find_spec", lambda name: None)
    with pytest.raises(SolverUnavailableError, match=r"chipmap\[learned\]"):
        needs.require()
    with pytest.raises(SolverUnavailableError, match=r"chipmap\[learned\]"):
        chipmap.solve("ring/tiny-chain", "ring/policy", warm_start="none")
