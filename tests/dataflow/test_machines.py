"""Machines that users bring: each field by an example that the page has by hand, what is refused, the shipped ones."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks.dataflow_bandwidth import instance_of, step_of
from chipmap.certificate import Certificate
from chipmap.cli import main
from chipmap.inputs.reading import read
from chipmap.instances.dataflow import Chip, DataflowInstance, DataflowSolution, Degrees, Dimension, Memory, System
from chipmap.instances.dataflow.blocks import block_flop, product_sizes
from chipmap.instances.dataflow.equipping import named, on_system
from chipmap.instances.dataflow.generators import llama
from chipmap.instances.dataflow.machines import MACHINES, machine
from chipmap.instances.dataflow.parts import Parts
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.instances.dataflow.presets import preset
from chipmap.instances.dataflow.workload import Kernel
from chipmap.records import InputError
from chipmap.result import Result
from chipmap.run import SolveOptions
from chipmap.solve import solve
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow.checker import check
from tests.dataflow.random_instances import BACK, LIGHT, made

GEMM = {"kind": "gemm", "M": 512, "K": 256, "N": 64, "weights": True, "schemes": ["M"]}
ELEMENT = {"kind": "elementwise", "M": 512, "N": 64, "flop_per_element": 3, "schemes": ["M"]}
FLOP, WEIGHTS, OUTPUT = 2 * 512 * 256 * 64, 512 * 256 * 2, 512 * 64 * 2
ALONE = Degrees(data=1, dimensions=("data",))
TWO = Degrees(tensor=2, dimensions=("tensor",))


def pair(chips: int = 1, chip: dict[str, Any] | None = None, **fields: Any) -> DataflowInstance:
    """The page's product and element-wise kernel, one after the other on ``chips`` chips of 100 TFLOP/s."""
    memory, workload, network = (fields.pop(name, {}) for name in ("memory", "workload", "network"))
    task: dict[str, Any] = {"utilisation": 0.5, "batch": 1, "link_gbps": 100.0, **fields}
    instance = made({"a": GEMM, "b": ELEMENT}, "ab", sizes=[chips], fused=False, **task)
    system = instance.system
    own = Chip.make(**{"tflops": 100.0, "sram_bytes": 10**6, "fused": True, **(chip or {})})
    found = instance.replace(
        workload=instance.workload.replace(**workload),
        system=system.replace(
            chip=own, memory=system.memory.replace(**memory), network=[one.replace(**network) for one in system.network]
        ),
    )
    found.check()
    return found


def judged(instance: DataflowInstance, degrees: Degrees = ALONE, schemes: Any = ("M", "M")) -> Certificate:
    """The certificate of a kernel per partition; the optimum of the same mapping is the same."""
    partitions = tuple(range(len(instance.workload.kernels)))
    certificate = check(instance, DataflowSolution(degrees=degrees, schemes=schemes, partitions=partitions))
    assert certificate.feasible, certificate.violations
    pins = dict(zip((one.name for one in instance.workload.kernels), schemes, strict=True))
    pinned = instance.replace(task=instance.task.replace(degrees=degrees, schemes=pins, fused=False))
    for method in ("dataflow/auto", "dataflow/mip", "dataflow/cpsat"):
        assert solved(pinned, method).objective == certificate.objective, method
    return certificate


def solved(instance: DataflowInstance, method: str = "dataflow/auto") -> Result:
    return solve(instance, method, SolveOptions.make(warm_start="none", threads=1, time_limit=60.0))


def test_a_peak_in_tflops() -> None:
    """335.545 ns of the product and 1.966 of the other kernel at half of 100 TFLOP/s."""
    terms = judged(pair()).terms
    assert terms["T1"] == 335_545 + 1_967
    assert terms["T2"] == 2_621_440 + 2 * 655_360, "weights, and the tensor between them written and read"
    assert terms["T4"] == 2_621_440 + 2 * 655_360


