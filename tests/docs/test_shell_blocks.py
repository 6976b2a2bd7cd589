"""Shell blocks run as pasted: a page's commands one after the other, with the files that the page says to save.

`make test` runs some pages, `make long` each. A block that no test runs stands in `NOT_RUN` with the reason.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from chipmap.cli import main
from tests.docs.pages import ROOT, Block, blocks, relative, shell_blocks
from tests.lanes import LONG

#: Page -> file that the page says to save -> language and number of the page's block that it holds, or a shipped file.
SAVED = {
    "docs/families/dataflow.md": {"pins.json": ("json", '{"pins": {"LN1"')},
    "docs/families/wafer.md": {"case.kgraph": ("text", "(*"), "pins.json": ("json", '{"pins": [{"kernel"')},
    "docs/howto/pins-and-starts.md": {"pins.csv": ("csv", "name,place")},
    "docs/own-networks.md": {"decoder.pt2": ("", "decoder.pt2")},
    "docs/tutorials/compare-packages.md": {"packages.json": ("json", "{")},
    "docs/tutorials/measured-cost.md": {"machine.py": ("py", "")},
    "docs/tutorials/torch-pipeline.md": {"decoder.pt2": ("", "decoder.pt2")},
    "docs/tutorials/your-own-graph.md": {"speech.csv": ("csv", "name,")},
}

#: Beginning of a line of a block -> why no test pastes its block.
NOT_RUN = {
    "make demo": "targets of the Makefile: `make test` runs this test, the pipeline the two others",
    "chipmap bench dataflow/serving-groups": "a sweep of many minutes: benchmarks/dataflow_serving.py reads its table",
    "chipmap bench multimodel/front-8-pipelined": "a sweep of many minutes: benchmarks/multimodel_front.py",
    "chipmap solve ring/resnet50-36 --warm-start learned": "needs the extra torch: tests/learned",
    "chipmap measure": "needs the extra torch: tests/measuring",
    "chipmap train": "hours, and the extra torch: tests/learned",
    "$ python -m benchmarks.zoo": "needs the extra torch and a network's package: `make judges`",
    "$ dask scheduler": "servers in two terminals: tests/docs/test_tutorials.py has a cluster in one process",
    "chipmap bench chips.json --cluster": "needs that cluster: tests/docs/test_tutorials.py",
    "chipmap report runs/chips": "needs that cluster: tests/docs/test_tutorials.py",
    "chipmap emit runs/decoder --as torch-pipeline": "needs the extra torch: `make judges`",
    "$ python pipeline/run.py": "needs the extra torch: `make judges`",
    "python runs/llama/jax/layer.py": "needs the extra jax: `make judges`",
    "$ python own.py": "a program between the commands: tests/docs/test_export_page.py",
    "$ torchrun": "needs the extra torch: `make judges`",
    "$ cd pipeline && torchrun": "needs the extra torch: `make judges`",
    "chipmap convert decoder.pt2 --family ring --set package.chips=2 --cut": "ends with `emit` as the block before",
}

#: Beginning of a command that ends with another exit code than 0 -> the code that its page tells of.
ENDS = {"chipmap explain ring/tiny-infeasible": 2, "chipmap solve decoder.json --set package.sram_bytes=4000000": 2}

#: Pages of `make test`: a family's page, plans, starts.
FEW = {"docs/explanation/gap.md", "docs/howto/export-a-model.md", "docs/howto/pins-and-starts.md", "docs/plans.md"}

WITH_COMMANDS = sorted(relative(page) for page, found in shell_blocks().items() if found)


def why_not(block: Block) -> str | None:
    """The reason why a block isn't run."""
    lines = block.text.splitlines()
    return next((why for start, why in NOT_RUN.items() if any(line.startswith(start) for line in lines)), None)


def commands(block: Block) -> list[list[str]]:
    """The words of each command of a block."""
    lines = block.text.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line.removeprefix("$ "), comments=True))]


def save(page: str, folder: Path) -> None:
    """What a reader has beside the page: the project's examples, and the files that the page says to save."""
    shutil.copytree(ROOT / "examples", folder / "examples")
    (folder / "docs/families/pictures").mkdir(parents=True)
    for name, (language, start) in SAVED.get(page, {}).items():
        if not language:
            shutil.copy(ROOT / "examples" / start, folder / name)
            continue
        text = next(block.text for block in blocks(ROOT / page, language) if block.text.startswith(start))
        (folder / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("page", [page for page in WITH_COMMANDS if LONG or page in FEW])
def test_blocks_run_as_pasted(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    ended = {}
    for block in shell_blocks()[ROOT / page]:
        if why_not(block):
            continue
        for words in commands(block):
            ended[" ".join(words)] = main(words[1:])
    told = {line: next((code for start, code in ENDS.items() if line.startswith(start)), 0) for line in ended}
    assert ended == told


def test_reasons_and_files_are_in_use() -> None:
    """No reason outlives its block, no file its page; each block is run or has a reason."""
    found = [block for listed in shell_blocks().values() for block in listed]
    lines = [line for block in found for line in block.text.splitlines()]
    for start in (*NOT_RUN, *ENDS):
        assert any(line.startswith(start) for line in lines), start
    assert set(SAVED) <= set(WITH_COMMANDS) >= FEW
    assert [line for block in found if not why_not(block) for line in commands(block) if line[0] != "chipmap"] == []
