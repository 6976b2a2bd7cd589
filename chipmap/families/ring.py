"""The record that ties family ``ring`` together."""

from __future__ import annotations

from chipmap.family import Family, Formulation, generators, methods

PAPER = "A Transferable Approach for Partitioning Machine Learning Models on Multi-Chip-Modules, section 3, eq. 1-5"

FAMILY = Family(
    name="ring",
    title="operations on the chips of a uni-directional ring package",
    schema="ring/1",
    instance="chipmap.instances.ring:RingInstance",
    solution="chipmap.instances.ring:RingSolution",
    check="chipmap.validation.ring.checker:check",
    candidates="chipmap.validation.ring.candidates:candidates",
    tick="10 ps",
    unit="us",
    unit_per_tick=1e-5,
    constraints={
        "C0": "domain (pins, keep-together groups, forbidden chips)",
        "C1": "flow (acyclic dataflow)",
        "C2": "no skipping (the first chips are in use)",
        "C3": "triangle (of chips)",
        "C4": "memory (grades: boundary, full)",
        "C5": "oracle (the user's own function)",
    },
    terms={"T1": "chip (the slowest)", "T2": "link (the slowest)"},
    methods=methods(
        "ring",
        ("auto", "chain:auto", "the best chain: programs, slicing, CP-SAT until proved"),
        ("greedy", "programs:greedy", "the greedy baseline: fill one chip after the other"),
        ("slice", "programs:slicing", "exact slicing of many topological orders"),
        ("free", "programs:free", "exact program over ideals without C3 (a bound)"),
        ("n1", "programs:n1", "exact program over ideals, necessary part of C3 (a bound)"),
        ("path", "programs:path", "exact program over ideals, sufficient part of C3"),
        ("exact", "programs:exact", "exact program over ideals, C3 in full: the optimum"),
        ("stations", "station_search:stations", "search chip by chip for wide graphs"),
        ("windows", "neighbourhoods:windows", "a few adjacent chips at a time, by CP-SAT"),
        ("bounds", "programs:bounds", "every lower bound that applies, no solution"),
        ("random", "sampling:random", "random search by SAMPLE, 4,000 samples"),
        ("annealing", "sampling:annealing", "simulated annealing on distributions"),
        ("mip", "models:mip", "the MIP, by HiGHS or Gurobi"),
        ("mip-path", "models:mip_path", "the MIP restricted to the path rule"),
        ("cpsat", "models:cpsat", "the CP-SAT model with station windows"),
        ("cpsat-cold", "models:cpsat_cold", "the CP-SAT model, no contraction, start or window"),
    ),
    default_method="ring/auto",
    warm_starts={"greedy": "chipmap.methods.ring.programs:greedy", "slice": "chipmap.methods.ring.programs:slicing"},
    formulations=(
        Formulation("ring/mip", "mip", "chipmap.formulations.ring.mip:build", PAPER),
        Formulation("ring/mip-path", "mip", "chipmap.formulations.ring.mip:build", PAPER, {"family": "path"}),
        Formulation("ring/cpsat", "cpsat", "chipmap.formulations.ring.cpsat:build", PAPER),
    ),
    generators=generators(
        "ring",
        ("bert-large", "generators:bert_large", "BERT-large's encoder"),
        ("gpt2", "generators:gpt2", "GPT-2 with its language-model head"),
        ("resnet50", "generators:resnet50", "ResNet-50 (or 18, 34, 101, 152)"),
        ("densenet121", "generators:densenet121", "DenseNet-121 (or 161, 169, 201)"),
        ("unet", "generators:unet", "U-Net, convolutions with skip connections"),
        ("rnn", "generators:rnn", "stacked LSTM layers, unrolled"),
        ("chain", "generators:chain", "operations in a row"),
        ("random", "generators:random", "a random graph"),
        ("explicit", "generators:explicit", "a graph given in words"),
    ),
    shipped="chipmap.instances.ring.shipped:SHIPPED",
    from_graph="chipmap.instances.ring.from_graph:from_graph",
    at_once="chipmap.methods.ring.at_once:at_once",
    plot="chipmap.report.ring.plots:plot",
    describe="chipmap.instances.ring.describe:describe",
    files="chipmap.instances.ring.describe:files",
    oracle="C5",
    scopes={
        "chip": "no chip may hold exactly the operations that this chip holds (all chips are alike)",
        "chip-monotone": "no chip may hold these operations, with whatever others",
    },
    explain="chipmap.methods.ring.explain.explain:explain",
    transforms={
        "clone": "chipmap.instances.ring.transforms:clone",
        "relay": "chipmap.instances.ring.transforms:relay",
    },
    in_force="chipmap.instances.ring.instance:in_force",
)
