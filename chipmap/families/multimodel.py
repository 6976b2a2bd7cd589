"""The record that ties family ``multimodel`` together."""

from __future__ import annotations

from chipmap.families.plan_formats import CHROME_TRACE, ONNX, SOLVER, TABLE
from chipmap.family import Family, Formulation, generators, methods

PAPER = "SCAR: Scheduling Multi-Model AI Workloads on Heterogeneous Multi-Chiplet Module Accelerators, MICRO 2024"

FAMILY = Family(
    name="multimodel",
    title="several models on a heterogeneous multi-chiplet module, in time windows",
    schema="multimodel/1",
    instance="chipmap.instances.multimodel:MultiInstance",
    solution="chipmap.instances.multimodel:MultiSolution",
    check="chipmap.validation.multimodel.checker:check",
    candidates="chipmap.validation.multimodel.candidates:candidates",
    tick="1 ns of latency, 1 pJ of energy, 1e-12 J·s of their product or a power of ten less",
    unit="J·s",
    unit_per_tick=1e-12,
    rounding="chipmap.instances.multimodel.rounding:rounding",
    units="chipmap.instances.multimodel.units:units",
    constraints={
        "C0": "domain",
        "C1": "chain",
        "C2": "apart",
        "C3": "path",
        "C4": "limits",
        "C5": "memory",
        "C6": "pins",
        "C7": "order",
        "C8": "follow",
    },
    terms={"T1": "latency", "T2": "energy", "T3": "dropped"},
    in_force="chipmap.instances.multimodel.instance:in_force",
    methods=methods(
        "multimodel",
        ("auto", "chain:auto", "the best chain"),
        ("whole", "chain:whole", "whole models, each on a chiplet of its own; frames by earliest deadline"),
        ("search", "chain:annealed", "annealing alone"),
        ("one-window", "chain:single", "the best schedule of a single window, proved where no more are allowed"),
        ("mip", "chain:mip", "the MIP, by HiGHS or Gurobi; for EDP one weight after the other"),
        ("cpsat", "chain:cpsat", "the CP-SAT model"),
        ("bounds", "chain:bounds", "every lower bound, no schedule"),
        ("standalone", "baselines:standalone", "each model whole on one chiplet of a class"),
        ("simba", "baselines:simba", "pipelines over the chiplets of one class, as SCAR compares with"),
        ("scar", "baselines:scar", "SCAR's own search, four splits"),
        ("scar-best", "baselines:scar_best", "SCAR's own search, the best of none to four splits"),
        ("scar-evolutionary", "baselines:scar_evolutionary", "SCAR's search with evolved cuts, for large modules"),
        alone=("standalone", "simba", "scar", "scar-best", "scar-evolutionary"),
    ),
    at_once="chipmap.methods.multimodel.at_once:at_once",
    first="chipmap.methods.multimodel.first:first",
    small="chipmap.instances.multimodel.instance:small",
    warm=(
        *(("multimodel/tiny-two", method) for method in ("search", "scar-best", "one-window")),
        ("multimodel/tiny-three", "bounds"),  # three models share the chiplets
        ("multimodel/tiny-two", "chipmap.methods.multimodel.chain:by_columns"),  # not proved before
        ("multimodel/tiny-both-ends", "one-window"),  # receivers pay as well
        ("multimodel/tiny-three", "chipmap.methods.multimodel.chain:by_numbers"),  # of more than a hundred paths
    ),
    default_method="multimodel/auto",
    warm_starts={
        "whole": "chipmap.methods.multimodel.chain:whole",
        "scar-best": "chipmap.methods.multimodel.baselines:scar_best",
    },
    attempts=("whole", "one-window", "scar-best"),
    formulations=(
        Formulation("multimodel/mip", "mip", "chipmap.formulations.multimodel.mip:build", PAPER),
        Formulation("multimodel/cpsat", "cpsat", "chipmap.formulations.multimodel.cpsat:build", PAPER),
    ),
    generators=generators(
        "multimodel",
        ("multimodel-networks", "generators:networks", "published networks with their batches on two dataflows"),
        ("multimodel-scenario", "generators:scenario", "a scenario of SCAR's table III"),
        ("multimodel-frames", "generators:frames", "a scenario of SCAR's table III with frames per second"),
        ("multimodel-random", "generators:random_instance", "chains with random costs on a small module"),
    ),
    shipped="chipmap.instances.multimodel.shipped:SHIPPED",
    describe="chipmap.instances.multimodel.describe:describe",
    mapping="chipmap.inputs.by_name:segments",
    plan_formats=(TABLE, ONNX, CHROME_TRACE, SOLVER),
    files="chipmap.instances.multimodel.describe:files",
    merge_pins="chipmap.instances.multimodel.pinning:merge_pins",
    explain="chipmap.explaining.multimodel.explain:explain",
    plot="chipmap.report.multimodel.plots:plot",
    sweeps="chipmap.instances.multimodel.shipped:SWEEPS",
    measures="chipmap.instances.multimodel.describe:measures",
    from_graphs="chipmap.instances.multimodel.from_graph:from_graphs",
    equip="chipmap.instances.multimodel.from_graph:equip",
)
