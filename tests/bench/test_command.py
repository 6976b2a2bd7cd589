"""`chipmap bench` from the command line: table, pictures, exit codes, bad usage."""

from __future__ import annotations

import builtins
import csv
import json
from pathlib import Path
from typing import Any

import pytest

from chipmap.bench.dataflow.measures import measures
from chipmap.bench.matrix import Matrix, stored
from chipmap.bench.point import failed, solve_point
from chipmap.bench.sweep import points
from chipmap.cli import main
from chipmap.inputs.reading import read
from chipmap.records import InputError
from chipmap.report.sweeps.plots import plots
from chipmap.report.sweeps.tables import summary
from chipmap.solve import solve
from tests.bench.samples import PLAIN, tiny
from tests.dataflow.random_instances import variants


def sweep_file(folder: Path, **changes: Any) -> str:
    path = folder / "sweep.json"
    path.write_text(json.dumps(PLAIN | changes))
    return str(path)


def test_a_sweep_gives_table_and_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, table, folder = tmp_path / "out", tmp_path / "t.csv", tmp_path / "pictures"
    line = ["bench", sweep_file(tmp_path), "--out", str(out), "--workers", "1"]
    assert main(line) == 0
    said = capsys.readouterr()
    assert "6 points: 4 optimal, 2 infeasible" in said.out and "6/6" in said.err
    assert main([*line, "--csv", str(table), "--plots", str(folder)]) == 0
    assert "/6  " not in capsys.readouterr().err, "nothing is solved again"
    rows = list(csv.DictReader(table.open()))
    assert [row["sram"] for row in rows] == ["50000"] * 2 + ["150000"] * 2 + ["400000"] * 2
    assert rows[0]["objective"] == "" and float(rows[2]["objective"]) == float(rows[2]["bound"]) > 0
    assert sorted(path.name for path in folder.iterdir()) == ["curves.png", "heat.png", "latency.png", "roofline.png"]
    assert all(path.stat().st_size > 5000 for path in folder.iterdir())


def test_a_sweep_that_is_interrupted_writes_the_rows_that_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from chipmap.cli import bench

    def shown(row: Any, number: int, count: int) -> None:
        if number == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(bench, "_show", shown)
    out, table = tmp_path / "out", tmp_path / "t.csv"
    line = ["bench", sweep_file(tmp_path), "--out", str(out), "--workers", "1", "--csv", str(table)]
    assert main(line) == 130
    assert "3 of 6 rows are written" in capsys.readouterr().err
    assert len(list(csv.DictReader(table.open()))) == 3
    assert main([*line, "--quiet"]) == 0
    assert len(list(csv.DictReader(table.open()))) == 6


def test_exit_codes_and_bad_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    bad = [{"name": "a", "path": "task.batch", "values": [0]}]
    assert main(["bench", sweep_file(tmp_path, axes=bad), "--out", out, "--workers", "1", "--quiet"]) == 1
    assert "bad input: 0: " in capsys.readouterr().out
    assert main(["bench", "dataflow/dse-8", "--out", out]) == 1
    assert main(["bench", sweep_file(tmp_path), "--out", out, "--workers", "0"]) == 1
    assert main(["bench", sweep_file(tmp_path), "--out", out, "--set", "colour=1"]) == 1
    assert "no field 'colour'" in capsys.readouterr().err
    assert main(["bench", sweep_file(tmp_path), "--out", sweep_file(tmp_path), "--workers", "1"]) == 1


def test_an_absent_dask_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from chipmap.bench.cluster import ClusterPool

    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "distributed":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"chipmap\[cluster\]"):
        ClusterPool("local", 1)


