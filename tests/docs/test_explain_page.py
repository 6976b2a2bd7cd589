"""The pages on `explain`: their commands run, and print what the pages show."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from chipmap.cli import main
from tests.docs.pages import ROOT

#: Page of `docs`, how many outputs it shows, the exit codes of its commands.
PAGES = (
    ("tutorials/explain.md", 13, [0, 0, 0, 2, 0, 0, 0, 0, 0]),
    ("families/dataflow-explain.md", 3, [0, 0]),
)

#: The commands end by themselves, with a proof of each change. Their limits are for a reader's machine; here they get
#: so many times as long, since a busy machine that compiles meanwhile would leave changes out.
PATIENCE = 20


def patient(words: list[str]) -> list[str]:
    """The words of a command, with a longer limit."""
    if "--time-limit" in words:
        at = words.index("--time-limit") + 1
        words[at] = str(PATIENCE * int(words[at]))
    return words


@pytest.mark.parametrize(("page", "outputs", "ends"), PAGES)
def test_commands_print_what_the_page_shows(
    page: str,
    outputs: int,
    ends: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    out, shown, codes = "", 0, []
    for language, text in re.findall(
        r"^```(sh|text)\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.MULTILINE | re.DOTALL
    ):
        if language == "sh":
            for line in text.splitlines():
                codes.append(main(patient(shlex.split(line)[1:])))
            out = capsys.readouterr().out
        else:
            assert text in out
            shown += 1
    assert (shown, codes) == (outputs, ends)
