"""Human splits, METIS, HEFT on units and the other baselines: by hand, against brute force, and by the checker."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, pairwise
from random import Random

import numpy as np
import pytest

from chipmap.deadline import Deadline, Stop
from chipmap.heuristics.placement.published import metis
from chipmap.heuristics.placement.published.cpop import cpop, critical_path, downward_rank
from chipmap.heuristics.placement.search.units import units
from chipmap.heuristics.placement.shared import common_devices
from chipmap.heuristics.placement.simulation.memory import bytes_of, excess
from chipmap.heuristics.placement.simulation.simulator import NEVER, simulate
from chipmap.heuristics.placement.simulation.tables import tables, workspace
from chipmap.heuristics.placement.starts import etf, human
from chipmap.heuristics.placement.starts import heft as starts
from chipmap.heuristics.placement.starts.heft_units import heft_units, unit_of
from chipmap.heuristics.placement.starts.partition import nets, partition
from chipmap.instances.placement import Device, DeviceClass, Forbidden, Links, Pin, PlacementInstance, Route, System
from chipmap.instances.placement.generators import training_step
from chipmap.instances.placement.problem import IntArray, PlacementProblem, placement_problem
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.records import SolverUnavailableError
from chipmap.run import SolveOptions
from chipmap.solve import solve
from tests.placement.random_instances import CHAIN, FORK, made, tiny_instance


def first(problem: PlacementProblem) -> IntArray:
    """Each group on the first device that it may run on."""
    found: IntArray = common_devices(problem).argmax(axis=1).astype(np.int64)
    return found


#: Every rule that gives devices at once.
PLACERS: dict[str, Callable[[PlacementProblem], IntArray]] = {
    "human, time": lambda problem: human.split(problem, "time"),
    "human, bytes": lambda problem: human.split(problem, "bytes"),
    "human, round robin": lambda problem: human.split(problem, "round robin"),
    "heft": lambda problem: starts.heft(problem, tables(problem)),
    "heft-units": lambda problem: heft_units(problem, tables(problem)),
    "etf": lambda problem: etf.etf(problem, tables(problem)),
    "m-etf": lambda problem: etf.m_etf(problem, tables(problem)),
    "cpop": lambda problem: cpop(problem, tables(problem)),
    "random": lambda problem: starts.at_random(problem, 1),
    "partition": lambda problem: partition(problem, units(problem), first(problem)),
}
SMALL = {"layers": 2, "steps": 3, "hidden": 32, "batch": 4, "vocabulary": 50}
METHODS = ("one-device", "human", "heft", "heft-units", "cpop", "etf", "m-etf", "partition", "random")


def with_weights(rows: list[tuple[str, int]], edges: list[tuple[int, int]], devices: int = 2) -> PlacementProblem:
    """Operations (name, time) of which each has weights of its own, on devices of one class."""
    operations = [Operation(name=name, kind="op", weight_bytes=4) for name, _ in rows]
    tensors = [Tensor(producer=u, readers=tuple(b for a, b in edges if a == u), bytes=1) for u in range(len(rows))]
    instance = PlacementInstance(
        name="made",
        graph=OperationGraph.checked("made", operations, tensors),
        system=System(
            classes=(DeviceClass(name="gpu"),),
            devices=tuple(Device(name=f"d{d}", kind="gpu") for d in range(devices)),
            links=Links(),
        ),
        time_ns={"gpu": tuple(float(time) for _, time in rows)},
    )
    instance.check()
    return placement_problem(instance)


def test_layers_of_a_recurrent_network() -> None:
    """All steps of a layer are one layer; gradients go with their operations, updates with their weights."""
    problem = placement_problem(training_step("rnnlm", SMALL))
    made_ = human.layers(problem)
    assert made_.names == ["embedding", "layer0", "layer1", "head"]
    for name, layer in zip(problem.names, made_.of.tolist(), strict=True):
        scope = name.partition(".")[0].partition("/")[0]
        assert made_.names[layer] == {"logits": "head", "loss": "head"}.get(scope, scope), name


def test_an_operation_without_weights_is_in_the_latest_layer_that_it_reads() -> None:
    rows = [(1, 3, 1), (1, 3, 1), (1, 0, 1), (1, 3, 1)]
    problem = placement_problem(made(rows, [(0, 2), (1, 2), (2, 3)]))
    assert human.layers(problem).names == ["v0", "v1", "v3"]
    assert human.layers(problem).of.tolist() == [0, 1, 1, 2]


def test_without_weights_each_operation_is_a_layer() -> None:
    problem = placement_problem(made([(1, 0, 1), (1, 0, 1), (1, 0, 0)], CHAIN))
    assert human.layers(problem).of.tolist() == [0, 1, 2]


def test_human_splits_by_hand() -> None:
    """Layers a, b, c, d of 3, 1, 1 and 4 ns: two blocks of 5 and 4 ns; in turn a, c and b, d."""
    rows = [("a.x", 2), ("a.y", 1), ("b.x", 1), ("c.x", 1), ("d.x", 4)]
    problem = with_weights(rows, [(0, 1), (1, 2), (2, 3), (3, 4)])
    assert human.split(problem, "time").tolist() == [0, 0, 0, 0, 1]
    assert human.split(problem, "round robin").tolist() == [0, 0, 1, 0, 1]
    # 5 bytes of each operation: 10, 5, 5, 5
    assert human.split(problem, "bytes").tolist() == [0, 0, 0, 1, 1]


def test_human_blocks_have_the_least_largest_load() -> None:
    """Against all ways to cut 8 layers into 3 blocks."""
    random = Random(5)
    for _ in range(50):
        times = [random.randint(1, 9) for _ in range(8)]
        problem = with_weights([(f"l{i}.x", time) for i, time in enumerate(times)], [], devices=3)
        device = human.split(problem, "time").tolist()
        assert device == sorted(device) and set(device) == {0, 1, 2}
        found = max(sum(time for time, d in zip(times, device, strict=True) if d == one) for one in range(3))
        cuts = ((0, a, b, 8) for a, b in combinations(range(1, 8), 2))
        assert found == min(max(sum(times[a:b]) for a, b in pairwise(c)) for c in cuts)


def _odd() -> list[PlacementInstance]:
    """Instances with groups, pins, forbidden devices and kinds that one class doesn't support."""
    rows = [(4, 1, 3), (5, 2, 2), (3, 1, 0)]
    classes = (DeviceClass(name="gpu"), DeviceClass(name="small", supports=()))
    machines = (Device(name="d0", kind="small"), Device(name="d1", kind="gpu"), Device(name="d2", kind="gpu"))
    return [
        made(rows, FORK, devices=3, pins=(Pin(operation="v1", device="d2"),), together=(("v0", "v1"),)),
        made(rows, CHAIN, devices=3, forbidden=(Forbidden(operation="v0", devices=("d0", "d1")),)),
        made(rows, CHAIN, system=System(classes=classes, devices=machines, links=Links())),
    ]


