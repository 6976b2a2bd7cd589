"""The commands on good input."""

from __future__ import annotations

import ast
import json
import os
import pydoc
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import chipmap as package
from chipmap.cli import COMMANDS
from chipmap.family import get_family
from chipmap.inputs.reading import shipped_names
from chipmap.instances.ring import RingInstance, RingSolution
from tests.cli.conftest import CHAIN, Command

Put = Callable[..., Path]
ROOT = Path(__file__).parents[2]
HEAVY = (
    "pyomo",
    "ortools",
    "highspy",
    "gurobipy",
    "cvxpy",
    "numba",
    "numpy",
    "torch",
    "matplotlib",
    "scipy",
    "networkx",
    "tqdm",
    "jinja2",
)


def test_help_and_info_import_nothing_heavy() -> None:
    """One process runs them all, and says after each what it has imported."""
    asked = [
        ["--help"],
        ["--version"],
        *([name, "--help"] for name in COMMANDS),
        ["info"],
        ["info", "--schema", "ring"],
    ]
    code = (
        "import sys\nfrom chipmap.cli import main\n"
        f"for asked in {asked!r}:\n"
        "    print('>>> asked', asked)\n"
        "    try: code = main(asked)\n    except SystemExit as end: code = end.code\n"
        f"    print(asked, code, [name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stderr.splitlines() == [f"{arguments} 0 []" for arguments in asked]
    said = [text.partition("\n")[2] for text in done.stdout.split(">>> asked ")[1:]]
    assert len(said) == len(asked) and all(said)


def test_python_m_chipmap() -> None:
    done = subprocess.run([sys.executable, "-m", "chipmap", "--version"], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.splitlines()[0] == f"chipmap {package.__version__}"
    assert any(line.startswith("highs (highspy) ") for line in done.stdout.splitlines())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == package.__version__
    assert project["scripts"]["chipmap"] == "chipmap.cli:main"


def test_public_names() -> None:
    """Each is exported by its name (for type checkers and `import *`), and nothing else is public but modules."""
    tree = ast.parse(Path(package.__file__).read_text())
    imported = [a for node in tree.body if isinstance(node, ast.ImportFrom) for a in node.names]
    assert all(alias.asname == alias.name for alias in imported)
    names = {alias.name for alias in imported}
    assert len(names) == len(imported) > 30
    public = {name for name, value in vars(package).items() if name[0] != "_" and not isinstance(value, ModuleType)}
    assert public == names - {"__version__"}
    assert callable(package.solve)
    assert callable(package.generate)


def test_help_fits_a_page() -> None:
    """`help(chipmap)`: the functions by name; those and the classes have a help of their own."""
    text = pydoc.render_doc(package, renderer=pydoc.plaintext)  # type: ignore[attr-defined] # in pydoc, not in its stubs
    assert len(text.splitlines()) <= 60
    for name in ("read", "solve", "bound", "check", "explain", "generate", "load", "Result", "InputError"):
        assert name in text
        assert getattr(package, name).__doc__


def test_solve_prints_what_scripts_rely_on(chipmap: Command, put: Put, tmp_path: Path) -> None:
    done = chipmap("solve", put(CHAIN), "--format", "json", "--out", tmp_path / "run", "--quiet")
    assert (done.code, done.err) == (0, "")
    row = done.json
    wanted = [
        "instance",
        "family",
        "method",
        "status",
        "objective",
        "unit",
        "bound",
        "gap",
        "seconds",
        "terms",
        "term_units",
        "feasible",
    ]
    assert [key for key in row if key in wanted] == wanted
    assert (row["instance"], row["family"], row["method"], row["status"]) == ("three", "ring", "ring/auto", "optimal")
    # two operations of 1 ns on the slower of two chips
    assert (row["objective"], row["bound"], row["gap"], row["unit"]) == (0.002, 0.002, 0.0, "us")
    assert row["terms"] == {"T1": 0.002, "T2": 0.0}
    assert row["feasible"] is True
    assert package.load(tmp_path / "run").result.status == "optimal"
    assert "op0" in (tmp_path / "run" / "mapping.csv").read_text()


def test_solve_formats(chipmap: Command, put: Put) -> None:
    path = put(CHAIN)
    table = chipmap("solve", path, "--quiet")
    assert table.out.splitlines()[0].split()[:3] == ["instance", "method", "status"]
    assert "optimal" in table.out
    csv = chipmap("solve", path, path, "--quiet", "--format", "csv")
    assert [line.split(",")[0] for line in csv.out.splitlines()] == ["instance", "three", "three"]
    lines = chipmap("solve", path, path, "--quiet", "--format", "json").out.splitlines()
    assert [json.loads(line)["objective"] for line in lines] == [0.002, 0.002]


def test_nothing_found_exits_with_3(chipmap: Command, put: Put) -> None:
    done = chipmap("solve", put(CHAIN), "--method", "bounds", "--warm-start", "none", "--format", "json", "--quiet")
    assert done.code == 3
    assert (done.json["status"], done.json["objective"], done.json["gap"]) == ("unknown", None, None)
    assert done.json["bound"] is not None


def test_an_unused_warm_start_is_reported(chipmap: Command, put: Put) -> None:
    wrong = put(RingSolution(chips=(1, 0, 0)).to_json(), "wrong.json")
    done = chipmap("solve", put(CHAIN), "--warm-start", wrong, "--quiet")
    assert done.code == 0
    assert "three: the warm start wrong.json is not used: C1" in done.err


def test_check(chipmap: Command, put: Put) -> None:
    path = put(CHAIN)
    good, bad = put(RingSolution(chips=(0, 0, 1)).to_json(), "good.json"), put({"chips": [1, 0, 0]}, "bad.json")
    done = chipmap("check", path, good)
    assert done.code == 0
    assert done.out.startswith("three: valid\n")
    done = chipmap("check", path, bad)
    assert done.code == 4
    assert "three: refused: " in done.out
    assert " C1 " in done.out
    done = chipmap("check", path, bad, "--format", "json")
    assert done.code == 4
    assert done.json["feasible"] is False
    assert done.json["violations"][0]["label"] == "C1"
    done = chipmap("check", path, good, "--format", "json", "--set", "package.flop_per_ns=400")
    assert done.json["objective"] == 0.02


def test_a_result_file_is_a_solution_too(chipmap: Command, put: Put) -> None:
    result = package.solve(RingInstance.make(**CHAIN))
    assert chipmap("check", put(CHAIN), put(result.to_json(), "result.json")).code == 0
    empty = result.replace(solution=None)
    done = chipmap("check", put(CHAIN), put(empty.to_json(), "result.json"))
    assert (done.code, "this result holds no solution" in done.err) == (1, True)


def test_an_archive_without_a_solution_says_so(chipmap: Command, put: Put, tmp_path: Path) -> None:
    path, runs = put(CHAIN), str(tmp_path / "runs")
    chipmap("solve", path, "--method", "bounds", "--warm-start", "none", "--out", runs, "--quiet")
    done = chipmap("check", path, runs)
    assert (done.code, "this result holds no solution" in done.err) == (1, True)


def test_bound(chipmap: Command, put: Put) -> None:
    done = chipmap("bound", put(CHAIN), "--format", "json")
    assert done.code == 0
    values = [bound["bound"] for bound in done.json["bounds"]]
    assert values == sorted(values, reverse=True)
    assert values[0] == done.json["bound"] <= 0.002
    assert len({bound["source"] for bound in done.json["bounds"]}) == len(values)
    text = chipmap("bound", put(CHAIN), "--method", "auto")
    assert "proved by" in text.out
    assert "best solution on the way: 0.002 us, gap 0%" in text.out
    assert chipmap("bound", put(CHAIN), "--method", "greedy").code == 0, "average and longest operation, at once"
    done = chipmap("bound", "wafer/tiny-skip", "--method", "greedy", "--time-limit", "1e-6")
    assert done.code == 0 and "kernels alone" in done.out, "at once, whatever the limit"


def test_generate_and_info(chipmap: Command, tmp_path: Path) -> None:
    out = tmp_path / "made.json"
    assert chipmap("generate", "chain", "--set", "name=mine", "--set", "chips=3", "--out", out).code == 0
    instance = RingInstance.read(out)
    assert (instance.name, instance.package.chips) == ("mine", 3)
    assert instance == package.generate("chain", name="mine", chips=3)
    figures = chipmap("info", out, "--format", "json").json
    assert (figures["instance"], figures["hash"]) == ("mine", instance.content_hash)
    assert "mine" in chipmap("info", out).out
    done = chipmap("generate", "ring/tiny-chain", "--set", "package.chips=3", "--out", "-")
    assert json.loads(done.out)["package"]["chips"] == 3


def test_info_lists_everything(chipmap: Command) -> None:
    family = get_family("ring")
    shown = chipmap("info", "--format", "json").json["ring"]
    assert list(shown["instances"]) == [name for name in shipped_names() if name.startswith("ring/")]
    assert "ring/bert-large-36" in shown["instances"]
    assert list(shown["methods"]) == [method.name for method in family.methods]
    assert list(shown["formulations"]) == [formulation.name for formulation in family.formulations]
    text = chipmap("info").out
    assert all(name in text for part in shown.values() if isinstance(part, dict) for name in part)


@pytest.mark.parametrize("name", ["ring", "ring/1", "ring-solution", "result"])
def test_schemas(chipmap: Command, name: str) -> None:
    schema = chipmap("info", "--schema", name).json
    wanted = {"ring": "package", "ring/1": "package", "ring-solution": "chips", "result": "certificate"}[name]
    definition = schema["$defs"][schema["$ref"].rpartition("/")[2]]
    assert wanted in definition["properties"]


def test_convert(chipmap: Command, put: Put, tmp_path: Path) -> None:
    graph: dict[str, Any] = {"name": "net", "outputs": [1], "edges": [[0, 1, 8]]}
    node = {"op": "matmul", "kind": "compute", "flops": 5, "out_bytes": 8, "weight_bytes": 4, "shape": []}
    graph["nodes"] = [{"id": v, "name": f"n{v}", **node} for v in range(2)]
    path, out = put(graph, "net.json"), tmp_path / "instance.json"
    assert chipmap("convert", path, "--family", "ring", "--set", "package.chips=5", "--out", out).code == 0
    instance = RingInstance.read(out)
    assert (instance.name, instance.package.chips, len(instance.graph.operations)) == ("net", 5, 2)
    direct = chipmap("solve", path, "--family", "ring", "--format", "json", "--quiet")
    assert direct.json["status"] == "optimal"
    assert "is no instance" in chipmap("solve", path).err


FORK: dict[str, Any] = {
    "schema": "ring/1",
    "name": "fork",
    "graph": {
        "name": "fork",
        "operations": [
            {"name": "mask", "kind": "mask", "flop": 400, "weight_bytes": 3},
            *({"name": f"layer:{v}", "kind": "matmul", "flop": 4000} for v in range(3)),
        ],
        "tensors": [
            {"producer": 0, "readers": [1, 2, 3], "bytes": 8},
            *({"producer": v, "readers": [v + 1], "bytes": 8} for v in (1, 2)),
        ],
    },
    "package": {"chips": 3, "flop_per_ns": 4000.0},
}


def test_convert_clones_and_relays(chipmap: Command, put: Put, tmp_path: Path) -> None:
    path, out = put(FORK), tmp_path / "changed.json"
    done = chipmap("convert", path, "--clone", "mask", "--out", out)
    assert done.code == 0
    assert "clone mask: adds 2 operations, 2 copies, 800 flop of copies, 6 weight bytes of copies" in done.err
    instance = RingInstance.read(out)
    assert len(instance.graph.operations) == 6 and "cloned: mask" in instance.notes
    assert chipmap("solve", out, "--format", "json", "--quiet").json["status"] == "optimal"
    done = chipmap("convert", path, "--relay", "mask:2", "--clone", "layer:0", "--set", "package.chips=4", "--out", out)
    assert done.code == 0
    assert "relay mask:2: adds 2 operations, 2 identities" in done.err
    assert "clone layer:0: adds nothing" in done.err  # one reader only
    instance = RingInstance.read(out)
    assert instance.package.chips == 4
    assert [op.name for op in instance.graph.operations if op.kind == "identity"] == ["mask/relay1", "mask/relay2"]
    assert "relayed: mask" in instance.notes.split("; ")[0] and "cloned: layer:0" in instance.notes
    same = tmp_path / "same.json"
    assert chipmap("convert", path, "--out", same).code == 0
    assert RingInstance.read(same).content_hash == RingInstance.read(path).content_hash


def test_convert_splits_and_the_mapping_names_the_parts(chipmap: Command, put: Put, tmp_path: Path) -> None:
    """A name with a colon, a way, and two changes in the order given."""
    out, archive = tmp_path / "changed.json", tmp_path / "archive"
    done = chipmap("convert", put(FORK), "--split", "layer:0:2", "--split", "mask:2:columns", "--out", out)
    assert done.code == 0
    assert "split layer:0:2: adds 2 operations, 2 parts, 1 gathers, 8 bytes that these write" in done.err
    names = [operation.name for operation in RingInstance.read(out).graph.operations]
    assert {"layer:0/part1", "layer:0/part2", "layer:0/gather", "mask/part2", "mask/gather"} <= set(names)
    assert chipmap("solve", out, "--out", archive, "--quiet").code == 0
    table = (archive / "mapping.csv").read_text()
    assert all(f"{name}," in table for name in ("layer:0/part1", "layer:0/part2", "mask/part1"))


def test_one_operation_that_binds_is_named_with_its_split(chipmap: Command, put: Put) -> None:
    done = chipmap("solve", "ring/tiny-diamond")
    assert "b takes 5 us by itself" in done.err and "chipmap convert INSTANCE --split b:2." in done.err
    assert "by itself" not in chipmap("solve", "ring/tiny-chain").err
    pinned = chipmap("solve", "ring/tiny-diamond", "--set", 'pins=[{"operation":"b","chip":0}]')
    assert "--split" not in pinned.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--clone", "musk"], "--clone: no operation is called 'musk'\n  Did you mean mask?"),
        (["--relay", "nobody:2"], "--relay: no operation is called 'nobody'"),
        (["--relay", "mask:0"], "--relay: is 0"),
        (["--split", "musk:2"], "--split: no operation is called 'musk'\n  Did you mean mask?"),
        (["--split", "mask"], "--split mask: says no number of parts\n  Give it after a colon: --split mask:2."),
        (["--split", "layer:0"], "--split: no operation is called 'layer'"),
        (["--split", "mask:1"], "--split: is 1"),
        (["--split", "mask:9"], "--split: 'mask' makes 8 bytes at most, fewer than 9"),
        (["--split", "mask:2:depth"], "--split: no operation can be split by 'depth'\n  Choose from: rows"),
        (
            ["--set", 'together=[["mask","layer:0"]]', "--split", "mask:2"],
            "--split: 'mask' is in a keep-together group",
        ),
        (["--set", 'pins=[{"operation":"mask","chip":0}]', "--clone", "mask"], "--clone: 'mask' is pinned"),
    ],
)
def test_convert_refuses(chipmap: Command, put: Put, tmp_path: Path, arguments: list[str], message: str) -> None:
    out = tmp_path / "changed.json"
    done = chipmap("convert", put(FORK), *arguments, "--out", out)
    assert (done.code, out.exists()) == (1, False)
    assert message in done.err and "Traceback" not in done.err


