"""The README's shell blocks run, in their order, in a fresh folder beside the files that the checkout ships.

Of the page with more examples run the commands that solve nothing; the others parse (:mod:`tests.docs.test_pages`).
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from chipmap.cli import main
from tests.docs.pages import ROOT, blocks, command_lines

README = ROOT / "README.md"
EXAMPLES = ROOT / "docs" / "howto" / "more-examples.md"
#: Seconds of a solve, instead of those on the page.
SECONDS = "1"
#: Commands that solve or draw.
LONG = {"solve", "plot", "bench", "bound", "check"}


def test_every_line_is_a_command_of_ours() -> None:
    text = "".join(block.text for page in (README, EXAMPLES) for block in blocks(page, "sh")).replace("\\\n", " ")
    assert {line.split()[0] for line in text.splitlines() if line.strip()} == {"chipmap", "make"}


def test_the_commands_run_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnx", reason="the README names the extra")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    lines = command_lines(README, "chipmap")
    assert len(lines) >= 14
    lines += [line for line in command_lines(EXAMPLES, "chipmap") if line[0] not in LONG and line not in lines]
    for line in lines:
        words = list(line)
        if "--time-limit" in words:
            words[words.index("--time-limit") + 1] = SECONDS
        assert main(words) == 0, (" ".join(words), capsys.readouterr().err[-2000:])
    named = [word for line in lines for word in line]
    written = {word for word in named if word.startswith("runs/") or word.endswith((".png", ".html", ".kgraph"))}
    assert written and not [name for name in written if not Path(name).exists()]


def test_the_lines_of_output_are_a_run_of_the_demo() -> None:
    """What the README shows was printed for the demo's instance, and ends with a proof."""
    (shown,) = blocks(README, "text")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "INSTANCE := ring/bert-large-36\n" in makefile
    assert len(shown.text.splitlines()) == 5 and "ring/bert-large-36  ring/auto  optimal  3,075.504" in shown.text