def test_the_share_of_the_peak_follows_from_the_flop_on_a_chip() -> None:
    """On two chips each has too few FLOP for the better share, so that none is gained."""
    chip = {"efficiency": ((0.0, 0.25), (10**7, 0.5))}
    assert judged(pair(chip=chip)).terms["T1"] == 671_089 + 1_967
    assert judged(pair(2, chip=chip), TWO).terms["T1"] == 671_089 + 984
    assert judged(pair(chip={"efficiency": ((FLOP, 0.5),)})).terms["T1"] == 671_089 + 1_967
    assert judged(pair(chip={"efficiency": ((1.0, 0.25), (FLOP + 1.0, 0.5))})).terms["T1"] == 1_342_178 + 1_967


def test_products_are_computed_in_blocks() -> None:
    """The page's example; by sums 128 terms are left, and two samples fill the ten units no better than one."""
    chip = {"units": 10, "blocks": ((128, 32, 1.0),)}
    assert judged(pair(chip=chip)).terms["T1"] == 419_431 + 1_967
    both = {**chip, "blocks": ((64, 32, 0.8), (128, 32, 1.0))}
    assert judged(pair(chip=both)).terms["T1"] == 419_431 + 1_967
    assert judged(pair(chip={**chip, "blocks": ((64, 32, 0.8),)})).terms["T1"] == 524_288 + 1_967
    assert judged(pair(chip={**chip, "block_start": 64})).terms["T1"] == 524_288 + 1_967
    assert judged(pair(2, chip=chip), TWO).terms["T1"] == 419_431 + 984, "four blocks in a round of its own"
    assert judged(pair(chip={**chip, "units": 8})).terms["T1"] == 335_545 + 1_967, "no unit waits"


def test_more_samples_never_take_longer_in_blocks_than_one_by_one() -> None:
    """k times the samples take at most k times as long, with experts as well: so larger micro-batches are enough."""
    random, own = Random(45), Parts(*[Fraction(1)] * 4)
    for _ in range(500):
        sizes: dict[str, Any] = {name: random.choice((1, 2, 7, 33, 300)) for name in ("outer", "M", "K", "N")}
        experts = random.choice((0, 0, 2, 5)) if sizes["outer"] == 1 else 0
        kernel = Kernel(name="a", kind="gemm", weights=True, experts=experts, active=min(1, experts), **sizes)
        block = (random.choice((2, 8, 128)), random.choice((2, 8, 128)), 1.0)
        chip = Chip(tflops=1.0, sram_bytes=1, units=random.choice((1, 3, 108)), blocks=(block,), block_start=5)
        few, times = random.choice((1, 2, 3, 8)), random.choice((2, 3, 5))
        for update in (False, True):
            of = kernel.replace(update=update)
            once, more = (block_flop(chip, product_sizes(of, "NONE", own, s)) for s in (few, few * times))
            assert more <= times * once


def test_element_wise_kernels_have_vector_units_of_their_own() -> None:
    chip = {"vector_tflops": 10.0, "efficiency": ((0.0, 0.25),), "peaks": {"fp16": 200.0}}
    formats = {"activation_format": "fp16", "weight_format": "fp16"}
    assert judged(pair(chip=chip, workload=formats)).terms["T1"] == 671_089 + 19_661


def test_dram_reaches_a_share_of_its_rate() -> None:
    terms = judged(pair(memory={"efficiency": 0.5})).terms
    assert terms["T2"] == 5_242_880 + 2 * 1_310_720


def test_launches_are_per_partition_and_run() -> None:
    """Two launches of kernels by themselves, one of a fused pair; recomputed ones are launched again."""
    plain, slow = pair(), pair(chip={"launch_ns": 1000.0})
    assert judged(slow).terms["T4"] - judged(plain).terms["T4"] == 2_000_000
    assert judged(slow).terms["T1"] == judged(plain).terms["T1"]
    together = DataflowSolution(degrees=ALONE, schemes=("M", "M"), partitions=(0, 0))
    fused = slow.replace(task=slow.task.replace(fused=True))
    assert check(fused, together).terms["T4"] == 1_000_000 + 335_545 + 1_967, "weights stay in SRAM"
    assert solved(fused.replace(task=fused.task.replace(degrees=ALONE))).objective == 1_337_512
    both = made({"a": LIGHT, "x": BACK}, "ax", batch=1, sizes=[1], fused=False, recompute=True)
    runs = both.replace(system=both.system.replace(chip=both.system.chip.replace(launch_ns=7.0)))
    times = [judged(one, schemes=("NONE", "NONE")).terms["T4"] for one in (both, runs)]
    assert times[1] - times[0] == 3 * 7_000


