"""One small ONNX model and one small PyTorch program, neither of which needs its library to be made."""

from __future__ import annotations

import base64
import io
import json
import zipfile
import zlib
from typing import Any

#: conv (3 x 3, 1 -> 2 channels, on 6 x 6) -> Relu -> MaxPool -> Reshape -> Gemm (8 -> 3) -> mine.Blend -> Add
ONNX = zlib.decompress(
    base64.b64decode(
        "eNq1kTtPAkEUhTk7Azte0SwDGIPdlNvYGiocC21MDI2JjS67AyL7IDu8/4gt/1QHgjHRVk9yb/Hdx2TOFUfdd06XhBVhSRhIxB0e"
        "F/lC8RuXwzbVJ6bMTfpsX6Op6bEe28KnOiGWKBXvm3ROV4RSYqr8+2j1UBTprymv57mpMCDfzspxYuyBkCRMCVZiqPy+2TeTIgwJ"
        "I4l1xxvGit+aLAtPqDYro9zqc2zhUZOwltioqk5NnnR5Ns4NBQ4SNpIV85li10kiqzaL0jR8FJ6AYIIFUHeVP5LGMmwIz60U32gQ"
        "thzyu8f4+BI0bDhxrwvX+lL5Z2mMni7cNeUZtQRkQO7nh6jtYtCmnT3ylOquLA4l9tbcGfcDak6VoKEF7e0N8Ak5CE2C"
    )
)


def _tensor(*shape: int | str) -> dict[str, Any]:
    sizes = [{"as_int": n} if isinstance(n, int) else {"as_expr": {"expr_str": n}} for n in shape]
    return {"dtype": 7, "sizes": sizes, "requires_grad": False}


def _call(target: str, name: str, *reads: str, **plain: Any) -> dict[str, Any]:
    inputs = [{"name": f"a{i}", "arg": {"as_tensor": {"name": read}}, "kind": 1} for i, read in enumerate(reads)]
    inputs += [{"name": key, "arg": value, "kind": 1} for key, value in plain.items()]
    return {
        "target": f"torch.ops.{target}",
        "inputs": inputs,
        "outputs": [{"as_tensor": {"name": name}}],
        "metadata": {},
        "name": name,
    }


def _stored(kind: str, name: str) -> dict[str, Any]:
    return {kind: {"arg": {"name": name}, f"{kind}_name": name}}


#: linear (4 -> 3) -> relu -> split -> add of the halves, and an operator of another library.
TORCH: dict[str, Any] = {
    "graph_module": {
        "graph": {
            "inputs": [{"as_tensor": {"name": name}} for name in ("p_w", "p_b", "x")],
            "outputs": [{"as_tensor": {"name": "add"}}],
            "nodes": [
                _call("aten.linear.default", "linear", "x", "p_w", "p_b"),
                _call("aten.relu.default", "relu", "linear"),
                {
                    **_call("aten.split.Tensor", "split", "relu", dim={"as_int": 1}),
                    "outputs": [{"as_tensors": [{"name": "left"}, {"name": "right"}]}],
                },
                _call("mine.mix.default", "mix", "left", "right"),
                _call("aten.add.Tensor", "add", "mix", "right"),
            ],
            "tensor_values": {
                "p_w": _tensor(6, 4),
                "p_b": _tensor(6),
                "x": _tensor(2, 4),
                "linear": _tensor(2, 6),
                "relu": _tensor(2, 6),
                "left": _tensor(2, 3),
                "right": _tensor(2, 3),
                "mix": _tensor(2, 3),
                "add": _tensor(2, 3),
            },
        },
        "signature": {
            "input_specs": [
                _stored("parameter", "p_w"),
                _stored("buffer", "p_b"),
                {"user_input": {"arg": {"as_tensor": {"name": "x"}}}},
            ]
        },
    },
    "torch_version": "2.13.0",
}


def pt2(program: Any, path: str = "small/models/model.json") -> bytes:
    """The file that holds ``program`` (or these bytes instead of its JSON)."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo("small/byteorder"), "little")
        archive.writestr(zipfile.ZipInfo(path), program if isinstance(program, bytes) else json.dumps(program))
    return file.getvalue()
