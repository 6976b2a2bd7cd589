"""An own box of unequal devices, the shipped machines as systems, and amounts with units in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import chipmap
from chipmap.instances.dataflow.machines import MACHINES
from chipmap.instances.placement.presets import PRESETS, preset, system
from chipmap.records import InputError
from tests.cli.conftest import Command

EXAMPLES = Path(chipmap.__file__).parents[1] / "examples"


@pytest.mark.parametrize("name", MACHINES)
def test_every_machine_is_a_system(name: str) -> None:
    """Peaks, memory and links by the data sheets' own record; a number behind the name counts chips."""
    found, machine = system(f"{name}-3"), MACHINES[name]
    found.check()
    (kind,) = found.classes
    assert len(found.devices) == 3 and len(system(name).devices) == 2
    assert kind.flop_per_ns == machine.chip.flop_per_ns
    assert {one.memory_bytes for one in found.devices} == {machine.memory.capacity_bytes}
    assert found.links is not None and found.links.bytes_per_ns == machine.network[0].bytes_per_ns


def test_names_of_systems() -> None:
    assert [len(preset(name, 4).devices) for name in PRESETS] == [4] * len(PRESETS)
    h100 = system("h100-sxm-8")
    assert (len(h100.devices), h100.devices[0].memory_bytes) == (8, 80 * 10**9)
    with pytest.raises(InputError, match="no file and no system is called 'h100-smx'"):
        system("h100-smx")


def test_an_own_box_from_a_file_to_a_plot(chipmap: Command, tmp_path: Path) -> None:
    """Four commands, as the page has them: the box of the examples, with units in its JSON."""
    if not EXAMPLES.is_dir():
        pytest.skip("the examples aren't part of the wheel")
    box = system(str(EXAMPLES / "box.json"))
    assert [one.memory_bytes for one in box.devices] == [80 * 2**30, 40 * 2**30, 16 * 2**30, 256 * 2**30]
    assert box.links is not None and (box.links.latency_ns, box.links.bytes_per_ns) == (10_000, 25)
    assert [(one.latency_ns, one.bytes_per_ns) for one in box.routes] == [(2000, 200)] * 2
    net, run, picture = tmp_path / "net.json", tmp_path / "run", tmp_path / "net.svg"
    for line in (
        ("convert", EXAMPLES / "mine.csv", "--family", "placement", "--system", EXAMPLES / "box.json", "--out", net),
        ("info", net),
        ("solve", net, "--quiet", "--out", run, "--method", "placement/starts"),
        ("plot", net, run, "--out", picture),
    ):
        done = chipmap(*line)
        assert done.code == 0, done.err
    assert picture.stat().st_size > 1000


def test_amounts_with_units_in_any_file(tmp_path: Path) -> None:
    """Texts with a unit count in the field's own; those that are no amounts, or don't fit, are refused by place."""
    plain = json.loads(chipmap.read("ring/tiny-chain").to_json())
    plain["package"] |= {"sram_bytes": "32GiB", "hop_ns": "1us", "link_bytes_per_ns": "50GB/s"}
    path = tmp_path / "ring.json"
    path.write_text(json.dumps(plain))
    package = chipmap.read(path, family="ring").package
    assert (package.sram_bytes, package.hop_ns, package.link_bytes_per_ns) == (32 * 2**30, 1000, 50)
    for text, said in (
        ("1us", r"ring\.json: package\.sram_bytes: '1us' doesn't fit sram_bytes"),
        ("64Mb", "may be bits or bytes"),
        ("much", r"package\.sram_bytes: is text, not a whole number"),
        ("5", r"package\.sram_bytes: is text, not a whole number"),
    ):
        plain["package"]["sram_bytes"] = text
        path.write_text(json.dumps(plain))
        with pytest.raises(InputError, match=said):
            chipmap.read(path)


def test_info_lists_the_machines(chipmap: Command) -> None:
    said = chipmap("info", "machines", "--format", "json").json
    assert {*MACHINES, *PRESETS} <= said.keys()
    assert said["h100-sxm"]["families"] == ["placement", "dataflow"]
    assert "h100-sxm" in chipmap("info", "machines").out


def test_calibrate_fits_each_pair(chipmap: Command, tmp_path: Path) -> None:
    """With columns source and target every pair gets a route of its own; the other pairs keep the links."""
    csv, out = tmp_path / "pairs.csv", tmp_path / "system.json"
    truth = {("gpu0", "gpu1"): (2000, 100), ("gpu1", "gpu0"): (9000, 10)}
    lines = [
        f"{a},{b},{size},{latency + size / rate}" for (a, b), (latency, rate) in truth.items() for size in (1000, 10**8)
    ]
    csv.write_text("source,target,bytes,ns\n" + "\n".join(lines) + "\n")
    done = chipmap("calibrate", csv, "--system", "p100-pcie-3", "--out", out)
    assert done.code == 0 and "gpu1 -> gpu0: latency 9000 ns, rate 10 bytes/ns" in done.err
    found = system(str(out))
    assert {(one.source, one.target): (one.latency_ns, one.bytes_per_ns) for one in found.routes} == truth
    assert found.links == preset("p100-pcie", 3).links
    alone = chipmap("calibrate", csv)
    assert alone.code == 0 and [one["source"] for one in json.loads(alone.out)] == ["gpu0", "gpu1"]
    csv.write_text("source,target,bytes,ns\nx,gpu1,1,2\nx,gpu1,1000000,3000\n")
    bad = chipmap("calibrate", csv, "--system", "p100-pcie-3")
    assert bad.code == 1 and "no device is called 'x'" in bad.err