def test_a_cluster_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Dask makes a client: one that fails half made waits, and prints a traceback, when it is collected."""
    distributed = pytest.importorskip("distributed", reason="Dask is an extra")
    from chipmap.bench.cluster import ClusterPool

    monkeypatch.setattr(distributed, "Client", lambda *_, **__: pytest.fail("a client was made"))
    with pytest.raises(InputError, match="--cluster nowhere: no Dask scheduler answers"):
        ClusterPool("nowhere", 1)


def test_rows_without_axes_are_told_plainly() -> None:
    point = points(tiny(instance="dataflow/none", axes=[]))[0]
    assert "\nbad input: dataflow/none: no such file" in summary([solve_point(point)])


def test_no_point_is_drawn_over_another(tmp_path: Path) -> None:
    """Several methods are an axis: with three others, each has its own pictures."""
    axes = [{"name": "tokens", "path": "task.tile_tokens", "values": [1, 2]}, *PLAIN["axes"]]
    sweep = tiny(axes=axes, methods=["dataflow/auto", "dataflow/mip"])
    row = solve_point(points(sweep)[-1])
    rows = [row.replace(labels=point.labels, method=point.method) for point in points(sweep)]
    made = {path.name for path in plots(sweep, rows, tmp_path)}
    assert {name for name in made if "heat" in name} == {"dataflow-auto-heat.png", "dataflow-mip-heat.png"}
    assert len(made) == 8


def test_nothing_to_draw(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no row has a value to draw"):
        plots(tiny(), [], tmp_path)


@pytest.mark.parametrize(
    "fields",
    [
        {"instance": "ring/tiny-chain", "axes": [{"name": "chips", "path": "package.chips", "values": [1, 2, 3]}]},
        {"instance": "wafer/tiny-chain", "axes": []},
    ],
    ids=["ring", "wafer"],
)
def test_every_family_is_drawn_and_a_bench_reported(
    tmp_path: Path, fields: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Objectives and bounds, where a family has no figures of its own; ``report`` prints the rows of the folder."""
    out, folder = tmp_path / "out", tmp_path / "pictures"
    line = ["bench", sweep_file(tmp_path, **fields), "--out", str(out), "--workers", "1", "--quiet"]
    assert main([*line, "--plots", str(folder)]) == 0
    assert [path.name for path in folder.iterdir()] == ["objectives.png"]
    assert (folder / "objectives.png").stat().st_size > 5000
    capsys.readouterr()
    assert main(["report", str(out)]) == 0
    told = capsys.readouterr()
    count = len(fields["axes"][0]["values"]) if fields["axes"] else 1
    assert told.out.count("optimal") == count and fields["instance"] in told.out and "not asked again" in told.err
    assert main(["report", str(out), "--format", "json"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == count
    assert main(["report", str(out), "--html", str(tmp_path / "x.html")]) == 0
    page = (tmp_path / "x.html").read_text()
    assert all(f"{name}={label}" in page for row in stored(out / "matrix.sqlite") for name, label in row.labels.items())


def test_figures_under_their_names_of_before_are_read(tmp_path: Path) -> None:
    """``dram_gbps`` held GB/s."""
    point = points(tiny())[0]
    row = failed(point, "lost", "").replace(figures={"dram_gbps": 100.0, "link_gbps": 25.0, "chips": 2.0})
    matrix = Matrix(tmp_path / "matrix.sqlite")
    matrix.put(row)
    found = matrix.rows([row.key])[row.key]
    matrix.close()
    assert found.figures == {"dram_gb_per_s": 100.0, "link_gb_per_s": 25.0, "chips": 2.0}
    assert [one.figures for one in stored(tmp_path / "matrix.sqlite")] == [found.figures]


def test_measures_by_hand() -> None:
    """Table VI's mapping kernel by kernel: 8 SN10, 4,909.148 s."""
    instance: Any = read("dataflow/table6-kbk-8x1")
    result = solve(instance)
    solution = read_solution_of(result.solution)
    figures = measures(instance, solution)
    assert figures["chips"] == 8 and figures["peak_pflops"] == pytest.approx(8 * 0.3072)
    layer = 2 * 12 * 12288**2 * 2048 + 2 * 2 * 12288 * 2048**2 + (12 * 12288 + 2 * 96 * 2048) * 2048
    assert figures["pflops"] == pytest.approx(layer * 96 * 2304 / 4909.148e15, rel=1e-5)
    assert figures["memory_s"] > 4000 > figures["compute_s"]
    bound = sum(figures[f"{part}_bound_s"] for part in ("compute", "memory", "network"))
    assert bound == pytest.approx(4909.148, rel=1e-6)
    # a chip never does more than its DRAM and its links let it
    rate = figures["pflops"] * 1e6 / 8
    assert rate <= figures["flop_per_dram_byte"] * 100 and rate <= figures["flop_per_link_byte"] * 50


@pytest.mark.parametrize(
    "name", ["recomputed", "no overlap", "stages of kernels that keep their weights", "two phases"]
)
def test_what_partitions_wait_for_is_all_of_the_batch(name: str) -> None:
    instance = variants()[name]
    result = solve(instance)
    figures = measures(instance, read_solution_of(result.solution))
    bound = sum(figures[f"{part}_bound_s"] for part in ("compute", "memory", "network"))
    assert result.objective is not None and bound == pytest.approx(result.objective * 1e-12, rel=1e-9)


def read_solution_of(plain: dict[str, Any] | None) -> Any:
    from chipmap.instances.dataflow import DataflowSolution

    return DataflowSolution.make(**(plain or {}))


def test_a_file_in_place_of_the_folder_is_told_before_anything_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In our words, and at once."""
    from chipmap.cli import progress

    monkeypatch.setattr(progress, "compile_first", lambda *families, quiet: pytest.fail("it compiles"))
    (file := tmp_path / "file").write_text("mine")
    for out in (file, file / "below"):
        assert main(["bench", sweep_file(tmp_path), "--out", str(out), "--workers", "1"]) == 1
        said = capsys.readouterr().err
        assert "its folder is a file, or below one" in said and "Errno" not in said
