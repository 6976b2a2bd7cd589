"""The quick lane: ``pytest --quick`` (``make quick``) runs the files of :data:`QUICK`, a sample of each.

``make test`` runs everything, but of the functions of :data:`SOME` a sample; ``make long`` runs all of their cases. A
sample is the same in every run: it is drawn by the test function's name. What the quick lane runs, all lanes run.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from functools import cache
from itertools import groupby
from pathlib import Path
from random import Random

import pytest

from tests.lanes import LONG

TESTS = Path(__file__).parent
#: Where a solve with a limit goes to a child, as it does for users: folders and files. Other tests solve in their own
#: process: that is quicker, and they can look inside.
AS_USERS = ("runtime/", "cli/", "docs/test_readme.py")

# readline, which pytest loads, tells child processes a width of 80 even where there is no terminal
os.environ.pop("COLUMNS", None)
# without byte code on disk each of some hundred child processes compiles the sources again, 1 to 3 CPU seconds
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

#: What a test may skip for want of -> the extra of pyproject.toml that brings it.
EXTRAS: dict[str, str] = {
    **dict.fromkeys(
        ("torch", "transformers", "accelerate", "jax", "onnxruntime", "onnxscript", "distributed"), "judges"
    ),
    **{"onnx": "onnx", "pandas": "pandas", "pymetis": "metis", "matplotlib": "dev"},
}

ALL = 10**9
#: Files of the quick lane, or functions in them (``*`` is anything within a name) -> how many cases of each of their
#: test functions run. The first line that fits counts.
QUICK: dict[str, int] = {
    "test_dead_code.py::test_nothing_is_dead": 0,
    "test_patterns.py::test_every_expression_ends_on_long_repeats": 0,
    "test_kernels.py::test_a_damaged_file_is_said_and_replaced": 0,
    "test_kernels.py::test_a_second_process_compiles_only_what_another_file_of_the_family_changes": 0,
    "test_kernels.py::test_where_nothing_can_be_written_the_function_runs_all_the_same": 0,
    "test_kernels.py::test_what_others_have_put_where_one_cannot_write_is_read": 0,
    "test_packaging.py::test_what_a_test_needs_is_found_through_what_it_calls": 0,
    "test_*.py": ALL,
    "docs/test_labels.py::test_a_label_dropped_or_swapped_in_the_checker_is_noticed": 20,
    "docs/test_labels.py::test_a_label_with_another_word_is_noticed": 20,
    "docs/test_labels.py::test_a_function_that_a_model_calls_by_itself_is_noticed": 6,
    "docs/test_labels.py": ALL,
    "methods/test_lying.py::test_a_sample_of_lies": 0,
    "methods/test_lying.py::test_lies_in_a_child": 0,
    "methods/test_lying.py::test_no_failure_of_a_solver_proves_that_dataflow_has_no_mapping": 3,
    "methods/*.py": ALL,
    "wafer/test_tight_bounds.py::test_every_part_of_the_branch_and_bound_is_needed_and_reached": 3,
    "*/test_tight_bounds.py": ALL,
    "*/test_checker.py": ALL,
    "conformance/test_labels.py": 4,
    "conformance/test_auxiliary.py": 3,
    "docs/test_record.py": ALL,
    "conformance/test_models.py::test_a_model_says_what_brute_force_says": 120,
    "conformance/test_models.py::test_an_infeasible_model_names_what_conflicts": 20,
    "conformance/test_models.py::test_a_warm_start_is_accepted": 10,
    "conformance/test_models.py::test_so_does_every_other_way_to_state_it": 10,
    "conformance/test_solvers_are_there.py": ALL,
    "ring/test_checker_brute_force.py": 3,
    "ring/test_cpsat.py": 3,
    "ring/test_cut_bounds.py": 3,
    "ring/test_full_memory.py::test_by_hand": ALL,
    "ring/test_full_memory.py::test_models_by_hand": ALL,
    "ring/test_mip.py": 3,
    "ring/test_oracle.py::test_auto_equals_brute_force": 1,
    "ring/test_oracle.py": 3,
    "ring/test_programs.py::test_the_exact_program_is_brute_force": 0,
    "ring/test_programs.py": 3,
    "ring/test_shared_constants.py": ALL,
    "ring/test_stations.py": 3,
    "dataflow/test_cases.py": ALL,
    "dataflow/test_cpsat.py::test_table_6_by_highs_cpsat_and_program": 1,
    "dataflow/test_cpsat.py::test_41_kernels_forward_and_backward": 0,
    "dataflow/test_cpsat.py": 3,
    "dataflow/test_methods.py::test_bounds_hold": 0,
    "dataflow/test_methods.py": 1,
    "dataflow/test_mip.py": 3,
    "dataflow/test_outside.py::test_every_method_finds_what_brute_force_finds": 1,
    "dataflow/test_outside.py::test_dram_decides": ALL,
    "dataflow/test_program.py::test_a_label_goes_only_where_another_is_as_good_in_all": ALL,
    "dataflow/test_program.py::test_program_is_brute_force": 0,
    "dataflow/test_program.py::test_a_limit_leaves_out_nothing_better": 0,
    "dataflow/test_program.py": 1,
    "dataflow/test_relaxation.py::test_no_bound_is_above_the_optimum": 0,
    "dataflow/test_relaxation.py": 3,
    "dataflow/test_tiles.py::test_table_6_on_tiles": 0,
    "dataflow/test_tiles.py::test_program_is_brute_force": 0,
    "dataflow/test_tiles.py": 1,
    "dataflow/test_page.py": 1,
    "placement/test_page.py": ALL,
    "placement/test_training_graphs.py": ALL,
    "wafer/test_bounds.py::test_strips_and_multipliers_at_one_time": 0,
    "wafer/test_bounds.py::test_not_above_the_optimum_of_tiny_instances": 1,
    "wafer/test_bounds.py": 3,
    "wafer/test_crosses.py::test_no_floorplan_takes_more_than_a_cross_has": 1,
    "wafer/test_cpsat.py::test_the_optimum_is_that_of_enumeration": 5,
    "wafer/test_mip.py::test_the_optimum_is_that_of_enumeration": 5,
    "wafer/test_rows.py::test_rows_of_residual_blocks_are_those_of_enumeration": 0,
    "wafer/test_rows.py::test_rows_improve_step_by_step_and_stay_legal": 0,
    "wafer/test_rows.py::test_annealing_finds_the_shortest_order": 0,
    "wafer/test_rows.py": 1,
    "wafer/test_slicing.py": 1,
    "multimodel/test_agreement.py::test_no_method_contradicts_enumeration": 4,
    "multimodel/test_agreement.py::test_lines_of_columns_hold_for_all_schedules": 1,
    "multimodel/test_agreement.py::test_enumeration_finds_what_the_checker_finds": 0,
    "multimodel/test_agreement.py": ALL,
    "multimodel/test_any_windows.py": 1,
    "multimodel/test_columns.py::test_the_link_proves_no_more_than_the_optimum": 1,
    "multimodel/test_columns.py": 2,
    "multimodel/test_ticks.py::test_edp_of_any_scale_is_the_least_product": 0,
    "multimodel/test_ticks.py": ALL,
    "instances/test_decimals.py": ALL,
    "plans/test_bad_plans.py::test_plans_of_thousands_of_operations_are_decoded": 0,
    "plans/test_bad_plans.py": ALL,
    "plans/test_chrome_trace.py": 5,
    "plans/test_round_trips.py::test_a_plan_comes_back_with_the_same_certificate": 10,
    "learned/test_features.py": ALL,
    "learned/test_bases.py::test_the_pool_holds_the_best_distinct_mappings": ALL,
    "learned/test_policy.py::test_a_checkpoint_comes_back_and_a_poisoned_one_is_refused": ALL,
    "report/test_rows.py": ALL,
    "runtime/test_solve.py::test_a_named_start_runs_before_the_method": 1,
    "runtime/test_solve.py": ALL,
    "solvers/test_availability.py": ALL,
    "solvers/test_implied_integers.py::test_mapping_that_was_cut_off": 0,
    "solvers/test_implied_integers.py": ALL,
    "solvers/test_lowering.py": ALL,
    "solvers/test_repeated.py": ALL,
    "solvers/test_session.py": ALL,
    "solvers/test_starts.py": ALL,
    "solvers/test_adapters.py::test_deterministic_twice": 0,
    "solvers/test_adapters.py::test_hooks_hear_improving_solutions_and_bounds": 0,
    "solvers/test_adapters.py::test_time_limit_keeps_solution_and_bound": 0,
    "solvers/test_adapters.py::test_highs_thread_count_may_change_between_solves": 0,
    "solvers/test_adapters.py::test_native_options_reach_the_solver": 0,
    "solvers/test_adapters.py::test_the_bounds_of_a_deterministic_run_of_highs_do_not_depend_on_the_clock": 0,
    "solvers/test_adapters.py": 3,
}

#: Test functions of many cases that ask the same of each -> how many of them ``make test`` runs. 0: large instances
#: whose claims others of the file hold on small ones.
SOME: dict[str, int] = {
    "cli/test_hostile.py::test_names_command_nothing_in_any_family": 2,
    "cli/test_oracle.py::test_a_family_without_one_refuses_it_in_one_sentence": 2,
    "cli/test_settings.py::test_every_shipped_instance_survives_its_file": 24,
    "cli/test_unused_options.py::test_options_that_a_solver_took_are_not": 2,
    "conformance/test_exports.py::test_an_exported_model_has_the_same_optimum": 22,
    "conformance/test_hints.py::test_a_promise_is_kept": 8,
    "conformance/test_hints.py::test_what_is_needed_at_least_is_needed": 8,
    "conformance/test_models.py::test_a_model_says_what_brute_force_says": 140,
    "conformance/test_models.py::test_a_warm_start_is_accepted": 80,
    "conformance/test_models.py::test_an_infeasible_model_names_what_conflicts": 40,
    "conformance/test_models.py::test_so_does_every_other_way_to_state_it": 70,
    "conformance/test_models.py::test_the_deterministic_mode_gives_the_same_twice": 30,
    "dataflow/test_convexity.py::test_partitions_of_any_order_obey": 5,
    "dataflow/test_cpsat.py::test_cpsat_finds_the_programs_optimum": 8,
    "dataflow/test_cpsat.py::test_table_6_by_highs_cpsat_and_program": 2,
    "dataflow/test_mip.py::test_a_mapping_goes_in_and_out": 8,
    "dataflow/test_model_methods.py::test_all_degrees": 12,
    "dataflow/test_published.py::test_table_vi": 3,
    "dataflow/test_reports.py::test_published_settings_fit_and_their_range_holds_what_was_measured": 1,
    "dataflow/test_random_machines.py::test_programs_and_covers_of_wide_graphs_count_launches": 2,
    "docs/test_labels.py::test_a_function_that_a_model_calls_by_itself_is_noticed": 6,
    "docs/test_labels.py::test_a_label_dropped_or_swapped_in_the_checker_is_noticed": 20,
    "docs/test_labels.py::test_a_label_with_another_word_is_noticed": 20,
    "instances/test_onnx.py::test_shipped_models": 4,
    "known/test_shipped.py::test_tiny_optima_are_those_of_brute_force": 16,
    "multimodel/test_agreement.py::test_no_method_contradicts_enumeration": 24,
    "multimodel/test_outcome.py::test_every_command_shows_the_units": 1,
    "placement/test_simulator.py::test_hand_traces_in_another_process": 1,
    "placement/test_simulator.py::test_what_goes_on_from_a_kept_moment_is_the_whole_simulation": 3,
    "plans/test_jax_text.py::test_a_program_comes_back_with_the_same_certificate": 6,
    "plans/test_round_trips.py::test_the_best_mappings_known_come_back": 2,
    "report/test_commands.py::test_tables_fit_a_narrow_terminal": 2,
    "ring/test_at_once.py::test_fifty_thousand_operations_end_with_a_bound": 0,
    "ring/test_cpsat.py::test_brute_force_on_every_subset": 20,
    "ring/test_cpsat_methods.py::test_methods_prove_what_brute_force_finds": 2,
    "ring/test_cut_profile.py::test_no_bound_above_the_optimum": 15,
    "ring/test_explain.py::test_densenet121_leaves_chips_to_its_skips": 0,
    "ring/test_explain.py::test_every_change_of_the_tiny_instances_by_brute_force": 2,
    "ring/test_explain.py::test_memory_in_grade_full_by_brute_force": 2,
    "ring/test_explain.py::test_random_instances_of_every_mode": 5,
    "ring/test_mip.py::test_brute_force_on_every_subset": 32,
    "ring/test_neighbourhoods.py::test_every_subset_of_constraints": 16,
    "ring/test_oracle.py::test_every_method_respects_the_oracle": 12,
    "runtime/test_command.py::test_a_full_disk_costs_the_archive_only": 2,
    "runtime/test_command.py::test_a_killed_parent_leaves_a_valid_solution_and_no_archive": 2,
    "runtime/test_command.py::test_an_interrupt_while_the_command_is_imported": 3,
    "runtime/test_command.py::test_an_interrupt_writes_the_result": 2,
    "runtime/test_start.py::test_a_first_solve_compiles_nothing": 3,
    "runtime/test_start.py::test_plain_python_finds_what_compiled_functions_find": 6,
    "runtime/test_supervisor.py::test_a_child_killed_at_any_moment_loses_nothing": 6,
    "wafer/test_adapters.py::test_adapters_within_boxes_are_as_few_as_by_enumeration": 4,
    "wafer/test_bounds.py::test_not_above_the_optimum_of_tiny_instances": 6,
    "wafer/test_bounds.py::test_strips_and_multipliers_at_one_time": 2,
    "wafer/test_cpsat.py::test_every_way_to_state_it_keeps_the_optimum": 3,
    "wafer/test_rows.py::test_rows_of_residual_blocks_are_those_of_enumeration": 2,
    "wafer/test_snakes.py::test_the_program_is_exact_over_rows": 4,
}


@pytest.fixture(autouse=True)
def in_this_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """``isolate`` is False by default, but for the tests of :data:`AS_USERS`."""
    if not request.path.relative_to(TESTS).as_posix().startswith(AS_USERS):
        monkeypatch.setattr("chipmap.process.conduct.by_default", lambda options, *functions: False)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="only the quick lane: the files and samples of QUICK")


@cache
def quick_cases(path: Path, function: str) -> int:
    """How many cases of a test function the quick lane runs; 0 outside it."""
    name = path.relative_to(TESTS).as_posix()
    for pattern, count in QUICK.items():
        file, _, only = pattern.partition("::")
        if fnmatch(name, file) and name.count("/") == file.count("/") and only in ("", function):
            return count
    return 0


def is_quick(path: Path) -> bool:
    """Whether the quick lane has a part in a file of tests."""
    name = path.relative_to(TESTS).as_posix()
    files = {pattern.partition("::")[0] for pattern, count in QUICK.items() if count}
    return any(fnmatch(name, file) and name.count("/") == file.count("/") for file in files)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if config.getoption("--quick") and collection_path.is_file() and not is_quick(collection_path):
        return True
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    quick = config.getoption("--quick")
    if quick or not LONG:
        kept = list(sampled(items, quick))
        chosen = set(kept)
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = kept


def pytest_collection_finish() -> None:
    """What was collected stays to the end, so the garbage collector needn't walk through it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


