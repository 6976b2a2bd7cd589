"""KV caches that stay in SRAM: decode steps in mode ``physical`` on chips that run nothing but one partition."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from chipmap.heuristics.dataflow.program.intra_chip import Stage
from chipmap.instances.dataflow import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.batch_time import caching
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.partition_loads import loads
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.instances.dataflow.presets import preset
from chipmap.instances.dataflow.workload import Scheme
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow.candidates import count
from chipmap.validation.dataflow.checker import breakdown, check
from tests.dataflow.agreement import agreed, run_of
from tests.dataflow.random_instances import CACHED, GEMM, LIGHT, TENSOR, made, mixed_instance
from tests.dataflow.test_wide import solved_as_wide
from tests.lanes import of_all

GRAPH: dict[str, Any] = {"a": LIGHT, "b": CACHED}
#: On one of two chips: half of 90,000 of weights each; 60,000 bytes of a's output are a buffer of 30,000 / 64, twice;
#: half of the cache of 300,000 for each of two samples.
NEED = 2 * 45_000 + 2 * 469 + 2 * 150_000


def memory(instance: DataflowInstance, partitions: tuple[int, ...], layers: int = 1) -> list[int]:
    """Picoseconds of DRAM by partition: the checker's, which are those of the fast evaluation."""
    (degrees,) = allowed_degrees(instance)
    schemes: list[Scheme] = ["M"] * (2 * layers)
    solution = DataflowSolution(degrees=degrees, schemes=tuple(schemes), partitions=partitions)
    found = [times[1] for times in breakdown(instance, solution).values()]
    assert [one.memory for one in loads(instance, solution)] == found
    return found


def decode(sram: int, **fields: Any) -> DataflowInstance:
    given = {"purpose": "decode", "batch": 2, "memory_gbps": 1.0, "degrees": TENSOR, **fields}
    return made(GRAPH, "ab", sram_bytes=sram, **given)


def test_a_cache_that_just_fits() -> None:
    """It is read unless there is room for all of it; weights stay either way, if there is one partition."""
    assert memory(decode(NEED), (0, 0)) == [0]
    assert memory(decode(NEED - 1), (0, 0)) == [150_000_000]
    assert memory(decode(NEED + 300_000, batch=4), (0, 0)) == [0]
    assert memory(decode(NEED + 299_999, batch=4), (0, 0)) == [150_000_000]
    assert memory(decode(10**7), (0, 1)) == [75_000_000, 225_000_000]


@pytest.mark.parametrize("fields", [{"purpose": "prefill"}, {"mode": "dfmodel"}])
def test_what_is_fetched_is_no_cache(fields: dict[str, Any]) -> None:
    """It is read for every micro-batch, whatever room there is (mode ``dfmodel``: and weights in decode steps)."""
    assert memory(decode(10**7, **fields), (0, 0)) == [150_000_000 + 90_000_000 * ("mode" in fields)]


def test_layers_and_their_caches() -> None:
    """With two layers on a chip none stays, unless one partition reaches across both and has room for two caches."""
    assert memory(decode(10**7, layers=2), (0, 0)) == [240_000_000]
    room = {"layers": 2, "across_layers": True}
    assert memory(decode(2 * NEED, **room), (0,) * 4, 2) == [0]
    assert memory(decode(2 * NEED - 1, **room), (0,) * 4, 2) == [300_000_000]


def test_the_intra_chip_pass_knows_of_caches() -> None:
    """One partition across two layers takes what the checker says, whether its caches stay or not."""
    for sram in (2 * NEED, 2 * NEED - 1):
        instance = decode(sram, layers=2, across_layers=True)
        (degrees,) = allowed_degrees(instance)
        schemes: tuple[Scheme, ...] = ("M",) * 4
        solution = DataflowSolution(degrees=degrees, schemes=schemes, partitions=(0,) * 4)
        stage = Stage(dataflow_problem(instance, degrees), (0,) * 4, range(4))
        assert stage.problem.options[0][0].scheme == "M"
        assert stage.ticks(frozenset(range(4)), True) == check(instance, solution).terms["T4"]


