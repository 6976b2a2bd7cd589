"""Sharing a chip's tiles by the cycle formula: shapes by hand, the oracle, program = models = brute force."""

from __future__ import annotations

from random import Random
from typing import Any, cast

import numpy as np
import pytest

from chipmap.formulations.dataflow import cpsat, mip
from chipmap.heuristics.dataflow.program import tile_sharing as compiled
from chipmap.heuristics.dataflow.program.program import Program
from chipmap.inputs.reading import read
from chipmap.instances.dataflow import DataflowInstance, DataflowSolution, Degrees, Kernel
from chipmap.instances.dataflow.describe import files
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.instances.dataflow.tiles import Shape, least_area, shape, shares, sharing, thinned
from chipmap.methods.dataflow.chain import auto
from chipmap.methods.dataflow.models import cpsat as by_cpsat
from chipmap.methods.dataflow.models import mip as by_mip
from chipmap.records import InputError
from chipmap.run import Run, SolveOptions
from chipmap.solve import solve
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow.candidates import candidates, count
from chipmap.validation.dataflow.checker import check
from chipmap.validation.dataflow.tiles import blocks, least_cycles
from tests.dataflow.random_instances import LIGHT, made, on_tiles, tiny_instance
from tests.dataflow.tiny_models import by_program, optimum, random_instance, table6
from tests.lanes import of_all

RING = Degrees(tensor=2, dimensions=("tensor",))


def random_tiles(seed: int) -> DataflowInstance:
    """A tiny instance on a random chip without a utilisation."""
    random = Random(seed)
    instance = tiny_instance(random)
    arrays = {"lanes": random.choice((1, 4, 32)), "stages": random.choice((1, 6)), "ghz": random.choice((0.1, 1.25))}
    chip = instance.system.chip.replace(**arrays)
    instance = instance.replace(system=instance.system.replace(chip=chip))
    return on_tiles(instance, random.choice((2, 3, 7, 16, 100)))


@pytest.mark.parametrize(
    ("fields", "scheme", "expected"),
    [
        ({"kind": "gemm", "M": 100, "K": 50, "N": 60, "weights": True}, "M", Shape(2, 2, 50 * 6)),
        ({"kind": "gemm", "M": 100, "K": 50, "N": 60, "weights": True}, "K", Shape(4, 2, 25 * 6)),
        ({"kind": "gemm", "M": 100, "K": 50, "N": 60, "weights": True}, "N", Shape(4, 1, 50 * 6)),
        ({"kind": "gemm", "M": 50, "K": 7, "N": 60, "outer": 4}, "OUTER", Shape(4, 2, 7 * 6)),
        ({"kind": "gemm", "M": 100, "K": 60, "N": 90, "update": True}, "M", Shape(2, 15, 60)),
        ({"kind": "elementwise", "M": 100, "N": 60, "flop_per_element": 13}, "NONE", Shape(4, 1, 60 * 2)),
        ({"kind": "elementwise", "M": 100, "N": 60, "flop_per_element": 0}, "M", Shape(2, 1, 60)),
        ({"kind": "opaque", "flop": 384 * 2 * 9 + 1, "output_bytes": 1, "weight_bytes": 0}, "M", Shape(10, 1, 1)),
    ],
)
def test_shapes_by_hand(fields: dict[str, Any], scheme: Any, expected: Shape) -> None:
    """32 x 6 multiply-adders, 60 tokens in 6 tiles of 10, two chips."""
    kernel = Kernel(name="k", **fields)
    instance = on_tiles(made({"a": LIGHT}, "", tokens=60, tile_tokens=10), 640)
    assert shape(kernel, scheme, instance, RING) == expected
    assert blocks(kernel, scheme, instance, RING) == expected


