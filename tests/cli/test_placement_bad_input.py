"""Bad and impossible placement problems: a line with place, bytes and remedy before any search, never a traceback."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.cli.test_bad_input import refused

#: A chain v0 -> v1 -> v2 -> v3 on two devices with 1,000 bytes each.
BASE: dict[str, Any] = {
    "schema": "placement/1",
    "name": "chain",
    "task": {"memory": "live"},
    "graph": {
        "name": "chain",
        "operations": [{"name": f"v{v}", "kind": "op", "weight_bytes": 10} for v in range(4)],
        "tensors": [{"producer": v, "readers": [v + 1], "bytes": 8} for v in range(3)],
    },
    "system": {
        "classes": [{"name": "gpu"}],
        "devices": [{"name": f"d{d}", "class": "gpu", "memory_bytes": 1000} for d in range(2)],
        "links": {"latency_ns": 5, "bytes_per_ns": 1},
    },
    "time_ns": {"gpu": [4, 5, 6, 7]},
}
RATE, SPAN = "Give 1e-9 to 1e12.", "Give 0 to 1,000,000,000,000 ns."

Change = Callable[[dict[str, Any]], object]
Case = tuple[str, Change, tuple[str, ...]]


def spoilt(change: Change, folder: Path) -> Path:
    """The file of the chain after a change."""
    plain = deepcopy(BASE)
    change(plain)
    path = folder / "chain.json"
    path.write_text(json.dumps(plain))
    return path


def pinned(**pins: str) -> list[dict[str, str]]:
    """Pins by operation."""
    return [{"operation": name, "device": device} for name, device in pins.items()]


def throughput(d: dict[str, Any], **task: Any) -> object:
    """Objective throughput."""
    return d.update(task={"objective": "throughput", "memory": "static", **task})


def weights(d: dict[str, Any], *sizes: int) -> object:
    """Weights of the first operations."""
    return [one.update(weight_bytes=size) for one, size in zip(d["graph"]["operations"], sizes, strict=False)]


def routes(d: dict[str, Any], *pairs: tuple[str, str], **rest: Any) -> object:
    """Single routes instead of links."""
    return d["system"].update(links=None, routes=[{"source": a, "target": b, **rest} for a, b in pairs])


def graph(d: dict[str, Any]) -> Any:
    """The graph."""
    return d["graph"]


def system(d: dict[str, Any]) -> Any:
    """The system."""
    return d["system"]


#: (what is wrong, the change, what is said: place and trouble, then the remedy).
WRONG: list[Case] = [
    (
        "pin: unknown operation",
        lambda d: d.update(pins=pinned(w="d0")),
        ("pins[0].operation: no operation is called 'w'", "Use a name from graph.operations."),
    ),
    (
        "pin: unknown device",
        lambda d: d.update(pins=pinned(v0="d2")),
        ("pins[0].device: no device is called 'd2'", "Use a name from system.devices."),
    ),
    (
        "two pins",
        lambda d: d.update(pins=[*pinned(v0="d0"), *pinned(v0="d1")]),
        ("pins[1]: 'v0' is pinned to 'd0' already", "Leave out one of the two pins."),
    ),
    (
        "forbidden: unknown device",
        lambda d: d.update(forbidden=[{"operation": "v0", "devices": ["d2"]}]),
        ("forbidden[0].devices: no device is called 'd2'", "Use a name from system.devices."),
    ),
    (
        "forbidden everywhere",
        lambda d: d.update(forbidden=[{"operation": "v3", "devices": ["d0", "d1"]}]),
        ("graph.operations[3]: no device can run 'v3'", "Give a class that supports it, or free it."),
    ),
    (
        "together: unknown operation",
        lambda d: d.update(together=[["v0", "w"]]),
        ("together[0][1]: no operation is called 'w'", "Use a name from graph.operations."),
    ),
    (
        "together: pinned apart",
        lambda d: d.update(together=[["v0", "v1"]], pins=pinned(v0="d0", v1="d1")),
        (
            "together[0]: its operations have no device in common ('v0' to 'd0', 'v1' to 'd1' are pinned)",
            "Split the group, or allow one device to all of it.",
        ),
    ),
    (
        "together: forbidden apart",
        lambda d: d.update(
            together=[["v0", "v1"]],
            forbidden=[{"operation": "v0", "devices": ["d0"]}, {"operation": "v1", "devices": ["d1"]}],
        ),
        ("together[0]: its operations have no device in common\n", "Split the group"),
    ),
    (
        "together: pinned apart by way of another group",
        lambda d: d.update(together=[["v0", "v1"], ["v1", "v2"]], pins=pinned(v0="d0", v2="d1")),
        (
            "together[1]: with the groups that share operations with it, its operations have no device in common",
            "Split",
        ),
    ),
    (
        "device of an unknown class",
        lambda d: system(d)["devices"][1].update({"class": "tpu"}),
        ("system.devices[1].class: no class is called 'tpu'", "Classes here: gpu."),
    ),
    (
        "times of an unknown class",
        lambda d: d.update(time_ns={"tpu": [1, 1, 1, 1]}),
        ("time_ns: no class is called 'tpu'", "Classes here: gpu."),
    ),
    (
        "a class twice",
        lambda d: system(d)["classes"].append({"name": "gpu"}),
        ("system.classes[1].name: 'gpu' is named twice", "Give each a name of its own."),
    ),
    (
        "a kind that no class supports",
        lambda d: system(d)["classes"][0].update(supports=["matmul"]),
        ("graph.operations[0]: no device can run 'v0' (kind 'op')", "Give a class that supports it"),
    ),
    (
        "a rate of 0 FLOP",
        lambda d: system(d)["classes"][0].update(flop_per_ns=0),
        ("system.classes[0].flop_per_ns: is 0.0", RATE),
    ),
    (
        "a memory rate of 0",
        lambda d: system(d)["classes"][0].update(memory_bytes_per_ns=0),
        ("system.classes[0].memory_bytes_per_ns: is 0.0", RATE),
    ),
    (
        "an efficiency of 0",
        lambda d: system(d)["classes"][0].update(efficiency={"op": 0}),
        ("system.classes[0].efficiency['op']: is 0.0", RATE),
    ),
    (
        "links with a rate of 0",
        lambda d: system(d)["links"].update(bytes_per_ns=0),
        ("system.links.bytes_per_ns: is 0.0", RATE),
    ),
    (
        "a route with a rate of 0",
        lambda d: routes(d, ("d0", "d1"), bytes_per_ns=0),
        ("system.routes[0].bytes_per_ns: is 0.0", RATE),
    ),
    (
        "a negative latency",
        lambda d: system(d)["links"].update(latency_ns=-1),
        ("system.links.latency_ns: is -1.0", SPAN),
    ),
    (
        "a negative latency of a route",
        lambda d: routes(d, ("d0", "d1"), latency_ns=-1),
        ("system.routes[0].latency_ns: is -1.0", SPAN),
    ),
    ("a negative gap of links", lambda d: system(d)["links"].update(gap_ns=-2), ("system.links.gap_ns: is -2", SPAN)),
    (
        "a negative gap of a class",
        lambda d: system(d)["classes"][0].update(gap_ns=-2),
        ("system.classes[0].gap_ns: is -2", SPAN),
    ),
    (
        "too few times",
        lambda d: d.update(time_ns={"gpu": [1, 1, 1]}),
        ("time_ns['gpu']: has 3 entries for 4 operations", "Give one time (or null) for each of the operations"),
    ),
    (
        "too many transfer times",
        lambda d: d.update(transfer_ns=[1] * 4),
        ("transfer_ns: has 4 entries for 3 tensors", "Give one time (or null) for each of the tensors"),
    ),
    (
        "a cycle",
        lambda d: graph(d)["tensors"][2].update(readers=[3, 0]),
        ("graph: the graph has a cycle: ", "Remove one of these dependencies."),
    ),
    (
        "throughput with memory over time",
        lambda d: throughput(d, memory="live"),
        ("task.memory: memory rule 'live' needs starts", "Set task.memory to static or none: --set task.memory=static"),
    ),
    (
        "throughput with single routes",
        lambda d: (throughput(d), routes(d, ("d0", "d1"))),
        ("system.routes: objective 'throughput' charges a tensor the same", "--set system.routes=[]"),
    ),
    (
        "65 devices",
        lambda d: system(d).update(devices=[{"name": f"d{k}", "class": "gpu"} for k in range(65)]),
        ("system.devices: has 65 devices", "Give at most 64."),
    ),
    (
        "no room to the byte",
        lambda d: system(d)["devices"][1].update(memory_bytes=-1),
        ("system.devices[1].memory_bytes: is -1", "Give 0 to 1,000,000,000,000,000, or null."),
    ),
]


@pytest.mark.parametrize(("change", "said"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_wrong_instances(chipmap: Command, tmp_path: Path, change: Change, said: tuple[str, ...]) -> None:
    path = spoilt(change, tmp_path)
    for command in ("solve", "info"):
        error = refused(chipmap, command, path)
        assert str(path) in error
        assert all(text in error for text in said), error


#: (what is impossible, the change, what is said: label and trouble with bytes, then the remedy).
IMPOSSIBLE: list[Case] = [
    (
        "an operation larger than every memory",
        lambda d: weights(d, 10, 1500),
        (
            "(C6): operation 'v1' needs 1,516 bytes at a time, no device that may run it has more than 1,000",
            "a device with at least 1,516 bytes, or the operation split",
        ),
    ),
    (
        "an operation larger than the memory of its pin",
        lambda d: (
            weights(d, 10, 1500),
            system(d)["devices"][0].update(memory_bytes=9999),
            d.update(pins=pinned(v1="d1")),
        ),
        ("operation 'v1' needs 1,516 bytes at a time", "more than 1,000", "a device with at least 1,516 bytes"),
    ),
    (
        "an output that fits nowhere",
        lambda d: graph(d)["tensors"][1].update(bytes=5000),
        ("operation 'v1' needs 5,018 bytes at a time", "(there is 1 more such operation)"),
    ),
    (
        "weights for more than all memories",
        lambda d: weights(d, 900, 900, 900, 900),
        (
            "(C6): all devices together have 2,000 bytes, what rests on them takes 3,600 at least",
            "more devices, or more",
        ),
    ),
    (
        "static bytes of more than all memories",
        lambda d: (d["task"].update(memory="static"), weights(d, 600, 600, 600, 600)),
        (
            "all devices together have 2,000 bytes, what rests on them takes 2,424 at least",
            "more devices, or more memory",
        ),
    ),
    (
        "throughput: weights for more than all memories",
        lambda d: (throughput(d), weights(d, 900, 900, 900, 900)),
        (
            "all devices together have 2,000 bytes, what rests on them takes 3,624 at least",
            "more devices, or more memory",
        ),
    ),
    (
        "a group larger than every memory",
        lambda d: (weights(d, 400, 400, 400), d.update(together=[["v0", "v1", "v2"]])),
        (
            "(C1): 3 operations that share a device, 'v0' the first, hold 1,200 bytes for the whole step",
            "no device that may run them has more than 1,000",
            "a device with at least 1,200 bytes, or a smaller group",
        ),
    ),
    (
        "pins of more than the device's memory",
        lambda d: (weights(d, 600, 600), d.update(pins=pinned(v0="d0", v1="d0"))),
        (
            "device 'd0' has 1,000 bytes, what may run nowhere else holds 1,200",
            "at least 1,200 bytes for it, or another device",
        ),
    ),
    (
        "a reader that no route reaches",
        lambda d: (routes(d), d.update(pins=pinned(v1="d0", v2="d1"))),
        ("(C3): 'v2' reads 'v1', but no route leads from 'd0' to 'd1'", "a route there, or a pin"),
    ),
    (
        "a route the other way only",
        lambda d: (routes(d, ("d1", "d0")), d.update(pins=pinned(v1="d0", v2="d1"))),
        ("'v2' reads 'v1', but no route leads from 'd0' to 'd1'", "a route there, or a pin"),
    ),
    (
        "a group that no route reaches",
        lambda d: (routes(d), d.update(pins=pinned(v0="d0", v3="d1"), together=[["v1", "v3"]])),
        ("'v1' reads 'v0', but no route leads from 'd0' to 'd1'", "a route there, or a pin"),
    ),
]


@pytest.mark.parametrize(("change", "said"), [row[1:] for row in IMPOSSIBLE], ids=[row[0] for row in IMPOSSIBLE])
def test_impossible_instances(chipmap: Command, tmp_path: Path, change: Change, said: tuple[str, ...]) -> None:
    run = tmp_path / "run"
    done = chipmap("solve", spoilt(change, tmp_path), "--quiet", "--time-limit", "60", "--out", run)
    assert done.code == 2 and "infeasible" in done.out and "Traceback" not in done.err
    assert all(text in done.err for text in said), done.err
    result = json.loads((run / "result.json").read_text())
    assert not result["trace"], "before any search, and before any bound"
    assert len(result["infeasibility"]) == 1, "one line"