@pytest.mark.parametrize(("formulation", "suffix"), [("mip", "lp"), ("ring/mip", "mps"), ("cpsat", "pb")])
def test_export(chipmap: Command, put: Put, tmp_path: Path, formulation: str, suffix: str) -> None:
    out = tmp_path / f"model.{suffix}"
    done = chipmap("export", put(CHAIN), "--formulation", formulation, "--to", out)
    assert (done.code, out.stat().st_size > 0) == (0, True), done.err
    wrong = chipmap("export", put(CHAIN), "--formulation", formulation, "--to", tmp_path / "model.txt")
    assert wrong.code == 1
    assert "can't be written as .txt" in wrong.err


def test_plot(chipmap: Command, put: Put, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "plot.svg"
    assert chipmap("solve", put(CHAIN), "--plot", out, "--quiet").code == 0
    assert out.read_text().lstrip().startswith("<?xml")


def test_a_picture_that_cannot_be_written_loses_no_result(chipmap: Command, put: Put, tmp_path: Path) -> None:
    """What can be known before the solve is refused before it; what fails after it leaves the row of the result."""
    pytest.importorskip("matplotlib")
    for path, said in ((tmp_path / "plot.xyz", "no such plot format"), (tmp_path / "no" / "a.png", "doesn't exist")):
        done = chipmap("solve", put(CHAIN), "--plot", path)
        assert done.code == 1 and said in done.err and "incumbent" not in done.err
    (folder := tmp_path / "folder.png").mkdir()
    done = chipmap("solve", put(CHAIN), "--plot", folder, "--quiet")
    assert done.code == 1 and "folder.png" in done.err and "optimal" in done.out


def test_output_to_a_closed_pipe(put: Put) -> None:
    """``chipmap info | head -1`` ends without a word."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "chipmap", "info"]
    done = subprocess.run(command, cwd=ROOT, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")
