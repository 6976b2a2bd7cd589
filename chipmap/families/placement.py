"""The record that ties family ``placement`` together."""

from __future__ import annotations

from chipmap.families.plan_formats import CHROME_TRACE, DEVICE_MAP, OF_GRAPHS, ONNX, SOLVER, TABLE, TORCH_PIPELINE
from chipmap.family import AuxiliaryModel, Family, FileFormat, Formulation, Scope, generators, methods

MODELS = "Efficient Algorithms for Device Placement of DNN Graph Operators, NeurIPS 2020"

FAMILY = Family(
    name="placement",
    title="which device runs each operation of a graph, and when",
    schema="placement/1",
    instance="chipmap.instances.placement:PlacementInstance",
    solution="chipmap.instances.placement:PlacementSolution",
    check="chipmap.validation.placement.checker:check",
    candidates="chipmap.validation.placement.candidates:candidates",
    tick="1 ns",
    unit="ms",
    unit_per_tick=1e-6,
    rounding="chipmap.instances.placement.rounding:rounding",
    constraints={
        "C0": "domain",
        "C1": "together (groups that share a device, and those apart)",
        "C2": "order",
        "C3": "transfer",
        "C4": "device",
        "C5": "channel",
        "C6": "memory",
        "C7": "contiguous",
    },
    terms={"T1": "step", "T2": "load"},
    in_force="chipmap.instances.placement.instance:in_force",
    methods=methods(
        "placement",
        ("auto", "chain:auto", "the best chain"),
        ("one-device", "baselines:one_device", "everything on one device"),
        ("human", "baselines:human_splits", "layers one after the other, by time or bytes, or in turn; the best"),
        ("metis", "baselines:metis_parts", "METIS with parts of equal time or bytes (extra metis); the better one"),
        ("heft", "baselines:heft", "HEFT: by falling upward rank, where an operation ends first"),
        ("heft-units", "baselines:heft_on_units", "HEFT with a weight, its update and its gradients as one unit"),
        ("cpop", "baselines:critical_path", "CPOP: the critical path on one device, the rest where it ends first"),
        ("etf", "baselines:etf_alone", "ETF: the operation and device that can start first"),
        ("m-etf", "baselines:m_etf", "Baechi's m-ETF: ETF with memory and links that carry one tensor at a time"),
        ("partition", "chain:partitions", "even work, few transfers, bytes that fit: the best of several partitions"),
        ("random", "baselines:at_random", "a random device for each operation"),
        ("policy", "baselines:policy", "a policy that learns while it draws (extra learned), 400 placements"),
        ("starts", "chain:starts", "the best of one device, human splits, HEFT, HEFT on units and ETF"),
        ("search", "chain:annealed", "annealing over devices and keys, from the best start"),
        ("fix", "around_start:fix", "what exchanges nothing with other devices stays as the start has it, CP-SAT"),
        ("proximity", "around_start:proximity", "at most 20 groups leave the start's devices, CP-SAT"),
        ("windows", "neighbourhoods:windows", "windows of the start's schedule placed anew by CP-SAT"),
        ("windows-learned", "neighbourhoods:guided", "the same in the order that a policy proposes (extra learned)"),
        ("ideals", "chain:in_blocks", "throughput by blocks one after the other, the program over ideals"),
        ("mip", "chain:mip", "the MIP, by HiGHS or Gurobi"),
        ("cpsat", "chain:cpsat", "the CP-SAT model"),
        ("bounds", "chain:bounds", "every lower bound, no placement"),
        alone=("one-device", "human", "metis", "heft", "heft-units", "cpop", "etf", "m-etf", "random", "policy"),
    ),
    small="chipmap.instances.placement.instance:small",
    warm=(
        ("placement/tiny-throughput", "auto"),
        ("placement/tiny-bus", "auto"),  # not settled by paths: all bounds are computed
        ("placement/tiny-bus", "partition"),  # several devices fit
        *(("placement/tiny-pair", method) for method in ("auto", "search", "cpop", "m-etf")),
    ),
    read_split="chipmap.plans.devices:read_split",
    formats=(
        FileFormat(
            ".devices.csv",
            r"\s*(what[,;\t])?(operation|name)[,;\t](device|place)[,;\t\r\n]",
            "solution",
            "chipmap.plans.devices:read_table",
            "chipmap.instances.placement.splits:write_table",
        ),
    ),
    at_once="chipmap.methods.placement.at_once:at_once",
    advice="chipmap.methods.placement.at_once:advice",
    first="chipmap.methods.placement.first:first",
    prepare=("chipmap.instances.placement.problem:placement_problem", "chipmap.validation.placement.facts:looked_up"),
    warm_starts={
        "greedy": "chipmap.methods.placement.first:first",
        "sibling": "chipmap.methods.placement.chain:by_siblings",
    }
    | {
        name: f"chipmap.methods.placement.baselines:{function}"
        for name, function in (
            ("one-device", "one_device"),
            ("human", "human_splits"),
            ("metis", "metis_parts"),
            ("heft-units", "heft_on_units"),
            ("policy", "policy"),
        )
    },
    attempts=("starts", "partition", "ideals"),
    default_method="placement/auto",
    formulations=(
        Formulation("placement/mip", "mip", "chipmap.formulations.placement.mip:build", MODELS),
        Formulation("placement/cpsat", "cpsat", "chipmap.formulations.placement.cpsat:build", MODELS),
    ),
    auxiliary_models=(
        AuxiliaryModel(
            "placement/units",
            "cpsat",
            "chipmap.formulations.placement.cpsat_units:build",
            Scope.WHOLE,
            "throughput by units and nets, below a known load",
        ),
        AuxiliaryModel(
            "placement/window",
            "cpsat",
            "chipmap.formulations.placement.cpsat_window:build",
            Scope.WINDOW,
            "some operations of a schedule placed anew",
            lacks=("C6",),
        ),
        AuxiliaryModel(
            "placement/boundary",
            "cpsat",
            "chipmap.formulations.placement.cpsat_boundary:build_device",
            Scope.QUESTION,
            "what one device pays at least for the nets that it cuts",
            lacks=("C0", "C6", "C7", "T2"),
        ),
    ),
    generators=generators(
        "placement",
        ("placement-training", "generators:training_step", "the training step of a network by name"),
        ("placement-inference", "generators:inference", "the forward graph of a network by name"),
        (
            "placement-partitioning",
            "dnn_partitioning:partitioning",
            "a throughput instance of the dnn-partitioning files",
        ),
        ("placement-random", "generators:random_instance", "a random graph on a few devices"),
    ),
    from_graph="chipmap.instances.placement.from_graph:from_graph",
    equip="chipmap.instances.placement.from_graph:equip",
    describe="chipmap.instances.placement.describe:describe",
    transforms={
        "training": "chipmap.instances.placement.from_graph:training_step",
        "cut": "chipmap.instances.grain:cut",
        "no_split": "chipmap.instances.grain:no_split",
    },
    shipped="chipmap.instances.placement.shipped:SHIPPED",
    mapping="chipmap.inputs.by_name:devices",
    named="chipmap.inputs.plain:devices_by_name",
    sweeps="chipmap.instances.placement.shipped:SWEEPS",
    measures="chipmap.bench.placement.measures:measures",
    plan_formats=(DEVICE_MAP, TABLE, TORCH_PIPELINE, ONNX, *OF_GRAPHS, CHROME_TRACE, SOLVER),
    files="chipmap.report.placement.files:files",
    merge_pins="chipmap.instances.placement.pinning:merge_pins",
    explain="chipmap.explaining.placement.explain:explain",
    plot="chipmap.report.placement.plots:plot",
)
