"""The reader and the writer of .kgraph: the traps of the contest's files, round trips, errors with line and column."""

from __future__ import annotations

from pathlib import Path

import pytest

from chipmap.inputs.reading import read, shipped_names
from chipmap.instances.wafer import WaferInstance
from chipmap.instances.wafer.kgraph import read_kgraph, write_kgraph
from chipmap.records import InputError
from tests.wafer.samples import BODY, HEADER, SMALL

DATA = Path(__file__).parents[3] / "shared" / "data" / "ispd2020"
LETTERS = "ABCDEFGHIJKLMNOPQRST"


def parsed(text: str) -> WaferInstance:
    return read_kgraph(text.encode(), "dir/case.kgraph")


def refusal(text: str) -> str:
    with pytest.raises(InputError) as error:
        parsed(text)
    assert error.value.remedy
    return str(error.value)


def test_what_a_file_says() -> None:
    instance = parsed(SMALL)
    assert instance.name == "small" and instance.notes == "" and instance.protocol == "c_n"
    assert (instance.fabric.width, instance.fabric.height, instance.fabric.memory_words) == (633, 600, 24576)
    assert (instance.weights.time, instance.weights.wire, instance.weights.adapter) == (1, 4, 7)
    assert [kernel.name for kernel in instance.kernels] == ["k0", "k1", "k2", "the end"]
    assert [kernel.shape for kernel in instance.kernels] == [(112, 112, 8), (), (), (7, 7, 32)]
    assert instance.kernels[1].arguments == {"F": 128, "H": 14, "W": 12}
    assert instance.kernels[2].arguments == {"H": 5, "W": 7, "R": 3, "S": 2, "C": 64, "K": 32, "T": 2, "U": 1}
    assert instance.edges == (("k0", "k1"), ("k1", "k2"), ("k2", "the end"))


@pytest.mark.parametrize(
    "text",
    [
        SMALL + "\n\n",
        SMALL.replace("\n", "\r\n"),
        SMALL.replace("= [ 112", "=[112").replace("CONV", "conv"),
        "\ufeff" + SMALL,
        HEADER.replace("\n", " ") + BODY,
        HEADER.upper() + BODY.replace("conv[", "CONV ["),
    ],
    ids=[
        "line breaks at the end",
        "carriage returns",
        "no blanks",
        "byte order mark",
        "header in a line",
        "upper case",
    ],
)
def test_white_space_and_case_are_free(text: str) -> None:
    assert parsed(text).replace(name="small") == parsed(SMALL)


def test_a_file_without_a_title_is_named_after_itself() -> None:
    assert parsed(SMALL.replace("test=small\n", "")).name == "case"


def test_kernels_that_no_edge_touches_are_noted() -> None:
    assert parsed(SMALL).notes == ""
    assert parsed("\n".join(SMALL.splitlines()[:-2])).notes == "no edge touches k2, the end: is the file whole?"


def test_round_trips() -> None:
    small = parsed(SMALL)
    assert read_kgraph(write_kgraph(small), "elsewhere") == small
    odd = small.replace(protocol="min_c_k")
    assert read_kgraph(write_kgraph(odd), "elsewhere") == odd
    for name in shipped_names():
        if name.startswith("wafer/"):
            instance = read(name)
            assert isinstance(instance, WaferInstance)
            again = read_kgraph(write_kgraph(instance), "elsewhere")
            assert again.replace(notes="") == instance.replace(notes="")


