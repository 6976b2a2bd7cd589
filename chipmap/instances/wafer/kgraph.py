"""Reader and writer of ``.kgraph``, the kernel graphs of the ISPD 2020 contest.

A header in a comment (fabric and weights), one line per kernel, one line per edge::

    (* test=two-convolutions width=633 height=633 wdeltat=1 wlength=4 wadapter=0 memlimit=24576 *)
    conv[1] W=56 H=56 R=3 S=3 C=64 K=64 T=1 U=1 name='k1'
    conv[1]:y -> conv[2]:x, shape:[56][56][64]

White space is free, also in ``[ 1]`` and round ``->``; arguments are in upper or lower case; of two names the last
counts. Ports and shapes are read and not kept. The format has no place for ``notes``.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Any

from chipmap.instances.wafer.fabric import MAX_SIDE
from chipmap.instances.wafer.instance import (
    FORMAL,
    MAX_ARGUMENT,
    Fabric,
    Kernel,
    WaferInstance,
    Weights,
    pinned,
    scaled,
    tabled,
    wired,
)
from chipmap.instances.wafer.text import Line, decoded, fault, position
from chipmap.records import InputError, listed

#: Header key -> (where it goes, least, largest).
_HEADER: dict[str, tuple[str, str, int, int]] = {
    "width": ("fabric", "width", 1, MAX_SIDE),
    "height": ("fabric", "height", 1, MAX_SIDE),
    "wdeltat": ("weights", "time", 0, MAX_ARGUMENT),
    "wlength": ("weights", "wire", 0, MAX_ARGUMENT),
    "wadapter": ("weights", "adapter", 0, MAX_ARGUMENT),
    "memlimit": ("fabric", "memory_words", 1, 10**9),
}
#: It begins where a word does: else a long word would be asked from each of its letters on.
_ENTRY = re.compile(r"(?<!\w)(\w+)[ \t]*=[ \t]*(\S*)", re.ASCII)
_NODE = re.compile(r"\s*(\w+)\s*\[\s*(\d+)\s*\]", re.ASCII)
_COLON = re.compile(r"\s*:\s*")
_PORT = re.compile(r":\s*\w+", re.ASCII)
_ARROW = re.compile(r"->")
_SHAPE = re.compile(r",\s*shape\s*:\s*", re.ASCII)
_SIDE = re.compile(r"\[\s*(\d+)\s*\]", re.ASCII)
_ARGUMENT = re.compile(r"(\w+)\s*=\s*(?:(-?\d+)|\[([-\d\s,]*)\]|'([^'\n]*)'|\"([^\"\n]*)\")(?=[\s,]|$)[\s,]*", re.ASCII)
_EDGE = "An edge reads: conv[1]:y -> conv[2]:x, shape:[56][56][64]"
_CUT = "Take the whole file: it seems to be cut off."


def read_kgraph(data: bytes, where: str) -> WaferInstance:
    """The instance in ``data``, named after the header's ``test`` (else after the file ``where``).

    Raises :class:`InputError` with line and column. ``notes`` name kernels that no edge touches.
    """
    text = decoded(data, where, "A .kgraph is a text file.")
    if not text.strip():
        raise fault(where, 1, 1, "is empty", _CUT)
    plain, comments = _without_comments(text, where)
    header, name, protocol = _header(text, comments, where)
    kernels: dict[int, Kernel] = {}
    names: set[str] = set()
    edges = []
    for number, content in enumerate(plain.split("\n"), start=1):
        line = Line(content, number, where)
        if line.done:
            continue
        start = line.take(_NODE, "a kernel, such as conv[1],", "A line holds one kernel or one edge.")
        if line.peek(_COLON) is not None:
            line.at = start.end()
            edges.append(_edge(line, start, kernels))
        else:
            index = line.number_in(start, 2, "Number the kernels from 0.")
            if index in kernels:
                raise line.fault(f"there are two kernels {index}", "Give each its own number.", start.start(2))
            kernels[index] = kernel = _kernel(line, start, index)
            if kernel.name in names:
                raise line.fault(f"two kernels are called {kernel.name!r}", "Give each its own name.", start.start(1))
            names.add(kernel.name)
    _require_whole(text, comments, kernels, edges, where)
    instance = WaferInstance.make(
        name=name or PurePath(where).stem,
        kernels=tuple(kernels.values()),
        edges=tuple(edges),
        **header,
        protocol=protocol,
        notes=_remark(kernels, edges),
    )
    instance.check()
    return instance


def _without_comments(text: str, where: str) -> tuple[str, list[tuple[int, str]]]:
    """The text with blanks for its comments, and the comments with their offsets."""
    parts, comments, at = [], [], 0
    while (start := text.find("(*", at)) >= 0:
        end = text.find("*)", start + 2)
        if end < 0 or text.find("(*", start + 2, end) >= 0:
            raise fault(where, *position(text, start), "the comment that begins here has no end", _CUT)
        comments.append((start + 2, text[start + 2 : end]))
        parts += [text[at:start], re.sub(r"[^\n]", " ", text[start : end + 2])]
        at = end + 2
    return "".join([*parts, text[at:]]), comments


def _header(text: str, comments: list[tuple[int, str]], where: str) -> tuple[dict[str, Any], str, str]:
    """Fabric and weights, the name, and the protocol that the first comment gives."""
    needed = f"It must give {', '.join(_HEADER)}."
    offset, content = next(((at, words) for at, words in comments if "=" in words), (0, ""))
    if not content:
        raise fault(where, 1, 1, "has no header", f"It begins with a comment (* width=… *). {needed}")
    found: dict[str, tuple[str, int]] = {}
    for entry in _ENTRY.finditer(content):
        key, at = entry[1].lower(), offset + entry.start(2)
        if key in found and found[key][0] != entry[2].strip():
            raise fault(where, *position(text, at), f"{key} is given a second time", "Keep one of the two.")
        found[key] = entry[2].strip(), at
    parts: dict[str, dict[str, int]] = {"fabric": {}, "weights": {}}
    for key, (part, name, least, largest) in _HEADER.items():
        if key not in found:
            raise fault(where, *position(text, offset), f"the header does not give {key}", needed)
        value, at = found[key]
        allowed = f"Give a whole number from {least} to {largest:,}."
        if not re.fullmatch(r"\d{1,15}", value, re.ASCII):
            raise fault(where, *position(text, at), f"{key} is {value[:20]!r}", allowed)
        if not least <= int(value) <= largest:
            raise fault(where, *position(text, at), f"{key} is {int(value)}", allowed)
        parts[part][name] = int(value)
    protocol, at = found.get("protocol", ("c_n", offset))
    if protocol not in ("c_n", "min_c_k"):
        raise fault(where, *position(text, at), f"protocol is {protocol[:20]!r}", "Give c_n or min_c_k.")
    header = {"fabric": Fabric().replace(**parts["fabric"]), "weights": Weights(**parts["weights"])}
    return header, found.get("test", ("", 0))[0], protocol


def _kernel(line: Line, start: re.Match[str], index: int) -> Kernel:
    """The kernel whose line begins with ``start``."""
    kind = start[1].lower()
    if kind not in FORMAL:
        raise line.fault(f"there is no kernel type {start[1][:20]!r}", f"Types: {', '.join(FORMAL)}.", start.start(1))
    needed = f"Arguments of {kind}: {', '.join(FORMAL[kind]) or 'n'}, name."
    name, arguments, shape = f"k{index}", dict[str, int](), None
    while not line.done:
        found = line.take(_ARGUMENT, "an argument, such as H=14 or name='k1',", needed)
        key = found[1].upper()
        if key == "NAME" and (found[4] or found[5]):
            name = found[4] or found[5]
        elif key == "N" and found[3] is not None and not FORMAL[kind]:
            shape = _sides(line, found)
        elif key in FORMAL[kind] and found[2] is not None:
            value = line.number_in(found, 2, needed)
            if not 1 <= value <= MAX_ARGUMENT:
                raise line.fault(f"{found[1]} is {value}", f"Give 1 to {MAX_ARGUMENT:,}.", found.start(2))
            if arguments.setdefault(key, value) != value:
                raise line.fault(f"{found[1]} is given a second time", "Keep one of the two.", found.start())
        else:
            raise line.fault(f"{kind} has no argument {found[0].strip()[:30]!r}", needed, found.start())
    missing = [one for one in FORMAL[kind] or ("n",) if one not in arguments and (one != "n" or shape is None)]
    if missing:
        raise line.fault(f"{kind} {name!r} has no argument {missing[0]}", needed)
    kernel = Kernel.make(name=name, kind=kind, arguments=arguments, shape=shape or ())
    try:
        kernel.check()
    except InputError as error:
        raise line.fault(error.what, error.remedy, start.start(1)) from None
    return kernel


def _sides(line: Line, found: re.Match[str]) -> tuple[int, ...]:
    """The sides of an input's or output's tensor."""
    sides = found[3].replace(",", " ").split()
    for side in sides:
        if not re.fullmatch(r"\d{1,15}", side, re.ASCII) or int(side) < 1:
            raise line.fault(f"a side of the tensor is {side[:20]}", "Give 1 or more.", found.start(3))
    return tuple(int(side) for side in sides)


def _edge(line: Line, start: re.Match[str], kernels: dict[int, Kernel]) -> tuple[str, str]:
    """(producer, consumer) of the edge whose line begins with ``start``."""
    producer = _end(line, start, kernels)
    line.take(_PORT, "a port, such as :y,", _EDGE)
    line.take(_ARROW, "->", _EDGE)
    found = line.take(_NODE, "the consumer, such as conv[2],", _EDGE)
    consumer = _end(line, found, kernels)
    if producer == consumer:
        raise line.fault(f"{producer!r} feeds itself", "Leave the edge out.", found.start(1))
    line.take(_PORT, "a port, such as :x,", _EDGE)
    if not line.done:
        line.take(_SHAPE, "the tensor, such as , shape:[56][56][64],", _EDGE)
        while True:
            side = line.take(_SIDE, "a side of the tensor, such as [56],", _EDGE)
            if line.number_in(side, 1, _EDGE) < 1:
                raise line.fault("a side of the tensor is 0", "Give 1 or more.", side.start(1))
            if line.done:
                break
    return producer, consumer


def _end(line: Line, found: re.Match[str], kernels: dict[int, Kernel]) -> str:
    """The name of the kernel that an end of an edge names, with its type."""
    index = line.number_in(found, 2, _EDGE)
    if index not in kernels:
        raise line.fault(f"there is no kernel {index}", "Kernels come before their edges.", found.start(2))
    kernel = kernels[index]
    if kernel.kind != found[1].lower():
        what = f"kernel {index} is a {kernel.kind}, not a {found[1][:20]}"
        raise line.fault(what, "Give the kernel's own type.", found.start(1))
    return kernel.name


def _require_whole(
    text: str, comments: list[tuple[int, str]], kernels: dict[int, Kernel], edges: list[tuple[str, str]], where: str
) -> None:
    """Refuse a file without kernels to place, or one that ends before its edges."""
    end = position(text, len(text.rstrip()))
    if not any(kernel.placed for kernel in kernels.values()):
        raise fault(where, *end, "there is no kernel to place", f"Give at least one conv, dblock or cblock. {_CUT}")
    if len(kernels) > 1 and not edges and not any("connectivity" in words.lower() for _, words in comments):
        raise fault(where, *end, "the file ends before its edges", _CUT)


def _remark(kernels: dict[int, Kernel], edges: list[tuple[str, str]]) -> str:
    touched = {name for edge in edges for name in edge}
    alone = [kernel.name for kernel in kernels.values() if kernel.name not in touched]
    if not alone or len(kernels) == 1:
        return ""
    names = listed(alone, 5)
    return f"no edge touches {names}: is the file whole?"


def write_kgraph(instance: WaferInstance) -> bytes:
    """``instance`` as a ``.kgraph``; kernels are numbered in its order.

    Raises :class:`InputError` for names that the format can't hold.
    """
    if not re.fullmatch(r"\S+", instance.name) or "*)" in instance.name:
        raise InputError(f"the name {instance.name!r} can't stand in a header", "name", "Give a name without spaces.")
    if pinned(instance):
        raise InputError("has pins, which a .kgraph can't hold", instance.name, "Write JSON: --out NAME.json")
    if scaled(instance):
        what = "has kernels with a time_permille, which a .kgraph can't hold"
        raise InputError(what, instance.name, "Write JSON: --out NAME.json")
    if tabled(instance):
        raise InputError(
            "has tables of choices, which a .kgraph can't hold", instance.name, "Write JSON: --out NAME.json"
        )
    if wired(instance):
        what = "has sides, traffic or limits on lines, which a .kgraph can't hold"
        raise InputError(what, instance.name, "Write JSON: --out NAME.json")
    if instance.fabric.has_holes:
        what = "has keep-out areas or defects, which a .kgraph can't hold"
        raise InputError(what, instance.name, "Write JSON: --out NAME.json")
    header = {key: getattr(getattr(instance, part), name) for key, (part, name, _, _) in _HEADER.items()}
    lines = ["(*", f"test={instance.name}", *(f"{key}={value}" for key, value in header.items())]
    if instance.protocol != "c_n":
        lines.append(f"protocol={instance.protocol}")
    lines += ["*)", "", "(* Node Definitions *)"]
    index = {kernel.name: i for i, kernel in enumerate(instance.kernels)}
    lines += [f"{kernel.kind}[{i}] {_arguments(kernel)}" for i, kernel in enumerate(instance.kernels)]
    lines += ["", "(* Connectivity *)"]
    for u, v in instance.edges:
        producer, consumer = instance.kernels[index[u]], instance.kernels[index[v]]
        ports = ("_" if producer.kind == "input" else "y", "_" if consumer.kind == "output" else "x")
        sides = "".join(f"[{side}]" for side in _tensor(producer))
        shape = f", shape:{sides}" if sides else ""
        lines.append(f"{producer.kind}[{index[u]}]:{ports[0]} -> {consumer.kind}[{index[v]}]:{ports[1]}{shape}")
    return "".join(f"{line}\n" for line in lines).encode()


def _arguments(kernel: Kernel) -> str:
    if not re.fullmatch(r"[^'\n\r]+", kernel.name) or "(*" in kernel.name or kernel.name.splitlines() != [kernel.name]:
        raise InputError(f"the name {kernel.name!r} can't stand in a .kgraph", "kernels", "Give names without quotes.")
    parts = [f"{name}={kernel.arguments[name]}" for name in FORMAL[kernel.kind]]
    if not kernel.placed:
        parts = [f"n=[{' '.join(map(str, kernel.shape))}]"]
    return " ".join([*parts, f"name='{kernel.name}'"])


def _tensor(kernel: Kernel) -> tuple[int, ...]:
    """The sides of the tensor that a kernel makes: height and width over the stride, channels."""
    a = kernel.arguments
    if kernel.kind == "conv":
        return -(-a["H"] // a["T"]), -(-a["W"] // a["T"]), a["K"]
    if kernel.placed:
        by = 2 if kernel.kind == "cblock" else 1
        return a["H"] // by, a["W"] // by, a["F"]
    return kernel.shape
