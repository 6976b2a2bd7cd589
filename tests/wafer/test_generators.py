"""The named generators and the shipped instances of family wafer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from chipmap.families.wafer import FAMILY
from chipmap.family import resolve
from chipmap.inputs.reading import read
from chipmap.instances.wafer import WaferInstance, generators
from chipmap.instances.wafer.generators import Setting, WaferGenerator, bert, explicit, fully_connected, resnet, unet
from chipmap.instances.wafer.shipped import SHIPPED
from chipmap.records import InputError
from chipmap.validation.brute_force import brute_force
from chipmap.validation.wafer.checker import check

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "instances-wafer.md").read_text(encoding="utf-8")
GENERATORS: dict[str, WaferGenerator] = {g.name: resolve(g.function) for g in FAMILY.generators}
#: Content hashes. A change here changes what published results refer to: give the new instance a new name instead.
HASHES: dict[str, str] = {
    "wafer/ispd2020-A": "7b55f73f793cbe6dca2b8e8b77e4c346b0dd10811d8c16600f63b425e98fd38e",
    "wafer/ispd2020-B": "355ff5ab4d9fdfe70614cd30eb2bf3bce1df33aada61b01dd637992bd5fa615e",
    "wafer/ispd2020-C": "2269eafeecbf4266a4dcdd0f61afd2747a386b90ff956ec3110680a9352fc349",
    "wafer/ispd2020-D": "33bdea77c9741b046acc5f33f2f3cb0e770094ec9cace19cf82f88b870c59df3",
    "wafer/ispd2020-E": "0c07a0e3e180545aaa66e2da844805d884258c39dd93d351fee650c118666e86",
    "wafer/ispd2020-F": "4a513d21a2112704e2934f39e1a742e85edafc24087906c9aed93ff2480cb235",
    "wafer/ispd2020-G": "2659778c900c43235a6b4e9e0555cb14e6c7be8e4b7b31f062eedce4a754f9ff",
    "wafer/ispd2020-H": "9358cf99e59509645546fee383bc6e11563a84fc6a6642f7a5e87af809a3dced",
    "wafer/ispd2020-I": "083e2964203d4a5c1154ce1d059ea69b5e88813992a38171838c260ef464a9c2",
    "wafer/ispd2020-J": "7ecdcc884325339aaa1384e5aab259d77a1aff9dfe42c9356000b43c8f03affb",
    "wafer/ispd2020-K": "c2488d318b603d863bea82362660cbe65e97ed938ede27f48002d64520dc3667",
    "wafer/ispd2020-L": "c381f4c32f86dd4dff6f91f5572e6940c32682c5c84d102c32181f8765fe1986",
    "wafer/ispd2020-M": "1f48728eca49bffdf8191edea5f7dc1f22d1f198168ca90987753d462bc8b55d",
    "wafer/ispd2020-N": "c603c7eccf5e9cfc6c998e9068f1e65514429d30998a42d5061b64a8ec392d8d",
    "wafer/ispd2020-O": "619403499c75f8065306e23e0c7e7a0a4be282a607aa55a907881bd02eb9d4f6",
    "wafer/ispd2020-P": "b890fac083cdc405a1e85c58471a9f1e2871861d85330e86f9471935f6fbb78e",
    "wafer/ispd2020-Q": "df174ac770ec6b4925b5a297dccbdcacc75da3e15b2824e3f6585fdc06641911",
    "wafer/ispd2020-R": "dea499722d10fce0f9f38e20f4f62c4f7b4fc2c5ba9522df5ea0cab49ec5b338",
    "wafer/ispd2020-S": "02b2672736c1c7ad7eb71560a1c743fdbce2bad87f8718ea98e5f5e2964ade07",
    "wafer/ispd2020-T": "4083684e7a6acb84ee194f6abbf9441b1b0a54b8b9bd65361986232574cc4d47",
    "wafer/bert-large": "5eae7cde7733046f1aa8ad2c0ba78fd25c67d28aa290b6fc1777d1271e61713a",
    "wafer/bert-large-heads": "588fd1c640edc3da509abb717206a424c6979399be976bb04ac0d912cce70703",
    "wafer/gpt2": "84d6dfbe05e1a0b9065937db7a3316a6a38eec8e99f8dc98da716096ce24360b",
    "wafer/gpt-1000": "350e0f54bee3ac891636f693e19cf60352f09fced0b089d1b790c06372400436",
    "wafer/resnet-1000": "eec650c5541fa46ad4ba97457328c7d0581ed7c5acc66c51ac513650ca0e0e64",
    "wafer/tiny-chain": "7f2d28232b975522959a1837ca91f7cf2efa980833ffb6e09cc1a6f59dd3d6bf",
    "wafer/tiny-skip": "5faf2ac68da1731dbc033c57da537b2a95fed2cc19cc95e3201818d16927707c",
    "wafer/tiny-rotation": "104b81983304dfd9ed5f6e36d78a282043f33e9cae9e6db35d0e820e306d9f84",
    "wafer/tiny-adapters": "049b88230a4ea4e7a6ca070d7b946e6910e91409e60f500d0911c66723c05d5e",
    "wafer/tiny-block": "e5a2d41f23139fb3e1240c56a95fbb433c4687f05729981df48d352174d1f097",
    "wafer/tiny-memory": "048bada824a5cdc18d5a431de614e43144a55c7eff7dca896e2516241ad6ed71",
    "wafer/tiny-fabric": "a08ea993931ba692353d94715006b296d7a4c928368d3c778eb9e3cfb43974b4",
}
#: Optima of the tiny ones in ticks, by trying all floorplans (None: infeasible).
OPTIMA = {
    "wafer/tiny-chain": 696,
    "wafer/tiny-skip": 1232,
    "wafer/tiny-rotation": 270,
    "wafer/tiny-adapters": 280,
    "wafer/tiny-block": 536,
    "wafer/tiny-memory": None,
    "wafer/tiny-fabric": None,
}


def shipped(name: str) -> WaferInstance:
    instance = read(f"wafer/{name}")
    assert isinstance(instance, WaferInstance)
    return instance


def test_the_shipped_names() -> None:
    assert set(HASHES) == set(SHIPPED)
    assert {name for name in SHIPPED if "/tiny-" in name} == set(OPTIMA)
    assert {name for name in SHIPPED if "ispd" in name} == {
        f"wafer/ispd2020-{letter}" for letter in "ABCDEFGHIJKLMNOPQRST"
    }


@pytest.mark.parametrize("name", SHIPPED)
def test_content_hash(name: str) -> None:
    instance = read(name)
    assert getattr(instance, "name", "") == name
    assert instance.content_hash == HASHES[name]


@pytest.mark.parametrize("name", OPTIMA)
def test_optima_of_the_tiny_ones(name: str) -> None:
    assert brute_force(read(name), check)[0] == OPTIMA[name]


def test_what_the_tiny_instances_are_about_matters() -> None:
    skip = shipped("tiny-skip")
    less = brute_force(skip.replace(edges=skip.edges[:2]), check)[0]
    assert less is not None and less < 1232 - 2 * 20 * 2, "the skip has a wire of its own"
    turned = shipped("tiny-rotation")
    upright = [p for p in _all(turned) if not any(placement.rotated for placement in p.placements)]
    values = [certificate.objective for p in upright if (certificate := check(turned, p)).feasible]
    assert min(value for value in values if value is not None) > 270
    adapters = shipped("tiny-adapters")
    free, plan = brute_force(adapters.replace(weights=adapters.weights.replace(adapter=0)), check)
    assert free is not None and plan is not None and free < 280
    assert check(adapters, plan).figures["adapters"] > 0
    memory = shipped("tiny-memory")
    assert brute_force(memory.replace(fabric=memory.fabric.replace(memory_words=100)), check)[0] is not None
    fabric = shipped("tiny-fabric")
    assert brute_force(fabric.replace(fabric=fabric.fabric.replace(width=6)), check)[0] is not None


def _all(instance: WaferInstance) -> Any:
    from chipmap.validation.wafer.candidates import candidates

    return candidates(instance)


def test_the_family_lists_all_generators_under_their_names() -> None:
    assert {name: generator.name for name, generator in GENERATORS.items()} == {name: name for name in GENERATORS}
    assert {value.name for value in vars(generators).values() if isinstance(value, WaferGenerator)} == set(GENERATORS)


@pytest.mark.parametrize("name", sorted(set(GENERATORS) - {"wafer-explicit"}))
def test_defaults_make_an_instance(name: str) -> None:
    instance = GENERATORS[name]()
    placed = sum(kernel.placed for kernel in instance.kernels)
    assert instance.name == f"{name}-{placed}"
    assert (instance.fabric.width, instance.fabric.height, instance.fabric.memory_words) == (633, 633, 24576)
    assert WaferInstance.from_json(instance.to_json()) == instance == GENERATORS[name]()


def test_levels_and_sizes() -> None:
    stages = [3, 1]
    blocks = resnet(stages=stages, image=64, filters=32)
    convs = resnet(stages=stages, image=64, filters=32, level="convolution")
    assert sum(kernel.placed for kernel in blocks.kernels) == 2 + 4
    assert sum(kernel.placed for kernel in convs.kernels) == 2 * 4 + 4 * 3
    assert [kernel.arguments for kernel in blocks.kernels[1:3]] == [
        {"H": 32, "W": 32, "F": 64},
        {"H": 64, "W": 64, "F": 32},
    ]
    assert len(blocks.edges) == 7 and len(convs.edges) == 2 * 4 + 4 * 3 + 7
    assert sum(kernel.placed for kernel in unet(levels=2, image=64).kernels) == 2 * 2 + 2 + 3 * 2 + 1
    assert [k.arguments["K"] for k in fully_connected(smallest=3, largest=12, outputs=5).kernels[1:-1]] == [
        3,
        6,
        6,
        12,
        12,
        5,
    ]


@pytest.mark.parametrize(("split", "kernels"), [("none", 8), ("attention", 6 + 2 * 4), ("heads", 3 + 5 * 4)])
def test_transformers(split: str, kernels: int) -> None:
    instance = bert(layers=3, hidden=64, heads=4, sequence=32, split=split)
    placed = [kernel for kernel in instance.kernels if kernel.placed]
    assert len(placed) == 3 * kernels
    work = sum(k.arguments["H"] * k.arguments["W"] * k.arguments["C"] * k.arguments["K"] for k in placed)
    assert work == 3 * (12 * 32 * 64 * 64 + 2 * 32 * 32 * 64)
    assert shipped("bert-large-heads").kernels[-1].kind == "output"
    assert sum(kernel.placed for kernel in shipped("bert-large-heads").kernels) == 24 * (3 + 5 * 16)
    assert sum(kernel.placed for kernel in shipped("gpt-1000").kernels) == 12 * (3 + 5 * 16)


@pytest.mark.parametrize(
    ("generator", "parameters", "said"),
    [
        (resnet, {"depth": 50}, "wafer-resnet has no parameter 'depth'"),
        (resnet, {"stages": []}, "wafer-resnet: stages: is []\n  Give 1 or more entries."),
        (resnet, {"level": "kernel"}, "wafer-resnet: level: is 'kernel'\n  Choose from: "),
        (resnet, {"image": 100}, "image: is 100, not a multiple of 2^stages = 16"),
        (resnet, {"filters": 10}, "filters: is 10, not a multiple of 4\n  Give a multiple, such as 8 or 12."),
        (resnet, {"filters": 10**6}, "filters: is 1000000"),
        (resnet, {"width": 0}, "fabric.width: is 0"),
        (resnet, {"wire_weight": 0.5}, "wafer-resnet: wire_weight: is a fraction, not a whole number"),
        (unet, {"levels": 11, "image": 2048}, "levels: is 11"),
        (fully_connected, {"largest": 1000}, "largest: is 1000"),
        (fully_connected, {"smallest": 1, "largest": 10**6}, "largest: is 1000000"),
        (bert, {"heads": 3}, "hidden: is 1024, not a multiple of heads = 3"),
        (bert, {"layers": 1000}, "heads: is 16"),
        (explicit, {}, "wafer-explicit: kernels: is missing"),
        (explicit, {"kernels": {"a": {"H": 1}}}, "has no argument W"),
        (explicit, {"kernels": {"a": {"kind": "blob"}}}, "blob"),
        (explicit, {"kernels": {}}, "there is no kernel to place"),
        (explicit, {"kernels": {"a": {"H": "x"}}}, "is text, not a whole number"),
    ],
)
def test_wrong_parameters_are_named(generator: WaferGenerator, parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as error:
        generator(**parameters)
    assert said in str(error.value) and error.value.remedy


def _rows() -> list[list[str]]:
    section = PAGE.split("## Kernel graphs\n", 1)[1].split("\n## ", 1)[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("|")]


def test_the_page_lists_generators_and_shipped_instances() -> None:
    table = {row[0].strip("`"): row[2] for row in _rows() if len(row) == 3}
    for name, generator in GENERATORS.items():
        own = {k: v for k, v in generator.parameters().items() if k not in Setting.__struct_fields__}
        for parameter, default in own.items():
            assert f"`{parameter}`" in table[name], f"{name}: {parameter}"
            if isinstance(default, (int, str)):
                said = re.search(rf"`{parameter}` `?([\w.]+)", table[name])
                assert said is not None and said[1] == str(default), f"{name}: {parameter}"
    paragraph = PAGE.split("Every wafer generator also takes", 1)[1].split("\n\n", 1)[0]
    for name, default in zip(Setting.__struct_fields__, Setting.__struct_defaults__, strict=True):
        assert f"`{name}`" in paragraph
        assert not isinstance(default, int) or f"`{name}` {default}" in paragraph
    named = set(re.findall(r"`(wafer/[\w-]+)`", " ".join(row[0] for row in _rows())))
    assert named == {name for name in SHIPPED if "ispd" not in name} | {"wafer/ispd2020-A", "wafer/ispd2020-T"}
