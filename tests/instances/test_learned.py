"""Times learned from other networks: the fit, the nearest operations, intervals, cuts; what a solve says of them."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from random import Random

import numpy as np
import pytest

from chipmap.cli import main
from chipmap.inputs.reading import Conversion, read
from chipmap.instances.learned import learned
from chipmap.instances.learned_model import Model, balanced, cut, fitted, period
from chipmap.instances.measured import times
from chipmap.instances.ring.instance import RingInstance
from chipmap.networks.graph import Loops, Operation, OperationGraph, Tensor
from chipmap.networks.works import Work, canonical, sort, works
from chipmap.records import InputError

HEADER = "graph,operation,module,operator,class,ns,repeat,samples,flop,read,weights,written\n"


def true_ns(work: Work) -> float:
    """What the machine of these tests takes: each operator has its own rates."""
    rate = {"linear": 50.0, "gelu": 4.0}[work.kind]
    return 2000 + work.flop / rate + (work.read + work.written) / 8 + work.weights / 4


def some(count: int, seed: int = 0) -> list[Work]:
    draw = Random(seed)
    found = []
    for _ in range(count):
        m, k, n = (2 ** draw.randint(4, 10) for _ in range(3))
        linear = Work("linear", 2 * m * k * n, 4 * m * k, 4 * k * n, 4 * m * n)
        found.append(draw.choice([linear, Work("gelu", 8 * m * n, 4 * m * n, 0, 4 * m * n)]))
    return found


def table(path: Path, noise: float = 0.0) -> str:
    """Four architectures of the machine, each measured in 40 operations."""
    draw, lines = Random(7), []
    for g in range(4):
        for i, one in enumerate(some(40, g)):
            ns = true_ns(one) * draw.uniform(1 - noise, 1 + noise)
            sizes = ",".join(map(str, one.sizes))
            lines.append(f"graph{g},op{i},net{'abcd'[g]}.layer.{i},{one.kind},,{ns:.1f},,,{sizes}\n")
    path.write_text(HEADER + "".join(lines))
    return str(path)


def test_a_fit_finds_the_constants_of_a_machine() -> None:
    ones = [one for one in some(60) if one.kind == "linear"]
    found = fitted(ones, np.array([true_ns(one) for one in ones]))
    assert found == pytest.approx([2000, 1 / 50, 1 / 8, 1 / 4, 0, 0], rel=1e-6)


def test_nearest_operations_mend_a_fit() -> None:
    """A machine that takes three times as long for large products: a fit can't say it, neighbours can."""
    ones = [one for one in some(300) if one.kind == "linear"]
    ns = [true_ns(one) * (3 if one.flop > 2**22 else 1) for one in ones]
    model = Model(ones, ns, [i % 5 for i in range(len(ones))])
    fit, guess = (np.median(abs(found / np.array(ns) - 1)) for found in (model.fits(ones), model.guesses(ones)))
    assert guess < fit / 2
    low, high = model.intervals(ones)
    assert 0.85 < np.mean((low <= ns) & (ns <= high)) <= 1


@pytest.mark.parametrize(
    ("loops", "name"),
    [
        (Loops(rows=256, inner=64, columns=784, window=(1, 1), stride=(1, 1)), "point"),
        (Loops(rows=512, inner=256, columns=196, window=(1, 1), stride=(2, 2)), "strided"),
        (Loops(rows=192, inner=3 * 16 * 16, columns=196, window=(16, 16), stride=(16, 16)), "patch"),
        (Loops(rows=8, inner=3 * 4, columns=50, window=(4,), stride=(4,)), "patch"),
        (Loops(rows=64, inner=3 * 49, columns=12544, window=(7, 7), stride=(2, 2)), "dense"),
        (Loops(rows=64, inner=64 * 9, columns=3136, window=(3, 3), stride=(1, 1)), "dense"),
        (Loops(outer=144, inner=9, columns=3136, window=(3, 3), stride=(1, 1)), "depthwise"),
        (Loops(outer=96, inner=25, columns=196, window=(5, 5), stride=(2, 2)), "depthwise"),
        (Loops(outer=16, rows=16, inner=16 * 9, columns=196, window=(3, 3), stride=(2, 2)), "grouped16"),
        (Loops(outer=4, rows=48, inner=32 * 9, columns=196, window=(3, 3), stride=(1, 1)), "grouped16"),
        (Loops(outer=4, rows=16, inner=24 * 9, columns=196, window=(3, 3), stride=(1, 1)), "grouped8"),
        (Loops(outer=4, rows=12, inner=16 * 9, columns=196, window=(3, 3), stride=(1, 1)), "grouped"),
        (Loops(rows=64 * 4, inner=32, columns=196, window=(2, 2), stride=(2, 2), transposed=True), "transposed"),
        (Loops(rows=64, inner=64, columns=784), ""),
        (None, ""),
    ],
)
def test_windows_and_groups_tell_the_sort_of_a_convolution(loops: Loops | None, name: str) -> None:
    assert sort("convolution", loops) == name and sort("linear", loops) == ""


