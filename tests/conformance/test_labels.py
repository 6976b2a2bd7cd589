"""One set of labels: on the family's page, in its record, in the checker, and in each of its models."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from chipmap.family import Family, Formulation, Standing
from tests.conformance.cases import FAMILIES, cases, identify

ROOT = Path(__file__).parents[2]


def labels(family: Family) -> set[str]:
    """The labels of the family's record: C0, C1, … and T1, T2, …"""
    return {*family.constraints, *family.terms}


def module_files(spec: str) -> list[Path]:
    """The file of a ``"module:function"`` and its neighbours with the same beginning (``mip.py``, ``mip_links.py``)."""
    found = find_spec(spec.partition(":")[0])
    assert found is not None and found.origin is not None
    path = Path(found.origin)
    return sorted(path.parent.glob(f"{path.stem}*.py"))


def functions(paths: list[Path]) -> set[str]:
    """The labels with which functions and methods in these files begin: ``c3_reach`` states C3."""
    names = [
        node.name
        for path in paths
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]
    return {found[1].upper() for name in names if (found := re.match(r"_?([ct]\d+)_", name))}


def declared(paths: list[Path]) -> dict[str, set[str]]:
    """The literal tuples ``BY_DOMAIN`` and ``LAZY`` of these files."""
    found: dict[str, set[str]] = {"BY_DOMAIN": set(), "LAZY": set()}
    for path in paths:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            target = node.target if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [None])[0]
            if isinstance(target, ast.Name) and target.id in found:
                found[target.id] |= set(ast.literal_eval(node.value))  # type: ignore[attr-defined]
    return found


@pytest.mark.parametrize("family", FAMILIES, ids=identify)
def test_the_page_has_every_label_and_no_other(family: Family) -> None:
    page = (ROOT / "docs" / "families" / f"{family.name}.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\b[CT]\d+\b", page)) == labels(family)


@pytest.mark.parametrize("family", FAMILIES, ids=identify)
def test_the_checker_has_every_label_and_no_other(family: Family) -> None:
    assert functions(module_files(family.check)) == labels(family)
    assert import_module(family.check.partition(":")[0]).__doc__


@pytest.mark.parametrize(
    ("family", "formulation"), [(f, form) for f in FAMILIES for form in f.formulations], ids=identify
)
def test_a_model_without_a_label_is_a_relaxation(family: Family, formulation: Formulation) -> None:
    """Every C and T is a function of the model's files or named in BY_DOMAIN or LAZY, and none is foreign."""
    paths = module_files(formulation.build)
    by_name = declared(paths)
    stated = functions(paths) | by_name["BY_DOMAIN"] | by_name["LAZY"]
    assert stated <= labels(family)
    standing = cases(family)[0].build(formulation).standing
    assert stated == labels(family) or standing is Standing.RELAXATION
    assert functions(paths).isdisjoint(by_name["LAZY"])
