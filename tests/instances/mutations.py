"""Mutations of files of any format: at byte level, and structure-aware ones that mostly still parse."""

from __future__ import annotations

import io
import json
import re
import zipfile
from random import Random
from typing import Any

from tests.instances.programs import pt2
from tests.instances.samples import change_bytes, change_value, pick

_NUMBERS = (-1, 0, 1, 2, 3, 7, 255, 2**20, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1)
_WORDS = ["", "a", "x", "Conv", "Gemm", "MatMul", "Reshape", "Loop", "Einsum", "LSTM", "Concat", "Split", "Slice"]
_TEXTS = ("0", "-1", "nan", "1e400", "7", "[1; 2]", "", "node1", "node2", "node3", "Input", "1e15", "0.5")


def mutated_bytes(data: bytes, random: Random) -> bytes:
    """``data`` with one to three changes of bytes or tokens; of an archive in every second case those of its graph."""
    if data.startswith(b"PK") and pick(2, random):
        path, graph = _member(data)
        return pt2(mutated_bytes(graph, random), path)
    for _ in range(1 + pick(2, random) * pick(3, random)):
        data = change_bytes(data, random)
    return data


def mutated_structure(data: bytes, random: Random) -> bytes:
    """``data`` with one to three changes of values that keep the syntax of its format."""
    changes = 1 + pick(2, random) * pick(3, random)
    if data.startswith(b"PK"):
        path, graph = _member(data)
        return pt2(_tree(json.loads(graph), changes, random), path)
    if data.startswith(b"{"):
        return json.dumps(_tree(json.loads(data), changes, random)).encode()
    if data.startswith(b"\x08"):
        return _model(data, changes, random)
    lines = data.decode().split("\n")
    for _ in range(changes):
        _change_lines(lines, random)
    return "\n".join(lines).encode()


def _member(data: bytes) -> tuple[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        path = next(name for name in archive.namelist() if name.endswith(".json"))
        return path, archive.read(path)


def _tree(tree: Any, changes: int, random: Random) -> Any:
    for _ in range(changes):
        (change_value if pick(3, random) == 0 else _change_scalar)(tree, random)
    return tree


def _change_scalar(tree: Any, random: Random) -> None:
    """Another value of the same type for one number or text somewhere in ``tree``."""
    places: list[tuple[Any, Any]] = []
    queue = [tree]
    for inner in queue:
        keys = list(inner) if isinstance(inner, dict) else range(len(inner))
        queue += [inner[key] for key in keys if isinstance(inner[key], dict | list)]
        places += [(inner, key) for key in keys if isinstance(inner[key], bool | int | float | str)]
    if not places:
        return
    place, key = places[pick(len(places), random)]
    value = place[key]
    same = [p[k] for p, k in places if type(p[k]) is type(value)]
    if isinstance(value, str) or pick(2, random):
        place[key] = same[pick(len(same), random)]
    elif isinstance(value, bool):
        place[key] = not value
    else:
        place[key] = type(value)(_NUMBERS[pick(len(_NUMBERS), random)])


def _change_lines(lines: list[str], random: Random) -> None:
    """Replace a number or a word of a line, or remove, double or swap lines."""
    i, j = pick(len(lines), random), pick(len(lines), random)
    what = pick(6, random)
    if what == 0 and len(lines) > 2:
        del lines[i]
    elif what == 1:
        lines.insert(j, lines[i])
    elif what == 2:
        lines[i], lines[j] = lines[j], lines[i]
    else:
        found = list(re.finditer(r"[\w.]+", lines[i]))
        if found:
            place = found[pick(len(found), random)]
            lines[i] = lines[i][: place.start()] + _TEXTS[pick(len(_TEXTS), random)] + lines[i][place.end() :]


def _model(data: bytes, changes: int, random: Random) -> bytes:
    import onnx

    model = onnx.ModelProto.FromString(data)
    for _ in range(changes):
        messages = list(_messages(model))
        _change_message(messages[pick(len(messages), random)], messages, random)
    result: bytes = model.SerializeToString()
    return result


def _messages(message: Any) -> Any:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if _repeated(field) else [value]:
                yield from _messages(inner)


def _repeated(field: Any) -> bool:
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == 3


def _change_message(message: Any, messages: list[Any], random: Random) -> None:
    """Change, clear, repeat or remove one field of a message."""
    fields = [field for field, _ in message.ListFields()]
    if not fields or pick(8, random) == 0:
        fields = list(message.DESCRIPTOR.fields)
    field = fields[pick(len(fields), random)]
    what = pick(4, random)
    if what == 0:
        message.ClearField(field.name)
    elif field.message_type is not None:
        _change_inner(message, field, messages, what, random)
    elif _repeated(field):
        items = getattr(message, field.name)
        fresh = _scalar(field, random)
        if len(items) and what == 1:
            del items[pick(len(items), random)]
        elif len(items) and what == 2:
            items[pick(len(items), random)] = fresh
        else:
            items.append(fresh)
    else:
        setattr(message, field.name, _scalar(field, random))


def _change_inner(message: Any, field: Any, messages: list[Any], what: int, random: Random) -> None:
    same = [other for other in messages if other.DESCRIPTOR is field.message_type and other.ByteSize() < 2000]
    if not _repeated(field):
        if same:
            getattr(message, field.name).CopyFrom(_copy(same[pick(len(same), random)]))
        return
    items = getattr(message, field.name)
    if len(items) and what == 1:
        del items[pick(len(items), random)]
    elif same:
        items.add().CopyFrom(_copy(same[pick(len(same), random)]))


def _copy(message: Any) -> Any:
    return type(message).FromString(message.SerializeToString())


def _scalar(field: Any, random: Random) -> Any:
    kind = field.cpp_type
    if kind == field.CPPTYPE_STRING:
        word = _WORDS[pick(len(_WORDS), random)]
        return word.encode() if field.type == field.TYPE_BYTES else word
    if kind == field.CPPTYPE_ENUM:
        values = field.enum_type.values
        return values[pick(len(values), random)].number
    if kind in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return float(_NUMBERS[pick(len(_NUMBERS), random)])
    small = kind in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32)
    number = _NUMBERS[pick(len(_NUMBERS), random)]
    if kind in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64):
        number = abs(number)
    return min(number, 2**31 - 1) if small else number