@pytest.mark.parametrize("name", PLACERS)
def test_devices_are_allowed_and_groups_stay_together(name: str) -> None:
    random = Random(11)
    for instance in [*_odd(), *(tiny_instance(random) for _ in range(150))]:
        problem = placement_problem(instance)
        device = PLACERS[name](problem)
        assert device.shape == (problem.operations,)
        assert problem.allowed[np.arange(problem.operations), device].all()
        assert all(len(set(device[members].tolist())) == 1 for members in problem.groups)


def two_layers() -> PlacementProblem:
    """x -> a (weight w) -> relu -> b (weight u), as a training step."""
    from chipmap.instances.placement.instance import Task
    from chipmap.instances.placement.presets import preset
    from chipmap.instances.placement.training import training

    rows = [("x", "input"), ("w", "constant"), ("a", "compute"), ("r", "compute"), ("u", "constant"), ("b", "compute")]
    operations = [
        Operation(name=name, kind="product" if name in "ab" else "other", role=role, flop=100)  # type: ignore[arg-type]
        for name, role in rows
    ]
    edges = {0: (2,), 1: (2,), 2: (3,), 3: (5,), 4: (5,), 5: ()}
    tensors = [Tensor(producer=u, readers=readers, bytes=16) for u, readers in edges.items()]
    step = training(OperationGraph.checked("two", operations, tensors))
    instance = PlacementInstance(
        name="two",
        task=Task(weights="variable"),
        graph=step.graph,
        system=preset("p100-pcie", 2),
        together=step.together,
        backward=step.backward,
    )
    return placement_problem(instance)


