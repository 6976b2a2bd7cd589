"""Small ONNX models with what is hard to cut, made by hand; import it after the check that onnx is there."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

WIDTH, TOKENS = 16, 8


def stored(name: str, value: Any) -> Any:
    return numpy_helper.from_array(np.asarray(value), name)


def weight(name: str, *shape: int) -> Any:
    seed = sum(map(ord, name))
    return stored(name, np.random.default_rng(seed).normal(size=shape, scale=0.3).astype(np.float32))


def info(name: str, *shape: int | str, kind: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def decoder(rows: int | str = TOKENS) -> ModelProto:
    """A table of turns that is computed of constants, sizes taken from tensors, a split projection, nodes without
    names and with the same one, a tied table, an output in the middle, and one that is a view."""
    node = helper.make_node
    nodes = [
        node("Gather", ["table", "tokens"], ["x0"], "embed"),
        node("Range", ["zero", "count", "one"], ["places"], "places"),
        node("Cos", ["places"], ["turns"], "turns"),
        node("Unsqueeze", ["turns", "last"], ["column"], "column"),
        node("Mul", ["x0", "column"], ["x1"]),
        node("MatMul", ["x1", "joint"], ["qkv"], "same"),
        node("Split", ["qkv"], ["q", "k", "v"], "parts", axis=1, num_outputs=3),
        node("Transpose", ["k"], ["kt"], "turned", perm=[1, 0]),
        node("MatMul", ["q", "kt"], ["scores"], "same"),
        node("Softmax", ["scores"], ["shares"], "shares", axis=-1),
        node("MatMul", ["shares", "v"], ["mixed"], "mix"),
        node("Mul", ["mixed", "column"], ["turned_again"], "again"),
        node("Add", ["x1", "turned_again"], ["x2"], "residual"),
        node("Shape", ["x2"], ["size"], "size"),
        node("Relu", ["x2"], ["r"], "relu"),
        node("Reshape", ["r", "flat"], ["line"], "line"),
        node("Exp", ["line"], ["e"], "exp"),
        node("Reshape", ["e", "size"], ["back"], "back"),
        node("Transpose", ["table"], ["head"], "head", perm=[1, 0]),
        node("MatMul", ["back", "head"], ["words"], "words"),
        node("Transpose", ["words"], ["y"], "y", perm=[1, 0]),
    ]
    inits = [weight("table", 32, WIDTH), weight("joint", WIDTH, 3 * WIDTH), stored("flat", np.array([-1], np.int64))]
    inits += [stored("zero", np.float32(0)), stored("count", np.float32(TOKENS)), stored("one", np.float32(1))]
    inits += [stored("last", np.array([1], np.int64))]
    outputs = [info("y", 32, rows), info("x2", rows, WIDTH)]
    return made(nodes, [info("tokens", rows, kind=TensorProto.INT64)], outputs, inits)


def controlled() -> ModelProto:
    """A branch that the model settles, a loop of three rounds that reads a weight from around it, a function."""
    node = helper.make_node
    then = helper.make_graph([node("MatMul", ["x", "w"], ["t"], "inside")], "then", [], [info("t", 4, 4)])
    other = helper.make_graph([node("Neg", ["x"], ["n"], "negated")], "else", [], [info("n", 4, 4)])
    body = helper.make_graph(
        [
            node("MatMul", ["state", "w"], ["s"], "product"),
            node("Tanh", ["s"], ["next"], "tanh"),
            node("Identity", ["going"], ["still"], "still"),
        ],
        "body",
        [info("i", kind=TensorProto.INT64), info("going", kind=TensorProto.BOOL), info("state", 4, 4)],
        [info("still", kind=TensorProto.BOOL), info("next", 4, 4)],
    )
    twice = helper.make_function("mine", "Twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"], "sum")], OPSETS[:1])
    nodes = [
        node("If", ["yes"], ["chosen"], "branch", then_branch=then, else_branch=other),
        node("Relu", ["chosen"], ["r"], "relu"),
        node("Loop", ["trips", "yes", "r"], ["l"], "loop", body=body),
        node("Twice", ["l"], ["d"], "twice", domain="mine"),
        node("Sigmoid", ["d"], ["y"], "sigmoid"),
    ]
    inits = [weight("w", 4, 4), stored("yes", np.array(True)), stored("trips", np.array(3, np.int64))]
    return made(nodes, [info("x", 4, 4)], [info("y", 4, 4)], inits, [twice])


OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)]


def made(nodes: Any, inputs: Any, outputs: Any, inits: Any, functions: Any = ()) -> ModelProto:
    graph = helper.make_graph(nodes, "network", inputs, outputs, inits)
    return helper.make_model(graph, opset_imports=OPSETS, ir_version=9, functions=list(functions))
