"""One small file of each published format, and their mutations."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

from tests.instances.programs import ONNX, TORCH, pt2

TRACED: dict[str, Any] = {
    "name": "small",
    "source": "by hand",
    "nodes": [
        {"id": 0, "name": "x", "op": "input", "kind": "input", "flops": 0, "out_bytes": 8, "weight_bytes": 0},
        {"id": 1, "name": "mask", "op": "full", "kind": "compute", "flops": 2, "out_bytes": 16, "weight_bytes": 0},
        {
            "id": 2,
            "name": "conv",
            "op": "convolution",
            "kind": "compute",
            "flops": 90,
            "out_bytes": 20,
            "weight_bytes": 7,
        },
        {"id": 3, "name": "flat", "op": "view", "kind": "view", "flops": 0, "out_bytes": 20, "weight_bytes": 0},
        {"id": 4, "name": "add", "op": "add", "kind": "compute", "flops": 5, "out_bytes": 20, "weight_bytes": 0},
        {"id": 5, "name": "add", "op": "sum", "kind": "compute", "flops": 5, "out_bytes": 4, "weight_bytes": 0},
    ],
    "edges": [[0, 2, 8], [2, 3, 20], [3, 4, 20], [1, 4, 16], [2, 5, 20]],
    "outputs": [4],
}
DNN_PARTITIONING: dict[str, Any] = {
    "maxSizePerFPGA": 1e9,
    "maxFPGAs": 2,
    "maxCPUs": 1,
    "nodes": [
        {
            "id": 7,
            "name": "ids",
            "supportedOnFpga": 1,
            "cpuLatency": 0,
            "fpgaLatency": 0,
            "isBackwardNode": 0,
            "size": 0.0,
        },
        {
            "id": 3,
            "name": "table",
            "cpuLatency": 0,
            "fpgaLatency": 0,
            "isBackwardNode": 0,
            "colorClass": 4,
            "size": 64.0,
        },
        {"id": 4, "name": "Gather1", "fpgaLatency": 0.25, "isBackwardNode": False, "colorClass": 4, "size": 16.0},
        {"id": 5, "name": "MatMul1", "fpgaLatency": 1.5, "isBackwardNode": False, "colorClass": 5, "size": 100.0},
        {"id": 9, "name": "Split1", "fpgaLatency": 0, "isBackwardNode": False, "colorClass": 5, "size": 0},
        {"id": 8, "name": "MatMul1_grad", "fpgaLatency": 2.5, "isBackwardNode": True, "colorClass": 5, "size": 16.0},
    ],
    "edges": [
        {"sourceId": 7, "destId": 4, "cost": 0.0, "size": 0.0},
        {"sourceId": 3, "destId": 4, "cost": 0.1, "size": 64.0},
        {"sourceId": 4, "destId": 5, "cost": 0.1, "size": 16.0},
        {"sourceId": 5, "destId": 9, "cost": 0.1, "size": 0.125},
        {"sourceId": 9, "destId": 8, "cost": 0.1, "size": 0.125},
    ],
}


def _option(name: str, seconds: float, size: float) -> dict[str, Any]:
    return {"id": name, "timePerSample": seconds, "parameterSize": size, "memoryUsageA": 1.0, "memoryUsageB": 2.0}


PIPER: dict[str, Any] = {
    "maxDevices": 4,
    "maxMemoryPerDevice": 8e10,
    "bandwidth": 2.5e10,
    "mbsInBatch": 8,
    "nodes": [
        {
            "id": 10,
            "name": "Embedding",
            "TMPCs": {"1": [_option("activation recomp", 3, 5), _option("vanilla", 0.002, 64)]},
        },
        {
            "id": 11,
            "name": "Layer",
            "TMPCs": {"1": [_option("vanilla", 0.03, 128)], "2": [_option("vanilla", 0.02, 64)]},
        },
        {"id": 12, "name": "Layer", "TMPCs": {"1": [_option("vanilla", 0.03, 128)]}},
    ],
    "edges": [
        {"sourceId": 10, "destId": 11, "communicationCost": 256.0},
        {"sourceId": 11, "destId": 12, "communicationCost": 256.0},
    ],
}
PIPEDREAM = """\
node1 -- Input -- forward_compute_time=8.0, backward_compute_time=0.0, activation_size=64.0, parameter_size=0.000
node2 -- Conv2d(3, 64, kernel_size=(11, 11)) -- forward_compute_time=0.5, backward_compute_time=1.0, \
activation_size=128.000, parameter_size=32.000
node3 -- LSTM(8, 8) -- forward_compute_time=0.250, backward_compute_time=0.1, activation_size=[6.0; 2.0], \
parameter_size=0.000 -- stage_id=1
\tnode1 -- node2
\tnode2 -- node3
"""

CSV = """\
name,flop,bytes,weights,kind,time_ns,role,inputs
tokens,,2KiB,,,,input,
embed,1e5,512KiB,8MiB,look-up,,,tokens
dense,2.5GFLOP,2MiB,"4_194_304",matmul,1.5us,compute,embed
add,262144,2MiB,0,add,,,embed; dense

