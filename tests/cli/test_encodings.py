"""Names in any script, on a standard output and a file system that hold ASCII only."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chipmap.cli import main
from chipmap.cli.streams import Plain
from chipmap.inputs.reading import read
from chipmap.records import InputError, Record, written_out
from chipmap.result import Result

NAME = "Netz-ü→\U0001f600"


@pytest.fixture
def instance(tmp_path: Path) -> Path:
    """A tiny instance under another name."""
    plain = json.loads(read("ring/tiny-skip").to_json())
    plain["name"] = NAME
    path = tmp_path / "nö.json"
    path.write_text(json.dumps(plain), encoding="utf-8")
    return path


def ascii_output(monkeypatch: pytest.MonkeyPatch) -> tuple[io.BytesIO, io.BytesIO]:
    """Standard output and error that refuse what isn't ASCII."""
    raw = io.BytesIO(), io.BytesIO()
    for name, stream in zip(("stdout", "stderr"), raw, strict=True):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(stream, encoding="ascii", write_through=True))
    return raw


def test_every_command_writes_ascii(instance: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, page = tmp_path / "run-ü", tmp_path / "p-ü.html"
    out, errors = ascii_output(monkeypatch)
    one = str(instance)
    for arguments in (
        ["solve", one, "--out", str(run), "--method", "greedy"],
        ["check", one, str(run)],
        ["bound", one],
        ["info", one],
        ["explain", one, str(run)],
        ["report", str(tmp_path), "--html", str(page)],
        *(["report", str(tmp_path), "--format", form] for form in ("json", "csv", "markdown")),
        ["plot", one, str(run), "--out", str(tmp_path / "plot-ü.svg")],
        ["convert", one, "--out", str(tmp_path / "again-ü.json")],
    ):
        out.truncate(0)
        assert main(arguments) == 0, (arguments, errors.getvalue())
        told = b"Netz-\\xfc\\u2192\\U0001f600" if "json" not in arguments else rb"Netz-\u00fc\u2192\ud83d\ude00"
        assert arguments[0] in ("plot", "convert") or told in out.getvalue(), arguments
    out.truncate(0)
    assert main(["solve", str(tmp_path / "missing-ü.json")]) == 1 and b"missing-\\xfc.json" in errors.getvalue()
    assert main(["generate", "chain", "--set", f"name={NAME}"]) == 0 and NAME.encode() in out.getvalue()
    assert NAME in page.read_text(encoding="utf-8")
    kept = Result.read(run / "result.json")
    assert kept.instance == NAME and kept.objective is not None


def test_folders_have_names_that_the_file_system_takes(instance: Path, tmp_path: Path) -> None:
    """Two instances, each in a folder of its own, where paths are ASCII."""
    given = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    (tmp_path / os.fsdecode(b"odd\xff.json")).write_bytes(instance.read_bytes())
    command: list[str | bytes | Path] = [
        sys.executable,
        "-m",
        "chipmap",
        "solve",
        os.fsencode(instance),
        os.fsencode(tmp_path) + b"/odd\xff.json",
    ]
    command += ["--out", os.fsencode(tmp_path / "runs"), "--method", "greedy"]
    done = subprocess.run(command, env=given, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"Netz", "Netz-2"}


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_what_a_stream_lacks_is_written_out(errors: str) -> None:
    raw = io.BytesIO()
    stream = Plain(io.TextIOWrapper(raw, encoding="latin-1", errors=errors, write_through=True))
    assert stream.write("ü→\udcff\x1b") == 4
    assert raw.getvalue() == b"\xfc\\u2192\\udcff\\x1b"
    plain = Plain(io.StringIO())
    assert plain.write("→") == 1 and plain.raw.getvalue() == "→"


def test_half_characters() -> None:
    """Python hands over bytes of a path that aren't UTF-8 as halves of characters, which no file can hold."""
    assert written_out("a\udcffb") == "a\\udcffb"

    class Named(Record, frozen=True, kw_only=True):
        name: str

    with pytest.raises(InputError, match="isn't UTF-8") as error:
        Named.make(name="a\ud800")
    assert error.value.remedy
