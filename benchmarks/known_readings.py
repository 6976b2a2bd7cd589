"""How each table that names a shipped instance is read, and why some aren't: a new one has to be entered here.

Columns of a table that aren't named here are seconds, shares, parts of an objective, or of a variant of the instance.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from benchmarks.known_tables import Kind, Namer, Table, first

RESULTS, FAMILIES = "benchmarks/results/", "docs/families/"


@dataclass(frozen=True)
class Reading:
    """The columns of a table, by title, and how a row names its instance. ``unit``: of cells that say none; "" is the
    instance's own, ``ticks`` are exact."""

    columns: dict[str, Kind]
    unit: str = ""
    name: Namer = field(default=first)


def scaled(table: Table, row: tuple[str, ...]) -> str:
    """A point of the sweep over devices, where its graph was made for as many: rnnlm-4, PCIe, 4."""
    graph, links, devices = (table.cell(row, title) for title in ("workload", "links", "devices"))
    count = {"inception": "2"}.get(graph, graph.rpartition("-")[2])
    return f"placement/{graph.removesuffix(f'-{count}')}-{count}-{links.lower()}" if devices == count else ""


def bert(table: Table, row: tuple[str, ...]) -> str:
    """The first row of BERT's table: its cell says how it was run, too."""
    return "ring/bert-large-36" if row[0].startswith("`ring/bert-large-36`, C1 to C4") else ""


def twelve_layers(table: Table, row: tuple[str, ...]) -> str:
    """The row whose cell names the instance and its stages."""
    return "dataflow/gpt3-175b-12-layers-8x5" if "dataflow/gpt3-175b-12-layers-8x5" in row[0] else ""


VALUE_BOUND: dict[str, Kind] = {"objective": "value", "bound": "bound"}
SUITE = Reading({"score": "value", "bound": "bound", "published": "value", "best of five": "value"})
POKER = Reading({"score": "value", "published": "value"})
ABLATION = Reading({"objective": "value", "gap": "gap"})
TABLE6 = Reading({"published": "value", "ours": "value"}, "s")

