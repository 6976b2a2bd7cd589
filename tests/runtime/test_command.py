"""``chipmap solve`` as a process: signals, a full disk, several instances."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chipmap import archive
from chipmap.cli import main
from chipmap.instances.ring import RingInstance, RingSolution
from chipmap.validation.ring.checker import check

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and limits of POSIX systems")


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "chipmap", *map(str, arguments)]


def start(*arguments: object, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Until the condition holds; a process that ends before, or a minute, fails the test."""
    until = time.monotonic() + 60.0
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.005)


def valid(path: Path, instance: RingInstance) -> bool:
    return check(instance, RingSolution.read(path)).feasible


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("method", ["wait", "improve_then_hang"])
def test_an_interrupt_writes_the_result(
    tmp_path: Path, instance: RingInstance, instance_file: Path, number: int, code: int, method: str
) -> None:
    out = tmp_path / "run"
    options = ("--method", method, "--warm-start", "none", "--out", out, "--format", "json")
    process = start("solve", instance_file, *options)
    wait_for((tmp_path / "run.partial" / "solution.json").exists, process)
    process.send_signal(number)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    row = json.loads(output)
    assert (row["status"], row["feasible"], row["figures"]["limit"]) == ("feasible", True, "interrupted")
    assert archive.load(out).result.termination.limit == "interrupted"
    assert valid(out / "solution.json", instance)
    assert "Traceback" not in errors


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_while_reading(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: signal.Signals, code: int
) -> None:
    class Interrupted:
        @property
        def buffer(self) -> Interrupted:
            return self

        def read(self, size: int = -1) -> bytes:
            signal.raise_signal(number)
            raise AssertionError("the signal was not heard")

    monkeypatch.setattr(sys, "stdin", Interrupted())
    assert main(["solve", "-"]) == code
    assert capsys.readouterr().err == "chipmap: interrupted\n"