def test_units_by_hand() -> None:
    """Of w: its update, its gradient and what only that needs, but not what also reads u."""
    problem = two_layers()
    unit = unit_of(problem, tables(problem)).tolist()
    named = {name: problem.names[unit[v]] for v, name in enumerate(problem.names)}
    of = {root: {name for name, at in named.items() if at == root} for root in ("w", "u")}
    assert of["w"] == {"w", "w/update", "a/gradient 1", "r/gradient"}
    assert {"u", "u/update"} <= of["u"] and not any(name.startswith(("a", "r", "x")) for name in of["u"])


def test_heft_units_keep_a_weight_with_its_gradients() -> None:
    problem = placement_problem(training_step("rnnlm", SMALL))
    flat = tables(problem)
    device, unit = heft_units(problem, flat), unit_of(problem, flat)
    assert all(len(set(device[unit == one].tolist())) == 1 for one in np.unique(unit))
    named = dict(zip(problem.names, device.tolist(), strict=True))
    chain = [name for name in named if name.startswith("layer0.kernel")]
    assert len(chain) > 3 and len({named[name] for name in chain}) == 1
    assert len(set(device.tolist())) == 2


@pytest.mark.parametrize("method", METHODS)
def test_methods_give_schedules_that_the_checker_accepts(method: str) -> None:
    instance = training_step("gnmt", SMALL, devices=3)
    result = solve(instance, method, SolveOptions(threads=1, warm_start="none"))
    assert result.certificate is not None and result.certificate.feasible
    assert result.bound is not None and result.objective is not None and result.bound <= result.objective


@pytest.mark.parametrize("method", ("human", "heft-units", "random", "one-device"))
def test_what_overflows_is_told_and_nothing_is_pretended(method: str) -> None:
    """Three operations of 7 bytes on two devices of 11: a note names device, bytes and what is largest."""
    instance = made([(1, 6, 1), (1, 6, 1), (1, 6, 1)], CHAIN, devices=2, memory=11, task={"memory": "static"})
    result = solve(instance, method, SolveOptions(threads=1, warm_start="none"))
    assert result.solution is None and result.status == "unknown"
    said = [note.text for note in result.notes if "is no placement: C6" in note.text]
    assert said and all("bytes at 0 ns, it has 11; the largest: weights of" in text for text in said)


def test_a_missing_route_is_named() -> None:
    instance = made(
        [(1, 3, 1), (1, 3, 1)],
        [(0, 1)],
        system=System(
            classes=(DeviceClass(name="gpu"),),
            devices=(Device(name="d0", kind="gpu"), Device(name="d1", kind="gpu")),
            routes=(Route(source="d1", target="d0", channels=("a",)),),
        ),
    )
    result = solve(instance, "human", SolveOptions(threads=1, warm_start="none"))
    assert any("'v1' reads 'v0', but there is no route from 'd0' to 'd1'" in note.text for note in result.notes)


def test_metis_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metis, "find_spec", lambda _: None)
    problem = placement_problem(made([(1, 0, 1), (1, 0, 1), (1, 0, 0)], CHAIN))
    with pytest.raises(SolverUnavailableError, match=r"pip install \"chipmap\[metis\]\""):
        metis.partition(problem, "time")


