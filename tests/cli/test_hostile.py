"""Odd seeds, numbers, names and streams: each is said in a line, and none of them gives a traceback."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.dom import minidom

import pytest

from chipmap.cli import main
from chipmap.cli.streams import visible
from chipmap.family import FAMILY_NAMES
from chipmap.inputs.plain import instance_of
from chipmap.inputs.reading import read
from chipmap.records import InputError, csv_text, shortened
from chipmap.report.tables import markdown
from chipmap.run import SolveOptions
from chipmap.solve import solve

COMMAND = [sys.executable, "-m", "chipmap"]


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """An instance with names that are commands for a terminal, a spreadsheet and a typesetter."""
    plain = json.loads(read("ring/tiny-skip").to_json())
    plain["name"] = plain["graph"]["name"] = r"$\foo$"
    for v, name in enumerate((r"$\bar{x", "\x1b[31mred\x07", "=cmd()", "a\rb")):
        plain["graph"]["operations"][v]["name"] = name
    path = tmp_path / "hostile.json"
    path.write_text(json.dumps(plain))
    return path


def one_line(error: str) -> bool:
    return "Traceback" not in error and "defect" not in error and 0 < len(error.splitlines()) <= 2


@pytest.mark.parametrize("seed", ["-1", "2147483648", "99999999999999999999"])
def test_seeds_that_no_generator_takes(capsys: pytest.CaptureFixture[str], seed: str) -> None:
    assert main(["solve", "ring/tiny-skip", "--seed", seed]) == 1
    error = capsys.readouterr().err
    assert one_line(error) and "from 0 to 2,147,483,647" in error


@pytest.mark.parametrize("threads", ["0", "-1", "4097", "99999999999"])
def test_threads_that_no_solver_takes(capsys: pytest.CaptureFixture[str], threads: str) -> None:
    assert main(["solve", "ring/tiny-skip", "--method", "ring/mip", "--threads", threads]) == 1
    error = capsys.readouterr().err
    assert one_line(error) and "--threads" in error and "from 1 to 4,096" in error


@pytest.mark.parametrize(
    ("instance", "setting"),
    [
        ("dataflow/tiny-chain", "system.chip.sram_bytes=9223372036854775808"),
        ("dataflow/tiny-chain", "system.memory.bytes_per_ns=1e-308"),
        ("dataflow/tiny-chain", "system.network.0.latency_ns=1e308"),
        ("dataflow/tiny-chain", "task.batch=9007199254740992"),
        ("dataflow/tiny-chain", "task.utilisation=1e-308"),
        ("multimodel/tiny-two", "module.chiplets.0.y=1e18"),
        ("multimodel/tiny-two", "module.chiplets.0.x=-1e18"),
        ("placement/tiny-pair", "system.classes.0.flop_per_ns=1e18"),
        ("wafer/tiny-chain", "weights.wire=1e18"),
        ("ring/tiny-skip", "package.sram_bytes=9223372036854775808"),
        ("ring/tiny-skip", "package.hop_ns=1e308"),
        ("ring/tiny-skip", "package.link_bytes_per_ns=1e-308"),
    ],
)
def test_numbers_without_sense_have_a_remedy(capsys: pytest.CaptureFixture[str], instance: str, setting: str) -> None:
    assert main(["solve", instance, "--set", setting]) == 1
    error = capsys.readouterr().err
    assert one_line(error) and "Give" in error and " to " in error


def test_names_give_a_terminal_no_commands(hostile: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    assert main(["solve", str(hostile), "--out", str(run), "--plot", str(tmp_path / "plot.svg")]) == 0
    assert main(["explain", str(hostile), str(run), "--time-limit", "60"]) == 0
    assert main(["plot", str(hostile), str(run), "--out", str(tmp_path / "plot.png")]) == 0
    shown = "".join(capfd.readouterr())
    assert r"$\foo$" in shown
    assert not set(shown) & {"\x1b", "\x07", "\r"}
    assert r"$\foo$" in (tmp_path / "plot.svg").read_text() or (tmp_path / "plot.svg").stat().st_size > 1000
    table = (run / "mapping.csv").read_text()
    assert "\n'=cmd()," in table and "\n=cmd()," not in table


#: Names that are commands for a terminal, a spreadsheet, a typesetter, a page or a table, or none at all.
NAMES = (
    r"$\bar{x",
    "\x1b[31mred\x07",
    "=cmd()",
    "@sum",
    "+1+1",
    "-x",
    "a\rb",
    "|p|",
    "\u202eevil\u009b2J",
    "<b>&\"'",
    "",
)


def renamed(family: str) -> dict[str, Any]:
    """A tiny instance of that family, everything in it under another name."""
    tiny = {"ring": "skip", "dataflow": "chain", "wafer": "adapters", "multimodel": "two", "placement": "pair"}
    plain = json.loads(read(f"{family}/tiny-{tiny[family]}").to_json())
    plain["name"], plain["notes"] = f"{NAMES[1]}{NAMES[0]}|", NAMES[1]
    lists = {
        "ring": [plain.get("graph", {}).get("operations", [])],
        "dataflow": [plain.get("workload", {}).get("kernels", [])],
        "wafer": [plain.get("kernels", [])],
        "multimodel": [plain.get("models", []), *(model["layers"] for model in plain.get("models", []))],
        "placement": [plain.get("graph", {}).get("operations", []), plain.get("system", {}).get("devices", [])],
    }
    edges = plain["workload"] if family == "dataflow" else plain
    for things in lists[family]:
        others = {thing["name"]: other for thing, other in zip(things, NAMES, strict=False)}
        for thing in things:
            thing["name"] = others[thing["name"]]
        if "edges" in edges:
            edges["edges"] = [[others[u], others[v]] for u, v in edges["edges"]]
    return dict(plain)


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_names_command_nothing_in_any_family(
    family: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    instance, run = tmp_path / "hostile.json", tmp_path / "run"
    instance.write_text(json.dumps(renamed(family)))
    result = solve(read(str(instance)), options=SolveOptions(time_limit=240.0, threads=1), isolate=False)
    assert result.status == "optimal"
    result.save(run)
    for suffix in ("svg", "png"):
        assert main(["plot", str(instance), str(run), "--out", str(tmp_path / f"plot.{suffix}")]) == 0
    minidom.parse(str(tmp_path / "plot.svg"))
    assert main(["info", str(instance)]) == main(["check", str(instance), str(run)]) == 0
    assert main(["report", str(tmp_path), "--html", str(tmp_path / "page.html")]) == 0
    commands = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")
    assert not commands.search("".join(capfd.readouterr())) and not recwarn.list
    page = (tmp_path / "page.html").read_text()
    assert not commands.search(page) and "<b>&" not in page
    for name in ("schedule.csv", "mapping.csv", "memory.csv", "trace.csv"):
        written = (run / name).read_bytes().decode() if (run / name).exists() else ""
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", written), name
    for table in run.glob("*.csv"):
        with table.open(newline="") as lines:
            cells = [cell for line in csv.reader(lines) for cell in line]
        formulas = [cell for cell in cells if cell.startswith(("=", "@", "+", "-", "\t", "\r"))]
        assert all(re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", cell) for cell in formulas), formulas


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_pictures_end_and_say_nothing_of_fonts(tmp_path: Path, suffix: str, recwarn: pytest.WarningsRecorder) -> None:
    """Names of endless length and of control characters, in titles, boxes and beside ticks."""
    plain = json.loads(read("multimodel/tiny-two").to_json())
    names = ["m" * 3000, "\x1b[31m\u202e\U0001f600"]
    plain["name"] = "n" * 5000
    for model, name in zip(plain["models"], names, strict=True):
        model["name"] = name
    instance = instance_of(plain)
    result = solve(instance, options=SolveOptions(time_limit=20.0, threads=1), isolate=False)
    path = tmp_path / f"plot{suffix}"
    result.plot(path)
    assert not [str(one.message) for one in recwarn if "Glyph" in str(one.message)]
    if suffix == ".png":
        width, height = struct.unpack(">II", path.read_bytes()[16:24])
        assert width < 8_000 and height < 8_000


def test_a_file_on_a_terminal_commands_nothing(tmp_path: Path) -> None:
    """JSON escapes no control characters above 0x7f; to a pipe they go as they are."""
    instance = tmp_path / "hostile.json"
    instance.write_text(json.dumps({**json.loads(read("ring/tiny-skip").to_json()), "notes": "a\u009b2Jb"}))
    command = [*COMMAND, "convert", str(instance)]
    assert (
        json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)["notes"] == "a\u009b2Jb"
    )
    ours, terminal = os.openpty()
    with subprocess.Popen(command, stdout=terminal, stderr=subprocess.DEVNULL) as process:
        os.close(terminal)
        shown = b""
        with suppress(OSError):  # how Linux tells that the other side is closed
            while data := os.read(ours, 4096):
                shown += data
    os.close(ours)
    assert process.returncode == 0 and b"a\\x9b2Jb" in shown and "\u009b".encode() not in shown


def test_visible_keeps_the_progress_line() -> None:
    assert visible("\r\x1b[Kx\x1b[2J\ty\u202e\n") == "\r\x1b[Kx\\x1b[2J\ty\\u202e\n"


def test_csv_cells_are_no_formulas_and_numbers_stay() -> None:
    rows: list[tuple[Any, ...]] = [("=1+1", "@a", "+b", "-c", "-1.5", -2, None)]
    assert csv_text("abcdefg", rows).splitlines()[1] == "'=1+1,'@a,'+b,'-c,-1.5,-2,"


def test_csv_cells_hold_no_control_characters() -> None:
    """An escape sequence commands the terminal that shows a table; a line end in a name ends a row for line tools."""
    written = csv_text(["a\x1bb", "c"], [("\x1b[31mred\x07", "a\rb"), ("x\ny", "\tz"), ("\x9b2J\u202e", 0.5)])
    assert written == "a\\x1bb,c\n\\x1b[31mred\\x07,a\\x0db\nx\\ny,'\\tz\n\\x9b2J\\u202e,0.5\n"


def test_markdown_cells_are_no_markup() -> None:
    """Names from files go into pages and issues as text."""
    row = {"method": "`m`*", "status": "optimal", "objective": None, "bound": None, "unit": "us", "gap": None,
           "seconds": 1.0, "feasible": True}  # fmt: skip
    names = ["<script>alert(1)</script>", "a|b", "&lt;", "![x](http://a)", "a\nb\x1b", "b\\|c", "[chips=3]"]
    lines = markdown([{**row, "instance": name} for name in names]).splitlines()
    assert len(lines) == 2 + len(names) and all(line.startswith("| ") for line in lines)
    table = "\n".join(lines[2:])
    assert "<" not in table and "\\`m\\`\\*" in table and "\x1b" not in table and "](" not in table
    assert "a\\|b" in table and "b\\\\\\|c" in table and "&amp;lt;" in table and "| [chips=3] |" in table
    assert all(len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 10 for line in lines)


def test_messages_end() -> None:
    error = InputError("is " + "9" * 10**6, "x" * 10**6, "Give " + "y" * 10**6)
    assert len(str(error)) < 4_000 and str(error).startswith("xxx")
    assert shortened("short") == "short"


@pytest.mark.parametrize(
    ("closing", "code"), [(">&-", 1), ("2>&-", 0), ("<&-", 0), (">/dev/full", 1), ("2>/dev/full", None)]
)
def test_closed_and_full_streams(closing: str, code: int | None) -> None:
    command = " ".join([*COMMAND, "solve", "ring/tiny-skip", "--method", "greedy", closing])
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr and "defect" not in done.stderr
    assert code is None or done.returncode == code
    if closing == ">&-":
        assert "standard output is closed" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["solve", "-", "<&-"], "standard input: is closed"),
        (["check", "ring/tiny-skip", "-", "<&-"], "standard input: is closed"),
        ([">/dev/full"], "standard output: No space left"),
        (["solve", "--help", ">/dev/full"], "standard output: No space left"),
        (["--version", ">/dev/full"], "standard output: No space left"),
        (["generate", "chain", ">/dev/full"], "standard output: No space left"),
        (["convert", "ring/tiny-skip", ">&-"], "standard output is closed"),
    ],
)
def test_other_commands_on_closed_and_full_streams(arguments: list[str], message: str) -> None:
    done = subprocess.run(["bash", "-c", " ".join([*COMMAND, *arguments])], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and message in done.stderr and one_line(done.stderr)


@pytest.mark.parametrize("ignored", [False, True])
def test_a_terminal_that_goes_leaves_the_result(tmp_path: Path, ignored: bool) -> None:
    def begin() -> None:
        """As from a terminal, or as under nohup, whatever these tests run under."""
        signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)

    command = [*COMMAND, "solve", "ring/bert-large-36", "--method", "random", "--time-limit", "4", "--out", "run"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}, text=True,
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=begin,
    )  # fmt: skip
    until = time.monotonic() + 60
    while not (tmp_path / "run.partial" / "solution.json").exists():
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.02)
    process.send_signal(signal.SIGHUP)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == (0 if ignored else 129)
    assert (tmp_path / "run" / "result.json").exists()
    assert "Traceback" not in errors
