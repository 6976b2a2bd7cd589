"""Bad costs, systems and instances of family multimodel: one clear message with place and remedy, never a traceback."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any

import pytest

from chipmap.instances.multimodel import Layer, Model, Module, Task
from tests.cli.conftest import Command
from tests.cli.test_bad_input import refused
from tests.multimodel.test_cost_files import HEADER, OWN, ZOO, put, small

WRONG: list[tuple[str, str | bytes, str, str]] = [
    ("empty", b"", "", "is empty"),
    ("blank", b" \r\n \n", "", "is empty"),
    ("only columns", OWN, "", "has no row below its columns"),
    (
        "another encoding",
        "model,layer,class,ns,pj\na,gr\xf6\xdfe,nvdla,1,1\n".encode("latin-1"),
        "",
        "is not UTF-8 text",
    ),
    ("UTF-16", (OWN + "a,one,nvdla,1,1\n").encode("utf-16"), "", "is text in UTF-16"),
    ("binary", Random(1).randbytes(300), "", "is not UTF-8 text"),
    ("other columns", "layer,ns\none,1\n", "", "has the columns layer, ns\n  A file of costs has the columns model,"),
    ("a short row", OWN + "a,one,nvdla,1\n", "", "line 2: has 4 cells of 5"),
    ("unknown model", OWN + "c,one,nvdla,1,1\n", "", "line 2: no model is called 'c'\n  There are: a, b."),
    ("unknown layer", OWN + "a,onne,nvdla,1,1\n", "", "no layer of 'a' is called 'onne'\n  Did you mean one?"),
    (
        "unknown class",
        OWN + "a,one,tpu,1,1\n",
        "",
        "no class of the module is called 'tpu'\n  There are: nvdla, shidiannao.",
    ),
    (
        "a layer twice",
        OWN + "a,one,nvdla,1,1\na,two,nvdla,1,1\na,one,nvdla,2,2\n",
        "",
        "line 4: layer 'one' of 'a' has a second",
    ),
    ("negative", OWN + "a,one,nvdla,-1,1\n", "", "line 2: ns is '-1'\n  Give whole ns and pJ from 0"),
    ("a fraction", OWN + "a,one,nvdla,1,1.5\n", "", "line 2: pj is '1.5'"),
    ("a word", OWN + "a,one,nvdla,1,many\n", "", "pj is 'many'"),
    ("too much", OWN + "a,one,nvdla,1,1" + "0" * 5000 + "\n", "", "pj is '1000"),
    ("options", OWN + "a,one,nvdla,1,1\n", ",class=nvdla", "names models and classes itself"),
    ("no class", HEADER + "a,one,64,1,1,1,1\n", "", "needs a class\n  Write --costs"),
    ("no clock", HEADER + "a,one,64,1,1,1,1\n", ",class=nvdla", "needs a clock\n  Write --costs"),
    ("no number", HEADER + "a,one,64,1,1,1,1\n", ",class=nvdla,mhz=fast", "mhz: is 'fast'"),
    ("no clock rate", HEADER + "a,one,64,1,1,1,1\n", ",class=nvdla,mhz=0", "mhz: is '0'"),
    ("another class", HEADER + "a,one,64,1,1,1,1\n", ",class=tpu,mhz=1", "no class of the module is called 'tpu'"),
    ("another model", HEADER + "a,one,64,1,1,1,1\n", ",class=nvdla,mhz=1,model=z", "no model is called 'z'"),
    (
        "another network",
        HEADER + "Net,one,64,1,1,1,1\n",
        ",class=nvdla,mhz=1",
        "is of network 'Net', and no model is called so",
    ),
    (
        "two networks",
        HEADER + "a,one,64,1,1,1,1\nb,x,1,1,1,1,1\n",
        ",class=nvdla,mhz=1,model=a",
        "holds networks a, b, but",
    ),
    ("three rows", HEADER + "a,x,64,1,1,1,1\n" * 3, ",class=nvdla,mhz=1", "has 3 rows for 'a', which has 2 layers"),
    ("cycles nan", HEADER + "a,one,64,nan,1,1,1\n", ",class=nvdla,mhz=1", "Runtime (Cycles) is 'nan'"),
    ("energy below 0", HEADER + "a,one,64,1,-1,1,1\n", ",class=nvdla,mhz=1", "Energy (nJ) is '-1'"),
    ("cycles too many", HEADER + "a,one,64,1e14,1,1,1\n", ",class=nvdla,mhz=1", "comes to 1.0e+17 ns or pJ"),
    ("unknown option", OWN, ",color=red", "has a part 'color' that says nothing"),
]


@pytest.mark.parametrize(("text", "options", "message"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_bad_files(chipmap: Command, tmp_path: Path, text: str | bytes, options: str, message: str) -> None:
    instance, path = put(tmp_path, small().to_json(), "small.json"), put(tmp_path, text)
    said = refused(chipmap, "convert", instance, "--costs", f"{path}{options}", "--out", tmp_path / "out.json")
    assert message in said, said
    assert not (tmp_path / "out.json").exists()


def test_what_names_no_file_and_no_system(chipmap: Command, tmp_path: Path) -> None:
    instance, out = put(tmp_path, small().to_json(), "small.json"), tmp_path / "out.json"
    command = ("convert", instance, "--out", out)
    assert "no file and no preset is called 'nvidia'" in refused(chipmap, *command, "--costs", "nvidia")
    assert "can't be read" in refused(chipmap, *command, "--costs", "missing.csv")
    said = refused(chipmap, *command, "--costs", "roofline")
    assert "preset 'roofline' needs graphs" in said and "Convert the graphs again" in said
    assert "names two presets" in refused(chipmap, *command, "--costs", "roofline", "--costs", "ideal")
    said = refused(chipmap, *command, "--system", "het-crss-6x6")
    assert "no file and no system is called 'het-crss-6x6'" in said and "het-sides-3x3" in said
    assert "no file and no system" in refused(chipmap, *command, "--system", "nvdla-0x3")
    said = refused(chipmap, "convert", "ring/tiny-chain", "--system", "nvdla-3x3", "--out", out)
    assert "family 'ring' has a package" in said and "--set" in said
    kernels = tmp_path / "kernels.kgraph"
    assert chipmap("convert", "wafer/tiny-chain", "--out", kernels).code == 0
    said = refused(chipmap, "convert", kernels, "--costs", "roofline", "--out", out)
    assert "no file is called 'roofline'" in said and "are for family 'multimodel' alone" in said


def module_text(**changes: Any) -> bytes:
    return small().module.replace(**changes).to_json()


SYSTEMS: list[tuple[str, bytes, str]] = [
    ("no JSON", b"{", "not valid JSON"),
    ("a list", b"[]", "is no JSON object"),
    ("no hops", module_text().replace(b'"hops":1,', b"", 1), "chiplets[0].hops: is missing"),
    (
        "a class without costs",
        module_text().replace(b"shidiannao", b"tpu"),
        "no cost on chiplets of class 'tpu'\n  Give",
    ),
    ("a link to nowhere", module_text().replace(b'"c1"]', b'"c9"]'), "links[0]: no chiplet is called 'c9'"),
    ("no chiplet", b'{"chiplets": []}', "chiplets: there is no chiplet"),
    ("no rates", module_text()[:-1] + b',"classes":{"nvdla":{}}}', "flop_per_ns: is missing"),
    (
        "a rate of 0",
        module_text()[:-1] + b',"classes":{"a":{"flop_per_ns":0,"bytes_per_ns":1,"pj_per_flop":1,"pj_per_byte":1}}}',
        "classes.a.flop_per_ns: is 0.0",
    ),
    ("classes a list", module_text()[:-1] + b',"classes":[]}', "`classes` is no JSON object"),
]


@pytest.mark.parametrize(("text", "message"), [row[1:] for row in SYSTEMS], ids=[row[0] for row in SYSTEMS])
def test_bad_systems(chipmap: Command, tmp_path: Path, text: bytes, message: str) -> None:
    instance, path = put(tmp_path, small().to_json(), "small.json"), put(tmp_path, text, "system.json")
    said = refused(chipmap, "convert", instance, "--system", path, "--out", tmp_path / "out.json")
    assert message in said, said


def test_instances_that_cant_be(chipmap: Command, tmp_path: Path) -> None:
    """A mini-batch that doesn't divide, costs below 0 or in fractions: each by its place."""
    path = put(tmp_path, small().to_json(), "small.json")
    for setting, message in (
        ("models.0.mini_batch=3", "models[0].mini_batch: 3 samples at a time of 2\n  Give a divisor of the batch."),
        ("models.0.layers.0.costs.nvdla=[-1,2]", "models[0].layers[0].costs.nvdla: is -1\n  Give 0 to"),
        ("models.0.layers.0.costs.nvdla=[1.5,2]", "'1.5' is not a whole number"),
        ("models.0.layers.1.costs:={}", "layer 'two' of 'a' has no cost on chiplets of class 'nvdla'"),
        ("models.1.name=a", "models[1].name: 'a' is named twice"),
    ):
        assert message in refused(chipmap, "check", path, path, "--set", setting)