def test_each_sort_of_convolutions_has_its_own_times() -> None:
    """Patches of the same sizes take three times as long; with too few of them all convolutions have one fit."""
    draw = Random(5)
    point = [Work("convolution", *some(1, i)[0].sizes, sort="point") for i in range(40)]
    patch = [work._replace(sort="patch") for work in point]
    ns = [(1000 + work.flop / 50) * (3 if work in patch else 1) for work in (*point, *patch)]
    model = Model([*point, *patch], ns, [draw.randrange(5) for _ in ns], False)
    assert model.fits([*point, *patch]) == pytest.approx(ns, rel=1e-5)
    few = Model([*point, *patch[:5]], ns[:45], [i % 5 for i in range(45)], False)
    assert few.among(patch[0]) is few.operators["convolution"]
    none = Model(point, ns[:40], [0] * 40, False)
    assert none.among(Work("linear", 1, 1, 1, 1)) is None


def test_a_padding_that_adds_nothing_is_a_sort_of_its_own() -> None:
    """As many bytes are written as read: PyTorch copies them."""
    operations = [Operation(name="x", kind="input", role="input"), *(Operation(name=n, kind="aten.pad") for n in "ab")]
    tensors = [Tensor(producer=0, readers=(1, 2), bytes=64), Tensor(producer=1, bytes=64), Tensor(producer=2, bytes=80)]
    found = works(OperationGraph.checked("net", operations, tensors))
    assert [one.group for one in found[1:]] == ["pad nothing", "pad"]


def test_an_architecture_with_many_operations_counts_as_their_root() -> None:
    """With n and m equal operations, of weights √n and √m, a constant c has the least Σ √n (c - t)² / t²."""
    one = Work("relu", 0, 0, 0, 0)
    for many, few in ((100, 4), (9, 9), (25, 1)):
        of = [0] * many + [1] * few
        assert balanced(of) == pytest.approx(np.sqrt(min(many, few) / np.array([many if a == 0 else few for a in of])))
        ns = np.array([1000.0] * many + [2000.0] * few)
        by = {1000.0: many**0.5, 2000.0: few**0.5}
        least = sum(w / t for t, w in by.items()) / sum(w / t**2 for t, w in by.items())
        model = Model([one] * len(ns), ns.tolist(), of, False)
        assert model.fits([one]) == pytest.approx([least], rel=1e-6)


def test_parameters_of_one_architecture_tell_nothing_of_a_matrix() -> None:
    """A small bias that takes long: its bytes cost what activations do, until a second architecture has some."""
    plain = [Work("bmm", 0, 1000 * i, 0, 0) for i in range(1, 21)]
    biased = [one._replace(weights=4) for one in plain]
    ns = [1000.0 + one.read for one in plain] + [9000.0 + one.read for one in biased]
    model = Model([*plain, *biased], ns, [0] * 20 + [1] * 20, False)
    assert model.operators["bmm"].fit[3] == model.operators["bmm"].fit[2]
    model = Model([*plain, *biased], ns, [0] * 20 + [1] * 10 + [2] * 10, False)
    assert model.operators["bmm"].fit[3] == pytest.approx(2000, rel=0.01)


def test_a_product_with_a_parameter_is_linear() -> None:
    kinds = ("einsum", "matmul", "aten.bmm", "baddbmm")
    assert [canonical(kind, 4) for kind in kinds] == ["linear", "linear", "linear", "bmm"]
    assert {canonical(kind) for kind in kinds} == {"bmm"}


def test_rows_and_their_order_tell_operations_of_the_same_sizes_apart() -> None:
    """Rows whose numbers lie apart take five times as long, and what is read in another order twice as long."""
    near = [Work("max", 0, 1000 * i, 0, 100 * i, "", 1, 16, 1) for i in range(1, 31)]
    apart = [one._replace(apart=1024) for one in near]
    turned = [one._replace(turned=one.read) for one in near]
    ones = [*near, *apart, *turned]
    ns = [1000.0 + one.read * (5 if one.apart > 1 else 2 if one.turned else 1) for one in ones]
    model = Model(ones, ns, [i % 5 for i in range(90)], False)
    assert np.median(abs(model.guesses(ones) / np.array(ns) - 1)) < 0.1
    plain = [one._replace(apart=1, turned=0) for one in ones]
    blind = Model(plain, ns, [i % 5 for i in range(90)], False)
    assert np.median(abs(blind.guesses(plain) / np.array(ns) - 1)) > 0.2


