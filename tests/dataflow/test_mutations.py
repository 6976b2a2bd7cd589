"""Instances and solutions with a few values changed: solved, checked, or refused in words, never a traceback."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from chipmap.instances.dataflow import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.describe import describe, files
from chipmap.records import InputError
from chipmap.run import SolveOptions
from chipmap.solve import disagreements, solve
from chipmap.validation.dataflow.checker import check
from tests.dataflow.random_instances import made, variants

VALUES: tuple[Any, ...] = (
    None,
    0,
    1,
    -1,
    2,
    10**9,
    10**18,
    0.0,
    -2.5,
    1e300,
    "",
    "a",
    "K",
    "x",
    True,
    [],
    {},
    ["tensor"],
    [["a", "b"]],
    "phase",
    "step",
)


def changed(record: Any, random: Random) -> bytes:
    """The JSON of ``record`` with one value left out or replaced."""
    found = json.loads(record.to_json())
    places: list[tuple[Any, Any]] = []
    todo = [found]
    while todo:
        at = todo.pop()
        keys = list(at) if isinstance(at, dict) else range(len(at)) if isinstance(at, list) else ()
        places += [(at, key) for key in keys]
        todo += [at[key] for key in keys]
    at, key = random.choice(places)
    if random.random() < 0.15:
        del at[key]
    else:
        at[key] = random.choice(VALUES)
    return json.dumps(found).encode()


def test_changed_values_are_refused_or_solved() -> None:
    random, originals = Random(5), list(variants().values())
    outcomes = {"refused": 0, "solved": 0, "infeasible": 0}
    for _ in range(400):
        try:
            instance = DataflowInstance.from_json(changed(random.choice(originals), random))
            instance.check()
            describe(instance)
            result = solve(instance, None, SolveOptions.make(warm_start="none", threads=1, time_limit=20.0))
        except InputError as error:
            assert error.what
            outcomes["refused"] += 1
            continue
        assert result.status in ("optimal", "infeasible"), (result.termination, result.notes)
        outcomes["solved" if result.solution else "infeasible"] += 1
        if result.solution is None:
            continue
        try:
            mapping = DataflowSolution.from_json(changed(DataflowSolution.make(**result.solution), random))
        except InputError:
            continue
        check(instance, mapping)
        files(instance, mapping)
    assert outcomes["refused"] > 70 and outcomes["solved"] > 20, outcomes


def test_a_wrong_keep_or_a_shortened_t3_is_noticed() -> None:
    """A result whose mapping keeps layouts longer, or shorter, than it was charged for; one that claims less of T3."""
    rows = {"kind": "elementwise", "M": 512, "N": 64, "schemes": ["M"]}
    whole = {**rows, "schemes": ["NONE"]}
    kernels: dict[str, dict[str, Any]] = {"a": rows, "b": whole, "c": whole, "x": {**whole, "phase": "backward"}}
    chips = {"tensor": 2, "dimensions": ["tensor"]}
    charged = dict[str, int]()
    for keep in ("none", "phase", "step"):
        instance = made(kernels, "ab ac ax", degrees=chips, mode="physical", fused=False, keep=keep)
        result = solve(instance, None, SolveOptions.make(warm_start="none", threads=1, time_limit=20.0))
        mapping, certificate = DataflowSolution.make(**(result.solution or {})), result.certificate
        assert certificate is not None and not disagreements(result, instance, check(instance, mapping))
        charged[keep] = certificate.terms["T3"]
        less = certificate.replace(terms={**certificate.terms, "T3": certificate.terms["T3"] - 1})
        assert any("T3" in one for one in disagreements(result.replace(certificate=less), instance, certificate))
        free = instance.replace(task=instance.task.replace(keep=None))
        for other in {"none", "phase", "step"} - {keep}:
            wrong = mapping.replace(keep=other)
            assert "C0" in {one.label for one in check(instance, wrong).violations}
            assert check(free, wrong).terms["T3"] != certificate.terms["T3"]
    assert charged["none"] == 3 * charged["step"] and charged["phase"] == 2 * charged["step"] > 0