def test_metis_is_ended_at_the_deadline_and_its_failure_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """With other programs in its place: one that sleeps, and one that fails."""
    monkeypatch.setattr(metis, "find_spec", lambda _: True)
    problem = placement_problem(made([(1, 0, 1), (1, 0, 1), (1, 0, 0)], CHAIN))
    monkeypatch.setattr(metis, "_SCRIPT", "import time; time.sleep(600)")
    with pytest.raises(Stop):
        metis.partition(problem, "time", deadline=Deadline.after(0.2))
    monkeypatch.setattr(metis, "_SCRIPT", "raise SystemExit('no partition')")
    with pytest.raises(metis.MetisError, match="no partition"):
        metis.partition(problem, "time")


def test_what_metis_gets() -> None:
    """Vertices are groups; by time an edge weighs its transfer, by bytes its storage; both ways, each reader."""
    problem = placement_problem(
        made([(4, 1, 6), (5, 0, 2), (3, 0, 0), (2, 0, 0)], [(0, 1), (0, 2), (1, 3)], together=(("v0", "v3"),))
    )
    time, size = metis.graph(problem, "time"), metis.graph(problem, "bytes")
    assert time.of.tolist() == [0, 1, 2, 0]
    assert time.vertex.tolist() == [6, 5, 3] and size.vertex.tolist() == [7, 2, 0]
    assert time.first.tolist() == [0, 2, 3, 4] and time.to.tolist() == [1, 2, 0, 0]
    assert time.edge.tolist() == [8, 6, 8, 6] == size.edge.tolist()  # 1 byte per ns, so that both are alike


def test_metis_cuts_between_two_halves() -> None:
    """Two stars of eight operations each, with large tensors inside and a small one between them."""
    pytest.importorskip("pymetis")
    rows = [(5, 1, 100)] * 7 + [(5, 1, 1)] + [(5, 1, 100)] * 8
    edges = [(v, 7) for v in range(7)] + [(7, 8)] + [(8, v) for v in range(9, 16)]
    problem = placement_problem(made(rows, edges))
    for kind in metis.WEIGHTS:
        device = metis.partition(problem, kind).tolist()
        assert len(set(device[:8])) == 1 and len(set(device[8:])) == 1 and device[0] != device[8]


def test_cpop_by_hand() -> None:
    """a -> c -> d is the critical path by mean times, which d0 runs in 8 ns and d1 in 13."""
    operations = [Operation(name=name, kind="op") for name in "abcd"]
    tensors = [Tensor(producer=u, readers=r, bytes=2) for u, r in enumerate([(1, 2), (3,), (3,), ()])]
    classes = (DeviceClass(name="slow"), DeviceClass(name="fast"))
    instance = PlacementInstance(
        name="made",
        graph=OperationGraph.checked("made", operations, tensors),
        system=System(
            classes=classes,
            devices=(Device(name="d0", kind="slow"), Device(name="d1", kind="fast")),
            links=Links(bytes_per_ns=1.0),
        ),
        time_ns={"slow": (4.0, 5.0, 1.0, 3.0), "fast": (2.0, 2.0, 9.0, 2.0)},
    )
    problem = placement_problem(instance)
    flat = tables(problem)
    # mean times 3, 3, 5, 2; transfers 2: upward a 3+2+5+2+2 by way of c, b 3+2+2, d 2
    assert downward_rank(problem).tolist() == [0, 5, 5, 12]
    priority = np.array([14, 12, 14, 14])
    assert critical_path(problem, priority, flat) == [0, 2, 3]
    # on d0 the path a, c, d takes 8 ns, on d1 13 ns; b then ends first on d1: 4 + 2 + 2 against 4 + 1 + 5
    assert cpop(problem, flat).tolist() == [0, 1, 0, 0]


