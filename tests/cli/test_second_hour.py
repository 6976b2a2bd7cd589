"""What users meet in their second hour: units that suit an amount, remarks on this machine, short names, bits."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

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

    def named(**parameters: Any) -> str:
        made: Any = generate("bert-large", **parameters)
        return str(made.name)

    name, other = named(**given), named(**{**given, "hop_ns": 18})
    for one in (name, other):
        assert len(one) < LONGEST_NAME and one.startswith("bert-large-5-batch=2"), one
    assert name != other
    assert named(layers=3) == "bert-large-36-layers=3"


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


def test_a_foreign_archive_is_refused_in_the_first_line(chipmap: Command, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert chipmap("solve", "ring/tiny-chain", "--quiet", "--out", run).code == 0
    other = tmp_path / "other.json"
    assert chipmap("generate", "ring/tiny-chain", "--set", "package.hop_ns=7", "--out", other).code == 0
    assert chipmap("check", "ring/tiny-chain", run).out.startswith("ring/tiny-chain: valid")
    done = chipmap("check", other, run)
    first = done.out.splitlines()[0]
    assert done.code == 4 and "of another instance" in done.out
    assert ": refused: " in first and first.partition(": refused")[2].count("valid") == 1
    assert "of the result" in first and "the mapping alone is valid here" in first


def test_families_and_sweeps_that_are_none_are_told(chipmap: Command) -> None:
    done = chipmap("solve", "ring")
    assert done.code == 1 and "ring: is a family, not an instance" in done.err
    assert "`chipmap info ring` lists its instances" in done.err
    done = chipmap("bench", "nosweep")
    assert done.code == 1 and "no shipped sweep of that name" in done.err and "placement/scaling" in done.err
    done = chipmap("bench", "placement/scaling")
    assert (
        done.code == 1
        and done.err == "chipmap: --out: is missing\n  Name the folder of the matrix: --out runs/sweep.\n"
    )
