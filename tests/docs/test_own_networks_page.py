"""The page on networks of one's own: its commands run, and print what the page shows.

``decoder.pt2`` is the archive that the page's program writes. ``write_program`` of ``benchmarks.zoo.exports`` kept only
the graph of it, so that PyTorch need not be there.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from chipmap.cli import main
from chipmap.networks.importers.reading import import_graph
from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs" / "own-networks.md"
FILE = ROOT / "examples" / "decoder.pt2"


def test_commands_print_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(FILE, tmp_path)
    monkeypatch.chdir(tmp_path)
    said, shown, codes = "", 0, []
    for language, text in re.findall(r"^```(sh|text|csv)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        if language == "sh":
            for line in text.splitlines():
                codes.append(main(shlex.split(line)[1:]))
            captured = capsys.readouterr()
            # with torch installed its own count of FLOP is told as well
            lines = (captured.out + captured.err).splitlines(True)
            said = "".join(line for line in lines if not line.startswith("PyTorch's counter"))
        elif language == "text":
            assert text.strip("\n") in said
            shown += 1
        else:
            rows = (tmp_path / "runs" / "decoder" / "mapping.csv").read_text().splitlines()
            assert set(text.splitlines()) <= set(rows)
            shown += 1
    assert (shown, codes) == (8, [0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0])


def test_the_file_is_what_the_page_exports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    (program,) = blocks(PAGE, "python")
    exec(compile(program.text, "own-networks.md", "exec"), {"__name__": "__main__"})
    assert import_graph("decoder.pt2").graph.operations == import_graph(str(FILE)).graph.operations
