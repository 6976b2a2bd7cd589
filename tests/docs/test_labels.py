"""Page, checker and models speak of the same constraints and terms.

Each label of a family's record stands on its page, has a function in its checker (``c3_triangle``), and in each model
a function with that prefix or a place in a literal tuple ``BY_DOMAIN`` or ``LAZY``.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from chipmap.family import FAMILY_NAMES, Family, Formulation, get_family
from tests.docs.pages import ROOT

FAMILIES = [get_family(name) for name in FAMILY_NAMES]
FORMULATIONS = [(family, formulation) for family in FAMILIES for formulation in family.formulations]
_PREFIX = re.compile(r"^_?([ct]\d+)_")


def labels(family: Family) -> set[str]:
    """C0 …, T1 … of the family's record."""
    return {*family.constraints, *family.terms}


@cache
def tree_of(module: str) -> ast.Module:
    """The parsed source of a module."""
    return ast.parse(ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8"))


def parts_of(module: str) -> set[str]:
    """The module and those of its own folder that it imports, directly or not."""
    folder, seen, queue = module.rpartition(".")[0], {module}, [module]
    while queue:
        for node in ast.walk(tree_of(queue.pop())):
            if not isinstance(node, ast.ImportFrom) or node.module is None:
                continue
            for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                path = ROOT.joinpath(*name.split(".")).with_suffix(".py")
                if name.rpartition(".")[0] == folder and name not in seen and path.is_file():
                    seen.add(name)
                    queue.append(name)
    return seen


def functions(tree: ast.AST) -> set[str]:
    """The labels that prefix names of functions and methods."""
    defined = (node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return {match[1].upper() for name in defined if (match := _PREFIX.match(name))}


def listed(tree: ast.Module, names: tuple[str, ...]) -> set[str]:
    """The strings in the module's literal tuples of these names."""
    found: set[str] = set()
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id in names for target in targets):
            assert isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
            value = ast.literal_eval(node.value)
            assert isinstance(value, tuple), f"{names} must be literal tuples"
            found.update(value)
    return found


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_page_has_every_label(family: Family) -> None:
    page = (ROOT / "docs" / "families" / f"{family.name}.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^- \*\*(C\d+)", page, re.MULTILINE)) == set(family.constraints)
    assert set(re.findall(r"\bT\d+\b", page)) == set(family.terms)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_checker_has_a_function_for_every_label(family: Family) -> None:
    assert functions(tree_of(family.check.partition(":")[0])) == labels(family)


@pytest.mark.parametrize(("family", "formulation"), FORMULATIONS, ids=[f.name for _, f in FORMULATIONS])
def test_model_has_every_label(family: Family, formulation: Formulation) -> None:
    parts = [tree_of(name) for name in parts_of(formulation.build.partition(":")[0])]
    stated = set().union(*map(functions, parts))
    elsewhere = set().union(*(listed(tree, ("BY_DOMAIN", "LAZY")) for tree in parts))
    assert stated | elsewhere == labels(family)


def test_prefixes() -> None:
    tree = ast.parse("BY_DOMAIN = ('C1',)\nclass A:\n    def c2_x(self): ...\ndef t1_chip(): ...\ndef cut_y(): ...\n")
    assert functions(tree) == {"C2", "T1"}
    assert listed(tree, ("BY_DOMAIN",)) == {"C1"}


def test_every_part_of_a_model_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / "a.py").write_text("def f():\n    from box.b import g\n")
    (tmp_path / "box" / "b.py").write_text("from box import c\nfrom other import d\n")
    (tmp_path / "box" / "c.py").write_text("")
    monkeypatch.setattr("tests.docs.test_labels.ROOT", tmp_path)
    assert parts_of("box.a") == {"box.a", "box.b", "box.c"}
