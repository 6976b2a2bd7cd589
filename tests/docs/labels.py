"""Where the labels of the families stand: read from the sources. ``python -m tests.docs.labels`` writes the table of
``docs/dev/architecture.md``.

One rule: a label has one word (:meth:`chipmap.family.Family.words`), and so one name, such as ``c3_triangle``.

- The page has a list item ``- **C3 triangle** …`` for a constraint, and a cell ``| T2 link |`` for a term.
- The checker has a function of that name, and ``check`` refers to it once, as what stands under this label.
- A model has functions whose names are that name or begin with it (``c3_triangle_reach``), each of them in use and
  called by way of the model's :class:`~chipmap.formulations.built.Statement`; or the label is in a literal tuple
  ``BY_DOMAIN`` (the variables' domains imply it) or ``LAZY`` (separated on demand).

Models are all that the family's record names: its formulations and its auxiliary models.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache

from chipmap.family import FAMILY_NAMES, AuxiliaryModel, Family, Formulation, get_family
from tests.docs.pages import ROOT

ARCHITECTURE = ROOT / "docs" / "dev" / "architecture.md"
#: The lines of the page between which the table stands.
BEGIN, END = "<!-- labels: python -m tests.docs.labels -->", "<!-- end of labels -->"
_PREFIX = re.compile(r"_?[ct]\d+_")


@cache
def tree_of(module: str) -> ast.Module:
    """The parsed source of a module."""
    return ast.parse(ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8"))


@cache
def parts_of(module: str) -> list[str]:
    """The module and those of its own folder that it imports, directly or not."""
    folder, seen, queue = module.rpartition(".")[0], [module], [module]
    while queue:
        for node in ast.walk(tree_of(queue.pop())):
            if not isinstance(node, ast.ImportFrom) or node.module is None:
                continue
            for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                path = ROOT.joinpath(*name.split(".")).with_suffix(".py")
                if name.rpartition(".")[0] == folder and name not in seen and path.is_file():
                    seen.append(name)
                    queue.append(name)
    return sorted(seen)


def module_of(spec: str) -> str:
    """The module of a ``"module:function"`` string."""
    return spec.partition(":")[0]


@cache
def defined(tree: ast.AST) -> tuple[str, ...]:
    """The names of functions and methods that begin like a label's."""
    names = (node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return tuple(name for name in names if _PREFIX.match(name))


@cache
def called(tree: ast.AST) -> tuple[str, ...]:
    """The names of functions that are called and begin like a label's."""
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return tuple(name.id for name in calls if isinstance(name, ast.Name) and _PREFIX.match(name.id))


@cache
def used(tree: ast.AST) -> Counter[str]:
    """How often names are referred to (imports and definitions aside)."""
    return Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


@cache
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


def states(family: Family, label: str, function: str) -> bool:
    """Whether a function of a model states ``label``, by its name."""
    name = family.label_name(label)
    return function == name or function.startswith(f"{name}_")


def wrong_in_checker(family: Family, tree: ast.Module) -> Iterator[str]:
    """What of a checker's source breaks the rule."""
    names = {family.label_name(label): label for label in family.words}
    count = Counter(defined(tree))
    yield from (f"{name} is no label's name" for name in count if name not in names)
    yield from (f"there are {count[name]} functions {name}" for name in names if count[name] != 1)
    checks = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "check"]
    under = [pair for node in ast.walk(checks[0]) for pair in _under(node)]
    for name, label in names.items():
        found = [key for key, value in under for _ in range(used(value)[name])]
        if found != [label] or used(tree)[name] != 1:
            yield f"{name} stands under {found} in check, and {used(tree)[name]} times in the checker"


def _under(node: ast.AST) -> Iterator[tuple[object, ast.AST]]:
    """(constant key, value) of literal mappings and of assignments to a key."""
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        yield from ((key.value, value) for key, value in pairs if isinstance(key, ast.Constant))
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        key = node.targets[0].slice
        yield from ([(key.value, node.value)] if isinstance(key, ast.Constant) else [])


