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
    assert (len(h100.devices), h100.devices[0].memory_bytes) == (8, 81_559 * 2**20)
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


#: The shortest form of a box, as the page has it.
SHORT = """{"classes": [{"name": "t4", "flop_per_ns": "65TFLOP/s", "memory_bytes_per_ns": "320GB/s"}],
 "devices": [{"name": "big", "class": "h100-sxm"}, {"name": "old", "class": "a100-40gb"},
             {"name": "small", "class": "t4", "memory_bytes": "16GB"}, {"name": "host", "class": "cpu"}],
 "links": {"latency_ns": "10us", "bytes_per_ns": "25GB/s"}}"""


def test_a_box_names_shipped_machines(chipmap: Command, tmp_path: Path) -> None:
    """Peak and memory of the machines' own records; what the file says itself goes first. Then a plot."""
    path, net = tmp_path / "box.json", tmp_path / "net.json"
    path.write_text(SHORT)
    box = system(str(path))
    rates = {one.name: one.flop_per_ns for one in box.classes}
    assert rates == {
        "t4": 65_000,
        "h100-sxm": MACHINES["h100-sxm"].chip.flop_per_ns,
        "a100-40gb": MACHINES["a100-40gb"].chip.flop_per_ns,
        "cpu": 500,
    }
    assert [one.memory_bytes for one in box.devices] == [81_559 * 2**20, 40_960 * 2**20, 16 * 10**9, 256 * 2**30]
    table = tmp_path / "mine.csv"
    table.write_text("name,flop,bytes,inputs\na,2GFLOP,1MiB,\nb,1GFLOP,1MiB,a\nc,1GFLOP,1MiB,a\n")
    for line in (
        ("convert", table, "--family", "placement", "--system", path, "--out", net),
        ("info", net),
        ("solve", net, "--quiet", "--out", tmp_path / "run", "--method", "placement/starts"),
        ("plot", net, tmp_path / "run", "--out", tmp_path / "net.svg"),
    ):
        done = chipmap(*line)
        assert done.code == 0, done.err
    page = EXAMPLES.parent / "docs" / "families" / "placement-files.md"
    assert not page.is_file() or SHORT in page.read_text()


def test_a_class_that_is_nowhere_has_a_remedy_that_works(tmp_path: Path) -> None:
    path = tmp_path / "box.json"
    path.write_text('{"devices": [{"name": "a", "class": "t4"}], "links": {}}')
    with pytest.raises(InputError, match=r"devices\[0\]\.class: no class is called 't4'") as refused:
        system(str(path))
    written = refused.value.remedy.partition("`classes`: ")[2].removesuffix(".")
    path.write_text(f'{{"classes": [{written}], "devices": [{{"name": "a", "class": "t4"}}], "links": {{}}}}')
    assert system(str(path)).classes[0].flop_per_ns == 65_000


@pytest.mark.parametrize("text", ["65TFLOP/s", "65 TFLOPS", "65e12 FLOP/s", "0.065 PFLOP/s"])
def test_peaks_as_people_write_them(tmp_path: Path, text: str) -> None:
    path = tmp_path / "box.json"
    path.write_text(SHORT.replace("65TFLOP/s", text))
    assert system(str(path)).classes[0].flop_per_ns == pytest.approx(65_000)
    path.write_text(SHORT.replace("65TFLOP/s", "65GB/s"))
    with pytest.raises(InputError, match=r"'65GB/s' doesn't fit flop_per_ns\n.*Rates are written 25GB/s or 300TFLOP/s"):
        system(str(path))


def test_info_lists_the_machines(chipmap: Command) -> None:
    said = chipmap("info", "machines", "--format", "json").json
    assert {*MACHINES, *PRESETS} <= said.keys()
    assert said["h100-sxm"]["families"] == ["placement", "dataflow"]
    assert (
        said["h100-sxm"]["profiles"] == ["h100-sxm-typical", "h100-sxm-calibrated"] and not said["h800-sxm"]["profiles"]
    )
    assert "h100-sxm-typical, h100-sxm-calibrated" in chipmap("info", "machines").out


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


TREE = {"gpu0": (1000, 20), "gpu1": (2000, 10), "pcie": (500, 40), "nic": (3000, 5)}
SHAPE = "gpu0=pcie,gpu1=pcie,pcie=cpu,nic=cpu"
PATHS = {
    ("gpu0", "gpu1"): ("gpu0", "gpu1"),
    ("gpu0", "cpu"): ("gpu0", "pcie"),
    ("gpu1", "cpu"): ("gpu1", "pcie"),
    ("nic", "cpu"): ("nic",),
    ("gpu0", "nic"): ("gpu0", "pcie", "nic"),
}


