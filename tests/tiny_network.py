"""A small network as an ONNX file, written byte by byte: mean colours, a layer "fc6" of four numbers, a ReLU."""

from __future__ import annotations

import numpy as np

FLOAT, STRING_KEYS = 1, 2
WEIGHTS = np.array([[1, 0, 0, -1], [0, 1, 0, -1], [0, 0, 1, -1]], np.float32)  # colours, and the negative of their sum


def number(field, value):
    """A whole number as a field of a protobuf message."""
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([field << 3]) + bytes(digits) + bytes([value])


def text(field, content):
    """Bytes, text or messages, one after another, as a field."""
    content = content.encode() if isinstance(content, str) else content
    return bytes([field << 3 | 2]) + number(0, len(content))[1:] + content


def value(name, shape, kind=FLOAT):
    sides = b"".join(text(1, number(1, side) if isinstance(side, int) else text(2, side)) for side in shape)
    return text(1, name) + text(2, text(1, number(1, kind) + text(2, sides)))


def node(kind, inputs, output, attributes=b"", name=""):
    taken = b"".join(text(1, one) for one in inputs)
    return text(1, taken + text(2, output) + (text(3, name) if name else b"") + text(4, kind) + attributes)


def tensor(name, array):
    sides = b"".join(number(1, side) for side in array.shape)
    return text(5, sides + number(2, FLOAT) + text(8, name) + text(9, array.astype("<f4").tobytes()))


def tiny_network(path, *, size=8, layout="NCHW", batch="n", channels=3, weights=WEIGHTS):
    """Write the file; `size` may be a name, for a network that takes any."""
    shape = (batch, channels, size, size) if layout == "NCHW" else (batch, size, size, channels)
    nodes, first = b"", "x"
    if layout == "NHWC":
        order = text(5, text(1, "perm") + b"".join(number(8, axis) for axis in (0, 3, 1, 2)) + b"\xa0\x01\x07")
        nodes, first = node("Transpose", ["x"], "turned", order), "turned"
    nodes += node("GlobalAveragePool", [first], "pooled") + node("Flatten", ["pooled"], "flat")
    nodes += node("MatMul", ["flat", "w"], "fc6", name="layer6") + node("Relu", ["fc6"], "out")
    graph = nodes + text(2, "tiny") + tensor("w", np.asarray(weights)[:channels])
    graph += text(11, value("x", shape)) + text(12, value("out", (batch, weights.shape[1])))
    path.write_bytes(number(1, 8) + text(8, text(1, "") + number(2, 13)) + text(7, graph))
    return path
