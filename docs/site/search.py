"""The site's search: an index of all sections, which a page reads as a script, so that it works from a folder.

Sphinx's own index names whole pages, and its excerpts need a server.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

#: Sections of pages below this folder come behind equally good ones of others.
RESULTS = "benchmarks/"
#: What isn't text of the section that it stands in.
_APART = (nodes.section, addnodes.desc, addnodes.desc_signature, addnodes.toctree, nodes.title, nodes.comment)
_PAGE = """<h1>Search</h1>
<p id="search-summary" role="status">Searching needs JavaScript.</p>
<ol id="search-found"></ol>
<script src="_static/sections.js"></script>
<script src="_static/search.js"></script>
"""


def sections(doctree: nodes.document) -> Iterator[tuple[str, str, str]]:
    """Title, anchor and text of every section, and of every documented function or class, without those inside it."""
    for node in doctree.findall(lambda each: isinstance(each, nodes.section | addnodes.desc)):
        if isinstance(node, nodes.section):
            title, anchor = node[0].astext(), node["ids"][0]
        else:
            signature = next(node.findall(addnodes.desc_signature))
            if not signature["ids"] or node["objtype"] in ("attribute", "property"):
                continue  # fields of records are many; the pages of formats have them
            title, anchor = str(signature.get("fullname") or signature["ids"][0]), signature["ids"][0]
        yield title, anchor, " ".join(" ".join(_text(node)).split())


def _text(node: nodes.Element) -> Iterator[str]:
    """The text below a section, up to the next one."""
    for child in node.children:
        if isinstance(child, _APART):
            continue
        if isinstance(child, nodes.TextElement) or not isinstance(child, nodes.Element):
            yield child.astext()
        else:
            yield from _text(child)


def _without_index(app: Sphinx) -> None:
    app.builder.search = False


def _pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The page that shows what is found; the index is written beside it."""
    found = []
    for docname in sorted(app.env.found_docs, key=lambda name: (name.startswith(RESULTS), name)):
        page = app.env.titles[docname].astext()
        for title, anchor, text in sections(app.env.get_doctree(docname)):
            found.append([page, title, f"{docname}.html#{anchor}", text])
    index = Path(app.outdir) / "_static" / "sections.js"
    index.parent.mkdir(parents=True, exist_ok=True)
    index.write_text(f"const SECTIONS = {json.dumps(found, ensure_ascii=False)};\n", encoding="utf-8")
    yield "search", {"title": "Search", "body": _PAGE, "parents": []}, "page.html"


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry."""
    app.connect("builder-inited", _without_index)
    app.connect("html-collect-pages", _pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
