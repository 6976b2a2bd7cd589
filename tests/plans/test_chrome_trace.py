"""Chrome traces: valid, monotone, nested; what they show adds up to the objective."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest

from chipmap.family import FAMILY_NAMES, get_family, resolve
from chipmap.instances.wafer.problem import TICKS
from chipmap.plans.chrome_trace import ring, wafer
from chipmap.plans.chrome_trace.format import FILE, emit
from chipmap.plans.plan import EmitOptions, PlanData
from tests.plans.samples import mappings, mappings_of, names

FAMILIES = [name for name in FAMILY_NAMES if any(f.name == "chrome-trace" for f in get_family(name).plan_formats)]


def every(*families: str) -> pytest.MarkDecorator:
    """Each tiny shipped instance of the families, by name."""
    return pytest.mark.parametrize("name", [name for family in families for name in names(family)])


def events_of(instance: Any, solution: Any) -> list[dict[str, Any]]:
    made = emit(instance, solution, EmitOptions(told=PlanData(instance=instance.name)))
    found = json.loads(made[FILE])
    assert found["otherData"]["schema"] == "plan/1" and found["otherData"]["instance"] == instance.name
    events: list[dict[str, Any]] = found["traceEvents"]
    return events


def by_track(events: list[dict[str, Any]]) -> dict[tuple[int, int], list[dict[str, Any]]]:
    found = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            found[event["pid"], event["tid"]].append(event)
    return found


def interval(event: dict[str, Any]) -> tuple[int, int]:
    return event["args"]["start_ns"], event["args"]["start_ns"] + event["args"]["ns"]


def named(events: list[dict[str, Any]], what: str) -> dict[tuple[int, int], str]:
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == what}


def test_every_family_has_traces() -> None:
    assert list(FAMILY_NAMES) == FAMILIES
    assert all(len(list(mappings(name))) >= 10 for name in FAMILIES)


@every(*FAMILIES)
def test_traces_are_valid(name: str) -> None:
    """Events have whole ns from 0 on; those of a track contain each other or are apart; arrows go forwards, from within
    an event to where another begins; levels are by time; all tracks have names."""
    for instance, solution, _ in mappings_of(name):
        events = events_of(instance, solution)
        assert {e["ph"] for e in events} <= {"X", "M", "s", "f", "C"}
        tracks, arrows, levels = by_track(events), defaultdict(list), defaultdict(list)
        assert tracks.keys() <= named(events, "thread_name").keys()
        assert {p for p, _ in tracks} <= {p for p, _ in named(events, "process_name")}
        ends = {key: [interval(e) for e in found] for key, found in tracks.items()}
        for spans in ends.values():
            stack: list[int] = []
            for begin, end in sorted(spans, key=lambda one: (one[0], -one[1])):
                assert 0 <= begin <= end
                while stack and stack[-1] <= begin:
                    stack.pop()
                assert not stack or end <= stack[-1]
                stack.append(end)
        for event in events:
            if event["ph"] in "sf":
                arrows[event["id"]].append(event)
            elif event["ph"] == "C":
                levels[event["pid"], event["name"]].append(event)
        for pair in arrows.values():
            assert [one["ph"] for one in pair] == ["s", "f"] and pair[0]["ts"] <= pair[1]["ts"]
            for one in pair:
                at, here = round(one["ts"] * 1000), ends[one["pid"], one["tid"]]
                assert any(begin <= at <= end for begin, end in here)
        for curve in levels.values():
            assert [one["ts"] for one in curve] == sorted(one["ts"] for one in curve)
            assert all(one["args"]["bytes"] >= 0 for one in curve)


def total(events: list[dict[str, Any]], key: str = "ticks") -> int:
    return sum(event["args"][key] for event in events)


@every("ring")
def test_the_fullest_chip_or_link_is_the_period(name: str) -> None:
    for instance, solution, certificate in mappings_of(name):
        tracks = by_track(events_of(instance, solution))
        chips = [total(found) for (process, _), found in tracks.items() if process == ring.CHIPS]
        links = [total(found) for (process, _), found in tracks.items() if process == ring.LINKS]
        assert max(chips) == certificate.terms["T1"]
        if instance.cost_mode == "period":
            assert max(links, default=0) == certificate.terms["T2"]
        assert [total(tracks[ring.PERIOD, 0])] == [certificate.objective]
        sample = [e["args"] for (process, _), found in tracks.items() if process == ring.SAMPLE for e in found]
        after = max((one["start_ns"] + one["ns"] for one in sample), default=0)
        assert abs(after - certificate.figures["latency_ns"]) <= 1


@every("dataflow")
def test_the_parts_of_a_batch_are_its_time(name: str) -> None:
    for instance, solution, certificate in mappings_of(name):
        tracks = by_track(events_of(instance, solution))
        assert total(tracks[1, 0]) == total(tracks[1, 1]) == certificate.objective
        chips = [total(found) for (process, track), found in tracks.items() if process > 1 and track == 0]
        assert (max(chips) == certificate.terms["T7"]) if solution.stages else (chips == [certificate.terms["T4"]])


@every("wafer")
def test_the_slowest_kernel_is_the_time_and_samples_follow_each_other(name: str) -> None:
    """T1 is the period; a kernel takes a sample the period after its last producer, then one a period."""
    for instance, solution, certificate in mappings_of(name):
        events = events_of(instance, solution)
        tracks, called = by_track(events), named(events, "thread_name")
        kernels = {called[key]: found for key, found in tracks.items() if key[0] == wafer.KERNELS}
        period = total(tracks[wafer.PERIOD, 0])
        assert period * instance.weights.time == certificate.terms["T1"]
        slowest = {key: total(found) for key, found in tracks.items() if key[0] == wafer.CONVOLUTIONS}
        assert max(slowest.values()) == period
        assert all(len(found) == wafer.SAMPLES for found in kernels.values())
        begins = {name: [one["args"]["start_ns"] for one in found] for name, found in kernels.items()}
        producers: dict[str, list[str]] = {name: [] for name in kernels}
        for u, v in instance.edges:
            if u in kernels and v in kernels:
                producers[v].append(u)
        for v, before in producers.items():
            first = max((begins[u][0] + period // TICKS for u in before), default=0)
            assert abs(begins[v][0] - first) <= len(kernels)


@every("placement")
def test_a_step_or_the_fullest_device_is_the_objective(name: str) -> None:
    for instance, solution, certificate in mappings_of(name):
        tracks = by_track(events_of(instance, solution))
        if instance.task.objective == "step_time":
            assert total(tracks[1, 0][:1], "ns") == total(tracks[1, 0][1:], "ns") == certificate.objective
        else:
            devices = [total(found) for (process, _), found in tracks.items() if process == 2]
            assert max(devices) == certificate.objective == total(tracks[1, 0])


@every("multimodel")
def test_windows_add_up_to_the_latency(name: str) -> None:
    for instance, solution, certificate in mappings_of(name):
        tracks = by_track(events_of(instance, solution))
        assert total(tracks[1, 0], "ns") == certificate.terms["T1"]


def test_the_trace_of_a_run_is_the_same_but_for_what_is_said_of_it() -> None:
    """``solve --out`` writes its ``trace.json`` by the same function."""
    for family in ("placement", "multimodel"):
        instance, solution, _ = next(one for one in mappings(family) if getattr(one[1], "start", True))
        beside = json.loads(resolve(get_family(family).files)(instance, solution)["trace.json"])
        assert beside["traceEvents"] == events_of(instance, solution) and "otherData" not in beside