@pytest.mark.parametrize(
    ("weights", "activations", "compute", "read"),
    [
        ("fp16", "fp16", 335_545, 2_621_440),
        ("fp8", "fp16", 335_545, 1_310_720),
        ("fp8", "fp8", 167_773, 1_310_720),
        ("fp4", "fp8", 167_773, 655_360),
        ("", "", 335_545, 2_621_440),
        ("fp4", "", 335_545, 655_360),
    ],
)
def test_formats_scale_bytes_and_the_widest_computes(weights: Any, activations: Any, compute: int, read: int) -> None:
    chip = {"peaks": {"fp16": 100.0, "fp8": 200.0}, "vector_tflops": 100.0}
    one = pair(chip=chip, workload={"weight_format": weights, "activation_format": activations})
    terms = judged(one).terms
    wide = 1 if activations == "fp8" else 2
    assert terms["T1"] == compute + 1_967
    assert terms["T2"] == read + 2 * OUTPUT * wide // 2 * 10


def test_formats_in_dram_and_sums() -> None:
    """Training: a parameter of one byte, its gradient of one, and 12 of Adam; the gradient that is summed is of one."""
    kernels = {"a": {**GEMM, "schemes": ["M"]}, "x": {**GEMM, "weights": False, "phase": "backward", "update": True}}
    plain = made(kernels, "ax", sizes=[2], batch=2, sram_bytes=10**6, dram_bytes=10**9, link_gbps=100.0)
    degrees = Degrees(data=2, dimensions=("data",))
    solution = DataflowSolution(degrees=degrees, schemes=("M", "M"), partitions=(0, 1))
    named = plain.replace(workload=plain.workload.replace(weight_format="fp8", activation_format="fp16"))
    assert check(named, solution).terms["T6"] == check(plain, solution).terms["T6"] // 2 == OUTPUT // 2 * 10
    rest = [check(one, solution).figures["dram_bytes"] for one in (plain, named)]
    words = WEIGHTS // 2
    assert rest[0] - rest[1] == words * (2 + 2) - words * (1 + 1)


