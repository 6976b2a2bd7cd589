"""Each format that is read, with each fault that its plans can have: named, with a remedy, and never a traceback."""

from __future__ import annotations

import re
from typing import Any

import pytest

from chipmap.family import FAMILY_NAMES, PlanFormat, family_of, get_family, resolve
from chipmap.plans.emission import unsuited
from chipmap.plans.plan import EmitOptions, PlanData, graph_hash
from chipmap.plans.reading import read_plan
from chipmap.records import ChipmapError
from tests.plans.samples import mappings

#: What is put in the place of a plan, whatever the format.
NO_PLANS = {
    "garbage": bytes(range(256)) * 4,
    "zeros": b"\x00" * 64,
    "empty": b"",
    "a line's end": b"\n",
    "UTF-16": "name,place\na,0\n".encode("utf-16"),
    "Latin-1": "name,place\ncaf\xe9,0\n".encode("latin-1"),
    "half of JSON": b'{"a": [1, ',
    "deep JSON": b"[" * 5000,
    "another format": b"%PDF-1.7 no plan",
}


def readable() -> list[tuple[str, PlanFormat]]:
    """Every family with each of its formats that is read."""
    return [(name, form) for name in FAMILY_NAMES for form in get_family(name).plan_formats if form.adopt and form.emit]


CASES = [pytest.param(family, form, id=f"{family}-{form.name}") for family, form in readable()]


def sample(family: str, form: PlanFormat) -> tuple[Any, str, bytes] | None:
    """A tiny instance of the family, the name of a plan's file for it, and its content, where a plan suits one."""
    for instance, solution, _ in mappings(family):
        if form.model or unsuited(form, instance, solution) is not None:
            continue
        file, data = next(iter(resolve(form.emit)(instance, solution, EmitOptions()).items()))
        return instance, file, data.encode() if isinstance(data, str) else data
    return None


def an_instance(family: str) -> Any:
    return next(iter(mappings(family)))[0]


def refused(instance: Any, data: bytes, form: PlanFormat) -> ChipmapError:
    with pytest.raises(ChipmapError) as found:
        _, plan = read_plan(data, "plan", instance, form.name)
        if plan.solution is not None and not resolve(family_of(instance).check)(instance, plan.solution).feasible:
            raise ChipmapError("the checker refuses it")
        raise AssertionError(f"it was read: {plan}")
    return found.value


@pytest.mark.parametrize(("family", "form"), CASES)
@pytest.mark.parametrize("fault", NO_PLANS)
def test_what_is_no_plan_is_said(family: str, form: PlanFormat, fault: str) -> None:
    """Whether the format is named, or told by content."""
    instance = an_instance(family)
    error = refused(instance, NO_PLANS[fault], form)
    assert getattr(error, "remedy", ""), error
    with pytest.raises(ChipmapError):
        _, plan = read_plan(NO_PLANS[fault], "plan", instance)
        raise AssertionError(plan)


@pytest.mark.parametrize(("family", "form"), CASES)
def test_plans_cut_off_or_changed_break_nothing(family: str, form: PlanFormat) -> None:
    """Halves of a plan, plans with a byte changed, and with numbers that are far too large: read, or refused."""
    found = sample(family, form)
    if found is None:
        pytest.skip("no tiny mapping suits, or it takes a model's file")
    instance, _, data = found
    changed = [data[: len(data) * k // 5] for k in range(1, 5)]
    changed += [data[:at] + b"\xff" + data[at + 1 :] for at in range(0, len(data), max(1, len(data) // 7))]
    changed += [re.sub(rb"\d+", b"99999999999999999999", data), re.sub(rb"\d+", b"-1", data), data.replace(b"0", b"x")]
    for one in changed:
        try:
            read_plan(one, "plan", instance, form.name)
        except ChipmapError as error:
            assert getattr(error, "remedy", ""), error


@pytest.mark.parametrize(("family", "form"), CASES)
def test_plans_of_other_costs_or_of_another_network_are_told(family: str, form: PlanFormat, tmp_path: Any) -> None:
    """By what stands beside a plan, or in it."""
    found = sample(family, form)
    if found is None:
        pytest.skip("no tiny mapping suits, or it takes a model's file")
    instance, file, data = found
    (tmp_path / file).write_bytes(data)
    beside = (tmp_path / file).with_suffix(".plan.json")
    said = {graph_hash(instance): "other costs or chips of this network", "1" * 64: "another instance"}
    for graph, words in said.items() if graph_hash(instance) else [("", "another instance")]:
        told = PlanData(instance="stale", instance_hash="0" * 64, graph=graph)
        beside.write_bytes(told.to_json())
        within = b"# " + told.line.encode() + b"\n" + data if form.inside else data
        with pytest.raises(ChipmapError, match=f"was made for {words}: stale") as error:
            read_plan(within, str(tmp_path / file), instance, form.name)
        assert "Name that instance" in getattr(error.value, "remedy", "")
