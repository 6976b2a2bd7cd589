"""The record that ties family ``wafer`` together."""

from __future__ import annotations

from chipmap.families.plan_formats import CHROME_TRACE, SOLVER
from chipmap.family import AuxiliaryModel, Family, FileFormat, Formulation, Scope, generators, methods

PAPER = "CU.POKer: Placing DNNs on Wafer-Scale AI Accelerator with Optimal Kernel Sizing, ICCAD 2020"

FAMILY = Family(
    name="wafer",
    title="kernels with free execution arguments on the fabric of a wafer-scale engine",
    schema="wafer/1",
    instance="chipmap.instances.wafer:WaferInstance",
    solution="chipmap.instances.wafer:WaferSolution",
    check="chipmap.validation.wafer.checker:check",
    candidates="chipmap.validation.wafer.candidates:candidates",
    tick="a quarter of a point",
    unit="points",
    unit_per_tick=0.25,
    rounding="chipmap.instances.wafer.rounding:rounding",
    constraints={
        "C0": "domain (one placement per kernel, arguments from 1)",
        "C1": "inside (the fabric)",
        "C2": "no overlap",
        "C3": "memory (per tile)",
        "C4": "pins",
        "C5": "kept out",
        "C6": "sides",
        "C7": "crossing",
    },
    in_force="chipmap.instances.wafer.instance:in_force",
    merge_pins="chipmap.instances.wafer.pinning:merge_pins",
    terms={"T1": "time (of the slowest kernel)", "T2": "wire (length)", "T3": "adapters"},
    methods=methods(
        "wafer",
        ("auto", "chain:auto", "the best chain"),
        ("greedy", "greedy:greedy", "the greedy row packer"),
        ("exact", "greedy:exact", "branch and bound over all placements, for tiny instances"),
        ("rows", "chain:rows", "the best row, single or folded, over all target times"),
        ("search", "chain:search", "annealing of slicing trees with the target time"),
        ("poker", "baselines:poker", "CU.POKer: exact sizing, row by row"),
        ("poker-each", "baselines:poker_each", "CU.POKer, refined at every time"),
        ("annealing-tbs", "baselines:annealing", "annealing on twin binary sequences"),
        ("divide", "baselines:divide", "divide-and-conquer slicing placer"),
        ("mip", "models:mip", "the MIP, by HiGHS or Gurobi"),
        ("cpsat", "models:cpsat", "the CP-SAT model, then windows on large fabrics"),
        ("bounds", "chain:bounds", "every lower bound that applies, no solution"),
        alone=("greedy", "poker", "poker-each", "annealing-tbs", "divide"),
    ),
    small="chipmap.instances.wafer.instance:small",
    warm=(
        *(("wafer/tiny-adapters", method) for method in ("rows", "search", "bounds", "annealing-tbs")),
        *(("wafer/tiny-skip", method) for method in ("rows", "search", "poker")),
        *(
            ("wafer/tiny-skip", f"chipmap.methods.wafer.chain:{what}")
            for what in ("to_and_fro", "by_counts", "by_wires", "by_rings", "by_fixed_boxes", "exchanges")
        ),
    ),
    attempts=("greedy", "exact", "rows"),
    default_method="wafer/auto",
    at_once="chipmap.methods.wafer.first:at_once",
    first="chipmap.methods.wafer.first:first",
    warm_starts={"greedy": "chipmap.methods.wafer.greedy:greedy"},
    formulations=(
        Formulation("wafer/mip", "mip", "chipmap.formulations.wafer.mip:build", PAPER),
        Formulation("wafer/cpsat", "cpsat", "chipmap.formulations.wafer.cpsat:build", PAPER),
    ),
    auxiliary_models=tuple(
        AuxiliaryModel(f"wafer/{name}", "cpsat", f"chipmap.formulations.wafer.{build}", scope, text)
        for name, build, scope, text in (
            ("window", "cpsat_window:window", Scope.WINDOW, "some kernels of a floorplan placed and sized anew"),
            (
                "same-order",
                "cpsat_window:same_order",
                Scope.WINDOW,
                "all kernels, each two apart in the direction in which they are",
            ),
            ("large", "cpsat_large:large", Scope.QUESTION, "whether some kernels have a place at a target time"),
        )
    ),
    generators=generators(
        "wafer",
        ("wafer-resnet", "generators:resnet", "ResNet, as blocks or convolutions"),
        ("wafer-unet", "generators:unet", "U-Net, convolutions with skip connections"),
        ("wafer-fc", "generators:fully_connected", "fully connected layers"),
        ("wafer-bert", "generators:bert", "BERT-large's matrix products"),
        ("wafer-gpt2", "generators:gpt2", "GPT-2's matrix products"),
        ("wafer-explicit", "generators:explicit", "a kernel graph given in words"),
    ),
    shipped="chipmap.instances.wafer.shipped:SHIPPED",
    from_graph="chipmap.instances.wafer.from_graph:from_graph",
    equip="chipmap.instances.wafer.measured:equip",
    equip_graph="chipmap.instances.wafer.measured:equip_graph",
    explain="chipmap.explaining.wafer.explain:explain",
    front="chipmap.explaining.wafer.front:front",
    plot="chipmap.report.wafer.plots:plot",
    plot_both="chipmap.report.wafer.plots:plot_both",
    describe="chipmap.instances.wafer.describe:describe",
    mapping="chipmap.inputs.by_name:floorplan",
    files="chipmap.instances.wafer.describe:files",
    formats=(
        FileFormat(
            ".kgraph",
            r"\s*\(\*",
            "instance",
            "chipmap.instances.wafer.kgraph:read_kgraph",
            "chipmap.instances.wafer.kgraph:write_kgraph",
        ),
        FileFormat(
            ".paint",
            r"\s*[^\s=:()]+\s*(=\s*(conv|dblock|cblock|table)|:\s*place)\s*\(",
            "solution",
            "chipmap.instances.wafer.paint:read_paint",
            "chipmap.instances.wafer.paint:write_paint",
        ),
    ),
    plan_formats=(CHROME_TRACE, SOLVER),
)
