"""What the site brings with it, so that it works from a folder without network: MathJax, and a page at the top."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

from sphinx.application import Sphinx

#: The package that brings MathJax, and what of it a page with formulas loads.
PACKAGE = "sphinx-mathjax-offline"
PARTS = ("tex-chtml.js", "output/chtml/fonts/woff-v2")
_TOP = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>chipmap</title>
<meta http-equiv="refresh" content="0; url=docs/index.html"></head>
<body><a href="docs/index.html">chipmap</a></body></html>
"""


def _copy(app: Sphinx, problem: Exception | None) -> None:
    spec = find_spec(PACKAGE)
    if problem is not None or spec is None or spec.origin is None:
        return
    base = Path(spec.origin).parent / "static" / "mathjax"
    target = Path(app.outdir) / "_static" / "mathjax"
    for part in PARTS:
        (target / part).parent.mkdir(parents=True, exist_ok=True)
        if (base / part).is_dir():
            shutil.copytree(base / part, target / part, dirs_exist_ok=True)
        else:
            shutil.copyfile(base / part, target / part)
    (Path(app.outdir) / "index.html").write_text(_TOP, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx's entry."""
    app.config.mathjax_path = "mathjax/tex-chtml.js"
    app.connect("build-finished", _copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
