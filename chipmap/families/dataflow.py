"""The record that ties family ``dataflow`` together."""

from __future__ import annotations

from chipmap.families.plan_formats import CHROME_TRACE, JAX, OF_DEGREES, SOLVER, TABLE
from chipmap.family import AuxiliaryModel, Family, Formulation, Scope, generators, methods

PAPER = "DFModel: Design Space Optimization of Large-Scale Systems Exploiting Dataflow Mappings, sections III to VIII"
UNEQUAL = "the stages on groups of unequal chips, whose times are known"

FAMILY = Family(
    name="dataflow",
    title="a dataflow graph sharded across chips and fused into partitions inside each chip",
    schema="dataflow/2",
    older=("dataflow/1",),
    instance="chipmap.instances.dataflow:DataflowInstance",
    solution="chipmap.instances.dataflow:DataflowSolution",
    check="chipmap.validation.dataflow.checker:check",
    candidates="chipmap.validation.dataflow.candidates:candidates",
    predict="chipmap.instances.dataflow.predicting:predicted",
    tick="1 ps",
    unit="s",
    unit_per_tick=1e-12,
    rounding="chipmap.instances.dataflow.rounding:rounding",
    constraints={
        "C0": "domain (degrees, micro-batch, schemes, a partition per kernel)",
        "C1": "order (tensors go forward)",
        "C2": "SRAM",
        "C3": "phases (forward and backward apart)",
        "C4": "partitions (their number)",
        "C5": "together (pinned kernels)",
        "C6": "DRAM",
        "C7": "tiles",
        "C8": "stages (of kernels, in the order of partitions)",
    },
    terms={
        "T1": "compute",
        "T2": "memory",
        "T3": "network",
        "T4": "layer",
        "T5": "transfers (between stages)",
        "T6": "gradients (over replicas)",
        "T7": "stage (the slowest)",
        "T8": "step (of the optimiser, and fixed costs)",
    },
    methods=methods(
        "dataflow",
        ("auto", "chain:auto", "the exact program for every choice of degrees and micro-batch"),
        ("mip", "models:mip", "the MIP for every choice of degrees and micro-batch, by HiGHS or Gurobi"),
        ("cpsat", "models:cpsat", "the CP-SAT model for every choice of degrees and micro-batch"),
        (
            "two-pass",
            "two_pass:two_pass",
            "the paper's procedure as a baseline: the inter-chip pass, then the intra-chip pass",
        ),
        ("relaxation", "bounds:relaxation", "the bound of the convex relaxation, no mapping"),
        ("bounds", "bounds:bounds", "the bound that compute alone gives, no mapping"),
        alone=("two-pass",),
    ),
    at_once="chipmap.methods.dataflow.at_once:at_once",
    first="chipmap.methods.dataflow.at_once:first",
    small="chipmap.instances.dataflow.instance:small",
    warm=tuple((f"dataflow/{name}", "auto") for name in ("tiny-chain", "resnet50-8", "table6-kbk-8x1")),
    attempts=("auto", "two-pass"),
    default_method="dataflow/auto",
    formulations=(
        Formulation("dataflow/mip", "mip", "chipmap.formulations.dataflow.mip:build", PAPER + ", equations 1 to 7"),
        Formulation(
            "dataflow/cpsat", "cpsat", "chipmap.formulations.dataflow.cpsat:build", PAPER + ", equations 1 to 7"
        ),
    ),
    auxiliary_models=(
        AuxiliaryModel(
            "dataflow/unequal-mip", "mip", "chipmap.formulations.dataflow.mip_unequal:build", Scope.SUBSET, UNEQUAL
        ),
        AuxiliaryModel(
            "dataflow/unequal-cpsat",
            "cpsat",
            "chipmap.formulations.dataflow.cpsat_unequal:build",
            Scope.SUBSET,
            UNEQUAL,
        ),
    ),
    generators=generators(
        "dataflow",
        ("dataflow-gpt", "generators:gpt", "GPT layers on equal chips"),
        (
            "dataflow-llama",
            "generators:llama",
            "Llama layers: forward, prefill or decode, with grouped-query attention and a gated FFN",
        ),
        ("dataflow-engine", "generators:engine", "Llama layers as inference engines fuse them: prefill or decode"),
        ("dataflow-dlrm", "generators:dlrm", "a recommendation model with embedding tables"),
        ("dataflow-resnet", "generators:resnets", "ResNet-50 (or 18, 34, 101, 152), forward, its stages any kernels"),
        ("dataflow-hpl", "generators:hpl", "High Performance LINPACK"),
        ("dataflow-fft", "generators:fft", "a large one-dimensional FFT"),
        ("dataflow-moe", "generators:moe", "layers with a mixture of experts"),
        ("dataflow-vit", "generators:vit", "vision transformers, forward, with their backward kernels if asked"),
        ("dataflow-dit", "generators:dit", "diffusion transformers (adaLN-Zero), the same"),
        ("dataflow-explicit", "generators:explicit", "kernels given in words"),
    ),
    shipped="chipmap.instances.dataflow.shipped:SHIPPED",
    from_graph="chipmap.instances.dataflow.from_graph:from_graph",
    equip="chipmap.instances.dataflow.measured:equip",
    equip_graph="chipmap.instances.dataflow.measured:equip_graph",
    merge_pins="chipmap.instances.dataflow.pinning:merge_pins",
    explain="chipmap.explaining.dataflow.explain:explain",
    plot="chipmap.report.dataflow.plots:plot",
    describe="chipmap.instances.dataflow.describe:describe",
    mapping="chipmap.inputs.by_name:schemes",
    plan_formats=(TABLE, *OF_DEGREES, JAX, CHROME_TRACE, SOLVER),
    files="chipmap.instances.dataflow.describe:files",
    sweeps="chipmap.instances.dataflow.sweeps.shipped:SWEEPS",
    measures="chipmap.bench.dataflow.measures:measures",
)
