"""Who may import whom, read from the source with ``ast`` (imports inside functions count as well).

The rule stands in ``docs/dev/architecture.md``, "Who may import whom".
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import networkx

from tests.sources import statements, tree_of

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "chipmap"
MODULES = sorted(PACKAGE.rglob("*.py"))

CORE = ("records", "certificate", "oracle", "evaluator", "deadline", "result", "options", "run", "family")
#: Part of the package -> the parts that it may import, as prefixes of module names. A part may import itself only where
#: it is listed.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "records": ("records",),
    "certificate": ("records",),
    "oracle": ("records", "family"),
    "deadline": (),
    "kernels": ("deadline", "kernels"),
    "result": ("records", "certificate"),
    "evaluator": ("records", "oracle", "result"),
    "options": ("records",),
    "run": ("records", "certificate", "oracle", "evaluator", "deadline", "result", "options"),
    "family": ("records",),
    "explanation": ("records", "certificate", "result"),
    "families": ("family", "families.plan_formats"),
    "networks": ("records", "deadline", "kernels", "networks"),
    "instances": ("records", "deadline", "kernels", "networks", "instances"),
    "measuring": ("records", "deadline", "networks", "instances.measured", "measuring"),
    "validation": (
        "records",
        "family",
        "certificate",
        "oracle",
        "result",
        "validation",
        "networks.graph",
        "instances.*.instance",
        "instances.*.system",
        "instances.*.workload",
    ),
    "formulations": ("records", "deadline", "result", "family", "instances", "formulations"),
    "heuristics": ("records", "deadline", "kernels", "result", "run", "networks", "instances", "heuristics"),
    "learned": ("records", "deadline", "kernels", "result", "run", "networks", "instances", "heuristics", "learned"),
    "solvers": ("records", "deadline", "result", "family", "solvers"),
    "methods": (
        *CORE,
        "explanation",
        "networks",
        "instances",
        "formulations",
        "heuristics",
        "learned",
        "solvers",
        "methods",
    ),
    "explaining": (
        *CORE,
        "kernels",
        "explanation",
        "networks",
        "instances",
        "formulations",
        "heuristics",
        "learned",
        "solvers",
        "methods",
        "explaining",
    ),
    "provenance": ("options", "run"),
    "inputs": ("records", "result", "family", "archive", "networks", "instances", "inputs"),
    "process": (*CORE, "kernels", "explanation", "provenance", "inputs", "process"),
    "solve": (*CORE, "provenance", "inputs", "process"),
    "explain": (*CORE, "explanation", "inputs", "process"),
    "archive": (*CORE, "explanation", "provenance"),
}
#: Rooms that stand on all of these, from the lowest up: each may import those before it.
UPPER = ("known", "bench", "plans", "report", "cli", "__main__")
#: Modules at the top level, with ``__init__`` and ``__main__``.
TOP_LEVEL = 15

#: Third-party library -> the files that may import it (``*`` crosses folders).
HEAVY: dict[str, tuple[str, ...]] = {
    "pyomo": ("formulations/*/mip*.py", "solvers/lowering.py", "solvers/__init__.py"),
    "ortools": ("formulations/cpsat.py", "formulations/*/cpsat*.py", "solvers/cpsat.py"),
    "highspy": ("solvers/*.py",),
    "gurobipy": ("solvers/*.py",),
    "cvxpy": ("formulations/*/relaxation.py",),
    "torch": ("learned/*.py", "measuring/*.py", "networks/importers/torch*.py", "plans/torch_pipeline/script/*.py"),
    "jax": ("plans/jax/script/*.py",),
    "onnx": ("networks/importers/onnx*.py", "plans/onnx/*.py"),
    "numba": ("kernels/compiled.py", "kernels/parts.py", "kernels/records.py"),
    "matplotlib": ("report/*.py",),
    "jinja2": ("report/page/document.py",),
    "dask": ("bench/cluster.py",),
    "distributed": ("bench/cluster.py",),
}
#: What `chipmap --help` must never load.
SLOW = frozenset(HEAVY) | {"scipy", "networkx"}


def imports(tree: ast.AST, package: str) -> Iterator[tuple[str, int]]:
    """(absolute module name, line) of every import below ``tree``; ``package`` resolves relative ones."""
    for node in (tree, *statements(tree)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, *([base] if base else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield (inner if _is_module(inner) else base), node.lineno


@cache
def _is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return name.startswith("chipmap.") and (path.with_suffix(".py").is_file() or (path / "__init__.py").is_file())


def module_name(path: Path) -> str:
    """``chipmap.x.y`` of a source file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def all_imports(path: Path) -> list[tuple[str, int]]:
    """Every import of a file, wherever it stands."""
    name = module_name(path)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return list(imports(tree_of(path), package))


