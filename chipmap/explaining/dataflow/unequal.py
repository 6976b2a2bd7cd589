"""What is said of a mapping to groups of unequal chips: its stages, and what its time is made of."""

from __future__ import annotations

from collections.abc import Iterator

from chipmap.certificate import Certificate
from chipmap.explaining.driver import statement
from chipmap.explanation import Statement
from chipmap.instances.dataflow.instance import DataflowSolution
from chipmap.records import counted, listed
from chipmap.records.quantities import duration

#: Picoseconds of a nanosecond.
PS = 1000


def mapping(solution: DataflowSolution, certificate: Certificate) -> Iterator[Statement]:
    """A valid mapping: its stages in their order, the slowest one, transfers."""
    stages = [
        f"{counted(one.layers, 'layer')} on {counted(one.tensor, 'chip')} of {one.group}"
        for one in solution.stage_groups
    ]
    text = f"{counted(len(stages), 'stage')}: {listed(stages)}; micro-batches of {solution.micro_batch}"
    yield statement("plan", text, "C8", stages=len(stages))
    terms = certificate.terms
    text = (
        f"a micro-batch takes {duration(terms['T4'] / PS)} in all stages, {duration(terms['T7'] / PS)} in the slowest"
    )
    yield statement("stages", text, "T7", T4=terms["T4"], T7=terms["T7"])
    text = f"transfers between stages add {duration(terms['T5'] / PS)} to the batch"
    yield statement("transfers", text, "T5", T5=terms["T5"])
