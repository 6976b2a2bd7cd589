"""The HTML report: what it shows, that it escapes everything and loads nothing, and half-written archives."""

from __future__ import annotations

import base64
import gzip
import json
import math
import re
import threading
import urllib.error
import urllib.request
from html.parser import HTMLParser
from pathlib import Path

import pytest

from chipmap.records import InputError, Unit
from chipmap.report import tables
from chipmap.report.collect import collect
from chipmap.report.page import document
from chipmap.report.page.document import Wanted, page
from chipmap.report.page.known import best_known
from chipmap.report.page.profiles import profile
from chipmap.report.page.run import flatten
from chipmap.report.page.server import Server
from chipmap.report.page.trace import WIDTH, trace_chart
from chipmap.report.page.versus import pairs, told
from chipmap.report.progress import primal_integral, seconds_to
from chipmap.report.rows import row
from tests.report.samples import archived, chain, result

BALANCED, LOPSIDED = (0, 0, 1, 1, 2, 2, 3, 3), (0, 0, 0, 1, 1, 2, 2, 3)
VOID = {"meta", "img", "br", "link", "input"}


class Reader(HTMLParser):
    """Collects tags and addresses, and fails on tags that don't close."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.runs: list[str] = []
        self.text = ""
        self.feed(text)
        assert self.stack == []

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(name)
        self.addresses += [value or "" for key, value in attributes if key in ("src", "href", "xlink:href")]
        self.runs += [value or "" for key, value in attributes if key == "id" and (value or "").startswith("run-")]
        if name not in VOID:
            self.stack.append(name)

    def handle_endtag(self, name: str) -> None:
        if name not in VOID:
            assert self.stack.pop() == name

    def handle_data(self, data: str) -> None:
        self.text += data


def test_page_shows_every_run(tmp_path: Path) -> None:
    instance = chain()
    archived(tmp_path / "one", instance, result(instance, [LOPSIDED, BALANCED], [100_000, 200_000]))
    changed = result(instance, [LOPSIDED], [150_000], method="ring/greedy", changes=("package.chips=4",))
    archived(tmp_path / "two", instance, changed)
    entries = collect(tmp_path)
    assert [entry.result.method for entry in entries if entry.result] == ["ring/auto", "ring/greedy"]
    text = page(entries, tmp_path, Wanted(pictures=1))
    seen = Reader(text)
    for word in (
        *("ring/chain", "optimal", "bound 100000", "source 1", "T1: chip (the slowest)", "solution hash", "50.00%"),
        *("package.chips=4", "not in the registry", "s to 1%", "primal integral, s"),
    ):
        assert word in seen.text, word
    assert seen.tags.count("figure") == 1, "one picture was asked for"
    assert seen.tags.count("svg") == 2 and seen.runs == ["run-0", "run-1"]
    assert all(address.startswith("#") for address in seen.addresses), "nothing is loaded"
    assert "link" not in seen.tags
    (cell,) = re.findall(r'<span class="pill good">([^<]*)</span></td>', text)[:1]
    assert cell == "optimal"


def test_pages_of_many_runs_are_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = chain()
    archived(tmp_path / "one", instance, result(instance, [BALANCED], [100_000]))
    monkeypatch.setattr(document, "UNPACKED", 0)
    text = page(collect(tmp_path), tmp_path, Wanted(pictures=0))
    (packed,) = re.findall(r'class="packed">([^<]*)<', text)
    assert "solution hash" not in text
    assert "solution hash" in gzip.decompress(base64.b64decode(packed)).decode()


def test_pictures_come_on_demand_from_a_server_that_gives_nothing_else(tmp_path: Path) -> None:
    instance = chain()
    archived(tmp_path / "one", instance, result(instance, [BALANCED], [100_000]))
    with Server(collect(tmp_path), tmp_path) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            assert server.server_address[0] == "127.0.0.1"
            assert b'data-at="picture/0"' in ask(server.address)
            drawn = json.loads(ask(f"{server.address}picture/0"))
            assert "<svg" in drawn["svg"] and "op3" in {name.split(",")[0] for *_, name in drawn["spots"]}
            assert "error" in json.loads(ask(f"{server.address}picture/1"))
            for path, host, code in (("one/result.json", "127.0.0.1", 404), ("", "evil.example", 403)):
                with pytest.raises(urllib.error.HTTPError) as refused:
                    ask(server.address + path, host)
                assert refused.value.code == code
                refused.value.close()
        finally:
            server.shutdown()


def ask(address: str, host: str = "127.0.0.1") -> bytes:
    """What the server says."""
    with urllib.request.urlopen(urllib.request.Request(address, headers={"Host": host}), timeout=30) as answer:
        return bytes(answer.read())


def test_how_fast_a_run_came_near() -> None:
    events = [(1.0, "bound", 90), (2.0, "solution", 200), (4.0, "solution", 100), (5.0, "bound", 100)]
    trace = [{"seconds": at, "event": event, "value": value, "source": "s"} for at, event, value in events]
    run = result(chain(), [], [], trace=trace, timings={"total": 10.0})
    assert [seconds_to(run, share) for share in (0.6, 0.1, 0.0)] == [2.0, 4.0, 5.0]
    assert primal_integral(run, 100) == 2.0 + 0.5 * 2.0
    assert primal_integral(run, 50) == pytest.approx(2.0 + 0.75 * 2.0 + 0.5 * 6.0)
    assert seconds_to(result(chain(), [], []), 0.1) is None and primal_integral(run, None) is None


def test_profiles_are_factors_of_the_fastest() -> None:
    times = {"a": {"x": 1.0, "y": 3.0}, "b": {"x": 4.0, "y": 2.0}, "c": {"x": math.inf, "y": math.inf}, "d": {"x": 1.0}}
    assert profile(times, ["x", "y"]) == {"x": [(1.0, 0.5), (2.0, 1.0)], "y": [(1.0, 0.5), (3.0, 1.0)]}


def test_two_folders_are_compared() -> None:
    instance, other = chain(), chain(name="ring/other")
    good, bad = result(instance, [BALANCED], [100_000]), result(instance, [LOPSIDED], [100_000])
    slow = good.replace(timings={"total": 9.0})
    new = result(other, [BALANCED], [])
    assert [pair.verdict for pair in pairs([good], [bad])] == ["worse"]
    assert [pair.verdict for pair in pairs([bad], [good])] == ["better"]
    assert [pair.verdict for pair in pairs([good], [slow])] == ["slower"]
    assert told(pairs([good, slow], [slow, new])) == "1 slower, 1 gone, 1 new"


def test_everything_is_escaped(tmp_path: Path) -> None:
    evil = "<script>alert('x')</script>&\""
    instance = chain(name=evil)
    run = result(
        instance,
        [BALANCED],
        [150_000],
        incumbent_source=evil,
        notes=(evil,),
        provenance={evil: evil},
        termination={"reason": "feasible", "detail": evil},
        trace=[{"seconds": 0.1, "event": "solution", "value": 200_000, "source": evil}],
        bounds=[{"value": 5, "source": evil}],
    )
    archived(tmp_path / "run", instance, run)
    seen = Reader(page(collect(tmp_path, trust=True), tmp_path, Wanted(pictures=0)))
    assert seen.tags.count("script") == 1, "the page's own"
    assert seen.text.count(evil) >= 7


def test_refused_solution_is_shown_with_its_violations(tmp_path: Path) -> None:
    instance = chain()
    refused = result(instance, [BALANCED[::-1]], [])
    assert refused.certificate is not None and not refused.certificate.feasible
    archived(tmp_path / "run", instance, refused)
    text = Reader(page(collect(tmp_path), tmp_path)).text
    assert "The checker refuses this solution" in text
    assert all(violation.message in text for violation in refused.certificate.violations)


def test_infeasibility_is_shown(tmp_path: Path) -> None:
    instance = chain()
    reason = {
        "label": "C4", "resource": "SRAM of chip 3", "demand": 12.0, "limit": 8.0, "unit": "MiB",
        "message": "the weights need 4 MiB more", "remedies": ["use 5 chips"],
    }  # fmt: skip
    run = result(instance, [], [], status="infeasible", infeasibility=[reason], termination={"reason": "infeasible"})
    archived(tmp_path / "run", instance, run)
    text = Reader(page(collect(tmp_path), tmp_path)).text
    assert "the weights need 4 MiB more" in text and "use 5 chips" in text and "SRAM of chip 3" in text


def test_half_written_archives_are_listed_and_not_read(tmp_path: Path) -> None:
    instance = chain()
    archived(tmp_path / "whole", instance, result(instance, [BALANCED], []))
    archived(tmp_path / "cut", instance, result(instance, [LOPSIDED], [])).rename(tmp_path / "cut.partial")
    damaged = archived(tmp_path / "damaged", instance, result(instance, [LOPSIDED], []))
    (damaged / "result.json").write_bytes((damaged / "result.json").read_bytes()[:100])
    entries = collect(tmp_path)
    assert [entry.path.name for entry in entries if entry.result] == ["whole"]
    assert {entry.path.name for entry in entries if entry.problem} == {"cut.partial", "damaged"}
    assert "cut.partial" in Reader(page(entries, tmp_path)).text


def test_collect_wants_a_directory_with_archives(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no directory"):
        collect(tmp_path / "missing")
    with pytest.raises(InputError, match="holds no archive"):
        collect(tmp_path)


def test_best_known_joins_the_runs_of_an_instance() -> None:
    instance = chain()
    runs = [
        result(instance, [BALANCED], [100_000]),
        result(instance, [LOPSIDED], [150_000], method="ring/greedy"),
        result(chain(name="ring/other"), [BALANCED], []),
    ]
    known, other = best_known(runs).values()
    assert (known.objective, known.bound and known.bound.value, known.gap) == (200_000, 150_000, 0.25)
    assert other.gap is None and not other.contradiction


def test_contradicting_runs_are_called_out(tmp_path: Path) -> None:
    instance = chain()
    archived(tmp_path / "one", instance, result(instance, [BALANCED], []))
    archived(tmp_path / "two", instance, result(instance, [], [200_001]))
    (known,) = best_known(entry.result for entry in collect(tmp_path) if entry.result).values()
    assert known.contradiction
    assert "One of the two is wrong" in Reader(page(collect(tmp_path), tmp_path)).text


US = Unit(name="us", per_tick=1e-5)


def test_trace_chart_needs_a_trace() -> None:
    assert trace_chart(result(chain(), [], []), US) is None


@pytest.mark.parametrize("values", [[0], [200_000], [200_000, 200_000], [9_000_000, 300_000, 200_000]])
def test_trace_chart_of_any_values(values: list[int]) -> None:
    trace = [{"seconds": i * 0.7, "event": "solution", "value": v, "source": "s"} for i, v in enumerate(values)]
    trace += [{"seconds": 0.3, "event": "bound", "value": min(values), "source": "b"}]
    chart = trace_chart(result(chain(), [BALANCED], [], trace=trace), US)
    assert chart is not None
    keys = {"x", "y", "x1", "x2", "y1", "y2", "cx", "cy"}
    places = [value for mark in chart.marks for key, value in mark.attributes.items() if key in keys]
    assert places and all(0 <= float(str(place)) <= WIDTH for place in places)
    assert sum(mark.name == "circle" for mark in chart.marks) == len(trace)


def test_flatten_names_leaves() -> None:
    assert list(flatten({"a": {"b": 1, "c": [1, 2]}, "d": "x"})) == [("a.b", "1"), ("a.c", "[1, 2]"), ("d", "x")]


def test_above_the_best_is_a_share_of_the_best(tmp_path: Path) -> None:
    instance = chain()
    archived(tmp_path / "good", instance, result(instance, [BALANCED], []))
    archived(tmp_path / "bad", instance, result(instance, [(0,) * 8], []))
    best, worst = (run.result.objective for run in collect(tmp_path) if run.result)
    assert best is not None and worst is not None
    best, worst = sorted((best, worst))
    text = Reader(page(collect(tmp_path), tmp_path)).text
    assert f"{(worst - best) / best:.2%}" in text and worst > 2 * best


@pytest.mark.parametrize(("objective", "bound", "width"), [(200_000, 100_000, "50.0"), (100_000, 99_000, "1.0")])
def test_the_bar_of_a_gap_is_as_long_as_the_gap(tmp_path: Path, objective: int, bound: int, width: str) -> None:
    instance = chain()
    found = result(instance, [LOPSIDED], [bound])
    archived(tmp_path / "one", instance, found.replace(objective=objective, bound=bound, gap=1 - bound / objective))
    text = page(collect(tmp_path, trust=True), tmp_path)
    assert re.findall(r'class="gap"[^>]*><i style="width:([\d.]+)%"', text)[:1] == [width]


def test_a_failure_shows_in_page_and_table(tmp_path: Path) -> None:
    instance = chain()
    archived(tmp_path / "one", instance, result(instance, [LOPSIDED], [100_000]).replace(failure="the child died"))
    entries = collect(tmp_path)
    (found,) = (entry.result for entry in entries if entry.result)
    assert "feasible, failed" in page(entries, tmp_path) and "the child died" in page(entries, tmp_path)
    assert "feasible, failed" in tables.table([row(found)])