def matches(module: str, pattern: str) -> bool:
    """Whether a module (without ``chipmap.``) is what the pattern names or lies below it; ``*`` is any one part."""
    have, want = module.split("."), pattern.split(".")
    return len(have) >= len(want) and all(b in ("*", a) for a, b in zip(have, want, strict=False))


def may_import(part: str, target: str) -> bool:
    """Whether a module in ``part`` may import ``target`` (both without ``chipmap.``)."""
    if part in UPPER:
        return target.partition(".")[0] not in UPPER[UPPER.index(part) + 1 :]
    return part == "" or any(matches(target, pattern) for pattern in MAY_IMPORT[part])


def test_parts_import_only_what_they_may() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}, line {line}: {name}, but {part} may import only {MAY_IMPORT.get(part)}"
        for path in MODULES
        for part in [module_name(path).removeprefix("chipmap").removeprefix(".").partition(".")[0]]
        for name, line in all_imports(path)
        if name.partition(".")[0] == "chipmap" and not may_import(part, name.removeprefix("chipmap").removeprefix("."))
    ]
    assert not wrong, "\n".join(wrong)


def test_heavy_libraries_stay_where_they_belong() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}, line {line}: {name}"
        for path in MODULES
        for name, line in all_imports(path)
        if name.partition(".")[0] in HEAVY
        and not any(fnmatch(str(path.relative_to(PACKAGE)), place) for place in HEAVY[name.partition(".")[0]])
    ]
    assert not wrong, "\n".join(wrong)


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = networkx.DiGraph()
    for path in MODULES:
        name = module_name(path)
        graph.add_edges_from((name, target) for target, _ in all_imports(path) if target != name)
    circles = [sorted(group) for group in networkx.strongly_connected_components(graph) if len(group) > 1]
    assert not circles


def test_the_top_level_holds_few_modules() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= TOP_LEVEL


def at_import(tree: ast.AST) -> Iterator[ast.stmt]:
    """The import statements that run when a module is imported: not those in functions or under TYPE_CHECKING."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for inner in node.orelse:
                yield from at_import(inner)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from at_import(node)


def test_help_loads_nothing_slow() -> None:
    """The modules that the command line imports, followed through the source, name no slow library."""
    sources = {module_name(path): path for path in MODULES}
    start = [name for name in sources if name == "chipmap" or name.startswith(("chipmap.cli", "chipmap.families"))]
    seen, queue = set(start), list(start)
    while queue:
        name = queue.pop()
        path = sources[name]
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for statement in at_import(tree_of(path)):
            for target, line in imports(statement, package):
                assert target.partition(".")[0] not in SLOW, f"{path.relative_to(ROOT)}, line {line}: {target}"
                parents = [".".join(target.split(".")[:i]) for i in range(1, target.count(".") + 2)]
                fresh = [parent for parent in parents if parent in sources and parent not in seen]
                seen.update(fresh)
                queue.extend(fresh)


def test_help_loads_nothing_slow_when_run() -> None:
    script = (
        "import sys\n"
        "from chipmap.cli import main\n"
        "try:\n"
        "    main(['--help'])\n"
        "except SystemExit:\n"
        "    pass\n"
        "print('LOADED', *sorted({name.partition('.')[0] for name in sys.modules}))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.rpartition("LOADED")[2].split())
    assert "argparse" in loaded
    assert not loaded & SLOW


def test_the_rules_can_fail() -> None:
    tree = ast.parse("def f():\n    from ..instances.ring import problem\n    import pyomo.environ as pyo\n")
    assert list(imports(tree, "chipmap.validation")) == [("chipmap.instances.ring.problem", 2), ("pyomo.environ", 3)]
    assert not may_import("validation", "heuristics.ring")
    assert not may_import("validation", "instances.ring.problem")
    assert may_import("validation", "instances.ring.instance")
    assert not may_import("instances", "result")
    assert may_import("cli", "solvers.highs")
