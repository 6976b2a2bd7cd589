"""The quick lane: ``pytest --quick`` (``make quick``) runs the files of :data:`QUICK`, a sample of each.

``make test`` runs everything. A sample is the same in every run: it is drawn by the test function's name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from itertools import groupby
from pathlib import Path
from random import Random

import pytest

TESTS = Path(__file__).parent

ALL = 10**9
#: Files of the quick lane (``*`` is anything within a name) -> how many cases of each of their test functions run.
QUICK: dict[str, int] = {
    "test_*.py": ALL,
    "docs/test_labels.py": ALL,
    "conformance/test_labels.py": ALL,
    "conformance/test_models.py": 12,
    "conformance/test_solvers_are_there.py": ALL,
    "*/test_tight_bounds.py": ALL,
    "ring/test_checker.py": ALL,
    "ring/test_checker_brute_force.py": 3,
    "ring/test_costs.py": ALL,
    "ring/test_cpsat.py": 3,
    "ring/test_cut_bounds.py": 3,
    "ring/test_full_memory.py": 3,
    "ring/test_mip.py": 3,
    "ring/test_oracle.py": 3,
    "ring/test_programs.py": 3,
    "ring/test_propagation.py": 3,
    "ring/test_sampling.py": 3,
    "ring/test_stations.py": 3,
    "dataflow/test_checker.py": ALL,
    "dataflow/test_cpsat.py": 3,
    "dataflow/test_handed.py": 3,
    "dataflow/test_kv_cache.py": 3,
    "dataflow/test_mip.py": 3,
    "dataflow/test_mixed.py": 3,
    "dataflow/test_program.py": 3,
    "dataflow/test_relaxation.py": 3,
    "dataflow/test_stage_models.py": 3,
    "dataflow/test_stages.py": 3,
    "dataflow/test_tiles.py": 3,
    "dataflow/test_wide.py": 3,
    "wafer/test_bounds.py": 3,
    "wafer/test_bounds_links.py": 3,
    "wafer/test_checker.py": ALL,
    "wafer/test_cpsat.py": 3,
    "wafer/test_mip.py": 3,
    "wafer/test_relaxation.py": 3,
    "wafer/test_rows.py": 3,
    "wafer/test_slicing.py": 3,
    "runtime/test_model_solve.py": ALL,
    "runtime/test_solve.py": ALL,
    "solvers/test_lowering.py": ALL,
    "solvers/test_starts.py": ALL,
    "solvers/test_adapters.py": 3,
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="only the quick lane: the files and samples of QUICK")


def quick_cases(path: Path) -> int:
    """How many cases of each test function of a file the quick lane runs; 0 for a file outside it."""
    name = path.relative_to(TESTS).as_posix()
    fits = (
        count for pattern, count in QUICK.items() if fnmatch(name, pattern) and name.count("/") == pattern.count("/")
    )
    return next(fits, 0)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if config.getoption("--quick") and collection_path.is_file() and not quick_cases(collection_path):
        return True
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--quick"):
        kept = list(sampled(items))
        config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
        items[:] = kept


def sampled(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """The items of the quick lane, in order: of each test function as many cases as its file may run."""
    for function, group in groupby(items, key=lambda item: item.nodeid.partition("[")[0]):
        cases = list(group)
        most = min(quick_cases(cases[0].path), len(cases))
        yield from (cases[i] for i in sorted(Random(function).sample(range(len(cases)), most)))