def test_more_models_than_places_are_infeasible(chipmap: Command, tmp_path: Path) -> None:
    """Two models, one window of one chiplet: no bad input, but C2, by every method; with two windows they fit."""
    one = small(module=Module(chiplets=small().module.chiplets[:1]), task=Task(windows=1))
    path = put(tmp_path, one.to_json(), "one.json")
    for method in ("auto", "mip", "cpsat", "bounds"):
        done = chipmap("solve", path, "--method", f"multimodel/{method}", "--quiet")
        assert done.code == 2, done
        assert "infeasible (C2): 2 models need a segment each, 1 window has room for 1" in done.out + done.err
    assert chipmap("bound", path).code == 2
    assert chipmap("solve", path, "--set", "task.windows=2", "--quiet").code == 0


#: A layer's cost that changes nothing: the file must not be empty.
GIVEN = "mixtral-plain,linear,nvdla,1,1\n"


def test_a_closed_form_names_the_first_layer_without_a_shape(chipmap: Command, tmp_path: Path) -> None:
    """A mixture of experts multiplies by a matrix per group of columns; other costs for just that layer mend it."""
    command = ("convert", ZOO / "mixtral-plain.pt2", "--family", "multimodel", "--out", tmp_path / "out.json")
    rows, asked = "", 0
    while (
        done := chipmap(*command, "--costs", "scar-datacenter", "--costs", put(tmp_path, OWN + (rows or GIVEN)))
    ).code:
        found = re.search(r"mixtral-plain: transformers.grouped_mm_fallback '(.*)' has no shape", done.err)
        assert found and "Closed forms need" in done.err and "--costs FILE.csv" in done.err and asked < 20, done.err
        rows += f"mixtral-plain,{found[1]},nvdla,1,1\nmixtral-plain,{found[1]},shidiannao,1,1\n"
        asked += 1
    assert asked > 1
    system = put(tmp_path, module_text().replace(b"shidiannao", b"tpu"), "system.json")
    done = chipmap(*command, "--costs", "scar-arvr", "--system", system)
    assert done.code == 1 and "preset 'scar-arvr' has no costs for class 'tpu'" in done.err


def test_a_model_that_needs_a_link(chipmap: Command, tmp_path: Path) -> None:
    """Two layers of which one chiplet holds only one, two chiplets without a link, one window: proved at once."""
    layers = tuple(
        Layer(name=name, weight_bytes=60, costs={"nvdla": (1, 1), "shidiannao": (1, 1)}) for name in ("one", "two")
    )
    chiplets = [chiplet.replace(sram_bytes=100) for chiplet in small().module.chiplets]
    module = small().module.replace(chiplets=chiplets, links=[])
    instance = small(module=module, models=(Model(name="a", layers=layers),), task=Task(windows=1))
    done = chipmap("solve", put(tmp_path, instance.to_json(), "apart.json"), "--quiet")
    assert done.code == 2
    assert "'a' fits the SRAM in 2 segments at least, and links join at most 1 chiplet" in done.out + done.err
    assert "links to c0, c1, more windows" in done.out + done.err
    for mended in (
        instance.replace(task=Task(windows=2)),
        instance.replace(module=module.replace(links=[("c0", "c1")])),
    ):
        path = put(tmp_path, mended.to_json(), "mended.json")
        assert chipmap("solve", path, "--quiet", "--time-limit", "20").code == 0