#: (page, heading, a title of the table or "") -> its reading.
READ: dict[tuple[str, str, str], Reading] = {
    (RESULTS + "wafer-suite.md", "The ISPD 2020 suite", ""): SUITE,
    (RESULTS + "wafer-suite.md", "With two threads", "score"): SUITE,
    (RESULTS + "wafer-large.md", "A thousand kernels", ""): Reading({"score": "value", "bound": "bound"}),
    **{(RESULTS + "wafer-baselines.md", one, ""): POKER for one in ("poker", "poker-each", "annealing-tbs", "divide")},
    (RESULTS + "wafer-ablation.md", "Ablation of wafer/auto", "objective"): ABLATION,
    (RESULTS + "wafer-ablation.md", "The chain before and after, side by side", ""): Reading(
        {"before": "value", "after": "value"}
    ),
    (RESULTS + "placement-workloads.md", "Training workloads of family `placement`", ""): Reading(
        {"earlier": "value", "search": "value", "bound": "bound"}
    ),
    (RESULTS + "placement-workloads.md", "Ten minutes each", ""): Reading(
        {"10 s": "value", "60 s": "value", "300 s": "value", "600 s": "value", "bound": "bound"}
    ),
    (RESULTS + "placement-workloads.md", "Where memory binds", ""): Reading({"free": "value"}),
    (RESULTS + "placement-ablation.md", "Ten seconds, one by one", ""): Reading(
        {"step or load": "value", "gap": "gap"}, "ms"
    ),
    (RESULTS + "placement-scaling.md", "Scaling of family `placement`: workloads × links × devices", ""): Reading(
        {"step, ms": "value", "bound, ms": "bound"}, "ms", scaled
    ),
    (RESULTS + "multimodel-search.md", "Against one random move", ""): Reading(
        {f"{which}{way}": "value" for which in ("best", "worst") for way in ("", ", no divisions", ", one random move")}
    ),
    (RESULTS + "multimodel-ablation.md", "Each instance", ""): Reading({"objective": "value", "gap": "gap"}, "ticks"),
    **{
        (RESULTS + "multimodel-baselines.md", "Named instances", title): Reading(dict.fromkeys(columns, "value"))
        for title, columns in {
            "standalone": ("standalone", "simba", "scar", "scar-best"),
            "scar-best": ("scar-evolutionary", "scar-best"),
            "scar-evolutionary": ("scar-evolutionary", "scar"),
        }.items()
    },
    (RESULTS + "multimodel-one-window.md", "One window: `task.windows=1`, objective `edp`", ""): Reading(
        {"objective": "value"}  # one window is one of five, the others empty; its bound is of one window alone
    ),
    (FAMILIES + "multimodel-results.md", "What was tried and lost", "with them"): Reading(
        {"before": "value", "with them": "value"}, "J·s"
    ),
    (RESULTS + "multimodel-targets.md", "EDP in J·s, sample by sample (b = 1)", ""): Reading(VALUE_BOUND),
    (RESULTS + "multimodel-targets.md", "EDP in J·s, whole models (b = B), and two models", ""): Reading(
        {**VALUE_BOUND, "scar-best": "value"}
    ),
    (
        *(RESULTS + "multimodel-targets.md", "EDP in J·s, 6 × 6 chiplets, scenario 4 over three and four windows"),
        "",
    ): Reading({**VALUE_BOUND, "scar-evolutionary": "value"}),
    (RESULTS + "dataflow-ablation.md", "Ablation of dataflow/auto", ""): Reading(
        {"with: objective": "value", "bound": "bound", "without: objective": "value", "bound#2": "bound"}, "ticks"
    ),
    (RESULTS + "dataflow-wide.md", "Wide dataflow graphs", ""): Reading(VALUE_BOUND, "s"),
    (RESULTS + "dataflow-table6.md", "DFModel's table VI and its GPT3 1T case", ""): TABLE6,
    (FAMILIES + "dataflow-results.md", "Table VI of the paper", ""): TABLE6,
    (FAMILIES + "dataflow-tiles.md", "How it is solved", "batch"): Reading({"batch": "value"}, "s"),
    (FAMILIES + "dataflow-results.md", "Stages of kernels", "batch, stages of kernels"): Reading(
        {"batch, stages of kernels": "value"}, "s", twelve_layers
    ),
    (RESULTS + "first-runs.md", "First runs against later ones", ""): Reading(
        {"first run": "value", "later run": "value", "bound, first run": "bound", "later run#2": "bound"}
    ),
    (RESULTS + "ring-bert.md", "BERT-large's encoder on 36 chips", ""): Reading(
        {"period, us": "value", "bound, us": "bound"}, "us", bert
    ),
    (RESULTS + "ring-windows.md", "Windows of adjacent chips from greedy's mapping", ""): Reading(
        {"greedy, us": "value", "after windows": "value", "chain": "value", "its bound": "bound"}, "us"
    ),
}

