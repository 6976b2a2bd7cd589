"""Costs of layers and layer tables, against published figures."""

from __future__ import annotations

import csv

import pytest

from chipmap.instances.multimodel.costs import PRESETS, cost
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


def test_scenarios_name_networks_that_exist() -> None:
    known = {*TABLES, *LANGUAGE_MODELS}
    assert all(part in known for models in SCENARIOS.values() for name in models for part in name.split("+"))
    assert len({name for name, _ in layers("hrvit_b1")}) == 423