#: Sends Ctrl-C to its own process at the moment when a module is asked for.
AT_IMPORT = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPT_AT"]:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize("module", ["chipmap.archive", "msgspec", "chipmap.cli", "chipmap.cli.solve"])
@pytest.mark.parametrize("script", [False, True])
def test_an_interrupt_while_the_command_is_imported(tmp_path: Path, module: str, script: bool) -> None:
    (tmp_path / "sitecustomize.py").write_text(AT_IMPORT)
    (tmp_path / "chipmap").write_text("import sys\nfrom chipmap.cli import main\nsys.exit(main())\n")
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{root}", "INTERRUPT_AT": module}
    done = subprocess.run(
        [sys.executable, *([tmp_path / "chipmap"] if script else ["-m", "chipmap"]), "info"],
        cwd=root, env=environment, capture_output=True, text=True, timeout=60,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (130, "chipmap: interrupted\n")


def test_an_import_leaves_signals_alone() -> None:
    code = "import signal; before = signal.getsignal(2); import chipmap; assert signal.getsignal(2) is before"
    for arguments in (["-c", code], ["-c", code, "chipmap"]):
        subprocess.run([sys.executable, *arguments], check=True, timeout=60)


@pytest.mark.parametrize("seed", range(6))
def test_a_killed_parent_leaves_a_valid_solution_and_no_archive(
    tmp_path: Path, instance: RingInstance, instance_file: Path, seed: int
) -> None:
    process = start("solve", instance_file, "--method", "wait", "--out", tmp_path / "run")
    partial = tmp_path / "run.partial" / "solution.json"
    wait_for(partial.exists, process)
    time.sleep(random.Random(seed).uniform(0.0, 0.3))
    process.kill()
    process.communicate(timeout=60)
    assert valid(partial, instance)
    assert not (tmp_path / "run").exists()
    best = check(instance, RingSolution.read(partial)).objective
    typo = start("solve", instance_file, "--method", "pretend", "--warm-start", "nothing", "--out", tmp_path / "run")
    typo.communicate(timeout=60)
    assert typo.returncode == 1
    again = start("solve", instance_file, "--method", "pretend", "--out", tmp_path / "run", "--quiet")
    _, errors = again.communicate(timeout=60)
    assert (again.returncode, "this one starts from its best solution" in errors) == (0, True)
    result = archive.load(tmp_path / "run").result
    assert result.objective is not None and best is not None and result.objective <= best
    assert not list(tmp_path.glob("run*/earlier*"))


def test_an_orphaned_child_ends(tmp_path: Path, instance_file: Path) -> None:
    process = start("solve", instance_file, "--method", "wait", "--out", tmp_path / "run")
    wait_for((tmp_path / "run.partial" / "solution.json").exists, process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    if not children.exists():
        pytest.skip("this system does not list a process's children")
    wait_for(lambda: bool(children.read_text().split()), process)
    child = int(children.read_text().split()[0])
    process.kill()
    process.communicate(timeout=60)
    until = time.monotonic() + 30.0
    while Path(f"/proc/{child}/cmdline").exists() and Path(f"/proc/{child}/cmdline").read_bytes():
        assert time.monotonic() < until, "the child goes on without its parent"
        time.sleep(0.02)


@pytest.mark.parametrize("size", [0, 100, 1000, 6000])
def test_a_full_disk_costs_the_archive_only(
    tmp_path: Path, instance: RingInstance, instance_file: Path, size: int
) -> None:
    """No file may grow beyond ``size`` bytes: every write beyond fails, as on a full disk."""
    old = subprocess.run(command("solve", instance_file, "--method", "greedy", "--out", tmp_path / "run", "--quiet"))
    assert old.returncode == 0
    before = archive.load(tmp_path / "run").result

    def fill() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    options = ("--method", "improve", "--out", tmp_path / "run", "--format", "json", "--quiet")
    process = start("solve", instance_file, *options, preexec_fn=fill)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert errors.count("can't be written") == 1
    assert "Traceback" not in errors
    assert archive.load(tmp_path / "run").result == before
    row = json.loads(output)
    assert row["status"] == "feasible"
    assert check(instance, RingSolution.make(**row["solution"])).feasible
    assert sorted(os.listdir(tmp_path)) == ["chain.json", "run"]


def test_a_full_disk_on_a_real_file_system(tmp_path: Path, instance: RingInstance, instance_file: Path) -> None:
    """The same with ENOSPC, where a small file system can be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(disk)], capture_output=True)
    if mount.returncode:
        pytest.skip("mounting a small file system is not allowed here")
    try:
        process = start("solve", instance_file, "--method", "improve", "--out", disk / "run", "--quiet")
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 1
        assert errors.count("No space left on device") == 1
        assert check(instance, RingSolution.from_json(output.splitlines()[-1])).feasible
        assert os.listdir(disk) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_standard_output_may_be_full(instance_file: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command("solve", instance_file, "--method", "greedy", "--quiet"),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 1
    assert done.stderr == "chipmap: standard output: No space left on device\n"


def test_several_instances_each_get_an_archive(tmp_path: Path, instance_file: Path) -> None:
    missing, options = tmp_path / "missing.json", ("--method", "improve", "--out", tmp_path / "all")
    done = subprocess.run(
        command("solve", instance_file, missing, instance_file, "--format", "json", *options),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert [json.loads(line)["instance"] for line in done.stdout.splitlines()] == ["chain", "chain"]
    assert sorted(os.listdir(tmp_path / "all")) == ["chain", "chain-2"]
    assert f"{missing}: no such file" in done.stderr
    assert archive.load(tmp_path / "all" / "chain-2").result.objective == 500_000


def test_standard_input_and_progress(instance_file: Path) -> None:
    done = subprocess.run(
        command("solve", "-", "--method", "improve", "--format", "csv"),
        input=instance_file.read_text(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    head, line = done.stdout.splitlines()
    assert head.startswith("instance,family,method,status,objective,unit,bound,gap,seconds,terms.T1")
    assert line.startswith("chain,ring,ring/improve,feasible,5.0,us,")
    assert "incumbent 5 us" in done.stderr
    assert "(bound by count 12)" in done.stderr
