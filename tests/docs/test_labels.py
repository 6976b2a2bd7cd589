"""Page, checker and models state the same labels under the same words: the rule of :mod:`tests.docs.labels`.

Each rule is also shown to fail: on sources in which a label is dropped, swapped with another, renamed or never used.
"""

from __future__ import annotations

import ast
import copy
import re
from pathlib import Path

import pytest

from chipmap.family import FAMILY_NAMES, AuxiliaryModel, Family, Formulation, get_family
from tests.docs import labels
from tests.docs.labels import (
    BEGIN,
    END,
    anchors,
    defined,
    listed,
    models,
    module_of,
    parts_of,
    sources,
    stated,
    tree_of,
    used,
    wrong_in_checker,
    wrong_in_model,
)
from tests.docs.pages import ROOT

FAMILIES = [get_family(name) for name in FAMILY_NAMES]
MODELS = [(family, model) for family in FAMILIES for model in models(family)]
LABELS = [(family, label) for family in FAMILIES for label in family.words]
every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
every_label = pytest.mark.parametrize(("family", "label"), LABELS, ids=lambda one: getattr(one, "name", one))
every_model = pytest.mark.parametrize(("family", "model"), MODELS, ids=[model.name for _, model in MODELS])


class Renamed(ast.NodeTransformer):
    """Puts other names for some, where they are referred to and not where they are defined."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        """Another name, if there is one."""
        return ast.Name(self.names.get(node.id, node.id), node.ctx)


def renamed(tree: ast.Module, names: dict[str, str]) -> ast.Module:
    """A source like this one that refers to other functions."""
    change = Renamed(names)
    body = [change.visit(copy.deepcopy(node)) if names.keys() & used(node).keys() else node for node in tree.body]
    return ast.Module(body, [])


@every_family
def test_the_page_has_every_label_and_no_other(family: Family) -> None:
    page = (ROOT / "docs" / "families" / f"{family.name}.md").read_text(encoding="utf-8")
    assert set(anchors(family)) == set(family.words)
    assert set(re.findall(r"\b[CT]\d+\b", page)) == set(family.words)


@every_family
def test_the_checker_calls_a_function_for_every_label(family: Family) -> None:
    assert list(wrong_in_checker(family, tree_of(module_of(family.check)))) == []


@every_label
def test_a_label_dropped_or_swapped_in_the_checker_is_noticed(family: Family, label: str) -> None:
    tree, name = tree_of(module_of(family.check)), family.label_name(label)
    others = [family.label_name(other) for other in family.words if other != label]
    dropped = [renamed(tree, {name: "nothing"}), renamed(tree, {name: others[0]})]
    swapped = [renamed(tree, {name: other, other: name}) for other in others]
    for changed in (*dropped, *swapped):
        assert list(wrong_in_checker(family, changed))


@every_model
def test_models_state_labels_by_their_names(family: Family, model: Formulation | AuxiliaryModel) -> None:
    trees = sources(model)
    assert list(wrong_in_model(family, trees)) == []
    assert stated(family, trees) <= set(family.words)


@every_model
def test_a_function_that_a_model_never_calls_is_noticed(family: Family, model: Formulation | AuxiliaryModel) -> None:
    trees = sources(model)
    for name in {name for tree in trees for name in defined(tree)}:
        changed = [renamed(tree, {name: "nothing"}) if used(tree)[name] else tree for tree in trees]
        assert list(wrong_in_model(family, changed))


@every_model
def test_a_function_that_a_model_calls_by_itself_is_noticed(
    family: Family, model: Formulation | AuxiliaryModel
) -> None:
    """What a model states is noted where functions are called through its statement."""
    for name in {name for tree in sources(model) for name in defined(tree)}:
        changed = [*sources(model), ast.parse(f"{name}(builder)")]
        assert list(wrong_in_model(family, changed)) == [f"{name} is called, not stated"]


@every_label
def test_a_label_with_another_word_is_noticed(family: Family, label: str) -> None:
    """A function ``c1_fabric`` where the word is ``inside``."""
    other = ast.parse(f"def {label.lower()}_elsewhere(): ...\nstate({label.lower()}_elsewhere)\n")
    assert list(wrong_in_model(family, [other])) == [f"{label.lower()}_elsewhere is no label's name"]
    module = tree_of(module_of(family.check))
    assert list(wrong_in_checker(family, ast.Module([*module.body, *other.body], [])))


def test_the_architecture_page_has_the_table() -> None:
    """`python -m tests.docs.labels` writes it."""
    page = labels.ARCHITECTURE.read_text(encoding="utf-8")
    assert page.partition(BEGIN)[2].partition(END)[0].strip() == labels.table()


def test_a_page_with_another_word_lacks_the_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "families" / "wafer.md").read_text(encoding="utf-8")
    monkeypatch.setattr("tests.docs.labels.ROOT", tmp_path)
    (tmp_path / "docs" / "families").mkdir(parents=True)
    (tmp_path / "docs" / "families" / "wafer.md").write_text(
        page.replace("**C1 inside**", "**C1 within**").replace("| T2 wire |", "| T2 |"), encoding="utf-8"
    )
    assert set(anchors(get_family("wafer"))) == {"C0", "C1 within", "C2", "C3", "C4", "C5", "C6", "C7", "T1", "T3"}


def test_prefixes() -> None:
    tree = ast.parse("BY_DOMAIN = ('C1',)\nclass A:\n    def c2_x(self): ...\ndef t1_chip(): ...\ndef cut_y(): ...\n")
    assert set(defined(tree)) == {"c2_x", "t1_chip"}
    assert listed(tree, ("BY_DOMAIN",)) == {"C1"}


def test_every_part_of_a_model_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / "a.py").write_text("def f():\n    from box.b import g\n")
    (tmp_path / "box" / "b.py").write_text("from box import c\nfrom other import d\n")
    (tmp_path / "box" / "c.py").write_text("")
    monkeypatch.setattr("tests.docs.labels.ROOT", tmp_path)
    assert parts_of("box.a") == ["box.a", "box.b", "box.c"]
