"""What a profile of the machine says of a mapping, beside the limit by the data sheet: no bound and no gap are of it.

``docs/families/dataflow-machines.md``, "A prediction beside the limit".
"""

from __future__ import annotations

from chipmap.certificate import Prediction
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.predicting import Predicted, predicted
from chipmap.validation.dataflow.checker import check
from chipmap.validation.dataflow.figures import measures


def predict(instance: DataflowInstance, solution: DataflowSolution) -> Prediction | None:
    """The checker's time of the same mapping on the profiled machine; None where no profile applies, or for a mapping
    that isn't valid."""
    found = predicted(instance)
    if not isinstance(found, Predicted):
        return None
    certificate = check(found.instance, solution)
    if not certificate.feasible or certificate.objective is None:
        return None
    return Prediction(
        profile=found.profile,
        objective=certificate.objective,
        headline=measures(found.instance, certificate.figures),
        fitted_to=found.judged.engine,
        beyond=found.beyond,
        rows=found.judged.rows,
        median_error=found.judged.median,
        worst_error=found.judged.worst,
        source=found.judged.source,
    )