def wrong_in_model(family: Family, trees: Iterable[ast.Module]) -> Iterator[str]:
    """What of a model's sources breaks the rule (a label that is missing aside)."""
    trees = list(trees)
    uses, lazy = sum(map(used, trees), Counter[str]()), set[str]().union(*(listed(tree, ("LAZY",)) for tree in trees))
    for name in (name for tree in trees for name in defined(tree)):
        labels = [label for label in family.words if states(family, label, name)]
        if len(labels) != 1:
            yield f"{name} is no label's name"
        if set(labels) & lazy:
            yield f"{name} states a label that is LAZY"
        if not uses[name]:
            yield f"{name} is never used"
    yield from (f"{name} is called, not stated" for tree in trees for name in called(tree))


def stated(family: Family, trees: Iterable[ast.Module]) -> set[str]:
    """The labels that a model with these sources states, by functions, by domains or on demand."""
    found: set[str] = set()
    for tree in trees:
        found |= {label for label in family.words for name in defined(tree) if states(family, label, name)}
        found |= listed(tree, ("BY_DOMAIN", "LAZY"))
    return found


def models(family: Family) -> tuple[Formulation | AuxiliaryModel, ...]:
    """All models of the family's record."""
    return (*family.formulations, *family.auxiliary_models)


def sources(model: Formulation | AuxiliaryModel) -> list[ast.Module]:
    """The sources of a model."""
    return [tree_of(name) for name in parts_of(module_of(model.build))]


def said_to_be_in_force(page: str) -> set[str]:
    """The labels in the paragraphs of a page that say when something is in force, ranges (C1 to C4) included."""
    text = "".join(paragraph for paragraph in page.split("\n\n") if "in force" in paragraph)
    found = set(re.findall(r"\b[CT]\d+\b", text))
    for kind, first, last in re.findall(r"\b([CT])(\d+) to \1(\d+)", text):
        found |= {f"{kind}{number}" for number in range(int(first), int(last))}
    return found


def anchors(family: Family) -> dict[str, str]:
    """The heading, as an anchor, under which each label stands on its page; labels with another word are left out."""
    found: dict[str, str] = {}
    heading = ""
    for line in ROOT.joinpath("docs", "families", f"{family.name}.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading = re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()).replace(" ", "-")
        cells = re.findall(r"(?<=\|) (T\d+) ([^|]+?) (?=\|)", line) if line.startswith("|") else []
        for label, word in [*re.findall(r"^- \*\*(C\d+) ?([^*]*)\*\*", line), *cells]:
            if family.words.get(label) == word:
                found.setdefault(label, heading)
            else:
                found[f"{label} {word}"] = heading  # no label of the family
    return found


def table() -> str:
    """One row for each label of each family."""
    rows = ["| label | on the page and in the checker | in the MIP | in the CP-SAT model |", "|---|---|---|---|"]
    for family in map(get_family, FAMILY_NAMES):
        where = anchors(family)
        for label in family.words:
            page = f"[{family.name} {label}](../families/{family.name}.md#{where[label]})"
            cells = [_cell(family, kind, label) for kind in ("mip", "cpsat")]
            rows.append(f"| {page} | `{family.label_name(label)}` | {' | '.join(cells)} |")
    return "\n".join(rows)


def _cell(family: Family, kind: str, label: str) -> str:
    """Which functions of which modules state ``label`` in the family's models of that kind."""
    modules = {part for one in models(family) if one.kind == kind for part in parts_of(module_of(one.build))}
    found = []
    for module in sorted(modules):
        names = [name for name in defined(tree_of(module)) if states(family, label, name)]
        ends = ", ".join(f"`{end}`" for name in names if (end := name.removeprefix(family.label_name(label))))
        also = "and " if family.label_name(label) in names else ""
        if names:
            found.append(f"`{module.rpartition('.')[2]}`" + (f" ({also}{ends})" if ends else ""))
    for words, text in ((("BY_DOMAIN",), "by domain"), (("LAZY",), "on demand")):
        found += [text] if any(label in listed(tree_of(module), words) for module in modules) else []
    return ", ".join(found) or "-"


def main() -> None:
    """Write the table."""
    before, _, rest = ARCHITECTURE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    ARCHITECTURE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
