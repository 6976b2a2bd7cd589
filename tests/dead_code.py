"""Functions, classes and methods that nothing reaches from the commands, the public API, pages and families' records.

    python -m tests.dead_code

What runs on import, and in the commands, is reached. A body reaches the module's own definitions and those that the
module imports, by name; by an attribute all methods that are called so, and definitions in modules that it imports; by
a text such as ``"chain:auto"`` all definitions called so. What is listed is dead, or reached by a name that is put
together (:data:`SPARED`). What isn't listed may be dead all the same. Exit code 1 where something is listed.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.sources import tree_of

ROOT = Path(__file__).resolve().parents[1]
#: Definitions that others reach: methods that IPython calls, and what is there for tests and for users of Python.
SPARED = {
    "main": "`python -c` runs it in a process of its own (networks/importers/torch/count.py)",
    "_repr_png_": "IPython asks a picture for it",
    "_repr_html_": "IPython asks results and instances for it",
    "html_row": "what these are in HTML",
    "set_env": "numba asks the code generator of a library for it",
    **dict.fromkeys(
        ("get_pointer_to_function", "_optimize_final_module", "_finalize_final_module"),
        "numba finishes a library of code by it",
    ),
    **dict.fromkeys(("get_argument_type", "as_argument", "from_argument"), "numba asks a data model for it"),
    "brute_force": "tests of every family compare with it",
    "import_exported": "Python API: a program of torch.export without a file (docs/operators.md)",
    "count": "how many candidates a family has: the limit of brute force",
}
#: Texts that name something: ``module:name``, ``module:name.method`` or a name alone.
NAMED = re.compile(r"(?:[\w.]+:)?([A-Za-z_]\w*)(?:\.([a-z_]\w*))?")
#: An example on a page, and what it imports of chipmap: the public API.
EXAMPLE, IMPORT = re.compile(r"```python\n(.*?)```", re.DOTALL), re.compile(r"^from (chipmap[\w.]*) import (.+)$", re.M)
#: Bases whose methods are called by chipmap alone; what others' classes call, only they know.
OWN_BASES = {"ABC", "Enum", "Exception", "Generic", "NamedTuple", "Protocol", "Struct", "TypedDict", "object"}
KINDS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Uses:
    """The names, attributes and texts in a piece of source."""

    names: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()


@dataclass(eq=False)
class Found:
    """A definition in a module; ``owner`` is the class of a method."""

    module: Module
    node: Definition
    owner: Found | None
    uses: Uses

    @property
    def place(self) -> str:
        """File, line and name."""
        name = f"{self.owner.node.name}.{self.node.name}" if self.owner else self.node.name
        return f"{self.module.path.relative_to(self.module.root)}:{self.node.lineno} {name}"


@dataclass(eq=False)
class Module:
    """A module: its definitions by name, what it imports (name -> module and name there), what its import uses."""

    path: Path
    root: Path
    own: dict[str, Found] = field(default_factory=dict)
    methods: list[Found] = field(default_factory=list)
    imported: dict[str, list[tuple[str, str]]] = field(default_factory=lambda: defaultdict(list))
    at_import: list[Uses] = field(default_factory=list)

    @property
    def name(self) -> str:
        """``chipmap.x.y``."""
        parts = self.path.relative_to(self.root).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def uses(*trees: ast.AST) -> Uses:
    """What pieces of source use."""
    nodes = [node for tree in trees for node in ast.walk(tree)]
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    matches = [NAMED.fullmatch(text) for text in texts if len(text) < 120]
    return Uses(
        frozenset(node.id for node in nodes if isinstance(node, ast.Name)),
        frozenset(node.attr for node in nodes if isinstance(node, ast.Attribute)),
        frozenset(part for match in matches if match for part in match.groups() if part),
    )


def read(path: Path, root: Path) -> Module:
    """A module's definitions, imports and uses."""
    module, tree = Module(path, root), tree_of(path)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("chipmap"):
            for alias in node.names:
                module.imported[alias.asname or alias.name].append((str(node.module), alias.name))
    for node in tree.body:
        if not isinstance(node, KINDS):
            module.at_import.append(uses(node))
        elif isinstance(node, ast.ClassDef):
            inner = [part for part in node.body if isinstance(part, KINDS)]
            rest = [*node.bases, *node.decorator_list, *(part for part in node.body if part not in inner)]
            whole = module.own[node.name] = Found(module, node, None, uses(*rest))
            module.methods += [Found(module, part, whole, uses(part)) for part in inner]
        else:
            module.own[node.name] = Found(module, node, None, uses(node))
    return module


