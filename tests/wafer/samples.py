"""A small file of each text format of family wafer, with the traps of the contest's files."""

from __future__ import annotations

from collections.abc import Callable

from chipmap.instances.wafer.kgraph import read_kgraph, write_kgraph
from chipmap.instances.wafer.paint import read_paint, write_paint
from tests.wafer.random_instances import made

HEADER = """(*
test=small
width=633
height=600
wdeltat=1
wlength=4
wadapter=7
memlimit=24576
*)
"""
BODY = """
(* Node Definitions *)
input[ 0] n=[ 112 112 8 ] name='x' name='k0'
cblock[ 1] f=128 h=14 W=12 name='k1'
conv[2] W=7 H=5 R=3 S=2 C=64 K=32 T=2 U=1
output[17] n=[7 7 32] name='the end'

(* Connectivity *)
input[ 0]:_\t->\tcblock[1]:x, shape:[112][112][8]
cblock[1]:y->conv[ 2]:x
conv[2]:y  ->  output[17]:_, shape: [7] [7] [32]"""
SMALL = HEADER + BODY

#: The instance of the floorplan below.
CONV = {"H": 11, "W": 12, "C": 13, "K": 14, "R": 1, "S": 2, "T": 3, "U": 4}
INSTANCE = made(
    633,
    633,
    "",
    {
        "k0": {"kind": "input", "shape": [1]},
        "k1": CONV,
        "k2": {"kind": "dblock", "H": 21, "W": 22, "F": 24},
        "k3": {"kind": "cblock", "H": 32, "W": 34, "F": 36},
    },
)
TEXT = """k1 = conv( 11 12 13 14 1 2 3 4 5 6 7 8 )
k2 = dblock( 21 22 24 1 2 3 4 5 6 7 8 )
k3 = cblock( 32 34 36 1 2 3 4 5 6 7 8 9 10 )
k1 : place(0 1 R0)
k2 : place(20 0 R90)
k3 : place(100 200 R0)
"""


def reread_kgraph(data: bytes) -> None:
    """Read a .kgraph; what is read must come back from what the writer makes of it."""
    instance = read_kgraph(data, "mutated.kgraph")
    again = read_kgraph(write_kgraph(instance), "again.kgraph")
    assert again == instance


def reread_paint(data: bytes) -> None:
    """Read a .paint of :data:`INSTANCE`, and again what the writer makes of it."""
    solution = read_paint(data, "mutated.paint", INSTANCE)
    assert read_paint(write_paint(INSTANCE, solution), "again.paint", INSTANCE) == solution


#: Format -> (a file, what reads it).
FORMATS: dict[str, tuple[bytes, Callable[[bytes], None]]] = {
    "kgraph": (SMALL.encode(), reread_kgraph),
    "paint": (TEXT.encode(), reread_paint),
}
