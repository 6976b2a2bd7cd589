"""The named generators: their parameters, and the package and constraints that come with them."""

from __future__ import annotations

from typing import Any

import pytest

from chipmap.families.ring import FAMILY
from chipmap.family import resolve
from chipmap.instances.ring.from_graph import from_graph
from chipmap.instances.ring.generators import InstanceGenerator, Setting, bert_large, chain, explicit, random, resnet50
from chipmap.instances.ring.loads import loads
from chipmap.instances.ring.problem import ring_problem
from chipmap.networks import generators as networks
from chipmap.networks.graph import Loops
from chipmap.networks.importers.common import ImportedGraph
from chipmap.records import InputError

GENERATORS: dict[str, InstanceGenerator] = {g.name: resolve(g.function) for g in FAMILY.generators}


def test_the_family_lists_all_generators_under_their_names() -> None:
    assert {name: generator.name for name, generator in GENERATORS.items()} == {name: name for name in GENERATORS}
    from chipmap.instances.ring import generators

    made = {value.name for value in vars(generators).values() if isinstance(value, InstanceGenerator)}
    assert made == set(GENERATORS)


@pytest.mark.parametrize("name", sorted(set(GENERATORS) - {"explicit"}))
def test_defaults_make_an_instance(name: str) -> None:
    instance = GENERATORS[name]()
    assert instance.name == f"{name}-36"
    assert instance.package.chips == 36
    assert type(instance).from_json(instance.to_json()).content_hash == instance.content_hash
    assert instance.content_hash == GENERATORS[name]().content_hash


def test_parameters_reach_network_package_and_instance() -> None:
    instance = bert_large(
        name="mine",
        layers=2,
        chips=5,
        sram_mib=80.5,
        link_bytes_per_ns=None,
        efficiency={"addmm": 0.5},
        cost_mode="sum",
        constraints=["C1", "C2"],
        pins=[{"operation": "pooler.tanh", "chip": 3}],
    )
    assert instance.name == "mine"
    assert (instance.package.chips, instance.package.sram_bytes) == (5, 80 * 2**20 + 2**19)
    assert instance.package.link_bytes_per_ns is None
    assert instance.package.efficiency == {"addmm": 0.5}
    assert (instance.cost_mode, instance.constraints) == ("sum", ("C1", "C2"))
    assert instance.pins[0].chip == 3
    assert {op.name.split(".")[1] for op in instance.graph.operations if op.name.startswith("layer.")} == {"0", "1"}


def test_instances_of_ring_hold_no_loop_nests() -> None:
    """So that their hashes don't change when more is known of shapes."""
    plain = networks.chain(operations=3)
    operations = [operation.replace(loops=Loops(inner=7)) for operation in plain.operations]
    shaped = plain.replace(operations=operations)
    assert shaped.content_hash != plain.content_hash
    assert Setting().instance("chain", shaped) == Setting().instance("chain", plain)
    assert from_graph(ImportedGraph(shaped, None, "x"), "x") == from_graph(ImportedGraph(plain, None, "x"), "x")


def test_every_parameter_has_a_default_but_those_of_explicit() -> None:
    for name, generator in GENERATORS.items():
        missing = [key for key, default in generator.parameters().items() if "empty" in repr(default)]
        assert missing == (["flop", "edges"] if name == "explicit" else [])


@pytest.mark.parametrize(
    ("generator", "parameters", "said"),
    [
        (resnet50, {"layers": 3}, "resnet50 has no parameter 'layers'"),
        (resnet50, {"depth": 51}, "resnet50: depth: is 51\n  Choose from: 18, 34, 50, 101, 152."),
        (resnet50, {"image": "big"}, "resnet50: image: is text, not a whole number"),
        (resnet50, {"image": 0}, "resnet50: image: is 0\n  Give a whole number: 1 or more."),
        (resnet50, {"batch": 1.5}, "resnet50: batch: is a fraction, not a whole number"),
        (resnet50, {"chips": 0}, "package.chips: is 0"),
        (resnet50, {"chips": "4"}, "resnet50: chips: is text, not a whole number"),
        (resnet50, {"sram_mib": -1}, "sram_mib: is -1"),
        (resnet50, {"link_bytes_per_ns": float("nan")}, "resnet50: link_bytes_per_ns: is nan"),
        (resnet50, {"launch_ns": float("inf")}, "resnet50: launch_ns: is inf"),
        (resnet50, {"efficiency": {"convolution": 0.0}}, "package.efficiency['convolution']: is 0.0"),
        (resnet50, {"constraints": ["C7"]}, "resnet50: constraints[0]: is 'C7'\n  Choose from: C1, C2"),
        (resnet50, {"pins": [{"operation": "x", "chip": 0}]}, "pins[0].operation: no operation is called 'x'"),
        (bert_large, {"hidden": 1000}, "hidden: is 1000, not a multiple of heads = 16"),
        (bert_large, {"head": "own"}, "bert-large: head: is 'own'\n  Choose from: "),
        (chain, {"spread": 2.0}, "chain: spread: is 2.0\n  Give a number: 1 or less."),
        (random, {"operations": 10**9}, "random: operations: is 1000000000\n  Give a whole number: 1,000 or less."),
        (explicit, {}, "explicit: flop: is missing"),
        (
            explicit,
            {"flop": {"a": -1}, "edges": []},
            "explicit: flop[...]: is out of range\n  Give a whole number: 0 or more.",
        ),
    ],
)
def test_wrong_parameters_are_named(generator: InstanceGenerator, parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as error:
        generator(**parameters)
    assert said in str(error.value)
    assert error.value.remedy


def test_the_remedy_for_an_unknown_parameter_names_the_valid_ones() -> None:
    with pytest.raises(InputError) as error:
        chain(lenght=3)
    assert all(name in error.value.remedy for name in chain.parameters())


@pytest.mark.parametrize(
    "parameters",
    [{"flop_per_ns": 1e-12}, {"link_bytes_per_ns": 1e-15}, {"operations": 1000, "weight_bytes": 10**15 * 2}],
)
def test_costs_that_no_64_bits_hold_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"add up to|weight_bytes|Give 1e-9 to"):
        ring_problem(chain(**parameters))


def test_the_largest_costs_still_add_up() -> None:
    made = chain(operations=100, flop=10**13, tensor_bytes=10**13, weight_bytes=10**13)
    on = loads(ring_problem(made), [v % 36 for v in range(100)])
    assert sum(on.work.tolist()) == sum(ring_problem(made).ticks.tolist())
    assert min(on.memory_bytes.tolist()) > 0
