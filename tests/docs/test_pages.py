"""The pages hold: links lead somewhere, commands parse, names exist, Python blocks run, pins are the package's."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from chipmap import cli
from chipmap.family import FAMILY_NAMES, get_family
from chipmap.inputs.reading import generators, shipped_names
from tests.docs.pages import PAGES, ROOT, Block, blocks, command_lines, links, relative, said

COMMAND_LINES = [(page, line) for page in PAGES for line in command_lines(page, "chipmap")]
PYTHON_BLOCKS = [block for page in PAGES for block in blocks(page, "python")]


def test_there_is_something_to_test() -> None:
    assert {"README.md", "docs/index.md", "docs/dev/architecture.md"} <= {relative(page) for page in PAGES}
    assert len(COMMAND_LINES) >= 8 and PYTHON_BLOCKS


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_lead_to_files(page: Path) -> None:
    local = [link.partition("#")[0] for link in links(page) if "://" not in link and not link.startswith("#")]
    missing = [link for link in local if not (page.parent / link).exists()]
    assert not missing
    assert not [link for link in local if link.startswith("/")]


@pytest.mark.parametrize(("page", "line"), COMMAND_LINES, ids=[" ".join(line) for _, line in COMMAND_LINES])
def test_commands_parse(page: Path, line: list[str]) -> None:
    args = cli.parser().parse_args(line)
    assert callable(args.run)
    named = [getattr(args, "instance", None), *getattr(args, "instances", [])]
    shipped = [name for name in named if name and name.partition("/")[0] in FAMILY_NAMES]
    assert set(shipped) <= set(shipped_names())
    if line[0] == "generate":
        assert args.name in {*generators(), *shipped_names()}
    for family in map(get_family, FAMILY_NAMES):
        if (getattr(args, "method", None) or "").startswith(f"{family.name}/"):
            family.method(args.method)
        if (getattr(args, "formulation", None) or "").startswith(f"{family.name}/"):
            family.formulation(args.formulation)


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_make_targets_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    asked = {word for line in command_lines(page, "make") for word in line if "=" not in word}
    assert asked <= targets


@pytest.mark.parametrize("block", PYTHON_BLOCKS, ids=lambda block: f"{relative(block.page)}: {block.text[:40]!r}")
def test_python_blocks_run(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They print what the page says that they print."""
    for extra in ("torch", "pandas", "cvxpy", "gurobipy"):
        if f"import {extra}" in block.text:
            pytest.importorskip(extra, reason=f"{relative(block.page)} needs {extra}")
    monkeypatch.chdir(tmp_path)
    exec(compile(block.text, relative(block.page), "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in said(block) if line not in printed] == []


def test_pages_that_say_what_a_block_prints() -> None:
    """The compositions, at least, end with a printed result."""
    telling = {relative(block.page) for block in PYTHON_BLOCKS if said(block)}
    compositions = {relative(page) for page in PAGES if page.stem.startswith("compose-")}
    assert len(compositions) >= 5 and compositions <= telling


def test_the_page_of_commands_lists_all() -> None:
    page = ROOT / "docs" / "reference" / "commands.md"
    table = page.read_text(encoding="utf-8").partition("\n## ")[0]
    assert set(re.findall(r"^\| `([a-z]+)", table, re.MULTILINE)) == set(cli.COMMANDS)


def test_readme_lists_the_families() -> None:
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Families")[2].partition("\n## ")[0]
    here = {re.findall(r"\w+", line)[0] for line in table.splitlines() if line.endswith("| here |")}
    assert here == set(FAMILY_NAMES)


def test_index_lists_every_page() -> None:
    index = ROOT / "docs" / "index.md"
    listed = {(index.parent / link).resolve() for link in links(index)}
    assert {page for page in PAGES if page.is_relative_to(ROOT / "docs")} - {index} <= listed


def test_architecture_names_the_pins_of_the_package() -> None:
    page = (ROOT / "docs" / "dev" / "architecture.md").read_text(encoding="utf-8")
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    wanted = {*project["dependencies"]}
    pins = set(re.findall(r"`([a-z]+[=<>~][^`\s]*)`", page))
    assert len(pins) >= 2 and pins <= wanted


def test_the_page_on_installing_names_limits_and_extras() -> None:
    """Every extra stands there; each limit is one of pyproject.toml, and every cap has its reason."""
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    listed = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", page.partition("## ")[0], re.M)))
    assert sorted(listed) == sorted(optional)
    wanted = {*project["dependencies"], *(line for lines in optional.values() for line in lines)}
    limits = set(re.findall(r"^\| ((?:`[^`]+`(?:, )?)+) \|", page.partition("## Versions")[2], re.M))
    named = {limit for cell in limits for limit in re.findall(r"`([^`]+)`", cell)}
    assert named <= wanted
    assert {line for line in project["dependencies"] if "<" in line or "!=" in line} <= named