SECONDS_ALONE = "seconds, counts or gaps alone"
RELATIVE = "relative to another mapping of the same graph, or a mean over seeds"
CATALOGUE = "says what instances are, not what was found"
OTHER_PROBLEM = "another objective or another mode under the instance's name"
#: (page, heading or "" for all, a title of the table or "") -> why its figures aren't compared.
NOT_READ: dict[tuple[str, str, str], str] = {
    (RESULTS + "wafer-suite.md", "With two threads", "gap with one thread"): SECONDS_ALONE,
    (RESULTS + "wafer-suite.md", "With two threads", "CPU seconds"): SECONDS_ALONE,
    (RESULTS + "at-once.md", "", ""): SECONDS_ALONE,
    (RESULTS + "dataflow-first.md", "", ""): SECONDS_ALONE,
    (RESULTS + "dataflow-dse.md", "Hierarchical roofline (figure 18)", ""): SECONDS_ALONE,
    (RESULTS + "dataflow-agreement.md", "", ""): "seconds; proved values of every instance in both modes, of old rules",
    (RESULTS + "dataflow-two-pass.md", "", ""): OTHER_PROBLEM,
    (RESULTS + "determinism.md", "", ""): SECONDS_ALONE,
    (RESULTS + "interrupting.md", "", ""): SECONDS_ALONE,
    (RESULTS + "limits.md", "", ""): SECONDS_ALONE,
    (RESULTS + "link-shares.md", "", ""): RELATIVE,
    (RESULTS + "multimodel-tables.md", "", ""): SECONDS_ALONE,
    (RESULTS + "multimodel-targets.md", "Latency alone, in s", ""): OTHER_PROBLEM,
    (RESULTS + "multimodel-targets.md", "Energy alone, in J", ""): OTHER_PROBLEM,
    (RESULTS + "plan-round-trips.md", "", ""): SECONDS_ALONE,
    (RESULTS + "placement-credit.md", "", ""): RELATIVE,
    (RESULTS + "placement-large.md", "The decoder alone", ""): SECONDS_ALONE,
    (RESULTS + "placement-policy.md", "", ""): RELATIVE,
    (RESULTS + "placement-proposals.md", "", ""): RELATIVE,
    (RESULTS + "placement-start.md", "", ""): RELATIVE,
    (RESULTS + "placement-uses.md", "", ""): RELATIVE,
    (RESULTS + "ring-explain.md", "", ""): SECONDS_ALONE,
    (RESULTS + "ring-search.md", "", ""): RELATIVE,
    (RESULTS + "ring-throughput.md", "", ""): SECONDS_ALONE,
    (RESULTS + "ring-uses.md", "", ""): RELATIVE,
    (RESULTS + "start.md", "", ""): SECONDS_ALONE,
    (RESULTS + "wafer-ablation.md", "Ablation of wafer/auto", "source"): "who found what, by letters of cases",
    (RESULTS + "wafer-ablation.md", "One generator of random numbers", ""): RELATIVE,
    (RESULTS + "wafer-baselines.md", "", "target time"): "parts of a score; the tables below have the scores",
    (FAMILIES + "dataflow-tiles.md", "How it is solved", "program"): SECONDS_ALONE,
    (FAMILIES + "wafer-results.md", "The contest's 20 inputs", "with crosses"): SECONDS_ALONE,
    (FAMILIES + "wafer-results.md", "The contest's 20 inputs", "gap with them"): SECONDS_ALONE,
    (FAMILIES + "wafer-results.md", "The contest's 20 inputs", "gap with ranges split first"): SECONDS_ALONE,
    (FAMILIES + "wafer-results.md", "The contest's 20 inputs", "gap in longer runs"): SECONDS_ALONE,
    (FAMILIES + "wafer-results.md", "Layouts of case C", "case"): "beside the score of before, and worse",
    (FAMILIES + "dataflow-models.md", "Sizes", ""): SECONDS_ALONE,
    ("docs/dev/mutants.md", "", ""): CATALOGUE,
    ("docs/data.md", "", ""): CATALOGUE,
    ("docs/instances.md", "", ""): CATALOGUE,
    ("docs/reference/commands.md", "", ""): CATALOGUE,
    ("docs/reference/instances-dataflow.md", "", ""): CATALOGUE,
    ("docs/reference/instances-multimodel.md", "", ""): CATALOGUE,
    ("docs/reference/instances-placement.md", "", ""): CATALOGUE,
    ("docs/reference/instances-ring.md", "", ""): CATALOGUE,
    ("docs/reference/instances-wafer.md", "", ""): CATALOGUE,
    ("docs/results.md", "", ""): "figures within sentences; see SENTENCES",
}
#: The page whose rows are pairs of instances: its figures are of the larger one, which some pairs leave as shipped.
PAIRS = RESULTS + "more-resources.md"


@dataclass(frozen=True)
class Sentence:
    """Figures outside the tables above: ``pattern``'s groups, all of one kind and instance. It must be found."""

    page: str
    pattern: str
    instance: str
    kind: Kind = "value"

    def found(self, text: str) -> list[str]:
        """The groups of every place."""
        return [group for match in re.finditer(self.pattern, text) for group in match.groups()]


LARGE, GNMT = RESULTS + "placement-large.md", "placement/gnmt-8-50k-pcie"
C, CROSS = "wafer/ispd2020-C", "multimodel/scar-4-pipelined-cross-6x6-4"
SENTENCES = (
    Sentence(LARGE, r"\*\*search\*\* \| ([\d.]+)", GNMT),
    Sentence(LARGE, r"best at (?:60|120) s: ([\d.]+) ms", GNMT),
    Sentence(LARGE, r"\| bound \| ([\d.]+)", GNMT, "bound"),
    Sentence(RESULTS + "wafer-suite.md", r"--only C` gave ([\d,.]+\d)", C),
    Sentence(FAMILIES + "wafer-results.md", r"C comes to ([\d,]+\d) .*known has ([\d,.]+\d)", C),
    Sentence("docs/results.md", r"proved optimal, ([\d,.]+) µs on 34 chips", "ring/bert-large-36"),
)
