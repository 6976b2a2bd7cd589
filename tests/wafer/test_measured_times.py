"""Kernels whose times are scaled, as measured times ask for: the page's formula, and where the scales come from."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from random import Random

import numpy as np
import pytest

from chipmap import solve
from chipmap.heuristics.wafer.slicing.kernel import option_width
from chipmap.heuristics.wafer.slicing.sizing import Sizing
from chipmap.inputs.reading import Conversion, read
from chipmap.instances.wafer import WaferInstance
from chipmap.instances.wafer.fabric import Fabric
from chipmap.instances.wafer.from_graph import from_graph
from chipmap.instances.wafer.instance import Kernel
from chipmap.instances.wafer.kgraph import write_kgraph
from chipmap.instances.wafer.measured import equip_graph, work
from chipmap.instances.wafer.problem import convolutions, least_k, wafer_problem
from chipmap.instances.wafer.vectors import Arguments, _least_k
from chipmap.networks.graph import Loops, Operation, OperationGraph, Tensor
from chipmap.networks.importers.common import ImportedGraph
from chipmap.records import InputError
from tests.lanes import of_all
from tests.wafer import page_tables, tiny


@pytest.mark.parametrize("seed", range(of_all(12, few=1)))
def test_brute_force_from_the_page_the_models_and_auto_agree(seed: int) -> None:
    """Scaled convolutions, blocks and tables have the optimum that enumeration by the page finds."""
    random = Random(4600 + seed)
    for number in range(of_all(12, few=3)):
        table = number % 3 == 2
        base = page_tables.tabled_instance(random) if table else tiny.instance(random, kernels=2, side=8)
        if len(base.kernels) > 2:
            continue
        kernels = tuple(one.replace(time_permille=random.choice((1000, 137, 1500, 2750))) for one in base.kernels)
        instance = base.replace(kernels=kernels)
        instance.check()
        found = None if table else tiny.optimum(instance)
        least = page_tables.optimum(instance) if table else found and found[0]
        for method in ("auto", *(("cpsat", "mip") if number < of_all(12, few=1) else ())):
            assert solve(instance, method=f"wafer/{method}").objective == least, (seed, number, method)


def products(flops: dict[str, int]) -> ImportedGraph:
    """Products in a row, and an element-wise operation behind the first."""
    loops = {name: Loops(rows=8, inner=one // 1024, columns=64, weights=True) for name, one in flops.items()}
    operations = [Operation(name=name, kind="linear", flop=flops[name], loops=loops[name]) for name in flops]
    operations.insert(1, Operation(name="gelu", kind="gelu", flop=100))
    tensors = [Tensor(producer=v, readers=(v + 1,) if v < len(flops) else (), bytes=512) for v in range(len(flops) + 1)]
    graph = OperationGraph.checked("net", operations, tensors)
    return ImportedGraph(graph=graph, time_ns=None, format="pt2")


def costs(folder: Path, text: str) -> str:
    (folder / "costs.csv").write_text(text, encoding="utf-8")
    return str(folder / "costs.csv")


def scales(instance: WaferInstance) -> list[int]:
    return [one.time_permille for one in instance.kernels]


def test_scales_are_those_of_the_page(tmp_path: Path) -> None:
    """A kernel has the times of what runs inside it; the work of all with a time stays what it was."""
    imported = products({"a": 1024 * 16, "b": 1024 * 16, "c": 1024 * 64})
    made = from_graph(imported, "net")
    found = equip_graph(made, imported, "", [costs(tmp_path, "operation,ns\na,1000\ngelu,2000\nb,1000\n")])
    assert scales(found) == [1500, 500, 1000]
    assert "not measured: 1 operation with" in found.notes and "times of 2 kernels are scaled" in found.notes
    amount = [work(one) for one in found.kernels]
    assert sum(a * Fraction(one.time_permille, 1000) for a, one in zip(amount, found.kernels, strict=True)) == sum(
        amount
    )


def test_kernels_of_an_instance_have_times_by_name(tmp_path: Path) -> None:
    made = from_graph(products({"a": 1024 * 16, "b": 1024 * 16}), "net")
    (tmp_path / "net.json").write_bytes(made.to_json())

    def given(text: str) -> WaferInstance:
        equipment = {"costs": [costs(tmp_path, text)]}
        return read(tmp_path / "net.json", (), family="wafer", conversion=Conversion(equipment=equipment))

    found = given("operation,ns\na,3\nb,1\n")
    assert scales(found) == [1500, 500]
    assert "cut to 0.001 to 100" in given("operation,ns\na,1e9\nb,1\n").notes
    for text, words in (("operation,graph,ns\na,0,1\n", "keeps only kernels"), ("operation,ns\nzz,1\n", "called 'zz'")):
        with pytest.raises(InputError, match=words):
            given(text)
    for value, words in (
        ("roofline", "no file is called 'roofline'"),
        ("", "names no file"),
        ("learned:", "names no file"),
    ):
        with pytest.raises(InputError, match=words):
            read(tmp_path / "net.json", family="wafer", conversion=Conversion(equipment={"costs": [value]}))
    with pytest.raises(InputError, match="time_permille"):
        write_kgraph(found)
    with pytest.raises(InputError, match="has a fabric, no system"):
        read(tmp_path / "net.json", conversion=Conversion(equipment={"system": "x"}))
    with pytest.raises(InputError, match="time_permille of conv 'a' is 0"):
        made.replace(kernels=(made.kernels[0].replace(time_permille=0),), edges=()).check()


def test_long_times_of_kernels_with_a_large_stride() -> None:
    """2^32 quarters times a stride of 2^16 squared is 0 in 64 bits, yet one tile is fast enough."""
    arguments = {"H": 8, "W": 8, "R": 1, "S": 1, "C": 1, "K": 3, "T": 2**16, "U": 1}
    for permille in (1000, 7):
        kernel = Kernel(name="a", kind="conv", arguments=arguments, time_permille=permille)
        (conv,) = (np.array(one, dtype=np.int64) for one in convolutions(kernel))
        some = Arguments(*(np.ones(1, dtype=np.int64) for _ in range(4)))
        problem = wafer_problem(
            WaferInstance(name="one", kernels=(kernel,), edges=(), fabric=Fabric(width=4, height=4))
        )
        options = Sizing(problem).options
        for tau in (2**32, 2**33, 5 * 2**40):
            assert least_k(conv, 1, 1, 1, tau, 1000) == 1
            assert _least_k(conv, some, tau, 1000).tolist() == [1]
            assert all(option_width(options, 0, o, tau) == 3 for o in range(len(options.arguments)))
