"""The pages of the site, without building it: what links name exists, and what is generated is up to date."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from chipmap import cli
from chipmap.family import FAMILY_NAMES, get_family, resolve
from docs.site.names import definitions
from docs.site.navigation import contents, parents
from tests.docs import commands, formats
from tests.docs.pages import PAGES, ROOT, links, relative

_FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1", re.MULTILINE | re.DOTALL)


@cache
def names_in(path: Path) -> frozenset[str]:
    return frozenset(definitions(path.read_text(encoding="utf-8")))


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page's headings, as forges make them."""
    found: list[str] = []
    for heading in re.findall(r"^#{1,6} +(.+?) *$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        found.append(f"{slug}-{found.count(slug)}" if slug in found else slug)
    return frozenset(found)


def test_links_with_an_anchor_lead_there() -> None:
    """To a function, class or constant of a Python file, or to a heading of a page."""
    lost: list[str] = []
    for page in PAGES:
        for link in links(page):
            path, _, name = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if name and "://" not in link and target.suffix in (".py", ".md") and target.is_file():
                there = names_in(target) if target.suffix == ".py" else anchors(target)
                lost += [] if name in there else [f"{relative(page)}: {link}"]
    assert not lost


def test_names_of_a_module() -> None:
    """Functions, classes, constants, and what stands in classes; nothing inside functions."""
    source = "A = 1\nB: int = 2\ndef f():\n    c = 3\nclass D:\n    e = 4\n    @property\n    def g(self): pass\n"
    assert definitions(source) == {"A": 1, "B": 2, "f": 3, "D": 5, "D.e": 6, "D.g": 7, "e": 6, "g": 7}


def test_contents_of_the_site() -> None:
    """Headings are captions, pages stand there once, and below the page that their name goes on from."""
    index = "# x\n\n## One\n| [a](a.md) | [b](../B.md) |\n\n"
    index += "## Two\n| [c](f/a-c.md#d) | [a](a.md) | [e](f/a-c-e.md) |\n[f](f/a-c.md)\n"
    assert contents(index) == {"One": {"docs/a": "A", "B": "B"}, "Two": {"docs/f/a-c-e": "E", "docs/f/a-c": "F"}}
    assert parents(["f/a-c-e", "f/a-c", "f/b", "f/a-cd"]) == {"f/a-c-e": "f/a-c"}


def test_the_page_of_the_api_lists_all_that_is_exported() -> None:
    page = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    tree = ast.parse((ROOT / "chipmap" / "__init__.py").read_text(encoding="utf-8"))
    imported = [name for node in tree.body if isinstance(node, ast.ImportFrom) for name in node.names]
    exported = {name.asname for name in imported if name.asname == name.name} - {"__version__"}
    assert exported == set(re.findall(r"\[`(\w+)`\]\(", page))


def test_the_command_reference_is_up_to_date() -> None:
    """``python -m tests.docs.commands``; the exit codes are those that the command line's module names."""
    page = commands.PAGE.read_text(encoding="utf-8")
    assert page == commands.text(page) and "### chipmap solve\n" in page
    named = re.findall(r"(?:: |, )(\d+) ", (cli.__doc__ or "").partition("Exit codes")[2].replace("\n", " "))
    assert list(map(int, named)) == list(commands.EXIT_CODES)


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_the_pages_of_formats_are_up_to_date(family: str) -> None:
    """``python -m tests.docs.formats``"""
    assert formats.page(family).read_text(encoding="utf-8") == formats.text(get_family(family))


def test_no_field_is_described_that_is_not_there() -> None:
    """Each entry of fields.toml is a field of a record of its family, or of any."""
    fields: set[str] = set()
    for name in FAMILY_NAMES:
        family = get_family(name)
        for root in (family.instance, family.solution):
            for record, schema in formats.records(resolve(root)).items():
                found = schema["properties"]
                fields |= {f"{where}.{field}" for field in found for where in ("any", record, f"{name}.{record}")}
    described = {f"{record}.{field}" for record, entries in formats.meanings().items() for field in entries}
    assert described <= fields


def test_on_a_phone_the_meaning_of_a_field_is_on_the_screen() -> None:
    """Pages of formats begin with the words that the rule for narrow screens asks for, and their tables are the ones it
    is made for."""
    style = (ROOT / "docs/site/style.css").read_text(encoding="utf-8")
    narrow = style.partition('section[id^="files-of-family"]')[2]
    assert narrow and "thead { display: none; }" in narrow and "if it is left out: " in narrow
    for name in FAMILY_NAMES:
        page = (ROOT / f"docs/reference/format-{name}.md").read_text(encoding="utf-8")
        assert page.startswith(f"# Files of family {name}\n")
        heads = re.findall(r"^(\|.*)\n\|-", page, re.MULTILINE)
        assert set(heads) == {"| field | type | if it is left out | meaning |"}