def sampled(items: Iterable[pytest.Item], quick: bool) -> Iterator[pytest.Item]:
    """The items of the quick lane, in order: of each test function as many cases as QUICK says.

    Of ``make test`` those and, of functions in SOME, as many others as it says.
    """
    for function, group in groupby(items, key=lambda item: item.nodeid.partition("[")[0]):
        cases, name = list(group), function.rpartition("::")[2]
        place = cases[0].path.relative_to(TESTS).as_posix()
        kept: set[int] = set() if quick else drawn(function, len(cases), SOME.get(f"{place}::{name}", len(cases)))
        if len(kept) < len(cases):
            kept |= drawn(function, len(cases), quick_cases(cases[0].path, name))
        yield from (cases[i] for i in sorted(kept))


def drawn(function: str, cases: int, most: int) -> set[int]:
    """Which of a function's cases a sample of at most so many takes."""
    return set(Random(function).sample(range(cases), min(most, cases)))


def wanting(reason: str) -> str:
    """The extra that a skipped test lacks, by the reason that pytest gives; "" for another reason.

    >>> wanting("Skipped: could not import 'torch': No module named 'torch'")
    'judges'
    >>> wanting("Skipped: needs the extra learned")
    'judges'
    """
    missing = re.search(r"(?:could not import|No module named) '(\w+)", reason)
    extra = re.search(r"needs the extra (\w+)", reason)
    if missing:
        return EXTRAS.get(missing[1], "")
    return {"learned": "judges", "torch": "judges", "zoo": "judges"}.get(extra[1], extra[1]) if extra else ""


def lacking(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> Counter[str]:
    """How many tests were skipped, by the extra that they lack ("": for another reason).

    A file that is skipped whole counts as many tests as it has functions. Workers say the same file each.
    """
    found: Counter[str] = Counter()
    for report in {report.nodeid: report for report in reports}.values():
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        path = TESTS.parent / report.nodeid
        whole = report.nodeid.endswith(".py") and path.is_file()
        tests = re.findall(r"^def test_", path.read_text(encoding="utf-8"), re.MULTILINE) if whole else [""]
        found[wanting(reason)] += len(tests)
    return found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many tests were skipped, and for want of which extra: they run elsewhere, by ``make judges``."""
    found = lacking(terminalreporter.stats.get("skipped", []))
    if parts := [f"{count} of extra {extra}" for extra, count in sorted(found.items()) if extra]:
        total = sum(count for extra, count in found.items() if extra)
        terminalreporter.write_line(
            f"skipped {total} tests for want of packages: {', '.join(parts)} (make judges runs them)"
        )
    if found[""]:
        terminalreporter.write_line(f"skipped {found['']} tests for other reasons (pytest -rs names them)")
