"""The tutorial on one's own graph, and the README's table: their commands run, and print what the pages show."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

import chipmap
from chipmap.cli import main
from chipmap.networks.importers.reading import import_graph
from tests.docs.pages import ROOT, blocks, command_lines

PAGE = ROOT / "docs" / "tutorials" / "your-own-graph.md"


def test_commands_print_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table, mapping, _ = (block.text for block in blocks(PAGE, "csv"))
    result, slip = (block.text.strip("\n") for block in blocks(PAGE, "text"))
    Path("speech.csv").write_text(table)
    commands = [shlex.split(line)[1:] for block in blocks(PAGE, "sh") for line in block.text.splitlines()]
    assert [line[0] for line in commands[:3]] == ["convert", "solve", "plot"]
    assert [main(line) for line in commands] == [0] * 4
    assert result in capsys.readouterr().out
    assert set(mapping.splitlines()) <= set(Path("runs/speech/mapping.csv").read_text().splitlines())
    assert Path("speech.png").read_bytes().startswith(b"\x89PNG")
    Path("speech.csv").write_text(table.replace("decode;gate", "decode;gates"))
    assert main(commands[0]) == 1
    assert slip in capsys.readouterr().err


def test_json_and_dot_of_the_page_are_one_graph() -> None:
    (listed,), (dot,) = blocks(PAGE, "json"), blocks(PAGE, "dot")
    graphs = [import_graph("small", block.text.encode()).graph for block in (listed, dot)]
    assert (graphs[0].operations, graphs[0].tensors) == (graphs[1].operations, graphs[1].tensors)
    assert len(json.loads(listed.text)["nodes"]) == len(graphs[0].operations) == 2


def test_the_python_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("pandas")
    for block in blocks(PAGE, "python"):
        exec(compile(block.text, str(PAGE), "exec"), {"__name__": "__main__"})
    said = capsys.readouterr().out
    mapping = chipmap.load("runs/tiny").result.mapping
    assert f"\n{mapping['c']}\n" in said and "<Result ring/tiny-skip: optimal, 9 us, gap 0.00%, ring/auto, " in said
    assert "\nTrue 900000\n" in said
    assert Path("tiny.png").read_bytes().startswith(b"\x89PNG")
    assert " s: solution " in said


def test_the_table_of_the_readme_is_shipped() -> None:
    (table,) = blocks(ROOT / "README.md", "csv")
    assert (ROOT / "examples" / "mine.csv").read_text() == table.text


def test_thirty_nodes_by_the_commands_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a table of one's own to a plot: the README's three commands, with the name of the table changed."""
    monkeypatch.chdir(tmp_path)
    lines = ["name,flop,bytes,weights,inputs", "op0,1GFLOP,64KiB,1MiB,"]
    lines += [f"op{i},1GFLOP,64KiB,1MiB,op{i - 1}" + (f";op{i - 2}" if i % 5 == 0 else "") for i in range(1, 30)]
    Path("mine.csv").write_text("\n".join(lines) + "\n")
    readme = [line for line in command_lines(ROOT / "README.md", "chipmap") if "mine-net" in " ".join(line)]
    assert [line[0] for line in readme] == ["convert", "solve", "plot"]
    commands = [[word.replace("examples/", "").replace("60", "10") for word in line] for line in readme]
    assert [main(line) for line in commands] == [0, 0, 0]
    found = chipmap.read("mine-net.json")
    assert len(found.graph.operations) == 30 and Path("mine-net.png").exists()  # type: ignore[attr-defined]