def cached_instance(random: Random) -> DataflowInstance:
    """A random decode step that could keep its caches in SRAM."""
    while True:
        instance = mixed_instance(random)
        if any(kernel.phase == "backward" for kernel in instance.workload.kernels):
            continue
        instance = instance.replace(mode="physical", task=instance.task.replace(purpose="decode", recompute=False))
        chip = instance.system.chip.replace(sram_bytes=random.choice((300_000, 600_000, 10**6, 2 * 10**6)))
        memory = instance.system.memory.replace(bytes_per_ns=random.choice((1.0, 5.0)), capacity_bytes=None)
        instance = instance.replace(system=instance.system.replace(chip=chip, memory=memory))
        problems = [dataflow_problem(instance, degrees) for degrees in allowed_degrees(instance)]
        if count(instance) <= 300 and any(map(caching, problems)):
            return instance


@pytest.mark.parametrize("block", range(of_all(2, few=1)))
def test_every_method_is_brute_force(block: int) -> None:
    stays = 0
    for seed in range(6 * block, 6 * block + 6):
        instance = cached_instance(Random(seed))
        _, best = agreed(instance, seed)
        if best is not None and len(set(best.partitions)) == 1:
            (load,) = loads(instance, best)
            stays += load.memory == 0
    assert stays >= 1


def test_so_is_the_method_for_wide_graphs() -> None:
    tried = 0
    for seed in range(100, 160):
        instance = cached_instance(Random(seed))
        degrees = next(d for d in allowed_degrees(instance) if caching(dataflow_problem(instance, d)))
        instance = instance.replace(task=instance.task.replace(degrees=degrees, overlap=True))
        optimum = brute_force(instance, check)[0]
        if optimum is None or instance.task.utilisation is None or instance.task.across_layers:
            continue
        run, bound = solved_as_wide(instance)
        assert run.upper is not None and bound is not None and bound <= optimum <= run.upper, seed
        tried += 1
        if tried == 1:
            break
    assert tried == 1


def test_a_gemm_whose_schemes_decide_what_fits() -> None:
    """NONE keeps all of the cache on each chip: with room for half of it alone, it is read under NONE."""
    fields = {"purpose": "decode", "batch": 2, "memory_gbps": 1.0, "degrees": TENSOR}
    chain = {"a": GEMM, "b": {**CACHED, "schemes": ["M", "NONE"]}}
    instance = made(chain, "ab", sram_bytes=700_000, **fields)
    (degrees,) = allowed_degrees(instance)
    for scheme, read in (("M", 0), ("NONE", 300_000_000)):
        solution = DataflowSolution(degrees=degrees, schemes=("M", scheme), partitions=(0, 0))  # type: ignore[arg-type]
        assert check(instance, solution).terms["T2"] == read


def test_formats_of_the_cache_by_hand() -> None:
    """The page's Llama3 70B on eight H100: an eighth of 64 caches a chip, in its own format; the rest is unchanged."""
    found = {}
    for name, bits in (("bf16", 16), ("fp8", 8), ("int4", 4)):
        formats = {"weight_format": "bf16", "activation_format": "bf16", "cache_format": name}
        instance = preset("llama3-70b", machine="h100-sxm", sizes=[8], step="decode", batch=64, **formats)
        run = run_of(instance)
        assert run.closed and run.best is not None
        cache = 64 * 2 * 8 * 128 * 4096 * bits // 8 // 8
        terms, figures = run.best.certificate.terms, run.best.certificate.figures
        found[name] = terms["T2"] - 2 * -(-cache * 1000 // 2 // 3350), figures["dram_bytes"] - 80 * cache, terms["T3"]
    assert len(set(found.values())) == 1, found