def transfers(pairs: list[tuple[str, str]], error: float = 0.0) -> str:
    """Measured times of each pair over the tree, by turns longer and shorter by ``error`` of them."""
    lines = ["source,target,bytes,ns"]
    for k, pair in enumerate(pairs):
        for i, size in enumerate((100, 10**4, 10**6, 10**8)):
            time = sum(TREE[link][0] + size / TREE[link][1] for link in PATHS[pair])
            lines.append(f"{pair[0]},{pair[1]},{size},{time * (1 + error * (-1) ** (i + k))!r}")
    return "\n".join(lines) + "\n"


def test_calibrate_fits_a_tree(chipmap: Command, tmp_path: Path) -> None:
    """Links by hand come out of the pairs that share them, and so do unmeasured pairs, with shared channels."""
    csv = tmp_path / "pairs.csv"
    csv.write_text(transfers([("gpu0", "gpu1"), ("gpu0", "cpu"), ("gpu1", "cpu"), ("nic", "cpu")]))
    done = chipmap("calibrate", csv, "--tree", SHAPE)
    assert done.code == 0, done.err
    for link, (latency, rate) in TREE.items():
        assert f"{link} - " in done.err and f": latency {latency} ns, rate {rate} bytes/ns (GB/s)" in done.err
    assert "gpu0 -> gpu1: error 0%" in done.err
    assert "apart" not in done.err
    routes = {(one["source"], one["target"]): one for one in json.loads(done.out)}
    assert len(routes) == 4 * 3
    unmeasured = routes["gpu0", "nic"]
    assert unmeasured["latency_ns"] == pytest.approx(1000 + 500 + 3000)
    assert unmeasured["bytes_per_ns"] == pytest.approx(1 / (1 / 20 + 1 / 40 + 1 / 5), rel=1e-5)
    assert unmeasured["channels"] == ["gpu0 -> pcie", "pcie -> cpu", "cpu -> nic"]
    assert routes["gpu1", "cpu"]["channels"] == ["gpu1 -> pcie", "pcie -> cpu"]


def test_a_tree_fits_noisy_pairs_about_as_well_as_their_noise(chipmap: Command, tmp_path: Path) -> None:
    """Times 3% off: the error of the tree is no larger, and no number is below 0."""
    csv = tmp_path / "pairs.csv"
    csv.write_text(transfers(list(PATHS), error=0.03))
    done = chipmap("calibrate", csv, "--tree", SHAPE)
    assert done.code == 0, done.err
    (line,) = (one for one in done.err.splitlines() if one.startswith("error of all 20 transfers: "))
    assert float(line.split(": ")[1].split("%")[0]) <= 3.0
    routes = json.loads(done.out)
    assert all(one.get("latency_ns", 0) >= 0 and one["bytes_per_ns"] > 0 for one in routes)
    hop = next(one for one in routes if (one["source"], one["target"]) == ("nic", "cpu"))
    assert hop["bytes_per_ns"] == pytest.approx(5, rel=0.05)


def test_links_that_pairs_do_not_tell_apart_are_named(chipmap: Command, tmp_path: Path) -> None:
    csv = tmp_path / "pairs.csv"
    csv.write_text(transfers([("gpu0", "gpu1"), ("nic", "cpu")]))
    done = chipmap("calibrate", csv, "--tree", SHAPE)
    assert done.code == 0 and "these pairs don't tell gpu0, gpu1, pcie apart" in done.err
    routes = {(one["source"], one["target"]): one for one in json.loads(done.out)}
    assert routes["gpu0", "gpu1"]["bytes_per_ns"] == pytest.approx(1 / (1 / 20 + 1 / 10), rel=1e-5)


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ("gpu0-pcie", "'gpu0-pcie' is no link of a tree"),
        ("gpu0=pcie,gpu1=other", "has 2 roots: other, pcie"),
        ("gpu0=pcie,pcie=gpu0", "has no root: it is a circle"),
        ("gpu0=pcie,gpu0=cpu", "'gpu0' hangs on two: 'pcie' and 'cpu'"),
        ("gpu0=cpu,a=b,b=a", "'a' hangs on itself"),
        ("gpu0=cpu", "device 'gpu1' isn't in the tree"),
    ],
)
def test_what_is_no_tree_is_refused(chipmap: Command, tmp_path: Path, tree: str, said: str) -> None:
    csv = tmp_path / "pairs.csv"
    csv.write_text(transfers([("gpu0", "gpu1")]))
    done = chipmap("calibrate", csv, "--tree", tree)
    assert done.code == 1 and said in done.err
