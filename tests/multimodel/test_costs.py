"""Costs of layers and layer tables, against published figures."""

from __future__ import annotations

import csv
from math import ceil

import pytest

from chipmap.instances.multimodel.costs import CLASSES, NS_PER_CYCLE, PRESETS, cost
from chipmap.instances.multimodel.generators import SCENARIOS
from chipmap.instances.multimodel.layer_tables import LANGUAGE_MODELS, TABLES, layers
from tests.instances.published import FOLDER

SCAR = FOLDER.parent / "scar"
#: Files by what they are called here.
FILES = {name: name if (SCAR / f"layers_{name}.csv").exists() else f"xr_{name}" for name in TABLES} | {
    name: f"{name.replace('-', '_')}_sl128" for name in LANGUAGE_MODELS
}
FILES |= {f"{name}-attention": f"{name.replace('-', '_')}_attn_sl128" for name in ("bert-large", "gpt2-large")}


@pytest.mark.skipif(not SCAR.is_dir(), reason="the published layer tables are not there")
@pytest.mark.parametrize("name", FILES)
def test_a_table_equals_the_published_one(name: str) -> None:
    """Layer by layer: places, multiply-adds and elements of operand, filters and result."""
    with (SCAR / f"layers_{FILES[name]}.csv").open() as file:
        rows = list(csv.DictReader(file))
    keys = ("K", "C", "R", "S", "stride", "OY", "OX", "macs", "in_elems", "weight_elems", "out_elems")
    made = []
    for _, shape in layers(name):
        sizes = (*shape.places, shape.products, shape.operand, shape.weights, shape.result)
        made.append((shape.K, shape.C, shape.R, shape.S, shape.stride, *sizes))
    assert made == [tuple(int(row[key]) for key in keys) for row in rows]
    assert [shape.depthwise for _, shape in layers(name)] == [row["type"] == "DSCONV" for row in rows]


@pytest.mark.parametrize(
    ("network", "batch", "kind", "seconds"),
    [("resnet50", 32, "nvdla", 4.003), ("resnet50", 32, "shidiannao", 2.525), ("unet", 1, "shidiannao", 0.806)],
)
def test_whole_networks_take_what_was_published(network: str, batch: int, kind: str, seconds: float) -> None:
    """SCAR prints 4.06, 2.63 and 0.8 s; MAESTRO's own cycles give these figures."""
    times = [cost(shape, kind, PRESETS["scar-datacenter"])[0] for _, shape in layers(network)]
    assert batch * sum(times) * 1e-9 == pytest.approx(seconds, rel=1e-3)


def published(row: dict[str, str], kind: str, elements: int, nb: int, ob: int) -> tuple[int, float]:
    """(cycles, nJ) of a row of a published table, by the formulas as the dataflows' authors count."""
    K, C, R, S, s, OY, OX = (int(row[name]) for name in ("K", "C", "R", "S", "stride", "OY", "OX"))
    if row["type"] == "DSCONV":
        cycles = ceil(C / elements) * OY * OX * max(R * S, (4 * min(C, elements) * R * S // ob) // 2)
        reads, weights, made = C * OY * OX * R * S, C * R * S, C * OY * OX
    elif kind == "nvdla":
        at_once, near, far = elements // 64, min(C, 64), ceil(C / 64)
        kept, rounds = min(K, at_once), ceil(K / at_once)
        compute = R * S + max(0, ceil(2 * near * R * S / nb) - 1)
        outside = max((2 * (kept + 1) * near * R * S // ob) // 2, (2 * kept // ob) // 2)
        cycles = rounds * far * OY * OX * max(compute, outside, ceil(near * R * min(S, s) / nb) - 1)
        padded = C if C <= 64 else 64 * far
        reads, weights = rounds * padded * OY * R * (S + (OX - 1) * min(S, s)), K * padded * R * S
        made = K * OY * OX * far
    else:
        tall, kept = min(OY, elements // 16), min(K, 16)
        rounds, passes, span = ceil(K / 16), ceil(OY / (elements // 16)), tall if R == 1 else (tall - 1) * s + 1
        compute = R * S + max(0, ceil((kept + 1) * R * S / nb) - 1)
        outside = max((2 * R * S * (tall + kept) // ob) // 2, (2 * kept * span // ob) // 2)
        share = max(ceil(R * S * (tall + kept) / nb), ceil(kept * tall / nb)) - 1
        cycles = rounds * passes * OX * C * max(compute, outside, share)
        reads = rounds * C * OX * OY * R * S
        weights = K * R * S * OX * passes * (C - 1) + K * R * S if C > 1 else K * R * S * passes
        made = K * C * OX * (OY if R == 1 else (OY - 1) * s + 1)
    macs, given, filters = (int(row[name]) for name in ("macs", "in_elems", "weight_elems"))
    shared = reads + given + weights + filters + made
    return cycles, 0.00023 * (1.68 * (4 * macs + reads + weights) + 18.61 * shared)


@pytest.mark.skipif(not SCAR.is_dir(), reason="the published layer tables are not there")
@pytest.mark.parametrize("name", FILES)
def test_costs_of_every_layer(name: str) -> None:
    """Cycles equal to the formula on the published row, energies within 1 pJ of it, on both classes."""
    with (SCAR / f"layers_{FILES[name]}.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row, (_, shape) in zip(rows, layers(name), strict=True):
        for hardware in (PRESETS["scar-datacenter"], PRESETS["scar-arvr"]):
            for kind in CLASSES:
                ns, pj = cost(shape, kind, hardware)
                cycles, energy = published(row, kind, hardware.elements, hardware.nb, hardware.ob)
                assert ns == NS_PER_CYCLE * cycles, (row, kind)
                assert -1e-12 * pj <= pj - 1000 * energy < 1 + 1e-12 * pj, (row, kind)


def test_scenarios_name_networks_that_exist() -> None:
    known = {*TABLES, *LANGUAGE_MODELS}
    assert all(part in known for models in SCENARIOS.values() for name in models for part in name.split("+"))
    assert len({name for name, _ in layers("hrvit_b1")}) == 423
