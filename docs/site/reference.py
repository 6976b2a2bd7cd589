"""The API reference: behind a comment ``<!-- api -->`` the site documents what the paragraph above links to.

With ``<!-- api: chipmap -->`` these are names of that module, else of the linked file.
"""

from __future__ import annotations

import re
from importlib import import_module

from sphinx.application import Sphinx
from sphinx.ext.autodoc import Options
from sphinx.ext.autodoc.mock import mock
from sphinx.pycode import ModuleAnalyzer

_LINKED = re.compile(r"\[`([\w.]+)`\]\([./]*/(chipmap/[\w/]+)\.py#(\w+)\)")
_PARAGRAPH = re.compile(r"(?P<links>(?:^(?!<!--).+\n)+)\n?<!-- api(?:: (?P<module>[\w.]+))? -->$", re.MULTILINE)


def documented(page: str) -> list[tuple[str, str]]:
    """Module and name of everything that a page's comments ask for, in their order."""
    found: list[tuple[str, str]] = []
    for paragraph in _PARAGRAPH.finditer(page):
        for _, path, name in _LINKED.findall(paragraph["links"]):
            module = path.replace("/", ".").removesuffix(".__init__")
            found.append((paragraph["module"] or module, name))
    return found


def _directives(match: re.Match[str]) -> str:
    parts = []
    for module, name in documented(match[0]):
        what = getattr(import_module(module), name)
        analyzer = ModuleAnalyzer.for_module(getattr(what, "__module__", module))
        analyzer.analyze()
        analyzer.overloads.clear()  # one signature is enough
        kind = "class" if isinstance(what, type) else "function" if callable(what) else "data"
        members = "   :members:\n   :undoc-members:\n   :exclude-members: LATER_FIELDS\n" if kind == "class" else ""
        parts.append(f".. py:currentmodule:: {module}\n\n.. auto{kind}:: {name}\n{members}")
    return match["links"] + "\n```{eval-rst}\n" + "\n".join(parts) + "```"


def _read(app: Sphinx, docname: str, source: list[str]) -> None:
    with mock(app.config.autodoc_mock_imports):
        source[0] = _PARAGRAPH.sub(_directives, source[0])


def _escape(app: Sphinx, what: str, name: str, obj: object, options: Options, lines: list[str]) -> None:
    """Docstrings are plain text with code in two backticks: no sign of reStructuredText means anything else in them."""
    if any(line.startswith("===") for line in lines):  # a table, whose columns must stay
        return
    for number, line in enumerate(lines):
        pieces = re.split(r"(``[^`]+``|:\w+:`[^`]+`)", line)
        pieces[::2] = [re.sub(r"([*|_`\\])", r"\\\1", piece) for piece in pieces[::2]]
        lines[number] = "".join(pieces)


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry."""
    app.connect("source-read", _read)
    app.connect("autodoc-process-docstring", _escape)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