def test_cuts_are_those_of_brute_force() -> None:
    draw = Random(3)
    for _ in range(50):
        ns = [draw.choice([0.0, draw.uniform(1, 9)]) for _ in range(draw.randint(1, 8))]
        stages = draw.randint(1, 4)
        ways = [(*inner, len(ns)) for k in range(stages) for inner in combinations(range(1, len(ns)), k)]
        ends = cut(ns, stages)
        assert len(ends) <= stages and ends[-1] == len(ns)
        assert period(ns, ends) == pytest.approx(min(period(ns, one) for one in ways), rel=1e-9)


def test_works_follow_operands() -> None:
    """A view of parameters counts as parameters; a look-up reads what it fetches."""
    graph = OperationGraph.checked(
        "net",
        [
            Operation(name="x", kind="input", role="input"),
            Operation(name="w", kind="weights", role="constant"),
            Operation(name="wt", kind="t", role="view"),
            Operation(name="a", kind="aten.addmm", flop=10, weight_bytes=3),
            Operation(name="b", kind="embedding", flop=2, weight_bytes=999, moved_bytes=12),
        ],
        [
            Tensor(producer=0, readers=(3, 4), bytes=5),
            Tensor(producer=1, readers=(2,), bytes=20),
            Tensor(producer=2, readers=(3,), bytes=20),
            Tensor(producer=3, bytes=7),
            Tensor(producer=4, bytes=8),
        ],
    )
    assert works(graph)[3:] == [Work("linear", 10, 5, 23, 7), Work("embedding", 2, 4, 0, 8)]
    assert [canonical(kind) for kind in ("relu_", "native_layer_norm", "_to_copy", "mm", "__and__")] == [
        *("relu", "layer_norm", "copy", "linear", "and"),
    ]


def chain(count: int = 12) -> OperationGraph:
    """A row of products and of an operator that the table doesn't have."""
    ones = some(count, 99)
    operations = [
        Operation(name=f"o{i}", kind=one.kind if i else "mystery", flop=one.flop, weight_bytes=one.weights)
        for i, one in enumerate(ones)
    ]
    tensors = [Tensor(producer=i, readers=(i + 1,) if i + 1 < count else (), bytes=4096) for i in range(count)]
    return OperationGraph.checked("chain", operations, tensors)


def test_a_measured_time_goes_before_a_learned_one(tmp_path: Path) -> None:
    graph, costs = chain(), "learned:" + table(tmp_path / "costs.csv")
    found = learned(graph, costs.removeprefix("learned:")).by_class[""]
    for guess, work in list(zip(found, works(graph), strict=True))[1:]:
        assert guess == pytest.approx(true_ns(work), rel=0.5)
    (tmp_path / "own.csv").write_text("operation,ns\no3,77\n")
    both = times(graph, (), [str(tmp_path / "own.csv"), costs], ("",))
    assert both.by_class[""] == (*found[:3], 77.0, *found[4:])
    assert "1 operation with" in both.note and "mystery" in both.note and "measured times from own.csv" in both.note


def test_the_interval_stands_beside_the_objective(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Predictions of a noisy machine have a spread around 1, which the instance keeps and a solve tells."""
    (tmp_path / "net.csv").write_text("name,flop,bytes,kind,inputs\na,4e6,4096,gelu,\nb,2e6,4096,gelu,a\n")
    costs = "learned:" + table(tmp_path / "costs.csv", 0.3)
    instance = read(tmp_path / "net.csv", (), "ring", Conversion(equipment={"costs": [costs]}))
    assert isinstance(instance, RingInstance) and len(instance.time_spread) == 2
    low, high = instance.time_spread
    assert 0.5 < low < 1 < high < 2
    (tmp_path / "ring.json").write_bytes(instance.to_json())
    assert main(["solve", str(tmp_path / "ring.json"), "--quiet", "--format", "json"]) == 0
    out = capsys.readouterr()
    objective = json.loads(out.out)["objective"]
    assert f"measured at {objective * low:.4g} to {objective * high:.4g} us" in out.err
    with pytest.raises(InputError, match="time_spread"):
        instance.replace(time_spread=(1.2, 1.0)).check()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("operation,ns\na,1\n", "has no columns graph, operator, flop"),
        (HEADER, "has no times to learn from"),
        (HEADER + "g,a,m,linear,,5,,,1,2,x,4\n", "line 2: has a size or a time that is no number"),
        (HEADER + "g,a,m,linear,,nan,,,1,2,3,4\n", "line 2: has a time that isn't 0 to 1e+15 ns"),
        (HEADER + "g,a,m,linear,,5,,,1,2,-3,4\n", "line 2: has a time that isn't 0 to 1e+15 ns, or a size that isn't"),
        (HEADER + "g,a,m,linear,x,5,,,1,2,3,4\ng,a,m,linear,y,5,,,1,2,3,4\n", "has times of the classes 'x', 'y'"),
    ],
)
def test_bad_tables_say_where_and_what(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(InputError) as caught:
        times(chain(), (), [f"learned:{tmp_path / 'bad.csv'}"], ("",))
    assert words in str(caught.value) and caught.value.remedy