def test_shares_are_all_pareto_points() -> None:
    instance = on_tiles(made({"a": LIGHT}, "", tokens=60, tile_tokens=30), 40)
    kernel = Kernel(name="k", kind="gemm", M=1000, K=3, N=60)
    rows, columns, cycles = shape(kernel, "M", instance, RING)
    best: dict[int, int] = {}
    for lane in range(1, 41):
        for stage in range(1, 40 // lane + 1):
            takes = -(-rows // lane) * -(-columns // stage) * cycles * 800  # 1.25 GHz
            for tiles in range(lane * stage, 41):
                best[tiles] = min(best.get(tiles, takes), takes)
    found = shares(kernel, "M", instance, RING)
    expected = [(tiles, best[tiles]) for tiles in range(1, 41) if tiles == 1 or best[tiles] < best[tiles - 1]]
    assert [tuple(pair) for pair in found.tolist()] == expected
    assert least_area(found, 40) == min(tiles * time for tiles, time in expected) // 40


@pytest.mark.parametrize("seed", range(40))
def test_the_oracle_three_ways(seed: int) -> None:
    """Lists, compiled lists and the checker's arithmetic give one time, and its tiles suffice for no shorter one."""
    random = Random(seed)
    total = random.choice((5, 17, 300))
    kernels = [
        (random.randint(1, 80), random.randint(1, 20), random.randint(1, 50)) for _ in range(random.randint(1, 5))
    ]
    listed = []
    for rows, columns, cycles in kernels:
        pairs = [(a * b, -(-rows // a) * -(-columns // b) * cycles) for a in range(1, 81) for b in range(1, 21)]
        kept = sorted({(n, min(t for m, t in pairs if m <= n)) for n, _ in pairs if n <= total})
        listed.append(np.array([p for i, p in enumerate(kept) if i == 0 or p[1] < kept[i - 1][1]]))
    best = sharing(listed, total)
    assert best is not None and sum(best.tiles) <= total
    assert best.ticks == least_cycles(kernels, total)
    arrays = compiled.tiles([(one,) for one in listed], total, 8)
    columns_of = np.arange(len(listed))
    low = random.randint(0, 2 * best.ticks)
    assert compiled.least_time(arrays, columns_of, 0, 2**62) == best.ticks
    assert compiled.least_time(arrays, columns_of, low, 2**62) == max(low, best.ticks)
    assert compiled.least_time(arrays, columns_of, 0, best.ticks) == best.ticks
    assert not compiled.fits(arrays, columns_of, best.ticks - 1)
    short = thinned([[one] for one in listed], total, len(listed))
    assert sharing([one for (one,) in short], total) == best


def test_more_kernels_than_tiles() -> None:
    instance = on_tiles(made({"a": LIGHT, "b": LIGHT, "c": LIGHT}, "ab bc", degrees=RING), 2)
    assert least_cycles([(1, 1, 1)] * 3, 2) is None and sharing([np.array([[1, 1]])] * 3, 2) is None
    together = DataflowSolution(degrees=RING, schemes=("M",) * 3, partitions=(0, 0, 0))
    violation = check(instance, together).violations[0]
    assert (violation.label, violation.amount) == ("C7", 1.0)
    assert not check(instance, together.replace(partitions=(0, 0, 1))).violations
    assert solve(instance, None, SolveOptions.make(warm_start="none", threads=1)).status == "optimal"


@pytest.mark.parametrize("block", range(of_all(3, few=1)))
def test_program_is_brute_force(block: int) -> None:
    tried = {"optimal": 0, "infeasible": 0}
    for seed in range(13 * block, 13 * block + 13):
        instance = random_tiles(seed)
        if count(instance) > 500:
            continue
        best, _ = brute_force(instance, check)
        result = solve(instance, None, SolveOptions.make(warm_start="none", threads=1))
        assert (result.status, result.objective) == ("infeasible" if best is None else "optimal", best), seed
        assert best is None or result.claimed_objective == best
        tried[result.status] += 1
    assert tried["optimal"] >= 4 and tried["infeasible"] >= 1


@pytest.mark.parametrize("tiles", [False, True])
def test_a_limit_just_above_the_optimum_loses_nothing(tiles: bool) -> None:
    """Compute that follows may hide behind the memory of a partition under way: it is no reason to leave that."""
    found = 0
    for seed in range(60):
        instance = random_tiles(seed) if tiles else tiny_instance(Random(seed))
        if not instance.task.fused or instance.task.across_layers:
            continue
        program = Program(dataflow_problem(instance, allowed_degrees(instance)[0]))
        best = program.best(None)
        if best is None:
            continue
        again = program.best(None, below=best.ticks + 1)
        assert again is not None and again.ticks == best.ticks == sum(again.costs), seed
        assert program.best(None, below=best.ticks) is None
        found += 1
    assert found >= 20


@pytest.mark.parametrize("seed", range(14))
@pytest.mark.parametrize("mode", ["dfmodel", "physical"])
def test_models_find_the_programs_optimum(seed: int, mode: str) -> None:
    random = Random(seed)
    instance = on_tiles(random_instance(seed, mode), random.choice((3, 7, 40)))
    assert dataflow_problem(instance, instance.task.degrees).shares  # type: ignore[arg-type]
    best = by_program(instance)
    assert optimum(instance, mip.build(instance)) == best
    assert optimum(instance, cpsat.build(instance)) == best


@pytest.mark.parametrize("formulation", [mip, cpsat], ids=["mip", "cpsat"])
def test_a_mapping_goes_in_and_out(formulation: Any) -> None:
    instance = on_tiles(made({"a": LIGHT, "b": LIGHT, "c": LIGHT}, "ab bc", degrees=RING), 7)
    model = formulation.build(instance)
    for solution in list(candidates(instance))[:20]:
        pairs = model.encode(solution)
        assert pairs is not None
        values = {str(variable): value for variable, value in pairs}
        again = model.decode(lambda variable, known=values: known[str(variable)])
        assert check(instance, again).objective == check(instance, solution).objective
        assert sum(value for name, value in values.items() if "share" in name) == 3
    few = formulation.build(on_tiles(instance, 2))
    assert few.encode(DataflowSolution(degrees=RING, schemes=("M",) * 3, partitions=(0, 0, 0))) is None


@pytest.mark.parametrize("method", [by_mip, by_cpsat], ids=["mip", "cpsat"])
def test_table_6_on_tiles(method: Any) -> None:
    """One token at a time fills a sixth of each tile; the models prove what the program finds."""
    instance = table6(utilisation=None, tile_tokens=1)
    found = Run(instance, SolveOptions(time_limit=60.0, threads=1), check)
    assert auto(instance, found).reason == "optimal"
    run = Run(instance, SolveOptions(time_limit=60.0, threads=1), check)
    assert method(instance, run).reason == "optimal" and run.upper == found.upper
    assert found.best is not None
    figures = check(instance, cast(DataflowSolution, found.best.solution)).figures
    assert figures["compute_utilisation"] < 1 / 6


@pytest.mark.parametrize(
    ("name", "seconds", "share"),
    [("gpt3-175b-tiles-8x1", 857.1198, 0.9181), ("gpt3-1t-tiles-sn30-1024", 86.2305, 0.9095)],
)
def test_shipped(name: str, seconds: float, share: float) -> None:
    instance = read(f"dataflow/{name}")
    assert isinstance(instance, DataflowInstance)
    result = solve(instance, None, SolveOptions.make(warm_start="none", threads=1))
    assert result.status == "optimal" and result.objective is not None and result.certificate is not None
    assert result.objective / 1e12 == pytest.approx(seconds, rel=1e-5)
    assert result.certificate.figures["compute_utilisation"] == pytest.approx(share, rel=1e-3)
    rows = files(instance, DataflowSolution.make(**(result.solution or {})))["mapping.csv"].decode().splitlines()
    partition, tiles = rows[0].split(",").index("partition"), rows[0].split(",").index("tiles")
    used: dict[str, int] = {}
    for row in rows[1:]:
        used[row.split(",")[partition]] = used.get(row.split(",")[partition], 0) + int(row.split(",")[tiles])
    assert 0 < max(used.values()) <= instance.system.chip.tiles


def test_lists_that_are_too_long_are_refused() -> None:
    """An opaque kernel may have any number of tiles: too many on a wafer."""
    huge = {"flop": 10**15, "output_bytes": 1, "weight_bytes": 0, "schemes": ["M", "NONE"]}
    instance = made({"a": huge}, "", chip="wse-2", utilisation=None, degrees=RING)
    with pytest.raises(InputError, match="different numbers of tiles"):
        dataflow_problem(instance, RING)


def test_stated_flop_of_products_play_no_part_on_tiles() -> None:
    """Their shape counts (C7), for the bounds as well: one of all FLOP lay above the optimum."""
    plain: Any = read("dataflow/tiny-tiles")
    kernels = tuple(one if one.kind == "opaque" else one.replace(flop=10**12) for one in plain.workload.kernels)
    stated = plain.replace(workload=plain.workload.replace(kernels=kernels))
    ends = [solve(one, isolate=False) for one in (plain, stated)]
    assert [end.status for end in ends] == ["optimal", "optimal"]
    assert ends[0].objective == ends[1].objective
