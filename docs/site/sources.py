"""Files that pages link to: text opens as a highlighted page of the site, with an anchor per function.

A link such as ``../../chipmap/solve.py#with_changes`` is a link to that file on a forge. Here it leads to a page that
is made of the file, at the function.
"""

from __future__ import annotations

import html
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from markdown_it.tree import SyntaxTreeNode
from myst_parser.mdit_to_docutils.sphinx_ import SphinxRenderer
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

from docs.site.names import definitions

LOG = logging.getLogger(__name__)
#: Shown by browsers, or read by other programs.
AS_THEY_ARE = {".svg", ".png", ".onnx", ".pt2", ".gz"}
_render_link = SphinxRenderer.render_link_unknown


def _link(self: SphinxRenderer, token: SyntaxTreeNode) -> None:
    """A link to a file that is no page: to the page made of it."""
    path, _, fragment = self.md.normalizeLinkText(str(token.attrGet("href") or "")).partition("#")
    env = self.sphinx_env
    root = Path(env.srcdir).resolve()
    target = (root / env.docname).parent.joinpath(path).resolve()
    inside = target.is_relative_to(root) and target.exists() and path
    if not inside or env.path2doc(target) in env.found_docs:
        _render_link(self, token)
        return
    node = nodes.reference("", "", internal=True, refuri="#", classes=["source-link"])
    node["source_file"], node["source_name"] = target.relative_to(root).as_posix(), fragment
    wanted(env, env.docname, node["source_file"])
    self.add_line_and_source_path(node, token)
    with self.current_node_context(node, append=True):
        self.render_children(token)


def wanted(env: BuildEnvironment, docname: str, path: str) -> None:
    """Note that a page links to this file."""
    if not hasattr(env, "source_files"):
        env.source_files = {}  # type: ignore[attr-defined]
    env.source_files.setdefault(docname, set()).add(path)  # type: ignore[attr-defined]


def _purge(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    getattr(env, "source_files", {}).pop(docname, None)


def _merge(app: Sphinx, env: BuildEnvironment, docnames: set[str], other: BuildEnvironment) -> None:
    for docname, paths in getattr(other, "source_files", {}).items():
        for path in paths:
            wanted(env, docname, path)


def _resolve(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Where the page of each linked file is, as seen from this one."""
    for node in doctree.findall(nodes.reference):
        if "source_file" not in node:
            continue
        path, name = node["source_file"], node["source_name"]
        file = Path(app.srcdir) / path
        if name and (file.suffix != ".py" or name not in definitions(file.read_text(encoding="utf-8"))):
            LOG.warning("%s has no %s", path, name, location=node)
        base = app.builder.get_relative_uri(docname, path)
        if file.suffix in AS_THEY_ARE:
            base = base.removesuffix(".html")
        node["refuri"] = f"{base}#{name}" if name else base


def page_of(path: Path, name: str) -> str:
    """The file as HTML: highlighted, with numbered lines and the names of functions as anchors."""
    if path.is_dir():
        rows = [
            f"<li><code>{html.escape(each.name)}</code></li>" for each in sorted(path.iterdir()) if each.name[0] != "."
        ]
        return f"<h1><code>{html.escape(name)}/</code></h1>\n<ul>{''.join(rows)}</ul>"
    text = path.read_text(encoding="utf-8")
    try:
        lexer = get_lexer_for_filename(path.name)
    except ClassNotFound:
        lexer = TextLexer()
    names: dict[int, list[str]] = {}
    if path.suffix == ".py":
        for defined, line in definitions(text).items():
            names.setdefault(line, []).append(defined)
    rows = []
    for number, line in enumerate(highlight(text, lexer, HtmlFormatter(nowrap=True, stripnl=False)).splitlines(), 1):
        anchors = "".join(f'<span id="{html.escape(each)}"></span>' for each in names.get(number, []))
        rows.append(f'{anchors}<span class="source-line" id="L{number}">{line}\n</span>')
    body = "".join(rows)
    return f'<h1><code>{html.escape(name)}</code></h1>\n<div class="highlight source-page"><pre>{body}</pre></div>'


def _no_contents(**options: Any) -> str:
    """Pages of sources have no sidebar's list: making it takes longer than all else of them."""
    return ""


def _pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The pages of all linked files; what isn't text is copied."""
    paths = {path for found in getattr(app.env, "source_files", {}).values() for path in found}
    for path in sorted(paths):
        file, copy = Path(app.srcdir) / path, Path(app.outdir) / path
        if file.suffix in AS_THEY_ARE:
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
        else:
            page = {"title": path, "body": page_of(file, path), "parents": [], "toctree": _no_contents}
            yield path, page, "page.html"


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry."""
    SphinxRenderer.render_link_unknown = _link  # type: ignore[method-assign]
    for language in ("csv", "dot"):  # Pygments has no lexer for the one, and one that refuses 2e9 for the other
        app.add_lexer(language, TextLexer)
    app.connect("env-purge-doc", _purge)
    app.connect("env-merge-info", _merge)
    app.connect("doctree-resolved", _resolve)
    app.connect("html-collect-pages", _pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
