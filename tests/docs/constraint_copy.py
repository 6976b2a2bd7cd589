"""What holds in a copy of chipmap in which ``docs/dev/adding-a-constraint.md`` was followed: run there, as JSON.

``python -m tests.docs.constraint_copy ROOT``, where ROOT has the files as they were. Nothing is compiled, so annealings
make few moves; that changes no proof.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from itertools import islice
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

from chipmap.family import Scope, get_family, resolve
from chipmap.heuristics.placement.starts import partition
from chipmap.heuristics.placement.throughput import load_search
from chipmap.methods.placement import rounds
from chipmap.run import SolveOptions
from chipmap.solve import solve
from chipmap.validation.brute_force import brute_force
from chipmap.validation.placement.checker import check
from tests.conformance.cases import build, solved
from tests.conformance.test_auxiliary import MODELS, test_it_leaves_out_what_the_record_says
from tests.conformance.witnesses import witnesses
from tests.docs import labels, test_record
from tests.lanes import of_all
from tests.placement.random_instances import tiny_instance, variants

FAMILY = get_family("placement")
NUMBER = of_all(100, few=40)
OPTIONS = SolveOptions(deterministic=True, threads=1)
#: The instance on which a rule that knows nothing of the constraint goes wrong.
TELLING = "a group without time"


#: The most operations with objective step time, and where memory is limited over time: brute force takes long.
MOST, FEWER = 4, 3
load_search.MOVES, load_search.CHUNK, partition.MOVES, rounds.FEW_MOVES = 200, 100, 10, 60


def wrong_labels() -> Iterator[str]:
    """What the label tests find of page, checker, models and record."""
    labels.main()
    if set(labels.anchors(FAMILY)) != set(FAMILY.words):
        yield "the page has other labels"
    yield from labels.wrong_in_checker(FAMILY, labels.tree_of(labels.module_of(FAMILY.check)))
    for one in labels.models(FAMILY):
        yield from labels.wrong_in_model(FAMILY, labels.sources(one))
    test_record.test_every_function_that_makes_a_model_is_in_the_record(FAMILY)
    for family, model in MODELS:
        if family is FAMILY:
            test_it_leaves_out_what_the_record_says(family, model)
    yield from FAMILY.constraints.keys() - witnesses(FAMILY.name).keys()


def models_of(instance: Any) -> Iterator[tuple[str, Any]]:
    """All models of the whole problem."""
    yield from ((form.name, build(instance, form)) for form in FAMILY.formulations)
    if instance.task.objective == "throughput":
        whole = [one for one in FAMILY.auxiliary_models if one.scope is Scope.WHOLE]
        yield from ((one.name, resolve(one.build)(instance)) for one in whole)


def answers(instance: Any) -> dict[str, Any]:
    """The optimum (None: there is no solution) by every model and by the best chain, which has to end with a proof."""
    found: dict[str, Any] = {}
    for name, model in models_of(instance):
        outcome = solved(model, "highs" if model.kind == "mip" else "cpsat")
        assert model.standing.exact and outcome.termination.reason in ("optimal", "infeasible"), (name, outcome)
        found[name] = None if outcome.value_of is None else check(instance, model.decode(outcome.value_of)).objective
    result = solve(instance, options=OPTIONS, isolate=False)
    proved = result.status in ("optimal", "infeasible")
    return found | {FAMILY.default_method: result.objective if proved else f"ends {result.status}"}


def tiny_instances() -> Iterator[Any]:
    """Random ones for which brute force is quick."""
    random = Random(8)
    while True:
        instance = tiny_instance(random)
        most = FEWER if instance.task.memory == "live" else MOST
        if instance.task.objective == "throughput" or len(instance.graph.operations) <= most:
            yield instance


def compared() -> dict[str, Any]:
    """Brute force beside all of these on random instances."""
    told: dict[str, Any] = {"instances": 0, "with it": 0, "infeasible": 0, "objectives": set(), "wrong": []}
    for number, instance in enumerate(islice(tiny_instances(), NUMBER)):
        optimum, _ = brute_force(instance, check)
        told["instances"] += 1
        told["with it"] += "C8" in FAMILY.labels_in_force(instance)
        told["infeasible"] += optimum is None
        told["objectives"].add(instance.task.objective)
        told["wrong"] += [(number, optimum, name, one) for name, one in answers(instance).items() if one != optimum]
    return told | {"objectives": sorted(told["objectives"])}


def as_it_was(root: Path, module: str) -> ModuleType:
    """A module as it was before the page was followed."""
    spec = spec_from_file_location(module, root.joinpath(*module.split(".")).with_suffix(".py"))
    assert spec is not None and spec.loader is not None
    made = module_from_spec(spec)
    sys.modules[module] = made
    spec.loader.exec_module(made)
    return made


def left_out(root: Path) -> dict[str, Any]:
    """What becomes of the telling instance where a step of the page is left out."""
    instance, name = variants()[TELLING], "chipmap.formulations.placement.cpsat_units"
    told: dict[str, Any] = {"optimum": brute_force(instance, check)[0]}
    now, model = import_module(name), as_it_was(root, name).build(instance)
    result = solve(instance, options=OPTIONS, isolate=False)
    told["model"] = [sorted(model.lacking), model.standing.value, result.status, result.bound]
    before = as_it_was(root, "chipmap.instances.placement.load_dominance")
    now.joined_by_dominance = before.joined_by_dominance  # type: ignore[attr-defined]
    told["rule"] = solved(now.build(instance, told["optimum"] + 1), "cpsat").termination.reason
    return told


if __name__ == "__main__":
    found = {"labels": list(wrong_labels()), "compared": compared(), "left out": left_out(Path(sys.argv[1]))}
    print(json.dumps(found))