def test_m_etf_turns_away_from_a_full_device_and_frees_what_was_read() -> None:
    """Chain of outputs of 4 bytes in 8 bytes: with ``live`` all on one device, with ``static`` the third goes on."""
    rows = [(1, 0, 4), (1, 0, 4), (1, 0, 4)]
    live = placement_problem(made(rows, CHAIN, memory=8, task={"memory": "live"}))
    assert etf.m_etf(live, tables(live)).tolist() == [0, 0, 0]
    static = placement_problem(made(rows, CHAIN, memory=8, task={"memory": "static"}))
    assert etf.m_etf(static, tables(static)).tolist() == [0, 0, 1]


def test_m_etf_counts_a_busy_channel() -> None:
    """v3 reads v0 and v1 (9 bytes each) of d0, which v2 keeps busy up to 15 ns.

    On d1 v3 could start at 11 ns if both came side by side. They come at 10 and 19 ns, so that v3 waits for d0.
    """
    rows = [(1, 0, 9), (1, 0, 9), (13, 0, 0), (5, 0, 0)]
    pins = tuple(Pin(operation=f"v{v}", device="d0") for v in range(3))
    problem = placement_problem(made(rows, [(0, 3), (1, 3)], pins=pins))
    flat = tables(problem)
    assert etf.etf(problem, flat).tolist() == [0, 0, 0, 1]
    assert etf.m_etf(problem, flat).tolist() == [0, 0, 0, 0]


def test_etf_stops_at_its_deadline() -> None:
    problem = placement_problem(made([(1, 0, 1), (1, 0, 1), (1, 0, 0)], CHAIN))
    for rule in (etf.etf, etf.m_etf):
        with pytest.raises(Stop):
            rule(problem, tables(problem), Deadline.after(-1.0))


def test_what_a_partition_counts() -> None:
    """Of v0 -> v1, v2: v0 touches its own storage and each reader does; with ``live`` only weights rest."""
    rows = [(4, 1, 6), (5, 0, 2), (3, 0, 3)]
    static = nets(placement_problem(made(rows, [(0, 1), (0, 2)], memory=99, task={"memory": "static"})))
    assert [sorted(static.touched[static.at[v] : static.at[v + 1]].tolist()) for v in range(3)] == [[0], [0, 1], [0, 2]]
    assert (
        static.bytes.tolist() == [6, 2, 3]
        and static.cost.tolist() == [6, 2, 3]
        and static.weights.tolist() == [1, 0, 0]
    )
    live = nets(placement_problem(made(rows, [(0, 1), (0, 2)], memory=99, task={"memory": "live"})))
    assert live.bytes.tolist() == [0, 0, 0]


def test_a_partition_fits_where_all_on_one_device_does_not() -> None:
    """With 1.4 times all bytes over two devices, by the search's own count, which agrees with the checker's."""
    free = placement_problem(training_step("rnnlm", SMALL))
    limit = int(0.7 * int(free.weights.sum() + free.storages.bytes.sum()))
    problem = placement_problem(training_step("rnnlm", SMALL, memory_bytes=limit, task={"memory": "static"}))
    flat, work, none = tables(problem), workspace(problem), np.zeros(problem.operations, dtype=np.int64)
    begin = first(problem)
    over = []
    for device in (begin, partition(problem, units(problem), begin, seed=1)):
        simulate(flat, device, none, False, none, NEVER, work)
        over.append(int(excess(flat, bytes_of(problem), device, work)))
    assert over[0] > 0 == over[1]


def test_partitions_are_reproducible_and_stop_at_their_deadline() -> None:
    problem = placement_problem(training_step("rnnlm", SMALL))
    made_, begin = units(problem), first(problem)
    one, other = (partition(problem, made_, begin, seed=4).tolist() for _ in range(2))
    assert one == other and begin.tolist() == first(problem).tolist()
    with pytest.raises(Stop):
        partition(problem, made_, begin, deadline=Deadline.after(-1.0))
