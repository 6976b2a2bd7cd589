"""An ONNX model without the data of its large tensors, made without reading these.

A model file is one protobuf message (``onnx.proto`` numbers the fields). A message is a row of fields: a number with
the field and its kind, then a whole number, 4 or 8 bytes, or a length and so many bytes, which may hold another
message. The walk goes down to the tensors, skips the data of those larger than ``KEPT_BYTES`` and texts for people, and
writes down all else as it stands, with the lengths that remain. So memory depends on the size of the graph, whatever
the weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from chipmap.records import InputError, Source, counted

#: Tensors up to this many bytes keep their data: shapes, axes and the like.
KEPT_BYTES = 4096
#: Graphs inside graphs inside graphs … to this depth of messages (protobuf itself reads 100).
_DEPTH = 90
_VARINT, _EIGHT_BYTES, _MESSAGE, _FOUR_BYTES = 0, 1, 2, 5
#: Messages to go down into: field -> kind of message, for each kind.
_INSIDE: dict[str, dict[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
#: Smaller nodes, attributes and graphs are copied as they stand.
_SMALL = 512
#: Fields of nobody's interest here: texts for people, which exports fill with the stack of calls of every node.
_TEXTS: dict[str, frozenset[int]] = {
    "model": frozenset({6, 14}),
    "graph": frozenset({10, 16}),
    "node": frozenset({6, 9}),
}
#: Fields of a tensor that hold its elements (floats, 32-bit and other numbers, texts, raw bytes).
_DATA = frozenset({4, 5, 6, 7, 9, 10, 11})


def without_data(source: Source) -> bytes:
    """The model in ``source`` but for the data of its large tensors; :class:`InputError` for a broken file."""
    with source.open() as file:
        end = file.seek(0, 2)
        file.seek(0)
        return b"".join(_Walk(file, source.where).message("model", end, 0))


class _Walk:
    def __init__(self, file: BinaryIO, where: str) -> None:
        self.file, self.where = file, where
        self.at = 0

    def message(self, kind: str, end: int, depth: int) -> Iterator[bytes]:
        """What is kept of the message from here to ``end``."""
        inside = _INSIDE[kind]
        left_out = _DATA if kind == "tensor" else _TEXTS.get(kind, frozenset())
        if depth > _DEPTH:
            raise self._broken("its messages are nested too deeply")
        while self.at < end:
            key = self._varint(end)
            field, wire = key >> 3, key & 7
            if wire == _MESSAGE:
                length = self._varint(end)
                if length > end - self.at:
                    raise self._broken(f"a field of {counted(length, 'byte')} reaches beyond its message")
                if field in left_out:
                    self._skip(length)
                elif field in inside and length > (KEPT_BYTES if inside[field] == "tensor" else _SMALL):
                    kept = b"".join(self.message(inside[field], self.at + length, depth + 1))
                    yield from (_encoded(key), _encoded(len(kept)), kept)
                else:
                    yield from (_encoded(key), _encoded(length), self._read(length, end))
            elif wire == _VARINT:
                number = self._varint(end)
                if field not in left_out:
                    yield from (_encoded(key), _encoded(number))
            elif wire in (_EIGHT_BYTES, _FOUR_BYTES):
                data = self._read(8 if wire == _EIGHT_BYTES else 4, end)
                if field not in left_out:
                    yield from (_encoded(key), data)
            else:
                raise self._broken(f"a field of the unknown kind {wire}")

    def _varint(self, end: int) -> int:
        """A whole number: 7 bits per byte, the lowest first, the eighth bit set in all bytes but the last."""
        number = shift = 0
        while shift < 70:
            byte = self._read(1, end)[0]
            number |= (byte & 127) << shift
            if byte < 128:
                return number & (2**64 - 1)
            shift += 7
        raise self._broken("a number of more than 10 bytes")

    def _read(self, count: int, end: int) -> bytes:
        data = self.file.read(count) if count <= end - self.at else b""
        if len(data) < count:
            raise self._broken("it ends in the middle of a field")
        self.at += count
        return data

    def _skip(self, count: int) -> None:
        self.at += count
        self.file.seek(self.at)

    def _broken(self, what: str) -> InputError:
        remedy = "Save it again, or check it with onnx.checker."
        return InputError(f"not an ONNX model: {what} (near byte {self.at})", self.where, remedy)


def _encoded(number: int) -> bytes:
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
