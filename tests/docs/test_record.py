"""Every function that makes a model stands in its family's record, and no model says by itself what it is worth."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from chipmap.family import FAMILY_NAMES, Family, Scope, Standing, get_family, standing
from tests.docs.labels import models, tree_of
from tests.docs.pages import ROOT

FAMILIES = [get_family(name) for name in FAMILY_NAMES]
#: Where models are made.
MODELS = "chipmap.formulations"
#: What makes a model when it is called, and the annotations of functions that return one.
MAKING, RETURNED = ("Built", "CpModel", "ConcreteModel"), ("Built", "Model")


@cache
def texts() -> dict[str, str]:
    """The sources of all modules of chipmap, by their names."""
    paths = sorted((ROOT / "chipmap").rglob("*.py"))
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path.read_text(encoding="utf-8") for path in paths}


def naming(*words: str) -> list[str]:
    """The modules whose sources contain one of these words."""
    return [name for name, text in texts().items() if any(word in text for word in words)]


def calls(tree: ast.AST) -> Iterator[str]:
    """The names of the functions that are called, without what stands before a dot."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            yield node.func.id if isinstance(node.func, ast.Name) else node.func.attr


def makers(module: str) -> dict[str, ast.FunctionDef]:
    """The functions of a module that return a model, by their annotation or because they call ``Built``."""
    functions = {node.name: node for node in tree_of(module).body if isinstance(node, ast.FunctionDef)}
    return {
        name: node
        for name, node in functions.items()
        if (node.returns is not None and ast.unparse(node.returns) in RETURNED) or "Built" in calls(node)
    }


@cache
def imported() -> frozenset[str]:
    """What modules outside ``formulations`` use of it, as ``module:function``."""
    found = set[str]()
    for tree in (tree_of(name) for name in naming("chipmap.formulations") if not name.startswith(MODELS)):
        whole = dict[str, str]()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(MODELS):
                for alias in node.names:
                    found.add(f"{node.module}:{alias.name}")
                    whole[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        uses = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
        found |= {f"{whole[node.value.id]}:{node.attr}" for node in uses if node.value.id in whole}  # type: ignore[attr-defined]
    return frozenset(found)


def room(family: Family) -> str:
    """Where the models of a family are made."""
    return f"{MODELS}.{family.name}."


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_function_that_makes_a_model_is_in_the_record(family: Family) -> None:
    """Helpers, which other makers of the room call and nobody outside imports, aside."""
    here = {name: makers(name) for name in texts() if name.startswith(room(family))}
    helping = {name for functions in here.values() for node in functions.values() for name in calls(node)}
    found = {
        f"{module}:{name}"
        for module, functions in here.items()
        for name in functions
        if name not in helping or f"{module}:{name}" in imported()
    }
    assert found == {model.build for model in models(family)}
    names = [model.name for model in models(family)]
    assert len(set(names)) == len(names) and all(name.startswith(f"{family.name}/") for name in names)


def test_models_are_made_in_formulations_alone() -> None:
    for module in naming(*MAKING):
        assert module.startswith(MODELS) or not set(calls(tree_of(module))) & set(MAKING), module


def literal(tree: ast.AST) -> list[str]:
    """The standings that a source names."""
    attributes = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return [node.attr for node in attributes if isinstance(node.value, ast.Name) and node.value.id == "Standing"]


def test_no_standing_is_written_by_hand() -> None:
    """Only the module that computes it names them."""
    assert [module for module in naming("Standing") if literal(tree_of(module))] == ["chipmap.family"]
    assert literal(ast.parse("def f(): return Built('cpsat', one, Standing.EXACT)")) == ["EXACT"]


def test_a_maker_that_no_record_names_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "more.py").write_text("def build(x) -> Built: ...\ndef other(x): return [Built(x)]\ndef no(x): ...\n")
    tree_of.cache_clear()
    monkeypatch.setattr("tests.docs.labels.ROOT", tmp_path)
    assert set(makers("more")) == {"build", "other"}
    tree_of.cache_clear()


@pytest.mark.parametrize("scope", Scope)
def test_the_standing_follows_from_scope_and_labels(scope: Scope) -> None:
    stated = {Scope.WHOLE: Standing.EXACT, Scope.SUBSET: Standing.RESTRICTION}
    assert standing(scope, ()) is stated.get(scope, Standing.AUXILIARY)
    assert standing(scope, ("C1",)) is (Standing.RELAXATION if scope is Scope.WHOLE else Standing.AUXILIARY)
