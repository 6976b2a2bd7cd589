"""The checker against a brute force that is written from the pages alone (:mod:`tests.dataflow.page`).

The full count is ``python -m benchmarks.dataflow_page``.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from chipmap.instances.dataflow import DataflowSolution, Degrees
from tests.dataflow.feature_mix import features
from tests.dataflow.page.cost import judged
from tests.dataflow.page_comparison import differences
from tests.dataflow.page_instances import page_instance
from tests.dataflow.random_instances import made
from tests.lanes import of_all

PAGE = Path(__file__).with_name("page")
#: The records: what an instance, a system, a workload and a mapping state.
RECORDS = {f"chipmap.instances.dataflow.{name}" for name in ("instance", "system", "workload")}


def imported(path: Path) -> set[str]:
    """The modules that a file imports, anywhere in it."""
    found = set[str]()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "an import by its full name can be judged"
            found.add(node.module or "")
            if node.module == "tests.dataflow.page":
                found |= {f"{node.module}.{one.name}" for one in node.names}
    return found


def test_the_brute_force_knows_only_the_page() -> None:
    """It imports nothing of the checker, nor of what the checker judges but the records; nor anything that could."""
    own = {f"tests.dataflow.page.{path.stem}" for path in PAGE.glob("*.py")}
    for path in PAGE.glob("*.py"):
        strange = {name for name in imported(path) if name.startswith(("chipmap", "tests", "benchmarks", "importlib"))}
        assert strange <= RECORDS | own | {"tests.dataflow.page"}, path.name
        text = path.read_text(encoding="utf-8")
        assert "__import__" not in text and "import_module" not in text, path.name


@pytest.mark.parametrize("block", range(of_all(3, few=1)))
def test_the_checker_says_what_the_page_says(block: int) -> None:
    """Labels, terms, objective and DRAM of mappings as they are and tampered with; the optimum over all of them."""
    seen, mappings, enumerated = Counter[str](), 0, 0
    for seed in range(20 * block, 20 * block + 20):
        random = Random(seed)
        instance = page_instance(random)
        wrong, compared, whole = differences(instance, random, 80, 8)
        assert not wrong, (seed, wrong[:3])
        mappings, enumerated = mappings + compared, enumerated + whole
        seen.update(features(instance))
    assert mappings >= 200 and enumerated >= 3 and len(seen) >= 20, (mappings, enumerated, seen)


def test_the_pages_own_numbers() -> None:
    """The brute force has the numbers that the pages work out by hand: it isn't wrong as the checker may be."""
    layer = {
        "a": {"flop": 0, "output_bytes": 0, "weight_bytes": 80_000, "schemes": ["NONE"]},
        "x": {"flop": 0, "output_bytes": 0, "weight_bytes": 80_000, "schemes": ["NONE"], "phase": "backward"},
        "u": {"flop": 0, "output_bytes": 80_000, "schemes": ["NONE"], "phase": "backward", "update": True},
    }
    layer["u"] |= {"weight_bytes": 0}
    four = Degrees(data=4, dimensions=("data",))
    given = {"layers": 8, "batch": 8, "sizes": [4], "topology": "switch", "degrees": four, "overlap": False}
    given |= {"fused": False, "purpose": "training", "optimizer_step": True}
    mapping = DataflowSolution(degrees=four, schemes=("NONE",) * 3, partitions=(0, 1, 2))
    wanted = {"none": (64, 0, 38_400, 89_600, 153_600), "optimizer": (28, 0, 38_400, 22_400, 86_400)}
    wanted |= {"gradients": (23, 2_400, 19_200, 22_400, 105_600), "weights": (19, 7_200, 0, 22_400, 163_200)}
    for shard, numbers in wanted.items():
        found = judged(made(layer, "ax au", **given, shard=shard), mapping)
        terms = [1000 * ns for ns in numbers[1:]]
        assert [*(found.terms[label] for label in ("T3", "T6", "T8")), found.objective] == terms, shard
        assert found.dram == numbers[0] * 80_000, shard


def test_the_page_of_routing_and_of_attention() -> None:
    """Dispatch and combine of a group whose chips have every token; all-to-all attention with a whole head of two."""
    chips = Degrees(tensor=4, dimensions=("tensor",))
    alike = {"sizes": [4], "topology": "switch", "link_gbps": 50.0, "memory_gbps": 200.0, "fused": False}
    flat = {"kind": "opaque", "flop": 0, "weight_bytes": 0, "output_bytes": 262_144, "schemes": ["NONE"]}
    experts = {"kind": "gemm", "M": 1024, "K": 1024, "N": 128, "weights": True, "weight_bytes": 2**24, "schemes": ["E"]}
    experts |= {"experts": 8, "active": 2}
    instance = made({"d": flat, "x": experts, "c": flat}, "dx xc", **alike, degrees=chips, batch=1)
    found = judged(instance, _mapping(chips, ("NONE", "E", "NONE")))
    assert found.terms["T3"] == 3_932_160
    heads = {"kind": "opaque", "flop": 0, "weight_bytes": 0, "schemes": ["N", "OUTER"]}
    q = {**heads, "kind": "gemm", "outer": 8, "M": 64, "K": 1, "N": 4096, "output_bytes": 4_194_304}
    k = {**q, "outer": 2, "output_bytes": 1_048_576}
    x = {**q, "M": 4096, "output_bytes": 268_435_456, "operand": "k"}
    attention = made({"q": q, "k": k, "x": x}, "qx kx", **alike, degrees=chips, batch=1)
    for schemes, wanted in (("N", "N", "N"), 15_728_640), (("N", "N", "OUTER"), 23_592_960), (("OUTER",) * 3, 0):
        assert judged(attention, _mapping(chips, schemes)).terms["T3"] == wanted, schemes


def _mapping(degrees: Degrees, schemes: tuple[str, ...]) -> DataflowSolution:
    return DataflowSolution.make(degrees=degrees, schemes=schemes, partitions=list(range(len(schemes))))
