"""The page on `explain`: its commands run, and print what the page shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from chipmap.cli import main
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "tutorials" / "explain.md"


def test_commands_print_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    out, shown, codes = "", 0, []
    for language, text in re.findall(r"^```(sh|text)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        if language == "sh":
            for line in text.splitlines():
                codes.append(main(shlex.split(line)[1:]))
            out = capsys.readouterr().out
        else:
            assert text in out
            shown += 1
    assert (shown, codes) == (12, [0, 0, 0, 2, 0, 0, 0, 0])
