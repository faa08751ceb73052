"""A small network as an ONNX file, written byte by byte: mean colours, a layer "fc6" of four numbers, a ReLU."""

from __future__ import annotations

import numpy as np

FLOAT, UINT8 = 1, 2
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


def tensor(name, array, file=None):
    """Weights, in the file itself or in one beside it."""
    sides, content = b"".join(number(1, side) for side in array.shape), array.astype("<f4").tobytes()
    if file is None:
        return text(5, sides + number(2, FLOAT) + text(8, name) + text(9, content))
    file.write_bytes(content)
    entries = b"".join(
        text(13, text(1, key) + text(2, told)) for key, told in (("location", file.name), ("offset", "0"))
    )
    return text(5, sides + number(2, FLOAT) + text(8, name) + entries + number(14, 1))


def tiny_network(path, *, size=8, layout="NCHW", batch="n", channels=3, weights=WEIGHTS, whole=False, beside=None):
    """Write the file; `size` may be a name, for a network that takes any."""
    shape = (batch, channels, size, size) if layout == "NCHW" else (batch, size, size, channels)
    nodes, first = b"", "x"
    if whole:
        to = text(5, text(1, "to") + number(3, FLOAT) + b"\xa0\x01\x02")
        nodes, first = node("Cast", ["x"], "floats", to), "floats"
    if layout == "NHWC":
        order = text(5, text(1, "perm") + b"".join(number(8, axis) for axis in (0, 3, 1, 2)) + b"\xa0\x01\x07")
        nodes, first = nodes + node("Transpose", [first], "turned", order), "turned"
    nodes += node("GlobalAveragePool", [first], "pooled") + node("Flatten", ["pooled"], "flat")
    nodes += node("MatMul", ["flat", "w"], "fc6", name="layer6") + node("Relu", ["fc6"], "out")
    graph = nodes + text(2, "tiny") + tensor("w", np.asarray(weights)[:channels], beside)
    graph += text(11, value("x", shape, UINT8 if whole else FLOAT)) + text(12, value("out", (batch, weights.shape[1])))
    path.write_bytes(number(1, 8) + text(8, text(1, "") + number(2, 13)) + text(7, graph))
    return path