def test_a_cache_has_its_own_format() -> None:
    """A decode step fetches a cache of 8-bit numbers at 16-bit peaks, and a table's rows in the weights' format."""
    cached = {**GEMM, "weights": False, "fetch_bytes": 10**6}
    table = {**LIGHT, "table_bytes": 10**6, "fetch_bytes": 10**5, "weight_bytes": 0, "schemes": ["NONE"]}
    one = made({"a": cached, "b": table}, "", sizes=[1], purpose="decode", fused=False, sram_bytes=10**7)
    fetched = {}
    for name in ("cache_format", "weight_format"):
        terms = judged(one.replace(workload=one.workload.replace(**{name: "fp8"})), schemes=("M", "NONE")).terms
        fetched[name] = judged(one, schemes=("M", "NONE")).terms["T2"] - terms["T2"]
    assert fetched == {"cache_format": 4 * 5 * 10**6 // 4, "weight_format": 5 * 10**5}


def test_a_switch_that_reduces() -> None:
    """1,000,000 bytes over four chips: 10,100 ns instead of 15,300."""
    big = {"kind": "gemm", "M": 500, "K": 256, "N": 1000, "weights": True, "schemes": ["K"]}
    one = made(
        {"a": big}, "", sizes=[4], topology="switch", link_gbps=100.0, latency_ns=50.0, sram_bytes=10**8, batch=4
    )
    degrees = Degrees(tensor=4, dimensions=("tensor",))
    assert judged(one, degrees, ("K",)).terms["T3"] == 15_300_000
    reducing = one.replace(system=one.system.replace(network=[one.system.network[0].replace(reduces=True)]))
    assert judged(reducing, degrees, ("K",)).terms["T3"] == 10_100_000


def test_weights_that_stream_take_no_sram_and_never_stay() -> None:
    small = {"sram_bytes": 10_000}
    with pytest.raises(AssertionError):
        judged(pair(chip=small))
    assert judged(pair(chip={**small, "streams": True})).feasible
    fused = pair(chip={"streams": True})
    fused = fused.replace(task=fused.task.replace(fused=True, degrees=ALONE))
    assert solved(fused).objective == 2_621_440, "weights are read by a single partition, too"


def test_five_dimensions_are_told_apart() -> None:
    one = made({"a": LIGHT, "b": LIGHT}, "ab", sizes=[2, 1, 2, 1, 2], layers=2, batch=8)
    assert {len(degrees.dimensions) for degrees in allowed_degrees(one)} == {5}
    assert solved(one).objective == brute_force(one, check)[0]
    with pytest.raises(InputError, match="has 6 dimensions"):
        made({"a": LIGHT}, "", sizes=[1] * 6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tflops": None}, "states no peak"),
        ({"tiles": 8}, "states its peak twice"),
        ({"tflops": 0.0}, "is 0.0"),
        ({"launch_ns": -1.0}, "is -1"),
        ({"vector_tflops": 1e13}, "Give 1e-9 to 1e12"),
        ({"efficiency": ((0.0, 1.5),)}, "is 1.5"),
        ({"efficiency": ((0.0, 0.9), (5.0, 0.5))}, "shares never fall"),
        ({"efficiency": ((5.0, 0.5), (5.0, 0.6))}, "amounts rise"),
        ({"blocks": ((64, 64, 1.0),)}, "Give blocks and units together"),
        ({"block_start": 3}, "Give blocks and units together"),
        ({"units": 4, "blocks": ((64, 1, 1.0),)}, "is 1"),
        ({"units": 4, "blocks": ((64, 8, 1.0),), "efficiency": ((0.0, 0.5),)}, "beside efficiency"),
        ({"peaks": {"fp8": 1.0}}, "has no fp16, in which kernel 'a' computes"),
    ],
)
def test_what_makes_no_chip_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        pair(chip=change, workload={"activation_format": "fp16"})
    assert message in str(error.value)


def test_what_knows_no_tiles_is_refused() -> None:
    chips: list[dict[str, Any]] = [{}, {"peaks": {"fp16": 1.0}}, {"vector_tflops": 1.0}]
    for chip in (*chips, {"efficiency": ((0.0, 0.5),)}, {"units": 2, "blocks": ((8, 8, 0.5),)}):
        whole = {"tiles": 4, "lanes": 4, "stages": 4, "ghz": 1.0, "tflops": None} if chip else {}
        with pytest.raises(InputError, match="share tiles by cycles"):
            pair(chip={**whole, **chip}, utilisation=None)
    with pytest.raises(InputError, match="Only a switch adds up"):
        pair(2, network={"reduces": True})
    with pytest.raises(InputError, match="in mode dfmodel"):
        pair(2, network={"reduces": True, "topology": "switch"}, mode="dfmodel")


@pytest.mark.parametrize("name", MACHINES)
def test_every_shipped_machine_decodes_llama(name: str) -> None:
    instance = preset("llama3-8b", machine=name, batch=64)
    assert instance.system.name.startswith(name) and MACHINES[name].source
    assert solved(instance).status == "optimal"


