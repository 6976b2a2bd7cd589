"""Two small ONNX models and a small PyTorch program, none of which needs its library to be made."""

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

#: Shape -> Gather -> Equal -> If, Loop, Scan, sequences, a Reshape to a computed shape, and operators of ONNX Runtime.
ONNX_CONTROL = zlib.decompress(
    base64.b64decode(
        "eNqlVM1y2zYQFiDIpleJTSGJo6idyQxuxXQ8Nd38uZeaGafJJPbBSi++uCAFRxxTBElAY8uHnHLKK/TSUx+mT5WFKNlx41s0AondD7v7"
        "YX8YrPHW7ucu3AVywYkVneFYlRruA7HALnVtOEnEyh/KjXUNm0ASaJtC805m8SU6+9VU5fAfgUbB6Wx7QLNTQd+cyi3o6tzqk6RWRTqO"
        "foQ78xhasCOdTznJkjUgmjOgAfmHdOQnAl0MUywNaniABkDOOXEDOpmIlQPlDqY5Wsq3AQtYSMTvre/8xeTc03BXNOBvAm13bqAFeBm8"
        "UDRguTGlYO/wKT8CS8xoFlmfojH+OR1Hg7YajUR7bzSCHpCU0zQSwZuRLlzmZkj3uAsk4yvAglXe8kI6FzD1x/e8i3W4ExAeIAOKiyUA"
        "6KFh5Pfj6Jrdv8jOul+QGypzZR0y3Bkwm6pCsCE+5WTBMEEu1DqgJZ6xUUNvHVURpya6KsJx6E9xgAAp+DDMa8obGk/CfkXIXBOSm7BR"
        "TCcnnsBJVpRTZ/uop/AzUtyBjs0uteWkEhvDMs/cezPU1VQXqZZdYOoiW5x+BKRa9ButlIDlqT0HfQ/Nm45WyQ3kMaAGl0KkEr0l8tIU"
        "1tXT1MFPCFaYoF8FR2Wq3KvaTG4nMGiiN6WfRyO16Byp4oPGODgMxGIWrVhpHF0Ztxr2CPm6bENbF9g0doyDlGepxhbG8Ahjn8yeiNUj"
        "befz9ReqnwA9rxDyDJ+KbtPch3HmrAyAvO0zdO13h/3A7zBiglij7gEkuUnPTnx++yGqdu+mZrI1ydLaWHPq4CFGeApUXaD3Z2Ltz8Li"
        "tfWlhn0Eni0Xgs8Fx7gue63VaM8537SmkCGs+bKOUWn79Bb/v6H588ZNXviFrl6IzeFZVr5TM10fmnqi8uxSeXf/N95BwxcNQb3tJ01H"
        "nMxE+8Ds+xuf3RaRkw+yG67uklY8L5UEL5DYF6vZ09hXT24EFCVK2nHTfRKHawFjhZYSi32pZLeRWjFmSv4w/6aE33wj/MTJ9QDnIQhC"
        "GmPZSiJxPEISY/mu93mBe38ubGS9vZBRnMtRSfzEX3wz8fgJmjUzFTNohb24BzdvH5IvoCgrTA=="
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
