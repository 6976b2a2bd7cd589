"""The README's shell blocks run, in their order, in a fresh folder beside the files that the checkout ships."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from chipmap.cli import main
from tests.docs.pages import ROOT, blocks, command_lines

README = ROOT / "README.md"
#: Seconds of a solve, instead of those on the page.
SECONDS = "2"


def test_every_line_is_a_command_of_ours() -> None:
    text = "".join(block.text for block in blocks(README, "sh")).replace("\\\n", " ")
    assert {line.split()[0] for line in text.splitlines() if line.strip()} == {"chipmap", "make"}


def test_the_commands_run_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnx", reason="the README names the extra")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    lines = command_lines(README, "chipmap")
    assert len(lines) >= 30
    for line in lines:
        words = list(line)
        if "--time-limit" in words:
            words[words.index("--time-limit") + 1] = SECONDS
        assert main(words) == 0, (" ".join(words), capsys.readouterr().err[-2000:])
    written = {word for line in lines for word in line if word.startswith("runs/") or word.endswith((".png", ".html"))}
    assert written and not [name for name in written if not Path(name).exists()]
