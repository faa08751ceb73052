"""A small network as an ONNX file: mean colors, a layer "fc6" of four numbers, a ReLU."""

from __future__ import annotations

import numpy as np
import pytest

WEIGHTS = np.array([[1, 0, 0, -1], [0, 1, 0, -1], [0, 0, 1, -1]], np.float32)  # colors, and the negative of their sum


def store_externally(tensor, location):
    """Declare that the values of a tensor are in another file."""
    tensor.ClearField("raw_data")
    tensor.data_location = tensor.EXTERNAL
    for key, value in (("location", location), ("offset", "0")):
        tensor.external_data.add(key=key, value=value)


def tiny_model(*, size=8, layout="NCHW", batch="n", channels=3, weights=WEIGHTS, whole=False, beside=None):
    """Build the network; `size` may be a name, for a network that takes any."""
    pytest.importorskip("onnx", reason="networks need the extra images")
    from onnx import TensorProto, helper, numpy_helper

    shape = (batch, channels, size, size) if layout == "NCHW" else (batch, size, size, channels)
    nodes, first = [], "x"
    if whole:
        nodes.append(helper.make_node("Cast", [first], ["floats"], to=TensorProto.FLOAT))
        first = "floats"
    if layout == "NHWC":
        nodes.append(helper.make_node("Transpose", [first], ["turned"], perm=[0, 3, 1, 2]))
        first = "turned"
    nodes += [
        helper.make_node("GlobalAveragePool", [first], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["fc6"], name="layer6"),
        helper.make_node("Relu", ["fc6"], ["out"]),
    ]
    values = np.asarray(weights, np.float32)[:channels]
    tensor = numpy_helper.from_array(values, "w")
    if beside is not None:
        beside.write_bytes(tensor.raw_data)
        store_externally(tensor, beside.name)
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.UINT8 if whole else TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, (batch, values.shape[1]))],
        [tensor],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])


def tiny_network(path, **how):
    """Write the network to a file."""
    path.write_bytes(tiny_model(**how).SerializeToString())
    return path
