"""What a shipped profile predicts beside the data sheet's limit (page "Machines", "A prediction beside the limit")."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import chipmap
from benchmarks.dataflow_static_batches import MACHINES, SIZES, step
from chipmap.inputs.reading import generate
from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.machines import MACHINES as SHEETS
from chipmap.instances.dataflow.machines import machine
from chipmap.instances.dataflow.predicting import JUDGED, Predicted, origin, predicted
from chipmap.instances.dataflow.profiles import PROFILED
from chipmap.validation.dataflow.checker import check
from tests.lanes import LONG, of_all

ROOT = Path(__file__).resolve().parents[2]
SMALL: dict[str, Any] = {"hidden": 1024, "heads": 8, "layers": 4, "batch": 8, "sizes": [2]}


def small(name: str, **asked: Any) -> DataflowInstance:
    made = generate("dataflow-gpt", machine=name, **(SMALL | asked))
    assert isinstance(made, DataflowInstance)
    return made


@pytest.mark.parametrize(
    ("card", "model", "tensor", "batch", "tokens", "context"),
    [
        ("H100", "LLaMA 70B", 2, 64, 1, 2048),
        ("H100", "Falcon 180B", 8, 1, 128, 0),
        ("A100", "GPT-J 6B", 1, 60, 1, 2175),
    ],
)
def test_published_rows_are_predicted_as_on_the_typical_machine(
    card: str, model: str, tensor: int, batch: int, tokens: int, context: int
) -> None:
    instance, mapping = step(card, model, tensor, batch, tokens, context)
    asked = check(instance.replace(system=machine(f"{MACHINES[card]}-typical", (tensor,))), mapping)
    found = chipmap.check(instance, mapping)
    assert found.prediction is not None and found.prediction.profile == f"{MACHINES[card]}-typical"
    assert found.prediction.objective == asked.objective and found.prediction.beyond == ""
    assert asked.headline.startswith(found.prediction.headline)
    assert found.objective == check(instance, mapping).objective
    assert found.objective is not None and found.objective < found.prediction.objective


@pytest.mark.parametrize(
    ("model", "tensor", "batch", "tokens", "context"),
    [
        ("LLaMA 70B", 8, 64, 1, 4096),
        ("LLaMA 70B", 2, 96, 1, 2100),
        ("LLaMA 70B", 4, 1, 2048, 0),
        ("LLaMA 7B", 1, 80, 1, 300),
    ],
)
def test_layers_as_engines_run_them_are_those_that_profiles_are_fitted_to(
    model: str, tensor: int, batch: int, tokens: int, context: int
) -> None:
    """The generator's layer takes what the layer of the measured rows takes, and lies within what was fitted to."""
    of_row, mapping = step("H100", model, tensor, batch, tokens, context)
    size = SIZES[model]
    asked: dict[str, Any] = {"hidden": size.hidden, "heads": size.heads, "kv_heads": size.kv_heads, "ffn": size.ffn}
    asked |= {**dict.fromkeys(("weight_format", "activation_format", "cache_format"), "fp8"), "layers": size.layers}
    asked |= {"step": "decode", "context": context} if context else {"step": "prefill"}
    asked |= {"machine": "h100-sxm", "sizes": [tensor], "batch": batch, "micro_batch": batch, "tokens": tokens}
    asked |= {"sums": tensor > 1, "dram_bytes": 10**15, "utilisation": 1.0}
    made = generate("dataflow-engine", degrees={"tensor": tensor, "dimensions": ["tensor"]}, **asked)
    assert isinstance(made, DataflowInstance)
    result = chipmap.solve(made, isolate=False)
    assert result.certificate is not None and result.certificate.prediction is not None
    assert result.objective == check(of_row, mapping).objective and result.status == "optimal"
    fitted = check(of_row.replace(system=machine("h100-sxm-typical", (tensor,))), mapping)
    told = result.certificate.prediction
    assert told.objective == fitted.objective and told.beyond == ""


@pytest.mark.parametrize("name", [*dict.fromkeys(plain for plain, _ in PROFILED.values())])
def test_no_bound_is_above_a_prediction(name: str) -> None:
    """On every machine with a profile; the usual utilisation gives way to the profile's shares."""
    cases: list[dict[str, Any]] = [{"step": "decode"}, {"backward": True}, {"step": "prefill"}]
    for asked in cases[: of_all(len(cases), few=1 + name.startswith("a100"))]:
        instance = small(name, **asked)
        result = chipmap.solve(instance, isolate=False)
        assert result.certificate is not None and result.bound is not None
        told = result.certificate.prediction
        if told is None:
            assert "backward" in asked and f"{name}-calibrated" not in PROFILED
            assert "tells nothing of training in bf16 here" in result.certificate.headline
            continue
        assert result.bound <= result.objective <= told.objective  # type: ignore[operator]
        same = chipmap.check(small(told.profile, **asked), result.solution)  # type: ignore[arg-type]
        assert same.objective == told.objective and same.prediction is None