def test_machines_by_name_and_by_hand() -> None:
    rails = machine("h100-sxm", (8, 4))
    assert [one.bytes_per_ns for one in rails.network] == [450.0, 50.0] and rails.chips == 32
    assert llama(machine="tpu-v4", sizes=[4, 4]).system.chips == 16
    assert llama(machine="h200", dram_bytes=10).system.memory.capacity_bytes == 10
    with pytest.raises(InputError, match="no machine is called 'h1000'"):
        machine("h1000")
    with pytest.raises(InputError, match="names 4 dimensions, tpu-v4 has 3"):
        machine("tpu-v4", (2, 2, 2, 2))
    with pytest.raises(InputError, match="a machine has its own"):
        llama(machine="h200", link_gbps=7.0)
    mine = System(
        name="mine",
        chip=Chip(tflops=1.0, sram_bytes=10**9),
        memory=Memory(bytes_per_ns=1.0),
        network=(Dimension(size=2, bytes_per_ns=1.0),),
    )
    assert llama(machine=mine).system == mine
    with pytest.raises(InputError, match="the machine has its own"):
        llama(machine=mine, sizes=[2])


def test_files_keep_what_later_fields_say() -> None:
    one = pair(chip={"efficiency": ((0.0, 0.5),), "peaks": {"fp8": 3.0}}, workload={"weight_format": "fp8"})
    assert DataflowInstance.from_json(one.to_json()) == one
    shipped = read("dataflow/table6-free-8x1")
    assert isinstance(shipped, DataflowInstance) and shipped.system.chip.counts_cycles


@pytest.mark.parametrize("batch", [1, 16, 256])
def test_llama_never_decodes_faster_than_its_bytes_are_read(batch: int) -> None:
    """80 layers of 855,638,016 parameters and the head's 1,050,673,152, all of them of two bytes; 327,680 bytes of keys
    and values for each of 4,096 tokens of a sample: on eight H100 at 3,350 GB/s each."""
    read = 2 * (80 * 855_638_016 + 1_050_673_152) + batch * 4_096 * 327_680
    for assumed in (False, True):
        step = step_of(instance_of(batch, assumed=assumed))
        assert step.proved and step.bound_per_s == pytest.approx(batch * 8 * 3.35e12 / read, rel=1e-3)
        assert 0.4 * step.bound_per_s < step.tokens_per_s <= step.bound_per_s
        assert (step.tokens_per_s > 0.8 * step.bound_per_s) != assumed


def test_an_instance_gets_another_system_by_name_or_file(tmp_path: Path) -> None:
    """``convert --system``: a machine or chips with the sizes of their dimensions, or what a file has."""
    found = on_system(llama(), "h100-sxm-8x2")
    assert (found.system.name, found.system.chips) == ("h100-sxm-8x2", 16)
    assert found.system == machine("h100-sxm", (8, 2)) and found.notes == "on system h100-sxm-8x2"
    assert named("tpu-v5p") == machine("tpu-v5p") and named("sn10").chips == 8 and named("sn10-4x2").chips == 8
    assert on_system(llama()) == llama()
    own, whole = tmp_path / "own.json", tmp_path / "whole.json"
    own.write_bytes(found.system.to_json())
    whole.write_bytes(found.to_json())
    assert named(str(own)) == named(str(whole)) == found.system
    out = tmp_path / "out.json"
    arguments = [
        "convert",
        "examples/encoder.onnx",
        "--family",
        "dataflow",
        "--system",
        "h100-sxm-4",
        "--out",
        str(out),
    ]
    assert main([*arguments, "--out", str(out)]) == 0
    assert DataflowInstance.read(out).system == machine("h100-sxm", (4,))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("h100-smx-4", "no file and no system is called.*Did you mean h100-sxm"),
        ("wse-3-2x2x2", "names 3 dimensions|has 3 dimensions"),
        ("sn10-0", "is 0"),
        ("{}", "is no JSON|missing"),
        ("[1]", "is no JSON object"),
        ("{", "not valid JSON"),
    ],
)
def test_what_no_system_is(text: str, said: str, tmp_path: Path) -> None:
    """Names and files are refused in words."""
    where = text
    if text[0] in "{[":
        (tmp_path / "own.json").write_text(text, encoding="utf-8")
        where = str(tmp_path / "own.json")
    with pytest.raises(InputError) as caught:
        on_system(llama(), where).check()
    assert re.search(said, str(caught.value), re.DOTALL), str(caught.value)
