"""Native options that leave a solver's proofs what they are: the safe ones, by solver. All others void its proofs.

Safe are limits, seeds, threads, logs, gaps (the bound that is reported stays one), and the strategies of presolve,
cuts, branching and heuristics. Not safe is whatever may cut off solutions, drop or scale coefficients, change a
tolerance, solve another problem, or isn't listed here. With such an option solutions still count, as the checker judges
them, but "infeasible", "optimal" and bounds don't.

Sources: HiGHS, "List of options" (``objective_bound`` ends the dual simplex; ``solver`` makes a MIP's integrality
ignored); Gurobi Reference Manual, "Parameter Reference" (``Cutoff`` and ``FeasibilityTol``, say, change what is
proved); ortools, ``sat_parameters.proto``.
"""

from __future__ import annotations

from collections.abc import Iterable


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


HIGHS = _names(
    """
    presolve parallel run_crossover time_limit objective_target random_seed threads simplex_strategy
    simplex_scale_strategy simplex_dual_edge_weight_strategy simplex_primal_edge_weight_strategy simplex_update_limit
    simplex_max_concurrency output_flag log_to_console log_file write_model_to_file write_presolved_model_to_file
    write_solution_to_file write_solution_style write_model_file solution_file write_presolved_model_file
    mip_detect_symmetry mip_allow_restart mip_max_nodes mip_max_stall_nodes mip_max_start_nodes
    mip_improving_solution_save mip_improving_solution_report_sparse mip_improving_solution_file mip_root_presolve_only
    mip_lifting_for_probing mip_max_leaves mip_max_improving_sols mip_lp_age_limit mip_pool_age_limit
    mip_pool_soft_limit mip_pscost_minreliable mip_min_cliquetable_entries_for_parallelism mip_heuristic_effort
    mip_heuristic_run_feasibility_jump mip_heuristic_run_rins mip_heuristic_run_rens
    mip_heuristic_run_root_reduced_cost mip_heuristic_run_zi_round mip_heuristic_run_shifting
    mip_allow_cut_separation_at_nodes mip_rel_gap mip_abs_gap mip_min_logging_interval mip_lp_solver mip_ipm_solver
    presolve_rule_off
    """
)
#: Gurobi takes its parameters' names in any case.
GUROBI = _names(
    """
    aggfill aggregate barcorrectors bariterlimit barorder bestbdstop bestobjstop branchdir bqpcuts cliquecuts
    concurrentmip concurrentmethod covercuts crossover crossoverbasis cutaggpasses cutpasses cuts degenmoves
    disconnected displayinterval dualimpliedcuts dualreductions flowcovercuts flowpathcuts gubcovercuts gomorypasses
    heuristics improvestartgap improvestartnodes improvestarttime improvestartwork impliedcuts infproofcuts infunbdinfo
    integralityfocus iterationlimit liftprojectcuts logfile logtoconsole lpwarmstart masterknapsackcuts memlimit method
    minrelnodes mipfocus mipgap mipgapabs mipsepcuts mircuts mixingcuts modkcuts networkalg networkcuts nodefiledir
    nodefilestart nodelimit nodemethod norelheursolutions norelheurtime norelheurwork normadjust numericfocus obbt
    outputflag partitionplace precrush predeprow predual prepasses presolve presparsify projimpliedcuts pumppasses quad
    relaxliftcuts rins rltcuts seed siftmethod sifting simplexpricing softmemlimit solutionlimit startnodelimit
    starttimelimit startworklimit strongcgcuts submipcuts submipnodes symmetry threadlimit threads timelimit varbranch
    worklimit zerohalfcuts zeroobjnodes
    """
)
CPSAT = _names(
    """
    name preferred_variable_order initial_polarity use_phase_saving polarity_rephase_increment random_polarity_ratio
    random_branches_ratio use_erwa_heuristic initial_variables_activity minimization_algorithm
    binary_minimization_algorithm use_chronological_backtracking clause_cleanup_period clause_cleanup_target
    clause_cleanup_ratio restart_algorithms default_restart_algorithms restart_period use_blocking_restart
    max_time_in_seconds max_deterministic_time max_num_deterministic_batches max_number_of_conflicts max_memory_in_mb
    absolute_gap_limit relative_gap_limit random_seed permute_variable_randomly permute_presolve_constraint_order
    use_absl_random log_search_progress log_subsolver_statistics log_prefix log_to_stdout log_to_response
    use_pb_resolution probing_deterministic_time_limit presolve_probing_deterministic_time_limit max_presolve_iterations
    cp_model_presolve cp_model_probing_level cp_model_use_sat_presolve table_compression_level
    presolve_substitution_level ignore_names find_big_linear_overlap find_clauses_that_are_exactly_one
    use_sat_inprocessing inprocessing_dtime_ratio num_workers num_search_workers num_full_subsolvers subsolvers
    extra_subsolvers ignore_subsolvers filter_subsolvers interleave_search interleave_batch_size share_objective_bounds
    share_level_zero_bounds share_binary_clauses share_glue_clauses use_optimization_hints core_minimization_level
    find_multiple_cores cover_optimization use_precedences_in_disjunctive_constraint
    use_strong_propagation_in_disjunctive use_dynamic_precedence_in_disjunctive use_dynamic_precedence_in_cumulative
    use_overload_checker_in_cumulative use_timetable_edge_finding_in_cumulative use_hard_precedences_in_cumulative
    use_disjunctive_constraint_in_cumulative use_timetabling_in_no_overlap_2d use_energetic_reasoning_in_no_overlap_2d
    use_area_energetic_reasoning_in_no_overlap_2d use_dual_scheduling_heuristics search_branching hint_conflict_limit
    repair_hint use_probing_search use_extended_probing probing_num_combinations_limit use_objective_lb_search
    use_objective_shaving_search variables_shaving_level optimize_with_core optimize_with_lb_tree_search
    binary_search_num_conflicts optimize_with_max_hs use_feasibility_jump use_ls_only num_violation_ls
    shared_tree_num_workers use_shared_tree_search stop_after_first_solution lns_initial_difficulty
    lns_initial_deterministic_limit use_lns use_lns_only solution_pool_size use_rins_lns use_feasibility_pump
    use_lb_relax_lns diversify_lns_params randomize_search search_random_variable_pool_size catch_sigint_signal
    use_implied_bounds symmetry_level use_symmetry_in_lp linearization_level boolean_encoding_level max_num_cuts
    cut_level only_add_cuts_at_level_zero add_objective_cut add_cg_cuts add_mir_cuts add_zero_half_cuts add_clique_cuts
    add_rlt_cuts add_lin_max_cuts add_lp_constraints_lazily root_lp_iterations max_cut_rounds_at_level_zero
    """
)
SAFE = {"highs": HIGHS, "gurobi": GUROBI, "cpsat": CPSAT}


def proofs_void(solver: str, native: Iterable[str]) -> str:
    """Why ``solver`` proves nothing under these native options, in a sentence; empty where it does."""
    unsafe = [name for name in native if (name.lower() if solver == "gurobi" else name) not in SAFE[solver]]
    if not unsafe:
        return ""
    return f"the native options {', '.join(unsafe)} may change what a proof means, so that none of its proofs counts"
