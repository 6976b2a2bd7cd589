"""``adopt``: certificates, gaps, partial plans and what they cost, archives; by Python and by the commands."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import chipmap as api
from chipmap.family import get_family, resolve
from chipmap.inputs.reading import read
from chipmap.plans.adoption import Adoption
from tests.cli.conftest import Command
from tests.cli.conftest import chipmap as chipmap
from tests.plans.samples import TRIED

SECONDS = 4.0


def file(folder: Path, name: str, data: Any) -> Path:
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def best_of(instance: Any, keeps: dict[str, Any]) -> int:
    """The least objective of a valid mapping that has operations where ``keeps`` says, by enumeration."""
    family = get_family("ring")
    names = [one.name for one in instance.graph.operations]
    found = []
    for solution in resolve(family.candidates)(instance):
        if all(solution.chips[names.index(name)] == chip for name, chip in keeps.items()):
            certificate = resolve(family.check)(instance, solution)
            found += [certificate.objective] if certificate.feasible else []
    return min(found)


def test_a_plan_is_judged_against_bound_and_best(tmp_path: Path) -> None:
    """All on one chip: valid, and behind the optimum by what brute force says."""
    instance = read("ring/tiny-skip", family="ring")
    plan = file(tmp_path, "plan.csv", "name,chip\n" + "".join(f"{one.name},0\n" for one in instance.graph.operations))
    found = api.adopt(instance, plan, time_limit=SECONDS)
    assert found.format == "csv" and found.exit_code == 0 and found.completed is None
    result, best = found.result, best_of(instance, {})
    assert result is not None and found.best.status == "optimal" and found.best.objective == best
    assert (result.objective, result.bound, result.status) == (17 * 100_000, best, "feasible")
    assert result.objective is not None
    share = (result.objective - best) / result.objective
    assert result.gap == pytest.approx(share) == pytest.approx(found.gain)
    assert result.mapping == dict.fromkeys("abcde", 0)
    assert found.account is not None and found.account.difference is not None
    assert found.account.difference.after.objective == best


@pytest.mark.parametrize("keeps", [{"a": 1}, {"a": 0, "b": 1}, {"e": 2}])
def test_what_a_partial_plan_leaves_open_is_solved_with_its_places_kept(tmp_path: Path, keeps: dict[str, int]) -> None:
    """The best completion is that of enumeration; what the pins cost is said."""
    instance = read("ring/tiny-chain", family="ring")
    names = [one.name for one in instance.graph.operations]
    keeps = {names[ord(key) - ord("a")]: chip for key, chip in keeps.items() if ord(key) - ord("a") < len(names)}
    plan = file(tmp_path, "plan.json", keeps)
    try:
        kept = best_of(instance, keeps)
    except ValueError:
        kept = None
    found = api.adopt(instance, plan, time_limit=SECONDS)
    assert found.completed is not None and any("what it leaves open is solved" in note for note in found.notes)
    if kept is None:
        assert found.exit_code == 2 and found.result is None and found.best.objective == best_of(instance, {})
        return
    assert found.result is not None and found.result.objective == kept
    assert {name: found.result.mapping[name] for name in keeps} == keeps


def test_an_archive_of_a_plan_is_an_archive(tmp_path: Path, chipmap: Command) -> None:
    plan = file(tmp_path, "plan.json", {"": 0})
    done = chipmap("adopt", "ring/tiny-diamond", plan, "--out", tmp_path / "run", "--time-limit", "4")
    assert (done.code == 0 and "no less than the plan" in done.out) or "below the plan" in done.out
    assert chipmap("check", "ring/tiny-diamond", tmp_path / "run").code == 0
    assert "adopt/device-map" in chipmap("report", tmp_path, "--format", "csv").out


def test_starts_are_made_as_short_as_the_devices_allow(tmp_path: Path) -> None:
    """A map of the devices of the best schedule of some comes back with its step time, or a better one."""
    family, instance = get_family("placement"), read("placement/tiny-pair")
    some = list(islice(resolve(family.candidates)(instance), TRIED))
    judged = [(resolve(family.check)(instance, solution), solution) for solution in some]
    objective, devices = min((c.objective, list(s.devices.items())) for c, s in judged if c.feasible)
    found = api.adopt(instance, file(tmp_path, "map.json", dict(devices)), time_limit=2.0)
    assert found.completed is not None and found.result is not None and found.result.objective <= objective
    assert found.result.mapping == dict(devices)


def test_commands_list_write_and_read_plans(tmp_path: Path, chipmap: Command) -> None:
    """solve --out, emit, check, adopt; the metadata beside; the same by Python."""
    run = tmp_path / "run"
    assert chipmap("solve", "ring/tiny-links", "--time-limit", "10", "--out", run, "--quiet").code == 0
    listed = chipmap("emit", run, "--format", "json").json
    assert {"device-map", "csv", "chrome-trace"} <= {one["format"] for one in listed if one["why_not"] is None}
    assert "formats that suit" in chipmap("emit", run).out
    assert chipmap("emit", run, "--as", "csv").code == 0
    told = json.loads((run / "csv" / "plan.plan.json").read_text())
    result = api.load(run).result
    assert (told["objective"], told["bound"], told["gap"]) == (result.value, result.lower, result.gap)
    assert told["instance_hash"] == result.instance_hash and told["unit"] == "us" and told["chipmap"]
    assert result.emit("csv")["plan.csv"] == (run / "csv" / "plan.csv").read_bytes()
    target = tmp_path / "maps" / "chips.json"
    assert chipmap("emit", run, "--as", "device-map", "--out", target).code == 0
    assert {path.name for path in target.parent.iterdir()} == {"chips.json", "chips.plan.json"}
    assert chipmap("emit", run, "--as", "csv", "--out", "-").out.startswith("name,chip\n")
    for plan in (target, run / "csv" / "plan.csv", run / "mapping.csv"):
        assert chipmap("check", "ring/tiny-links", plan).code == 0
    done = chipmap("adopt", "ring/tiny-links", run / "mapping.csv", "--time-limit", "6", "--format", "json")
    assert done.code == 0 and done.json["plan"]["objective"] == result.value and done.json["format"] == "csv"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("emit", "{run}", "--as", "devicemap"), 1, "Did you mean device-map"),
        (("emit", "{run}", "--out", "x"), 1, "says nothing without a format"),
        (("emit", "{run}", "--as", "csv", "--model", "x"), 1, "needs no model's file"),
        (("emit", "{run}/solution.json"), 1, "is no archive of a run"),
        (("emit", "nowhere"), 1, "is no archive of a run"),
        (("adopt", "ring/tiny-chain", "{run}/csv/plan.csv"), 1, "was made for another instance"),
        (("adopt", "wafer/tiny-chain", "{run}/csv/plan.csv"), 1, "no format of plans"),
        (("check", "ring/tiny-chain", "{run}/csv/plan.csv"), 1, "was made for another instance"),
    ],
)
def test_what_commands_refuse(
    tmp_path: Path, chipmap: Command, arguments: tuple[str, ...], code: int, said: str
) -> None:
    run, instance = tmp_path / "run", read("ring/tiny-skip", family="ring")
    result = api.solve(instance, "ring/greedy", time_limit=10, isolate=False)
    result.save(run)
    (run / "csv").mkdir()
    for name, data in result.emit("csv").items():
        (run / "csv" / name).write_bytes(data)
    done = chipmap(*(part.replace("{run}", str(run)) for part in arguments))
    assert done.code == code and said in done.err, done.err


def test_a_refused_plan_is_refused(tmp_path: Path) -> None:
    """Data that flow backwards: the certificate says so, and the best mapping all the same."""
    instance = read("ring/tiny-chain", family="ring")
    names = [one.name for one in instance.graph.operations]
    plan = file(
        tmp_path, "plan.csv", "name,chip\n" + "".join(f"{name},{int(v == 0)}\n" for v, name in enumerate(names))
    )
    found: Adoption = api.adopt(instance, plan, time_limit=SECONDS)
    assert found.exit_code == 4 and found.result is None and found.certificate is not None
    assert {one.label for one in found.certificate.violations} >= {"C1"}
    assert found.best.objective is not None


def test_a_run_is_adopted_as_its_neighbours_take_it(tmp_path: Path) -> None:
    """Its archive, and the files in it that hold the solution."""
    instance, run = read("ring/tiny-skip", family="ring"), tmp_path / "run"
    solved = api.solve(instance, "ring/greedy", time_limit=SECONDS)
    solved.save(run)
    for plan in (run, run / "solution.json", run / "result.json"):
        found = api.adopt(instance, plan, time_limit=SECONDS)
        assert found.format == "solution" and found.exit_code == 0
        assert found.certificate is not None and found.certificate.objective == solved.objective
    other = read("ring/tiny-links", family="ring")
    with pytest.raises(api.InputError, match="is of another instance"):
        api.adopt(other, run, time_limit=SECONDS)
    with pytest.raises(api.InputError, match="is a directory"):
        api.adopt(instance, run, "csv", time_limit=SECONDS)
