"""Sphinx's settings for the site that ``make docs`` builds: all pages of the repository, without network.

Pages are the Markdown files as they stand in the repository, which is Sphinx's source folder; so every link is the one
that a forge follows. Why Sphinx: ``docs/dev/site.md``.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

project = "chipmap"
author = "The chipmap developers"
copyright = f"2026, {author}"
version = release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax"]
extensions += [f"docs.site.{own}" for own in ("navigation", "sources", "reference", "search", "offline")]
root_doc = "docs/index"
include_patterns = ["docs/**.md", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/*.md", "benchmarks/**.md"]
exclude_patterns = [".*", "**/.*", "site", "build", "dist", "out", "demo", "**/__pycache__", "**/*.state"]
nitpicky = False  # docstrings name types of other projects, whose pages are not here

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 6
myst_dmath_allow_digits = False
myst_dmath_allow_space = False

autodoc_mock_imports = ["highspy", "matplotlib", "networkx", "numba", "numpy", "ortools", "pyomo", "scipy", "tqdm"]
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"
maximum_signature_line_length = 88

html_theme = "furo"
html_title = "chipmap"
html_static_path = ["style.css", "search.js"]
html_css_files = ["style.css"]
html_copy_source = False
html_show_sphinx = False
pygments_style = "tango"
pygments_dark_style = "github-dark"
