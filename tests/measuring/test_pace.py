"""Times at one speed of the processor: a clock that slows down by known factors gives the same table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chipmap.deadline import Deadline
from chipmap.measuring.pace import NUMBERS, Pace
from chipmap.measuring.passes import UNKNOWN, Clock, Measured, Operation, one_pass, pace_of
from chipmap.measuring.programs import Program
from chipmap.measuring.table import earlier, text

torch = pytest.importorskip("torch", reason="needs the extra torch")

#: ns of a product, of a ReLU, and of the pace's sum on a processor at full speed.
PRODUCT, RELU, SUM = 600_000, 50_000, 10_000


class Slow(Clock):
    """Each call takes what it takes at full speed, times ``speed``; every third run of a pass five times as long."""

    def __init__(self, speed: float) -> None:
        self.speed, self.calls = speed, 0
        super().__init__(1)
        self.own = 0
        self.pace = Pace(self.timed)

    def timed(self, call: Callable[[], Any]) -> tuple[int, Any]:
        value = call()
        if not isinstance(value, torch.Tensor):
            return 0, value
        size = value.numel()
        ns = SUM if size == NUMBERS else PRODUCT if size == 8 * 24 else RELU if size == 8 * 25 else 1000
        self.calls += ns == PRODUCT
        factor = self.speed * (5 if self.calls % 3 == 0 else 1)
        return round(ns * factor), value


class Net(torch.nn.Module):  # type: ignore[name-defined,misc]
    """A product of 8 × 24 numbers, and a ReLU of 8 × 25."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 24)

    def forward(self, x: Any, y: Any) -> Any:
        """Both."""
        return self.layer(x), torch.relu(y)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    path = tmp_path_factory.mktemp("pace") / "net.pt2"
    torch.export.save(torch.export.export(Net().eval(), (torch.randn(8, 16), torch.randn(8, 25))), path)
    return Program(str(path))


def measured(program: Program, speeds: list[float]) -> dict[str, Measured]:
    found: dict[str, Measured] = {}
    for number, speed in enumerate(speeds):
        list(one_pass([program], found, number, Slow(speed), Deadline.after(60)))
    return found


@pytest.mark.parametrize("speeds", [[1.0, 1.0, 1.0], [1.0, 1.7, 3.0], [4.0, 1.0]])
def test_the_processors_speed_does_not_count(program: Program, speeds: list[float]) -> None:
    """At the common pace operations stand to it, and to each other, as at full speed; no pass repeats worse."""
    found = measured(program, speeds)
    pace = pace_of(found)
    by_kind = {one.kind: one for one in found[program.graph].operations.values()}
    assert by_kind["linear"].ns(pace) == pytest.approx(pace * PRODUCT / SUM, rel=1e-3)
    assert by_kind["relu"].ns(pace) == pytest.approx(pace * RELU / SUM, rel=1e-3)
    assert by_kind["linear"].repeat(pace) == pytest.approx(0.0, abs=1e-3)
    raw = by_kind["linear"].samples
    assert max(raw) / min(raw) == pytest.approx(max(speeds) / min(speeds), rel=0.01)


def test_a_table_keeps_paces(program: Program, tmp_path: Path) -> None:
    """What was read again is the same table; one without paces has its samples as they are."""
    found, path = measured(program, [1.0, 2.0]), tmp_path / "costs.csv"
    path.write_text(text(found, ""), encoding="utf-8")
    again = earlier(path, "")
    assert text(again, "") == path.read_text(encoding="utf-8") and pace_of(again) == pace_of(found) > SUM
    plain = [line.rpartition(",")[0] for line in path.read_text(encoding="utf-8").splitlines()]
    path.write_text("\n".join(plain) + "\n", encoding="utf-8")
    without = earlier(path, "")
    assert pace_of(without) == UNKNOWN
    for name, one in without[program.graph].operations.items():
        samples = found[program.graph].operations[name].samples
        assert one.ns(UNKNOWN) == pytest.approx(sum(samples) / 2)


def test_samples_of_before_go_on_as_they_are() -> None:
    """An old pass has no pace: it counts as it was measured, beside those at the common pace."""
    one = Operation("", "relu", [100.0, 300.0], (), [UNKNOWN, 30.0])
    assert one.at(10.0) == [100.0, 100.0] and one.at(UNKNOWN) == [100.0, 300.0]


def test_several_threads_have_no_pace() -> None:
    """They count time by the clock, in which the processor's turns are."""
    assert Clock(2).pace is None and Clock(1).pace is not None


def test_a_coarse_clock_tells_no_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum takes microseconds: a clock that ticks every 16 ms counts none of them."""
    assert Pace(Slow(1.0).timed).told() and not Pace(lambda call: (0, call())).told()
    monkeypatch.setattr("time.thread_time_ns", lambda: 16_000_000)
    assert Clock(1).pace is None
