"""At what grain networks are cut: which operations stay together, and that solves obey it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any

import pytest

from chipmap.family import get_family, resolve
from chipmap.inputs.reading import generate, read
from chipmap.instances.grain import cut, groups, modules, path_of
from chipmap.instances.placement import PlacementInstance
from chipmap.instances.placement.presets import preset
from chipmap.instances.ring import transforms
from chipmap.instances.ring.from_graph import from_graph
from chipmap.instances.ring.instance import RingSolution
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.networks.importers.common import ImportedGraph
from chipmap.records import InputError
from chipmap.solve import check, solve


def _graph(*names: str) -> OperationGraph:
    return OperationGraph(name="g", operations=tuple(Operation(name=name, kind="add") for name in names))


@pytest.mark.parametrize(
    ("name", "scope", "path"),
    [
        ("layer.3.attention.addmm_1", "", ("layer", "3", "attention")),
        ("/model/layers.0/mlp/Add", "", ("model", "layers", "0", "mlp")),
        ("/Add", "", ()),
        ("linear_4", "blocks.0.attn", ("blocks", "0", "attn")),
        ("linear_4", "", ()),
    ],
)
def test_a_path_is_the_scope_or_what_the_name_says(name: str, scope: str, path: Sequence[str]) -> None:
    """Names of generators have dots, those of ONNX nodes slashes."""
    assert path_of(name, scope) == tuple(path)


def test_blocks_are_the_parts_of_the_outermost_lists() -> None:
    """A list of experts within a block makes no blocks; one part alone is no list; numbers after names are lists."""
    graph = _graph("embed.a", "layers.0.mlp.experts.0.a", "layers.0.mlp.experts.1.a", "layers.1.mlp.a", "only.0.a")
    found = modules(graph)
    assert found.blocks == {("layers",): (("layers", "0"), ("layers", "1"))}
    assert found.block == ((), ("layers", "0"), ("layers", "0"), ("layers", "1"), ())
    assert [len(each) for each in modules(_graph("block_0.a", "block_1.a", "up_7.a")).blocks.values()] == [2]


def test_groups_of_both_grains() -> None:
    """Children of blocks, or blocks; the largest modules beside them; what holds blocks is free."""
    names = ["model.embed.a", "model.embed.b", "model.mask", "model.layers.0.norm.a", "model.layers.0.attn.q.a"]
    names += ["model.layers.0.attn.k.a", "model.layers.0.add", "model.layers.1.attn.a", "model.layers.1.attn.b"]
    graph = _graph(*names, "head.a", "head.inner.b")
    assert groups(graph, "any") == ()
    assert groups(graph, "modules") == (
        ("model.embed.a", "model.embed.b"),
        ("model.layers.0.attn.q.a", "model.layers.0.attn.k.a"),
        ("model.layers.1.attn.a", "model.layers.1.attn.b"),
        ("head.a", "head.inner.b"),
    )
    assert groups(graph, "blocks")[1:3] == (
        tuple(names[3:7]),
        ("model.layers.1.attn.a", "model.layers.1.attn.b"),
    )


def test_a_list_in_a_block_is_passed_through() -> None:
    """T5 calls the parts of its blocks ``layer.0`` and ``layer.1``: these are the modules."""
    names = ["block.0.layer.0.q.a", "block.0.layer.0.k.a", "block.0.layer.1.wi.a", "block.0.layer.1.wo.a"]
    assert groups(_graph(*names, "block.1.layer.0.a"), "modules") == (tuple(names[:2]), tuple(names[2:]))


@pytest.mark.parametrize(
    ("names", "grain", "said"),
    [
        (("a", "b"), "blocks", "no operation that is placed says"),
        (("x.a", "y.b"), "modules", "told apart by numbers"),
        (("x.0.a", "x.1.b"), "block", "is 'block'"),
    ],
)
def test_what_cannot_be_cut_so_is_refused(names: Sequence[str], grain: Any, said: str) -> None:
    """Without paths, without blocks, and for a grain that there isn't."""
    with pytest.raises(InputError, match=said):
        groups(_graph(*names), grain)


