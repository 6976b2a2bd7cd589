"""The network generators against published traces of the same networks, and against known sizes of these networks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import pytest

from chipmap.instances.ring import Package, RingInstance
from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.networks.generators import (
    bert_encoder,
    chain,
    densenet,
    explicit,
    gpt2,
    layered,
    random_dag,
    resnet,
    rnn,
    unet,
)
from chipmap.networks.graph import OperationGraph
from chipmap.networks.importers.reading import import_graph
from chipmap.records import InputError
from chipmap.run import SolveOptions
from chipmap.solve import solve
from tests.instances.published import published

Network = Callable[..., OperationGraph]
BERT_BASE = {"layers": 12, "hidden": 768, "heads": 12}

#: published trace, generator, its parameters, computing operations, order ideals
SAME: list[tuple[str, Network, dict[str, Any], int, int]] = [
    ("transformers-like/bert_large_encoder_s512_eager_coreaten", bert_encoder, {}, 487, 704),
    ("transformers-like/bert_large_pretraining_s512_eager_coreaten", bert_encoder, {"head": "pretraining"}, 492, 721),
    ("transformers-like/bert_base_s512_eager_coreaten", bert_encoder, {"head": "pretraining", **BERT_BASE}, 252, 373),
    ("transformers-like/gpt2_s512_eager_coreaten", gpt2, {}, 305, 378),
    ("torchvision-like/resnet18", resnet, {"depth": 18}, 68, 99),
    ("torchvision-like/resnet34", resnet, {"depth": 34}, 124, 155),
    ("torchvision-like/resnet50", resnet, {"depth": 50}, 174, 239),
    ("torchvision-like/resnet152", resnet, {"depth": 152}, 514, 579),
    ("torchvision-like/densenet121", densenet, {"depth": 121}, 430, 431),
    ("torchvision-like/densenet169", densenet, {"depth": 169}, 598, 599),
    ("torchvision-like/densenet201", densenet, {"depth": 201}, 710, 711),
]
#: Products with the word table.
HEADS = ("head.mm", "prediction.addmm")
GENERATORS: list[Network] = [bert_encoder, chain, densenet, gpt2, layered, random_dag, resnet, rnn, unet]


def contracted(graph: OperationGraph, traffic: str = "in_out") -> RingProblem:
    return ring_problem(contract(RingInstance.make(name="x", graph=graph, traffic=traffic)).instance)


@dataclass
class Costs:
    """What a mapping of a contracted network depends on; its computing operations are numbered in their order."""

    names: list[str]
    flop: list[int]
    ticks: list[int]
    weights: list[int]
    storages: set[tuple[int, tuple[int, ...], int, int]]
    shared: set[tuple[tuple[int, ...], int]]

    @classmethod
    def of(cls, problem: RingProblem) -> Self:
        """Those of a problem: storages as (producer, readers, bytes, ticks), shared constants as (readers, bytes)."""
        computing = problem.computing.nonzero()[0].tolist()
        at = {v: i for i, v in enumerate(computing)}
        operations = [problem.instance.graph.operations[v] for v in computing]
        return cls(
            [operation.name for operation in operations],
            [operation.flop for operation in operations],
            problem.ticks[computing].tolist(),
            problem.weight_bytes[computing].tolist(),
            {(at[s.producer], tuple(at[v] for v in s.readers), s.bytes, s.ticks) for s in problem.storages},
            {(tuple(at[v] for v in s.readers), s.bytes) for s in problem.shared},
        )


def parameter_bytes(graph: OperationGraph) -> int:
    """Bytes of parameters: those that one operation reads, and those that several share."""
    shared = sum(t.bytes for t in graph.tensors if graph.operations[t.producer].kind == "parameter")
    return sum(operation.weight_bytes for operation in graph.operations) + shared


def ideals(problem: RingProblem) -> int:
    """Number of order ideals (sets closed under predecessors) of the flows, the empty one included."""
    before = [0] * problem.n
    for u, v in problem.flows.tolist():
        before[v] |= 1 << u
    seen, stack = {0}, [0]
    while stack:
        ideal = stack.pop()
        for v in problem.computing.nonzero()[0].tolist():
            larger = ideal | 1 << v
            if larger != ideal and not before[v] & ~ideal and larger not in seen:
                seen.add(larger)
                stack.append(larger)
    return len(seen)


def test_layers_read_the_layer_before() -> None:
    """Ten operations, four wide: three layers; everybody but the first four reads three others of the layer before."""
    graph = layered(operations=10, width=4, reads=3, seed=2)
    edges = {(tensor.producer, reader) for tensor in graph.tensors for reader in tensor.readers}
    assert all(u // 4 + 1 == v // 4 for u, v in edges)
    assert [sum(v == one for _, v in edges) for one in range(10)] == [0] * 4 + [3] * 6
    assert layered(operations=10, width=4, reads=9).tensors[0].readers == (4, 5, 6, 7)
    with pytest.raises(InputError, match="makes 5,000,000 edges"):
        layered(operations=100_000, width=50, reads=80)


@pytest.mark.parametrize(("file", "network", "parameters", "computing", "lattice"), SAME, ids=[row[0] for row in SAME])
def test_size_of_the_contracted_network(
    file: str, network: Network, parameters: dict[str, Any], computing: int, lattice: int
) -> None:
    problem = contracted(network(**parameters))
    assert (int(problem.computing.sum()), ideals(problem)) == (computing, lattice)


@pytest.mark.parametrize("traffic", ["in_out", "twice_out"])
@pytest.mark.parametrize(("file", "network", "parameters"), [row[:3] for row in SAME], ids=[row[0] for row in SAME])
def test_same_operations_and_tensors_as_the_published_trace(
    file: str, network: Network, parameters: dict[str, Any], traffic: str
) -> None:
    """Once contracted: operation by operation FLOP, ticks and weights; tensor by tensor producer, readers, bytes.

    Two things differ, both at the look-up of words. A trace counts the elements of the whole table as its FLOP, and a
    table that the head reads as well is the look-up's alone.
    """
    theirs = Costs.of(contracted(import_graph(str(published(f"{file}.json"))).graph, traffic))
    ours = Costs.of(contracted(network(word_bytes=4, **parameters), traffic))
    look_ups = [v for v, name in enumerate(ours.names) if name == "embeddings.embedding"]
    assert len(look_ups) == (network in (bert_encoder, gpt2))
    for v in look_ups:
        made = next(size for producer, _, size, _ in ours.storages if producer == v)
        theirs.flop[v] = made // 4
        for head in (w for w, name in enumerate(ours.names) if name in HEADS):
            theirs.shared.add(((v, head), theirs.weights[v]))
            theirs.weights[v] = 0
            if traffic == "twice_out":
                theirs.ticks[v] = 2 * made * 100 // 200
    assert dataclasses.replace(ours, names=theirs.names) == theirs


@pytest.mark.parametrize(("file", "network", "parameters"), [row[:3] for row in SAME], ids=[row[0] for row in SAME])
def test_same_parameters_as_the_published_trace(file: str, network: Network, parameters: dict[str, Any]) -> None:
    """Parameters of computing operations (what only constants read is stored as what they make of it)."""
    theirs = import_graph(str(published(f"{file}.json"))).graph.operations
    ours = network(word_bytes=4, **parameters)
    assert parameter_bytes(ours) == sum(op.weight_bytes for op in theirs if op.role == "compute")


def test_bert_large_has_the_nodes_of_the_exported_graph() -> None:
    graph = bert_encoder()
    roles = [operation.role for operation in graph.operations]
    # the export has 1,837 nodes, one of which is the "output" that torch.fx adds
    assert len(roles) == 1836
    assert (roles.count("input"), roles.count("compute")) == (1, 487)
    assert [operation.kind for operation in graph.operations].count("parameter") == 393


@pytest.mark.parametrize(
    ("graph", "parameters"),
    [
        # published numbers of parameters; batch norms add running mean and variance; what is looked up in tables of
        # positions and segments is known beforehand, so that these tables stay outside
        (bert_encoder(word_bytes=1), 335_141_888 - (512 + 2) * 1024),
        (gpt2(word_bytes=1), 124_439_808 - 1024 * 768),
        (resnet(word_bytes=1), 25_557_032 + 2 * 26_560),
        (resnet(depth=18, word_bytes=1), 11_689_512 + 2 * 4_800),
        (densenet(word_bytes=1), 7_978_856 + 2 * 41_824),
        (unet(classes=1, word_bytes=1), 31_030_593),
    ],
    ids=lambda value: value.name if isinstance(value, OperationGraph) else "",
)
def test_number_of_parameters(graph: OperationGraph, parameters: int) -> None:
    assert parameter_bytes(graph) == parameters


def test_products_of_a_transformer_layer_count_two_flop_per_multiply_add() -> None:
    graph = bert_encoder(layers=1, hidden=64, heads=4, expansion=3, sequence=16, batch=2)
    layer = [op for op in graph.operations if op.name.startswith("layer.0.")]
    products = sum(op.flop for op in layer if op.kind == "addmm")
    assert products == 2 * (2 * 16) * (4 * 64 * 64 + 2 * 3 * 64 * 64)
    assert sum(op.flop for op in layer if op.kind == "bmm") == 2 * 2 * (2 * 16 * 16 * 64)


def test_the_steps_of_an_lstm_layer_share_its_recurrent_weights() -> None:
    graph = rnn(layers=1, hidden=32, sequence=5, batch=3, vocabulary=10)
    # the state before the first step is zero, so that its product is known beforehand
    products = [v for v, op in enumerate(graph.operations) if op.kind == "addmm" and ".step." in op.name][1:]
    assert [graph.operations[v].flop for v in products] == [2 * 3 * 32 * 4 * 32] * 4
    assert {graph.operations[v].weight_bytes for v in products} == {0}
    made_by = {graph.operations[tensor.producer].name: tensor for tensor in graph.tensors}
    assert made_by["layer.0.recurrent.weight"].bytes == 2 * 4 * 32 * 32
    assert made_by["layer.0.permute"].readers[-4:] == tuple(products)
    assert made_by["layer.0.recurrent.bias"].bytes == 2 * 4 * 32
    assert made_by["layer.0.recurrent.bias"].readers[-4:] == tuple(products)


def test_skip_connections_of_a_unet_join_equal_sizes() -> None:
    graph = unet(levels=3, channels=8, image=32)
    joins = [v for v, op in enumerate(graph.operations) if op.kind == "cat"]
    sizes = [sorted(t.bytes for t in graph.tensors if v in t.readers) for v in joins]
    assert sizes == [[2 * 8 * 2**level * (32 >> level) ** 2] * 2 for level in (2, 1, 0)]


def test_a_head_of_its_own_has_its_own_table() -> None:
    shared, own, none = (parameter_bytes(gpt2(layers=1, head=h)) for h in ("shared", "own", "none"))
    assert shared == none
    assert own - shared == 2 * 50257 * 768


def test_two_chips_that_share_gpt2_both_hold_its_word_table() -> None:
    """Its 154 MB, read by the first and by the last operation, and 340 MB of other weights don't fit on 2 * 260 MB."""
    graph = gpt2(word_bytes=4)
    instance = RingInstance.make(name="x", graph=graph, package=Package(chips=2, sram_bytes=260_000_000))
    assert solve(instance, options=SolveOptions(time_limit=60, threads=1)).status == "infeasible"
    larger = instance.replace(package=Package(chips=2, sram_bytes=400_000_000))
    result = solve(larger, options=SolveOptions(time_limit=60, threads=1))
    assert (result.status, result.objective) == ("optimal", 2455744126)
    first, last = (v for v, op in enumerate(graph.operations) if op.name in ("embeddings.embedding", "head.mm"))
    assert result.solution is not None
    assert result.certificate is not None
    chips = result.solution["chips"]
    assert chips[first] != chips[last]
    table = 4 * 50257 * 768
    weights = [0, 0]
    for operation, chip in zip(graph.operations, chips, strict=True):
        weights[chip] += operation.weight_bytes
    assert max(weights) + table <= result.certificate.figures["max_memory_bytes"] <= 400_000_000


