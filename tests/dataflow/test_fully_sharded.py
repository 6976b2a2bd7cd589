"""What replicas that share out weights gather and scatter, beside PyTorch's FSDP2 on replicas that only seem to be."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from chipmap.instances.dataflow import DataflowSolution, Degrees
from chipmap.instances.dataflow.plans import useful_plans
from chipmap.validation.dataflow.checker import check
from tests.dataflow.page.cost import judged
from tests.dataflow.random_instances import made

REPLICAS, HIDDEN, WIDE, TOKENS = 4, 16, 64, 8
_FLAT = {"kind": "elementwise", "flop_per_element": 1, "N": TOKENS, "schemes": ["NONE"]}
_GEMM = {**_FLAT, "kind": "gemm"}
_BACK: dict[str, Any] = {"phase": "backward"}
_UPDATE = {**_GEMM, **_BACK, "update": True}
#: Two products without an activation, their gradients (``c``, ``e``) and updates (``d``, ``f``).
LAYER: dict[str, dict[str, Any]] = {
    "x": {**_FLAT, "M": HIDDEN},
    "a": {**_GEMM, "weights": True, "M": WIDE, "K": HIDDEN},
    "b": {**_GEMM, "weights": True, "M": HIDDEN, "K": WIDE},
    "l": {**_FLAT, **_BACK, "M": HIDDEN},
    "c": {**_GEMM, **_BACK, "weights": True, "M": WIDE, "K": HIDDEN, "parameters_of": "b"},
    "d": {**_UPDATE, "M": HIDDEN, "K": TOKENS, "N": WIDE, "operand": "a", "parameters_of": "b"},
    "e": {**_GEMM, **_BACK, "weights": True, "M": HIDDEN, "K": WIDE, "parameters_of": "a"},
    "f": {**_UPDATE, "M": WIDE, "K": TOKENS, "N": HIDDEN, "operand": "x", "parameters_of": "a"},
}
EDGES = "xa ab bl lc ld ad ce cf xf"
MATRIX = HIDDEN * WIDE  # parameters of a product


def gathered(recompute: str) -> Fraction:
    """Bytes over a replica's link for a layer and micro-batch, of numbers of two bytes: T3 with a byte per ns."""
    degrees = Degrees(data=REPLICAS, dimensions=("data",))
    given = {"sizes": [REPLICAS], "topology": "switch", "degrees": degrees, "link_gbps": 1.0, "batch": REPLICAS}
    instance = made(LAYER, EDGES, purpose="training", fused=False, shard="weights", recompute=recompute, **given)
    schemes: Any = ("NONE",) * len(LAYER)
    mapping = DataflowSolution(degrees=degrees, schemes=schemes, partitions=tuple(range(len(LAYER))))
    certificate = check(instance, mapping)
    assert not certificate.violations, certificate.violations
    assert certificate.terms["T3"] == judged(instance, mapping).terms["T3"]
    return Fraction(certificate.terms["T3"], 1000)


def test_a_layer_that_is_recomputed_gathers_its_weights_twice() -> None:
    """By hand: two matrices of two bytes, two gathers and a reduce-scatter of each, of which 3/4 cross a link."""
    assert gathered("none") == gathered("full") == 3 * 2 * 2 * MATRIX * Fraction(3, 4)


def test_recomputation_is_asked_where_it_spares_several_gathers() -> None:
    """Two backward kernels read the parameters of ``a``, which is gathered once more for both."""
    degrees = Degrees(data=REPLICAS, dimensions=("data",))
    for twice, kinds in ((False, {"none"}), (True, {"none", "full"})):
        layer = LAYER | ({"g": {**LAYER["e"]}} if twice else {})
        given = {"sizes": [REPLICAS], "topology": "switch", "degrees": degrees, "batch": REPLICAS, "fused": False}
        edges = f"{EDGES} cg" if twice else EDGES
        instance = made(layer, edges, purpose="training", shard="weights", recompute=None, **given)
        assert {plan.recompute for plan in useful_plans(instance, degrees)} == kinds


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_gathers_and_scatters_are_those_of_torch(recompute: str) -> None:
    """Three layers in bfloat16; PyTorch's backend ``fake`` stands for the other replicas."""
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    dist = pytest.importorskip("torch.distributed")
    fake = pytest.importorskip("torch.testing._internal.distributed.fake_pg")
    from torch.distributed.fsdp import fully_shard
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.checkpoint import checkpoint

    nn, moved = torch.nn, list[int]()

    class Spy(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if str(function).startswith(("c10d._allgather_base", "c10d._reduce_scatter_base")):
                given = torch.utils._pytree.tree_leaves(args)
                moved.append(max(one.nbytes for one in given if isinstance(one, torch.Tensor)))
            return function(*args, **(kwargs or {}))

    class Net(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(self.two() for _ in range(3))

        def two(self) -> Any:
            return nn.Sequential(nn.Linear(HIDDEN, WIDE, bias=False), nn.Linear(WIDE, HIDDEN, bias=False))

        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=False) if recompute == "full" else layer(x)
            return x

    dist.init_process_group("fake", store=fake.FakeStore(), rank=0, world_size=REPLICAS)
    try:
        mesh, net = dist.init_device_mesh("cpu", (REPLICAS,)), Net().bfloat16()
        for layer in net.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(net, mesh=mesh)
        with Spy():
            net(torch.randn(TOKENS, HIDDEN, dtype=torch.bfloat16)).sum().backward()
    finally:
        dist.destroy_process_group()
    assert sum(moved) * Fraction(REPLICAS - 1, REPLICAS) == 3 * gathered(recompute)