@pytest.mark.parametrize("family", ["ring", "placement"])
def test_the_grain_is_part_of_the_instance(family: str) -> None:
    """Groups of the instance's own stay, the hash is another one, and notes say it; ``any`` changes nothing."""
    instance: Any = read("ring/resnet18-12")
    if family == "placement":
        instance = PlacementInstance(name="resnet", graph=instance.graph, system=preset("p100-pcie", 2, None))
    own = (instance.graph.operations[2].name, instance.graph.operations[7].name)
    instance = instance.replace(together=(own,))
    assert cut(instance, ["any"]).instance == instance
    made = cut(instance, ["blocks"])
    assert made.instance.together[0] == own and len(made.instance.together) == 1 + made.report["groups"]
    assert made.instance.content_hash != instance.content_hash and "grain blocks" in made.instance.notes
    assert resolve(get_family(family).transforms["cut"]) is cut
    assert cut(made.instance, ["blocks"]).report == {}


def _tiny() -> Any:
    """Two blocks of two modules each, one after the other; times such that whole modules, and blocks, cost more."""
    times = {"embed.a": 1, "layers.0.x.a": 4, "layers.0.x.b": 1, "layers.0.y.a": 3, "layers.1.x.a": 1}
    times |= {"layers.1.x.b": 5, "layers.1.y.a": 2, "head.a": 1}
    names = list(times)
    parameters: dict[str, Any] = {"flop": {name: 4_000_000 * us for name, us in times.items()}, "chips": 3}
    made: Any = generate("explicit", **parameters, edges=list(pairwise(names)))
    return made


@pytest.mark.parametrize("grain", ["any", "modules", "blocks"])
def test_a_solve_keeps_what_the_grain_says_and_is_the_best(grain: str) -> None:
    """The least period of all mappings that keep operations of one path (cut at the grain's depth) on one chip."""
    instance = _tiny()
    operations = [one.name for one in instance.graph.operations]
    depth = {"any": 9, "modules": 3, "blocks": 2}[grain]
    unit = [".".join(name.split(".")[:depth]) if name[0] == "l" else name.split(".")[0] for name in operations]
    best = None
    for chips in product(range(3), repeat=len(operations)):
        whole = all(
            a == b for u, a in zip(unit, chips, strict=True) for w, b in zip(unit, chips, strict=True) if u == w
        )
        if whole or grain == "any":
            judged = check(instance, RingSolution(chips=chips))
            if judged.feasible and judged.objective is not None:
                best = judged.objective if best is None else min(best, judged.objective)
    made = cut(instance, [grain]).instance
    result = solve(made, isolate=False)
    assert result.status == "optimal" and result.objective == best
    assert result.solution is not None and check(made, result.solution).feasible


def test_modules_that_a_program_names_go_with_the_instance_and_its_changes() -> None:
    """A ring instance has the scopes of its file; copies stand in the module of their original, relays in none."""
    graph = _graph("embed", "mm", "add", "head")
    edges = [(0, 1), (1, 2), (0, 2), (2, 3)]
    tensors = tuple(Tensor(producer=u, readers=tuple(w for v, w in edges if v == u), bytes=64) for u in range(3))
    graph = graph.replace(tensors=tensors)
    scopes = ("", "blocks.0", "blocks.0", "blocks.1")
    made = from_graph(ImportedGraph(graph, None, "torch program", scopes=scopes), "net")
    assert made.scopes == scopes and cut(made, ["blocks"]).instance.together == (("mm", "add"),)
    assert made.replace(scopes=()).content_hash != made.content_hash
    named = transforms.clone(made, ["embed"]).instance
    assert dict(zip((one.name for one in named.graph.operations), named.scopes, strict=True)) == {
        **dict.fromkeys(("embed", "embed@add"), ""),
        **{"mm": "blocks.0", "add": "blocks.0", "head": "blocks.1"},
    }
    assert transforms.relay(made, ["mm"], 1).instance.scopes.count("") == 2
    assert solve(made, isolate=False).status == "optimal"
    with pytest.raises(InputError, match="3 entries for 4 operations"):
        made.replace(scopes=scopes[:3]).check()
