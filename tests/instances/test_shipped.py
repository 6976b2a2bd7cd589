"""The shipped instances: what they are can't drift unnoticed, and the tiny ones do what they are for."""

from __future__ import annotations

import pytest

from chipmap.families.ring import FAMILY
from chipmap.family import resolve
from chipmap.instances.ring import RingInstance
from chipmap.instances.ring.problem import ring_problem
from chipmap.instances.ring.shipped import SHIPPED
from chipmap.validation.brute_force import brute_force
from chipmap.validation.ring.checker import check

#: Content hashes. A change here changes what published results refer to: from the first release on, give the new
#: instance a new name instead.
HASHES: dict[str, str] = {
    "ring/bert-large-36": "f3cc332291827468e84f30f6beae9a59ad8eb5110c1638b214907e8dfe253a9b",
    "ring/bert-base-36": "bda9858818c6467e5b218874edb3a5afdbf879037a20bbcd1a204ce842ea62d5",
    "ring/gpt2-36": "fcdaf4629a2f2faafe134ce9f20b080667fbf8d3b8b9719b8618c0bf51216551",
    "ring/resnet50-36": "4828f8f9819325b55987b8f069a538ccca81677a78997174b5ae7f4f40179621",
    "ring/resnet18-12": "b4fef02e9090c40db9ca6303d82e64663e0f27b4ecf2b4bda2428cdd658945e1",
    "ring/resnet152-36": "16c1f985764fd9f172341dcbfe1ce3dd64674aa03144aab08617d9d7beef889a",
    "ring/densenet121-36": "d8c5efa23196d74c3d4fa57f7a479c6966269ae7d500c43f0539e59b219cac15",
    "ring/unet-12": "5d92c34779a21d5c2dd3a35e421324cee852124c6b94fda22c02f9321f031ba9",
    "ring/rnn-36": "06e8971cc2aff0a8e506563264fb4b14cad149b2e4a72cc8e6bb9ba1777fea01",
    "ring/chain-36": "4417b6a22d922c0554037169f9f54b185761c24eb28ed83bb8be67efa8d5db18",
    "ring/random-12": "76ef2d4dd498161c8aba46d77343faf5d76bb871669d259009ddb7645a816149",
    "ring/tiny-chain": "86a9a7a44223dea0f0a15a7cbda7f0f78b772460afc09dc8b87441d4c105e54c",
    "ring/tiny-diamond": "dece24339851e87b1287bcd6c94b3eaab29930e95c8ccf94c361c2156a5ed363",
    "ring/tiny-skip": "14665df6b632889c56d3e958e7be798b696af75807ed4659bf279ff861d59b70",
    "ring/tiny-links": "f4c4de7e4e11dc03cef059adf2339196faaa87588dbbe3a15915fe847ee82d93",
    "ring/tiny-memory": "c6d69ecf354b64fee2bae5503e4457d25cffb5b2161ab3b580d6e323571402da",
    "ring/tiny-pinned": "952874bf3bd26f7b36bb08925c334f310cd31552d62e0eb46a203706902223bc",
    "ring/tiny-infeasible": "2f01c03e181ab4b90a3ee373669e52238810abe27224e154d7a6fa4fb9720da5",
}
#: Optima of the tiny ones, by trying all mappings (None: infeasible).
OPTIMA = {
    "ring/tiny-chain": 800_000,
    "ring/tiny-diamond": 500_000,
    "ring/tiny-skip": 900_000,
    "ring/tiny-links": 900_000,
    "ring/tiny-memory": 900_000,
    "ring/tiny-pinned": 1_100_000,
    "ring/tiny-infeasible": None,
}


def make(name: str) -> RingInstance:
    generator, parameters = SHIPPED[name]
    instance = resolve(next(g.function for g in FAMILY.generators if g.name == generator))(**parameters)
    assert isinstance(instance, RingInstance)
    return instance


def test_the_shipped_names() -> None:
    assert set(HASHES) == set(SHIPPED)
    assert len(SHIPPED) >= 12
    assert {name for name in SHIPPED if "/tiny-" in name} == set(OPTIMA)


@pytest.mark.parametrize("name", SHIPPED)
def test_content_hash(name: str) -> None:
    first, second = make(name), make(name)
    assert first.name == name
    assert first.content_hash == second.content_hash == HASHES[name]


def test_bert_large_is_what_its_name_says() -> None:
    instance = make("ring/bert-large-36")
    assert (instance.package.chips, instance.package.sram_bytes) == (36, 64 * 2**20)
    assert instance.constraints == ("C1", "C2", "C3", "C4")
    problem = ring_problem(instance)
    assert (problem.n, int(problem.computing.sum())) == (1836, 487)
    table = next(op for op in instance.graph.operations if op.name == "embeddings.embedding")
    assert table.weight_bytes == 2 * 30522 * 1024


@pytest.mark.parametrize("name", OPTIMA)
def test_optima_of_the_tiny_ones(name: str) -> None:
    assert brute_force(make(name), check)[0] == OPTIMA[name]


@pytest.mark.parametrize(
    ("name", "without"),
    [("ring/tiny-skip", "C3"), ("ring/tiny-memory", "C4"), ("ring/tiny-infeasible", "C4")],
)
def test_the_constraint_that_a_tiny_instance_is_about_binds(name: str, without: str) -> None:
    instance = make(name)
    relaxed, _ = brute_force(instance.replace(constraints=[c for c in instance.constraints if c != without]), check)
    assert relaxed is not None
    optimum = OPTIMA[name]
    assert optimum is None or relaxed < optimum


def test_links_and_side_constraints_bind() -> None:
    links = make("ring/tiny-links")
    assert brute_force(links.replace(package=links.package.replace(link_bytes_per_ns=None)), check)[0] == 800_000
    pinned = make("ring/tiny-pinned")
    for field in ("pins", "together", "forbidden"):
        assert getattr(pinned, field)
    assert brute_force(pinned.replace(pins=[], together=[], forbidden=[]), check)[0] == 700_000