@pytest.mark.parametrize("network", [bert_encoder, densenet, gpt2, resnet, rnn, unet], ids=lambda n: n.__name__)
def test_products_and_convolutions_have_loop_nests_of_the_same_flop(network: Network) -> None:
    for operation in network().operations:
        if operation.kind in ("addmm", "mm", "bmm", "convolution") and operation.role == "compute":
            loops = operation.loops
            assert loops is not None
            assert 2 * loops.outer * loops.rows * loops.inner * loops.columns == operation.flop, operation.name
            assert loops.weights == (operation.kind != "bmm")


@pytest.mark.parametrize("network", GENERATORS, ids=lambda network: network.__name__)
def test_the_same_parameters_give_the_same_graph(network: Network) -> None:
    assert network().content_hash == network().content_hash
    network().check()


@pytest.mark.parametrize("network", [bert_encoder, densenet, gpt2, resnet, rnn, unet], ids=lambda n: n.__name__)
def test_bytes_follow_the_word_size_and_work_the_batch(network: Network) -> None:
    assert parameter_bytes(network(word_bytes=4)) == 2 * parameter_bytes(network(word_bytes=2))
    one, three = (
        sum(op.flop for op in network(batch=b).operations if op.kind in ("addmm", "convolution")) for b in (1, 3)
    )
    assert three == 3 * one


def test_random_graphs_follow_their_seed() -> None:
    assert random_dag(seed=1).content_hash != random_dag(seed=2).content_hash
    graph = random_dag(operations=30, reach=4)
    distances = [reader - t.producer for t in graph.tensors for reader in t.readers]
    assert min(distances) == 1
    assert max(distances) <= 4


@pytest.mark.parametrize(
    ("call", "where"),
    [
        (lambda: bert_encoder(hidden=100, heads=16), "hidden"),
        (lambda: bert_encoder(sequence=513), "sequence"),
        (lambda: gpt2(sequence=1025), "sequence"),
        (lambda: unet(image=100), "image"),
        (lambda: explicit(flop={"a": 1}, edges=[("a", "b")]), "edges"),
        (lambda: explicit(flop={"a": 1, "b": 1}, edges=[("a", "b"), ("b", "a")]), "graph"),
        (lambda: explicit(flop={"a": 1}, edges=[], sizes={"z": 3}), "sizes"),
    ],
)
def test_impossible_architectures_are_refused(call: Callable[[], OperationGraph], where: str) -> None:
    with pytest.raises(InputError) as error:
        call()
    assert error.value.where == where
    assert error.value.remedy
