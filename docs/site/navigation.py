"""The site's table of contents, made from the list of pages in ``docs/index.md``.

Headings of that page become captions of the sidebar, and the links below them its entries, in their order. A page
``placement-models.md`` stands below ``placement.md`` if that is listed too.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # tests read this module without Sphinx
    from sphinx.application import Sphinx

INDEX = "docs/index"
#: Pages that stand in a listing of another page instead.
UNLISTED = ("benchmarks/results/*.md",)
#: In a page: here the site lists all pages that this pattern names.
LISTING = re.compile(r"^<!-- pages: (\S+) -->$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#]+)\.md\)")


def contents(index: str) -> dict[str, dict[str, str]]:
    """Pages by heading of the index, each once: path in the repository without ``.md`` -> text of its link."""
    found: dict[str, dict[str, str]] = {}
    seen: set[str] = set()
    for part in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        for label, target in _LINK.findall(body):
            page = posixpath.normpath(posixpath.join("docs", target))
            if page not in seen:
                seen.add(page)
                found.setdefault(heading.strip(), {})[page] = label[:1].upper() + label[1:]
    return found


def parents(pages: list[str]) -> dict[str, str]:
    """The page that each of ``pages`` stands below: the longest other name that its own goes on from with a hyphen."""
    found: dict[str, str] = {}
    for page in pages:
        above = [other for other in pages if page.startswith(f"{other}-")]
        if above:
            found[page] = max(above, key=len)
    return found


def _toctree(entries: list[str], caption: str = "", hidden: bool = True) -> str:
    """A toctree as MyST reads it."""
    head = [*([f":caption: {caption}"] if caption else []), *([":hidden:"] if hidden else [])]
    return "\n\n" + "\n".join(["```{toctree}", *head, *entries, "```"]) + "\n"


def add_contents(app: Sphinx, docname: str, source: list[str]) -> None:
    """Append to the index its toctrees, to every page one of the pages below it, and fill in listings."""
    by_heading = contents((Path(app.srcdir) / f"{INDEX}.md").read_text(encoding="utf-8"))
    below = parents([page for pages in by_heading.values() for page in pages])
    entries = {page: f"{label} </{page}>" for pages in by_heading.values() for page, label in pages.items()}
    if docname == INDEX:
        for heading, pages in by_heading.items():
            source[0] += _toctree([entries[page] for page in pages if page not in below], heading)
    children = [entries[page] for page, above in below.items() if above == docname]
    if children:
        source[0] += _toctree(children)

    def listing(found: re.Match[str]) -> str:
        """A list of links: a toctree would put all these pages into every sidebar."""
        pages = sorted(Path(app.srcdir).glob(found[1]))
        here = (Path(app.srcdir) / docname).parent
        return "\n".join(f"- [](<{Path(os.path.relpath(page, here)).as_posix()}>)" for page in pages)

    listed = any((Path(app.srcdir) / f"{docname}.md").match(pattern) for pattern in UNLISTED)
    source[0] = ("---\norphan: true\n---\n" if listed else "") + LISTING.sub(listing, source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry."""
    app.connect("source-read", add_contents)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