class Reach:
    """What is reached so far, and what is still to be followed."""

    def __init__(self, modules: dict[str, Module]) -> None:
        self.modules, self.living, self.left = modules, set[Found](), list[Found]()
        self.by_name, self.methods = defaultdict[str, list[Found]](list), defaultdict[str, list[Found]](list)
        for module in modules.values():
            for one in [*module.own.values(), *module.methods]:
                (self.methods if one.owner else self.by_name)[one.node.name].append(one)
        self.asked = set[str]()

    def follow(self, module: Module, some: Uses) -> None:
        """Reach what ``some`` source of a module uses."""
        for name in some.names:
            self._reach(module.own.get(name))
            for target in module.imported.get(name, ()):
                self.named(*target)
        for name in some.attributes | some.texts:
            if name not in self.asked:
                self.asked.add(name)
                self.left += [one for one in self.methods[name] if one.owner in self.living]
        for name in some.attributes:
            for source, imported in (target for targets in module.imported.values() for target in targets):
                self.named(f"{source}.{imported}", name)
        for name in some.texts:
            for one in self.by_name[name]:
                self._reach(one)

    def named(self, source: str, name: str) -> None:
        """What a module calls ``name``: its own, or what it imports itself."""
        left, seen = [(source, name)], set[tuple[str, str]]()
        while left:
            target = left.pop()
            module = self.modules.get(target[0])
            if module is not None and target not in seen:
                seen.add(target)
                self._reach(module.own.get(target[1]))
                left += [] if target[1] in module.own else module.imported.get(target[1], [])

    def _reach(self, one: Found | None) -> None:
        if one is not None and one not in self.living:
            self.left.append(one)

    def go(self) -> None:
        """Follow everything that is left."""
        while self.left:
            one = self.left.pop()
            if one in self.living:
                continue
            self.living.add(one)
            self.follow(one.module, one.uses)
            if one.owner is None and isinstance(one.node, ast.ClassDef):
                inner = [method for method in one.module.methods if method.owner is one]
                self.left += [method for method in inner if self._called(method, one)]

    def _called(self, method: Found, owner: Found) -> bool:
        name, public = method.node.name, owner.module.path.parent == owner.module.root / "chipmap"
        dunder = name.startswith("__") and name.endswith("__")
        return name in self.asked or dunder or (public and not name.startswith("_")) or self._foreign(owner)

    def _foreign(self, one: Found) -> bool:
        """Whether a class has a base that isn't chipmap's, whose code may call any method."""
        assert isinstance(one.node, ast.ClassDef)
        bases = [base.value if isinstance(base, ast.Subscript) else base for base in one.node.bases]
        called = {base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in bases}
        return any(base not in OWN_BASES and base not in self.by_name for base in called)


def dead(root: Path = ROOT) -> Iterator[Found]:
    """What nothing reaches in the package below ``root``, by place. Of a dead class its methods aren't named."""
    modules = {
        module.name: module for module in (read(path, root) for path in sorted((root / "chipmap").rglob("*.py")))
    }
    reach = Reach(modules)
    for module in modules.values():
        commands = module.path.parent.name == "cli" or module.name == "chipmap.__main__"
        roots = [module.own[name] for name in ("add_arguments", "run", "main") if commands and name in module.own]
        reach.left += roots + [one for name, one in module.own.items() if name in SPARED]
        reach.left += [one for one in module.own.values() if one.module.name == "chipmap"]
        for some in module.at_import:
            reach.follow(module, some)
    reach.follow(modules["chipmap"], Uses(frozenset(modules["chipmap"].imported)))
    pages = [*root.glob("README.md"), *(root / "docs").rglob("*.md")]
    examples = (code for page in pages for code in EXAMPLE.findall(page.read_text(encoding="utf-8")))
    for source, names in (match for code in examples for match in IMPORT.findall(code)):
        for name in names.split(","):
            reach.named(source, name.strip())
    reach.go()
    for module in modules.values():
        for one in [*module.own.values(), *module.methods]:
            spared = one.node.name in SPARED or (one.owner is not None and one.owner not in reach.living)
            if one not in reach.living and not spared:
                yield one


if __name__ == "__main__":
    listed = [one.place for one in dead()]
    print("\n".join(listed))
    raise SystemExit(bool(listed))