source,target,bytes
tokens,add,64
"""
OWN: dict[str, Any] = {
    "name": "mine",
    "nodes": [
        {"name": "x", "bytes": 64, "role": "input"},
        {"name": "a", "flop": 1e6, "bytes": "4KiB", "weights": 128, "kind": "matmul"},
        {"name": "b", "flop": 2000000, "bytes": 4096, "time_ns": 12.5},
        {"name": "c", "flop": "3M", "bytes": 8, "inputs": ["x"]},
    ],
    "edges": [["x", "a"], ["a", "b"], {"source": "a", "target": "c"}, ["b", "c", "1kB"]],
}
GRAPHML = """<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="k0" for="node" attr.name="flop"/><key id="k1" for="node" attr.name="bytes"/>
<graph edgedefault="directed"><node id="a"><data key="k0">100</data><data key="k1">8</data></node>
<node id="b"><data key="k0">7</data></node><edge source="a" target="b"/></graph></graphml>"""
DOT = """\
// a comment
digraph "my net" {
    rankdir=LR; node [shape=box, kind=matmul]
    edge [color=gray]
    x [role=input, bytes=64]
    a [flop=1e6, bytes=4KiB, weights="1.5 MiB", label=<<b>a</b>>]
    "b 1" [flop=2e6; bytes=4096]
    subgraph cluster_0 { node [kind=add]; c [flop=3e6, bytes=8]; { rank=same; a; "b 1" } }
    x -> a:n -> { "b 1" c }
    "b 1" -> c [bytes=1kB] # to the end
}
"""

SAMPLES: dict[str, bytes] = {
    "traced": json.dumps(TRACED).encode(),
    "dnn-partitioning": json.dumps(DNN_PARTITIONING).encode(),
    "piper": json.dumps(PIPER).encode(),
    "pipedream": PIPEDREAM.encode(),
    "onnx": ONNX,
    "torch": pt2(TORCH),
    "csv": CSV.encode(),
    "json": json.dumps(OWN).encode(),
    "dot": DOT.encode(),
    "graphml": GRAPHML.encode(),
}

#: What tokens are replaced with.
TOKENS = [
    *("null", "true", "-1", "0", "7", "1e400", "-1e308", "1e308", "0.125", "NaN", "Infinity", "9" * 30, "4" * 5000),
    *(
        '""',
        '"a"',
        '"\\ud800"',
        "[]",
        "{}",
        "[[",
        "[" * 20_000,
        '{"a":' * 20_000,
        "\x00",
        "ÿ",
        "\t",
        "=",
        " -- ",
        "\r\n",
    ),
]
#: What values of JSON are replaced with.
VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    7,
    2**62,
    10**30,
    1e300,
    -0.5,
    0.125,
    "",
    "a",
    "\x00",
    [],
    {},
    [[1, 2]],
    {"1": []},
]


def pick(count: int, random: Random) -> int:
    """A number below ``count``, the same for all versions of Python."""
    return int(random.random() * count)


def change_value(tree: Any, random: Random) -> None:
    """Replace, remove or repeat one value somewhere in ``tree``."""
    places = [(tree, key) for key in tree]
    for place, key in places:
        inner = place[key]
        if isinstance(inner, dict):
            places += [(inner, k) for k in inner]
        elif isinstance(inner, list):
            places += [(inner, k) for k in range(len(inner))]
    if not places:
        return
    place, key = places[pick(len(places), random)]
    other, its_key = places[pick(len(places), random)]
    what = pick(4, random)
    if what == 0:
        place[key] = VALUES[pick(len(VALUES), random)]
    elif what == 1:
        del place[key]
    elif what == 2 and isinstance(place, list):
        place.append(place[key])
    else:
        place[key] = json.loads(json.dumps(other[its_key]))


def change_bytes(data: bytes, random: Random) -> bytes:
    """Change, cut, remove or double a part of ``data``, or replace or swap tokens."""
    a, b = sorted(pick(len(data) + 1, random) for _ in range(2))
    near = min(len(data), a + 1 + pick(12, random))
    token = TOKENS[pick(len(TOKENS), random)].encode()
    spans = [match.span() for match in re.finditer(rb'"[^"]*"|[-+.\w]+', data)] or [(0, len(data))]
    (p, q), (r, t) = sorted(spans[pick(len(spans), random)] for _ in range(2))
    what = pick(8, random)
    if what == 0:
        return data[:a] + bytes([pick(256, random)]) + data[near:]
    if what == 1:
        return data[:a]
    if what == 2:
        return data[:b] + data[a:]
    if what == 3:
        return data[:a] + token + data[near:]
    if what <= 5 or q > r:
        return data[:p] + token + data[q:]
    return data[:p] + data[r:t] + data[q:r] + data[p:q] + data[t:]