@pytest.mark.parametrize(
    ("change", "to", "said"),
    [
        ("test=small", "(*", "line 1, column 1: the comment that begins here has no end"),
        ("*)\n", "\n", "line 1, column 1: the comment that begins here has no end"),
        ("wlength=4\n", "", "line 1, column 3: the header does not give wlength"),
        ("wlength=4", "wlength=4.5", "line 6, column 9: wlength is '4.5'"),
        ("wlength=4", "wlength=4\nwlength=5", "line 7, column 9: wlength is given a second time"),
        ("width=633", "width=0", "line 3, column 7: width is 0"),
        ("wadapter=7", "wadapter=9999999", "line 7, column 10: wadapter is 9999999"),
        ("memlimit=24576", "memlimit=24576\nprotocol=d", "line 9, column 10: protocol is 'd'"),
        ("cblock[ 1]", "eblock[ 1]", "line 13, column 1: there is no kernel type 'eblock'"),
        ("cblock[ 1]", "cblock[ 1", "line 13, column 1: a kernel, such as conv[1], is expected"),
        ("cblock[ 1]", "cblock[ 0]", "line 13, column 9: there are two kernels 0"),
        ("name='k1'", "name='k0'", "line 13, column 1: two kernels are called 'k0'"),
        (" W=12", "", "line 13, column 32: cblock 'k1' has no argument W"),
        ("f=128", "f=0", "line 13, column 14: f is 0"),
        ("f=128", "f=-4", "line 13, column 14: f is -4"),
        ("f=128", "f=130", "line 13, column 1: F of 'k1' is 130"),
        ("f=128", "f=1" + "0" * 5000, "line 13, column 14: the number 1000"),
        ("f=128", "f=128 F=64", "line 13, column 18: F is given a second time"),
        ("f=128", "f=128 q=7", "line 13, column 18: cblock has no argument 'q=7'"),
        ("f=128", "f=1x8", "line 13, column 12: an argument, such as H=14 or name='k1', is expected, but found"),
        ("h=14", "h=7", "line 13, column 1: H and W of 'k1' are 7 and 12"),
        ("n=[7 7 32]", "n=[7 0 32]", "line 15, column 15: a side of the tensor is 0"),
        ("n=[7 7 32] ", "", "line 15, column 26: output 'the end' has no argument n"),
        ("->conv[ 2]", "->conv[ 3]", "line 19, column 20: there is no kernel 3"),
        ("->conv[ 2]", "->dblock[ 2]", "line 19, column 14: kernel 2 is a conv, not a dblock"),
        ("->conv[ 2]", "->cblock[ 1]", "line 19, column 14: 'k1' feeds itself"),
        ("->conv[ 2]:x", "->conv[ 2]", "line 19, column 22: a port, such as :x, is expected, but the line ends"),
        ("->conv[ 2]", "- conv[ 2]", "line 19, column 12: -> is expected"),
        ("shape:[112][112][8]", "shape:[112][112][", "line 18, column 45: a side of the tensor"),
        ("shape:[112][112][8]", "shape:[112][0][8]", "line 18, column 41: a side of the tensor is 0"),
        ("shape:[112][112][8]", "size:[112]", "line 18, column 27: the tensor, such as"),
    ],
)
def test_errors_name_line_and_column(change: str, to: str, said: str) -> None:
    assert change in SMALL
    assert f"dir/case.kgraph, {said}" in refusal(SMALL.replace(change, to, 1))


def test_files_that_end_too_soon() -> None:
    assert "line 1, column 1: is empty" in refusal(" \n")
    assert "line 1, column 1: has no header" in refusal(BODY)
    assert "line 9, column 3: there is no kernel to place" in refusal(HEADER)
    assert "the file ends before its edges" in refusal(SMALL[: SMALL.index("\n\n(* Conn")])
    whole = SMALL.rstrip()
    for end in range(len(HEADER), len(whole)):
        try:
            instance = parsed(whole[:end])
        except InputError as error:
            assert "case.kgraph, line " in str(error) and error.remedy
        else:
            assert len(instance.edges) == 3 or "no edge touches" in instance.notes


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(InputError, match="line 2, column 4: is no text"):
        read_kgraph(b"(*\ntes\xff=1", "case.kgraph")


@pytest.mark.parametrize("name", ["a b", "", "x*)y", "a\nb"])
def test_names_that_the_format_cannot_hold(name: str) -> None:
    with pytest.raises(InputError, match="can't stand in a header"):
        write_kgraph(parsed(SMALL).replace(name=name))


@pytest.mark.skipif(not DATA.is_dir(), reason="the contest's files (../shared/data/ispd2020) are not here")
@pytest.mark.parametrize("letter", LETTERS)
def test_the_shipped_graphs_are_those_of_the_contest(letter: str) -> None:
    path = DATA / f"{letter}.kgraph"
    theirs, ours = read_kgraph(path.read_bytes(), str(path)), read(f"wafer/ispd2020-{letter}")
    assert isinstance(ours, WaferInstance)
    assert ours.notes == f"ISPD 2020 {letter}: {theirs.name}" and theirs.notes == ""
    assert ours.replace(name="", notes="") == theirs.replace(name="", notes="")