def test_shipped_instances_with_a_profile_have_no_bound_above_it() -> None:
    """Those that stand on a data sheet's machine."""
    from chipmap.instances.dataflow.shipped import SHIPPED

    for name in (name for name, (_, parameters) in SHIPPED.items() if "machine" in parameters or LONG):
        instance = chipmap.read(name)
        if isinstance(predicted(instance), Predicted):  # type: ignore[arg-type]
            result = chipmap.solve(instance, isolate=False, time_limit=1)
            told = result.certificate.prediction if result.certificate else None
            assert told is not None and result.bound is not None and result.bound <= told.objective


def test_machines_of_ones_own_have_no_profile(tmp_path: Path) -> None:
    sheet = small("h100-sxm", step="decode")
    faster = sheet.system.memory.replace(bytes_per_ns=3351.0)
    for system, known in (
        (sheet.system, True),
        (sheet.system.replace(memory=sheet.system.memory.replace(capacity_bytes=10**15)), True),
        (sheet.system.replace(name="mine"), False),
        (sheet.system.replace(memory=faster), False),
        (sheet.system.replace(step_ns=1.0), False),
        (machine("h100-sxm-typical", (2,)), False),
    ):
        file = tmp_path / "mine.json"
        file.write_bytes(system.to_json())
        own = generate("dataflow-gpt", machine=str(file), **{**SMALL, "sizes": []}, step="decode")
        assert isinstance(own, DataflowInstance) and (origin(own.system) == "h100-sxm") == known
        assert isinstance(predicted(own), Predicted) == known
    assert {origin(one.system(name)) for name, one in SHEETS.items()} == set(SHEETS)


def test_what_is_no_limit_has_no_prediction() -> None:
    assert predicted(small("h100-sxm", step="decode", utilisation=0.5)) == ""
    assert predicted(small("tpu-v4", step="decode", mode="dfmodel")) == ""
    assert predicted(small("b200-nvl72", step="decode")) == ""
    assert str(predicted(small("h100-sxm", backward=True, weight_format="fp8"))).startswith("h100-sxm-typical, h100")


def test_errors_of_calibrated_machines_are_those_of_their_page() -> None:
    page = (ROOT / "benchmarks" / "results" / "calibrated-machines.md").read_text(encoding="utf-8")
    parts = {"h100-sxm": page.partition("## H200")[0], "h200": page.partition("## H200")[2]}
    for name, part in parts.items():
        median, worst = (re.findall(rf"\*\*{one} error\*\*.*", part)[0].split("|")[5] for one in ("median", "worst"))
        judged = JUDGED[f"{name}-calibrated"]
        assert (f"{judged.median:.1%}", f"{judged.worst:.1%}") == (median.strip(), worst.strip())
        assert judged.rows == len(re.findall(r"^\| (?:decode|prefill|forward)", part, re.M))


def test_it_is_told_wherever_the_objective_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from chipmap.cli import main

    file, out = tmp_path / "decode.json", tmp_path / "out"
    file.write_bytes(small("h100-sxm", step="decode").to_json())
    assert main(["solve", str(file), "--out", str(out), "--format", "json", "--quiet"]) == 0
    said = capsys.readouterr()
    row = json.loads(said.out)["prediction"]
    assert row["profile"] == "h100-sxm-typical" and row["text"] in said.err and row["objective"] < 1
    kept = json.loads((out / "result.json").read_text())["certificate"]["prediction"]
    assert kept["objective"] == pytest.approx(row["objective"] * 1e12)
    assert main(["check", str(file), str(out)]) == 0 and row["text"] in capsys.readouterr().out
    assert main(["report", str(out), "--format", "csv"]) == 0 and "prediction.profile" in capsys.readouterr().out
    page, told = tmp_path / "report.html", re.findall(r"about ([\d.,]+ \w+)", row["text"])[0]
    assert main(["report", str(out), "--against", str(tmp_path), "--html", str(page)]) == 0
    assert "Predicted" in page.read_text(encoding="utf-8")
    compared = page.read_text(encoding="utf-8").partition("predicted before")[2]
    assert compared.count(f">{told}<") >= 2
    assert main(["plot", str(file), str(out), "--out", str(tmp_path / "plot.svg")]) == 0
    assert f"predicted about {told}" in (tmp_path / "plot.svg").read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["explain", str(file), str(out), "--time-limit", "5", "--quiet"]) == 0
    assert row["text"].removeprefix("predicted") in " ".join(capsys.readouterr().out.split())
