"""The named generators, the shipped instances and operation graphs as instances of family dataflow."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from chipmap.families.dataflow import FAMILY
from chipmap.family import resolve
from chipmap.inputs.reading import read
from chipmap.instances.dataflow import DataflowInstance, DataflowSolution, generators
from chipmap.instances.dataflow.describe import describe, files
from chipmap.instances.dataflow.from_graph import from_graph
from chipmap.instances.dataflow.generators import DataflowGenerator, Setting, explicit, gpt
from chipmap.instances.dataflow.shipped import SHIPPED
from chipmap.networks import generators as networks
from chipmap.networks.importers.common import ImportedGraph
from chipmap.records import InputError
from chipmap.run import SolveOptions
from chipmap.solve import solve
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow.checker import check

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "instances-dataflow.md").read_text(encoding="utf-8")
GENERATORS: dict[str, DataflowGenerator] = {g.name: resolve(g.function) for g in FAMILY.generators}
#: Content hashes. A change here changes what published results refer to: give the new instance a new name instead.
HASHES: dict[str, str] = {
    "dataflow/table6-kbk-8x1": "6365d90635d2d9c1768c80d3906054c5f6e73fb23649607ddaf211af97cf7b45",
    "dataflow/table6-vendor-8x1": "424767c3ddd0e2afef747778bb4a3c5577b5c4f48fd942529641f41484dad00e",
    "dataflow/table6-dfmodel-8x1": "5501f442b8595b685c97c1897460a4c5b35d85897e609a965f786ecd331a4b6d",
    "dataflow/table6-dfmodel-4x2": "dd48b7adb7d511047a0e2a7ba46e74451651ad524723a8e6552f98a046d995f5",
    "dataflow/table6-free-8x1": "acdbbf82503edf41b160920c29c88f2c6573445635417783f3cd92cda3881bf7",
    "dataflow/table6-free-4x2": "ad0bf314ae02bb0f8c7a5a0c19fc9eb3e6ce756f02d9667462cb773d1674e076",
    "dataflow/gpt3-175b-96-layers-8x1": "b05bdfce9284e151fddbfb88b309e1972da1aa9647ab7731d13ce9e395c5d903",
    "dataflow/gpt3-1t-sn30-1024": "833489c4798337ccab18f86c66c8587f4a8785cfbd2f9bf0bd60c1061c5f1f58",
    "dataflow/llama3-8b-decode-sn40l-16": "a0214075544cfe2d4c44e869aced69c3c16c39e01df56201c57f551eb05f3e85",
    "dataflow/llama3-8b-prefill-sn40l-16": "2d03252b94360b0fada1b84a363d90d33bd8dc9815e88858005046f59f131c2f",
    "dataflow/llama3-8b-decode-sn40l-16-physical": "536273895a73d12fb4dc325c57265a53da8fa92027ba322e4cab998651fb37ea",
    "dataflow/llama3-70b-decode-sn40l-16": "d9cf297c97b6f78c4b040b8243cf2657a5f4fc2df738abb6645f1043cf36dbd5",
    "dataflow/llama3-405b-decode-sn40l-16": "0bdb9636cdfb81e4309a22f437cf691c4fbc029f631d000e51255a6f502ba23f",
    "dataflow/llama-68m-decode-sn40l-16": "1519d203220b82894ce9bfdb3067a81d9101ee0a47958620512620bfc7f139a5",
    "dataflow/llama3-70b-engine-decode-h100-8": "93c13a57af92f2df4959ac1b594fc64da602651edf525a155afb2308cc2dc465",
    "dataflow/llama3-70b-engine-prefill-h100-4": "96c392d26797bea1d169600d7fc0e7d96f75cb24607092ce014271d22149c4b1",
    "dataflow/llama3-8b-engine-decode-h100-1": "c187dc4ffb2afadc0fdf3c2410f0a37f894aa6baac30a5ef973eae836a454171",
    "dataflow/gpt3-100t-sn40l-1024": "b97088c80101aec9eb8b63b3027d8297fcccb6a1f4c2961b791775fccf660b38",
    "dataflow/dlrm-793b-sn30-32x32": "120a8ef969f82ac3c78380df6af73d51794273bcc9d2b67b098a23f1ffe8fc15",
    "dataflow/hpl-5m-sn30-32x32": "7601ae939003b718f64455f115f7a5d62b291bc7bcc216b70d18a2c9dd78f596",
    "dataflow/fft-2e40-sn30-32x32": "a8615f4283a75467c81fb9d418fadb7462a0c19eeeee8d60df462051b685ccbc",
    "dataflow/gpt3-175b-tiles-8x1": "ad5101e2aaa33dc48f50572cb0c51420636224426daf2e12e518611accdbd294",
    "dataflow/gpt3-1t-tiles-sn30-1024": "3e4d26ccda2970f8b94006e6c1dc1074dea4db0d7d0cc5865f61da7b7f8a1cac",
    "dataflow/gpt3-175b-12-layers-8x5": "c40f952e25ea12f330887eb036eee567d23f7bd2bed6e8027f5f6157f21b09f0",
    "dataflow/resnet50-8": "612e21f6014b35e3b3915aa558dfb3f4449122dfaef2096cf40d981e5e991030",
    "dataflow/tiny-tiles": "9cecb7af360416a37038a04f6b7d24ec6c52a297c70500b7206902e5ead3cdc4",
    "dataflow/moe-3-experts": "d7e76bf1d177cc59acc9eed5047fc7a62c66c0b0937f72ad4097dc216e32a5b2",
    "dataflow/moe-8-experts": "77615848678841c9d72ab5fcaa81980238ce1de0506a3181f8f30015d0876685",
    "dataflow/moe-64-experts": "f3d10cd48912a99caa98d6bfbcf2ba285f2d87aacf83c15f14579bc43b3d41ac",
    "dataflow/tiny-chain": "1794cc103ffbcf35c6c8cefa3bfaa71a73bef2a2a7ac12a6c17af5ed2b6ccb26",
    "dataflow/tiny-sharding": "14c52e5182ae8af2a4f3e618dfb314c5db765a85cf208803859d7f9e36b810b6",
    "dataflow/tiny-reduce-scatter": "2885033b0bb69c74105437cd7100a1912a1e6f47766ccb877603bea1022b399d",
    "dataflow/tiny-multicast": "93198bca40ccdb6048ef12bf9e7103b1cfcdbc529f04a31abe70a4978332795a",
    "dataflow/tiny-phases": "d6d3a81e263a194adf4402b2b69a3631daf07d837d6f3a044457cc1b32e39a73",
    "dataflow/tiny-degrees": "a9261c040be61213f5848b2a8bf13d35c74eee7f57c921890160784cd096e692",
    "dataflow/tiny-micro-batches": "21bd3ed97d7abc9e79c4b1605ce9323af50f989df247cd1fb52493b74abe71e5",
    "dataflow/tiny-sram": "64f57cc780a36c6df6ea4b2ac3467e458384358f8d3acd67a683f70c8396bf75",
    "dataflow/tiny-together": "66cd0b9a53aca03024bc733f12bba49c2b0bb93b7ae3db05e7205e2748e9ea72",
}
#: Optima of the tiny ones in picoseconds, by trying all mappings (None: infeasible).
OPTIMA = {
    "dataflow/tiny-chain": 8800000,
    "dataflow/tiny-sharding": 10485760,
    "dataflow/tiny-reduce-scatter": 10485760,
    "dataflow/tiny-multicast": 12200000,
    "dataflow/tiny-phases": 11000000,
    "dataflow/tiny-degrees": 2531830,
    "dataflow/tiny-tiles": 13107200,
    "dataflow/tiny-micro-batches": 48000000,
    "dataflow/tiny-sram": None,
    "dataflow/tiny-together": None,
}


def test_the_shipped_names() -> None:
    assert set(HASHES) == set(SHIPPED)
    assert {name for name in SHIPPED if "/tiny-" in name} == set(OPTIMA)


@pytest.mark.parametrize("name", SHIPPED)
def test_content_hash(name: str) -> None:
    instance = read(name)
    assert isinstance(instance, DataflowInstance) and instance.name == name
    assert instance.content_hash == HASHES[name]


@pytest.mark.parametrize("name", OPTIMA)
def test_optima_of_the_tiny_ones(name: str) -> None:
    assert brute_force(read(name), check)[0] == OPTIMA[name]


def test_the_family_lists_all_generators_under_their_names() -> None:
    assert {name: generator.name for name, generator in GENERATORS.items()} == {name: name for name in GENERATORS}
    assert {value.name for value in vars(generators).values() if isinstance(value, DataflowGenerator)} == set(
        GENERATORS
    )


def test_defaults_make_an_instance() -> None:
    instance = gpt()
    assert (instance.name, instance.mode, instance.system.chips) == ("dataflow-gpt-8", "physical", 8)
    assert DataflowInstance.from_json(instance.to_json()) == instance == gpt()
    assert len(gpt(backward=True, layers=2).workload.kernels) == 41


@pytest.mark.parametrize(
    ("generator", "parameters", "said"),
    [
        (gpt, {"depth": 3}, "dataflow-gpt has no parameter 'depth'"),
        (gpt, {"heads": 7}, "hidden: is 12288, not a multiple of heads = 7"),
        (gpt, {"layers": 0}, "dataflow-gpt: layers: is 0\n  Give a whole number: 1 or more."),
        (gpt, {"mode": "fast"}, "dataflow-gpt: mode: is 'fast'\n  Choose from: "),
        (gpt, {"degrees": {"tensors": 8}}, "degrees: there is no field 'tensors'\n  Did you mean tensor?"),
        (gpt, {"sram_bytes": 0}, "system.chip.sram_bytes: is 0"),
        (explicit, {}, "dataflow-explicit: kernels: is missing"),
        (explicit, {"kernels": {}}, "workload.kernels: has 0 kernels"),
        (explicit, {"kernels": {"a": {"flops": 1}}}, "flops"),
        (explicit, {"kernels": {"a": {"kind": "conv"}}}, "conv"),
    ],
)
def test_wrong_parameters_are_named(generator: DataflowGenerator, parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as error:
        generator(**parameters)
    assert said in str(error.value)


def test_figures_and_the_mapping_by_name() -> None:
    instance = read("dataflow/table6-free-8x1")
    assert isinstance(instance, DataflowInstance)
    figures = describe(instance)
    assert (figures["kernels"], figures["edges"], figures["peak_tflops"]) == (18, 21, 307.2)
    assert figures["weights_mib"] == 12 * 12_288**2 * 2 / 2**20 and figures["largest"]["name"] == "FFN0"
    result = solve(instance, None, SolveOptions.make(warm_start="none"))
    assert result.solution is not None and result.certificate is not None
    solution = DataflowSolution.make(**result.solution)
    lines = files(instance, solution)["mapping.csv"].decode().splitlines()
    assert lines[0].startswith("layer,name,kind,phase,scheme,partition") and len(lines) == 19
    rows = [line.split(",") for line in lines[1:]]
    assert [int(row[5]) for row in rows] == list(solution.partitions)
    assert sum(int(row[6]) for row in rows) == result.certificate.terms["T1"]
    assert files(instance, solution.replace(schemes=())) == {}


def test_an_operation_graph_becomes_opaque_kernels() -> None:
    graph = networks.bert_encoder(layers=1)
    instance = from_graph(ImportedGraph(graph, None, "traced", ("a note",)), "mine", fuse=False)
    computing = [operation for operation in graph.operations if operation.role == "compute"]
    assert [kernel.name for kernel in instance.workload.kernels] == [operation.name for operation in computing]
    assert sum(kernel.flop or 0 for kernel in instance.workload.kernels) == sum(one.flop for one in computing)
    assert instance.notes.startswith("a note; ") and instance.workload.edges
    result = solve(instance, None, SolveOptions.make(warm_start="none", time_limit=30.0))
    assert result.status == "optimal"


def test_measured_times_stand_for_flop_where_a_graph_has_none() -> None:
    graph = networks.bert_encoder(layers=1)
    times = tuple(float(i) for i in range(len(graph.operations)))
    assert "measured times are not used" in from_graph(ImportedGraph(graph, times, "traced", ()), "both").notes
    bare = graph.replace(operations=tuple(one.replace(flop=0) for one in graph.operations))
    instance = from_graph(ImportedGraph(bare, times, "profile", ()), "mine", fuse=False).replace(mode="dfmodel")
    chip, layer = instance.system.chip, [i for i, one in enumerate(graph.operations) if one.role == "compute"]
    flop = [kernel.flop for kernel in instance.workload.kernels]
    assert flop == [round(i * chip.flop_per_ns * 0.9) for i in layer]
    assert "measured times stand as what one SN10 computes in them" in instance.notes


def _section() -> str:
    return PAGE.split("## Layers on many chips\n", 1)[1].split("\n## ", 1)[0]


def test_the_page_lists_generators_and_shipped_instances() -> None:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in _section().splitlines() if line[:1] == "|"]
    table = {row[0].strip("`"): row[2] for row in rows if len(row) == 3}
    for name, generator in GENERATORS.items():
        for parameter, default in generator.parameters().items():
            if parameter in Setting.__struct_fields__:
                continue
            assert f"`{parameter}`" in table[name], f"{name}: {parameter}"
            if isinstance(default, (int, str)):
                said = re.search(rf"`{parameter}` ([\w-]+)", table[name])
                assert said is not None and said[1] == str(default).lower(), f"{name}: {parameter}"
    settings = {name: row[1] for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    for name, default in zip(Setting.__struct_fields__, Setting.__struct_defaults__, strict=True):
        assert name in settings, name
        assert isinstance(default, bool) or not isinstance(default, (int, float)) or settings[name] == f"{default:g}"
    named = set(re.findall(r"`(dataflow/[\w-]+)`", " ".join(row[0] for row in rows)))
    assert named == set(SHIPPED)
