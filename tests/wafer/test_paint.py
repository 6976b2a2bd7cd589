"""The reader and the writer of .paint: the order of the arguments, round trips, errors with line and column."""

from __future__ import annotations

import pytest

from chipmap.instances.wafer import WaferInstance
from chipmap.instances.wafer.instance import Placement, WaferSolution
from chipmap.instances.wafer.paint import read_paint, write_paint
from chipmap.records import InputError
from tests.wafer.random_instances import made
from tests.wafer.samples import CONV, INSTANCE, TEXT


def parsed(text: str, instance: WaferInstance = INSTANCE) -> WaferSolution:
    return read_paint(text.encode(), "out.paint", instance)


def test_the_order_of_the_arguments() -> None:
    one, two, three = parsed(TEXT).placements
    assert one == Placement(kernel="k1", h=5, w=6, c=(7,), k=(8,), x=0, y=1)
    assert two == Placement(kernel="k2", h=1, w=2, c=(3, 4, 5), k=(6, 7, 8), x=20, y=0, rotated=True)
    assert three == Placement(kernel="k3", h=1, w=2, c=(3, 4, 5, 6), k=(7, 8, 9, 10), x=100, y=200)


def test_round_trip() -> None:
    assert write_paint(INSTANCE, parsed(TEXT)) == TEXT.encode()
    negative = TEXT.replace("place(0 1 R0)", "place(-3 1 R0)")
    assert write_paint(INSTANCE, parsed(negative)) == negative.encode()


def test_white_space_commas_and_order_are_free() -> None:
    lines = TEXT.splitlines()[::-1]
    text = "\r\n".join(["", *lines]).replace("( ", "(").replace("conv(", "CONV (").replace("0 1 R0", " 0,1 , r0 ")
    solution = parsed(text)
    assert {p.kernel: p for p in solution.placements} == {p.kernel: p for p in parsed(TEXT).placements}


@pytest.mark.parametrize(
    ("change", "to", "said"),
    [
        ("k1 = conv", "k9 = conv", "line 1, column 1: no kernel of 'variant' is called 'k9'"),
        ("k1 = conv", "k0 = conv", "line 1, column 1: 'k0' is an input"),
        ("k1 = conv", "k1 conv", "line 1, column 4: = or : is expected, but found 'conv("),
        ("k1 = conv", "k1 = dblock", "line 1, column 6: 'k1' is a conv, not a dblock"),
        ("conv( 11", "conv( 10", "line 1, column 12: H of 'k1' is 11, not 10"),
        ("5 6 7 8 )\nk2", "5 6 7 )\nk2", "line 1, column 38: the number k is expected, but found ')'"),
        ("5 6 7 8 )\nk2", "5 6 7 8 9 )\nk2", "line 1, column 40: the closing bracket after 12 numbers"),
        (
            "5 6 7 8 )\nk2",
            "5 6 7 8\nk2",
            "line 1, column 39: the closing bracket after 12 numbers is expected, but the line ends",
        ),
        ("5 6 7 8 )\nk2", "5 6 7 8.5 )\nk2", "line 1, column 38: the number k is expected, but found '8.5 )'"),
        ("5 6 7 8 )\nk2", "5 6 7 8 ) x\nk2", "line 1, column 42: the end of the line is expected"),
        ("5 6 7 8 )\nk2", "5 6 7 8" + "0" * 6000 + " )\nk2", "line 1, column 38: the number 8000"),
        ("k2 = dblock", "k1 = conv( 11 12 13 14 1 2 3 4 5 6 7 8 )\nk2 = dblock", "line 2, column 1: 'k1' has a line"),
        ("0 1 R0", "0 1 R180", "line 4, column 16: R0 or R90 is expected, but found 'R180)'"),
        ("0 1 R0", "0 R0", "line 4, column 14: the number y is expected"),
        (": place(0", ": plaice(0", "line 4, column 6: place( is expected"),
        ("k3 : place(100 200 R0)\n", "", "line 3, column 1: kernel 'k3' has no place"),
        (
            "k2 = dblock( 21 22 24 1 2 3 4 5 6 7 8 )\n",
            "",
            "line 4, column 1: kernel 'k2' has a place, but no arguments",
        ),
        (TEXT, "\n", "line 2, column 1: there is no kernel in it"),
    ],
)
def test_errors_name_line_and_column(change: str, to: str, said: str) -> None:
    assert change in TEXT
    with pytest.raises(InputError) as error:
        parsed(TEXT.replace(change, to, 1))
    assert f"out.paint, {said}" in str(error.value) and error.value.remedy


def test_what_the_writer_refuses() -> None:
    stranger = WaferSolution(placements=(Placement(kernel="k7", h=1, w=1, c=(1,), k=(1,), x=0, y=0),))
    with pytest.raises(InputError, match="no kernel is called 'k7'"):
        write_paint(INSTANCE, stranger)
    odd = made(9, 9, "", {"a: b": CONV})
    with pytest.raises(InputError, match=r"'a: b' can't stand in a \.paint"):
        write_paint(odd, WaferSolution(placements=(Placement(kernel="a: b", h=1, w=1, c=(1,), k=(1,), x=0, y=0),)))
