"""Prices and powers of systems, by hand."""

from __future__ import annotations

import pytest

from chipmap.instances.dataflow.prices import Wiring, bills, wiring
from chipmap.instances.dataflow.system import System
from chipmap.instances.dataflow.systems import system
from chipmap.records import InputError


def made(sizes: list[int], *topology: str, memory: str = "ddr", link: str = "pcie") -> System:
    return system("sn30", sizes, topology=topology, memory=memory, link=link)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sizes", "topology", "links", "ports"),
    [
        # every row and every column closes through two ports
        ([32, 32], ("ring", "ring"), [1024, 1024], [64, 64]),
        ([8, 16, 8], ("ring", "ring", "ring"), [1024, 1024, 1024], [256, 128, 256]),
        # 32 groups of 32 x 31 links; 32 x 31 links between the groups, 32 x 32 ports
        ([32, 32], ("full", "full"), [32 * 32 * 31, 32 * 31], [0, 1024]),
        # 128 rings of 8; one uplink a box
        ([8, 128], ("ring", "switch"), [1024, 128], [256, 128]),
        ([16, 64], ("switch", "switch"), [1024, 64], [1024, 64]),
        ([4, 1], ("ring", "ring"), [4, 0], [2, 0]),
    ],
)
def test_links_and_ports(sizes: list[int], topology: tuple[str, ...], links: list[int], ports: list[int]) -> None:
    found = [wiring(made(sizes, *topology), i) for i in range(len(sizes))]
    assert found == [Wiring(a, b) for a, b in zip(links, ports, strict=True)]


def test_a_torus_of_sn30_by_hand() -> None:
    price, power = bills(made([32, 32], "ring", "ring"))
    assert price.chips == 1024 * 16_522 and price.memory == 1024 * 200 * 1.0
    assert price.links == 2048 * 25 * 2.0 and price.ports == 128 * 25 * 24.0
    assert power.chips == pytest.approx(1024 * 444.7) and power.memory == pytest.approx(1024 * 200 * 0.16248)
    assert power.links == pytest.approx(2048 * 25 * 0.052) and power.ports == pytest.approx(128 * 25 * 0.052)
    assert price.total == pytest.approx(16_918_528 + 204_800 + 102_400 + 76_800)


def test_a_dragonfly_with_fast_links_by_hand() -> None:
    price, power = bills(made([32, 32], "full", "full", memory="hbm", link="nvlink"))
    assert price.links == (31_744 + 992) * 900 * 2.0 and price.ports == 1024 * 900 * 24.0
    assert power.links == pytest.approx((31_744 + 992) * 900 * 0.0104)
    assert power.memory == pytest.approx(1024 * 3000 * 0.05624)


def test_unknown_technologies_are_named() -> None:
    with pytest.raises(InputError, match="no memory is called 'flash'"):
        system("sn30", [8], memory="flash")
    with pytest.raises(InputError, match="no link is called 'rope'"):
        system("sn30", [8], link="rope")
    with pytest.raises(InputError, match="names 1 topology for 2 dimensions"):
        system("sn30", [8, 2], topology=["ring"])
