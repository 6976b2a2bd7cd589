"""Why a multimodel instance has no schedule, in the user's words."""

from __future__ import annotations

from chipmap.explanation import EXPLAIN
from chipmap.instances.multimodel.problem import MultiProblem
from chipmap.methods.clashes import clashing, labels_of, not_known
from chipmap.records import counted
from chipmap.result import Infeasibility
from chipmap.run import Run

#: The labels of a contradiction, the one that says most first, and what is short there: resource and unit.
TOLD = {
    "C4": ("limits", "limits"),
    "C6": ("chiplets", "layers"),
    "C5": ("SRAM", "windows"),
    "C3": ("links", "links"),
    "C2": ("chiplets", "windows"),
    "C1": ("chiplets", "windows"),
    "C0": ("chiplets", "windows"),
}


def clash(problem: MultiProblem, run: Run) -> list[Infeasibility]:
    """The reason after a proof that no schedule exists, though each demand alone could be met: the constraints that
    CP-SAT proves to contradict each other. None where that isn't found; the run's notes say so."""
    from chipmap.formulations.multimodel.cpsat import build

    # what is minimised plays no part, and a product would need wider numbers
    task = problem.instance.task
    plain = (
        problem.instance
        if task.objective == "frames"
        else problem.instance.replace(task=task.replace(objective="latency"))
    )
    names = clashing(run, lambda: build(plain, {"labels": "assume"}))
    if not names:
        not_known(run, "schedule")
        return []
    # the model adds up a model's segments on one chiplet, which is right with C2 only
    labels = tuple(sorted({*labels_of(names), "C2"} - {"C0"}))
    label = next(one for one in TOLD if one in labels)
    resource, unit = TOLD[label]
    windows = counted(1 if task.objective == "frames" else task.windows, "window")
    if label == "C4":
        asked = _asked(problem, names)
        also = ", with layers that fit the chiplets' SRAM" if "C5" in labels else ""
        also += ", with layers on their chiplets" if "C6" in labels else ""
        message = f"no schedule keeps {' and '.join(asked)}{also}"
        remedy = f"a higher {' or '.join(asked)}: {EXPLAIN}"
    elif label == "C6":
        also = ", with layers that fit the chiplets' SRAM" if "C5" in labels else ""
        message = f"no schedule of at most {windows} keeps to pins, forbidden chiplets and groups{also}"
        remedy = f"more windows, or fewer of them: {EXPLAIN}"
    elif label == "C5":
        message = f"the layers don't fit the chiplets' SRAM in {windows}"
        remedy = f"more SRAM, windows or links: {EXPLAIN}"
    else:
        models = len(problem.models)
        message = (
            f"{counted(models, 'model')} {'needs' if models == 1 else 'need'} more than {windows} of linked chiplets"
        )
        remedy = f"more windows: {EXPLAIN}"
    return [Infeasibility.of(label, resource, (1, 0, unit), message, remedy, labels=labels)]


def _asked(problem: MultiProblem, names: tuple[str, ...]) -> list[str]:
    """The limits among ``names`` of constraints, as the instance calls them."""
    words = {"c4_limits_latency": "task.latency_limit_ns", "c4_limits_energy": "task.energy_limit_pj"}
    for m, model in enumerate(problem.models):
        words[f"c4_limits_deadline_{m}"] = f"deadline_ns of {model.name!r}"
    return [words[name] for name in names if name in words]
