"""What users meet in their second hour: units that suit an amount, remarks on this machine, short names, bits."""

from __future__ import annotations

import os

import pytest

from chipmap.cli.common import beyond_the_machine
from chipmap.inputs.reading import generate
from chipmap.instances.generator import LONGEST_NAME
from chipmap.records import InputError, Unit, amounts
from chipmap.records.quantities import in_unit
from chipmap.report.rows import amount
from chipmap.run import SolveOptions
from tests.cli.conftest import Command


def test_small_amounts_are_told_in_smaller_units(chipmap: Command) -> None:
    for ticks, unit, said in (
        (15, Unit(name="ms", per_tick=1e-6), "15 ns"),
        (40, Unit(name="J·s", per_tick=1e-9), "40 nJ·s"),
        (2_000_000, Unit(name="ms", per_tick=1e-6), "2 ms"),
        (3, Unit(name="chips", per_tick=1e-6), "3e-06 chips"),
        (0, Unit(name="ms", per_tick=1e-6), "0 ms"),
    ):
        assert amount(ticks, unit) == in_unit(ticks, unit) == said
    done = chipmap("solve", "placement/tiny-pair", "--quiet")
    assert done.code == 0 and "12" in done.out.split() and "ns" in done.out.split() and "e-05" not in done.out
    assert chipmap("solve", "placement/tiny-pair", "--quiet", "--format", "json").json["unit"] == "ms"


def test_more_than_the_machine_has_is_remarked(chipmap: Command) -> None:
    assert beyond_the_machine(SolveOptions(threads=1, memory_limit=2**30)) == []
    done = chipmap("solve", "ring/tiny-chain", "--threads", "4000", "--memory-limit", "900TB", "--quiet")
    assert done.code == 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert f"--threads 4000: this process may use {cores} core" in done.err
    assert "--memory-limit: 818.5 TiB are more than the " in done.err


def test_names_of_generated_instances_are_short() -> None:
    given = {"layers": 3, "sequence": 64, "batch": 2, "chips": 5, "sram_mib": 12, "launch_ns": 19.5, "hop_ns": 17}
    made = generate("bert-large", **given)
    other = generate("bert-large", **{**given, "hop_ns": 18})
    for instance in (made, other):
        assert len(instance.name) < LONGEST_NAME and instance.name.startswith("bert-large-5-batch=2"), instance.name
    assert made.name != other.name
    assert generate("bert-large", layers=3).name == "bert-large-36-layers=3"


def test_bits_are_asked_back(chipmap: Command) -> None:
    done = chipmap("info", "ring/tiny-chain", "--set", "package.sram_bytes=64Mb")
    assert (
        done.code == 1 and "'64Mb' may be bits or bytes\n  Write 64MB for bytes, or 8MB for so many bits." in done.err
    )
    with pytest.raises(InputError, match="may be bits"):
        amounts.measured("2Gib", "bytes", "GiB", "here")
    with pytest.raises(InputError, match=r"Write 200GB/s for bytes, or 25GB/s for so many bits\."):
        amounts.in_field("200Gb/s", "link_bytes_per_ns", "here")
    assert amounts.in_field("64mb", "sram_bytes", "here") == amounts.in_field("64MB", "sram_bytes", "here") == 64e6
