"""A network in an ONNX file: its inputs, its tensors, and a session that runs it.

The `onnx` package parses the file and declares an intermediate tensor as an output; onnxruntime runs the network.
"""

from __future__ import annotations

import difflib
import hashlib
import math
import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..utils.io import is_special
from ..utils.optional_imports import optional_import
from ..utils.validation import format_list

MAX_FEATURES = 2**16
MAX_INPUT_VALUES = 2**26  # that a network takes at a time
INPUT_TYPES = {"float": np.float32, "float16": np.float16, "double": np.float64, "uint8": np.uint8}


class Network:
    """An ONNX file that takes pictures.

    Parameters
    ----------
    path : str or path
        The file.
    output_name : str, default=None
        The tensor that is wanted, any of the network's, or a node that makes one; None for the first declared output.
    threads : int, default=None
        Threads that run it; None for one on each core.
    """

    def __init__(
        self, path: str | os.PathLike[str], output_name: str | None = None, threads: int | None = None
    ) -> None:
        self.path, self.threads = Path(path).expanduser(), threads
        if not self.path.is_file():
            raise FileNotFoundError(f"There is no file {str(self.path)!r}. Pass a network in an ONNX file.")
        try:
            self._content = self.path.read_bytes()
            self._read(self._parse())
        except (OSError, ValueError) as error:
            raise ValueError(f"{self.path} is not an ONNX file, or it is damaged ({error}).") from error
        self.output_name = self._wanted(output_name)

    def _parse(self) -> Any:
        """Parse the file as an ``onnx.ModelProto``; weights in other files are not read."""
        onnx = optional_import("onnx", "Reading a network")
        try:
            return onnx.load_model_from_string(self._content)
        except Exception as error:  # protobuf's DecodeError is no ValueError
            raise ValueError(str(error)) from error

    def _read(self, model: Any) -> None:
        """List the tensors in the order in which they are computed, the outputs, and the files that hold weights."""
        # Constants are the same for every picture.
        nodes = [node for node in model.graph.node if node.op_type != "Constant" and any(node.output)]
        self.tensors: list[str] = [name for node in nodes for name in node.output if name]
        self._by_node: dict[str, str] = {node.name: next(filter(None, node.output)) for node in nodes if node.name}
        self._declared: list[str] = [output.name for output in model.graph.output]
        if not self._declared:
            raise ValueError("it declares no output")
        entries = (entry for tensor in _stored_tensors(model.graph) for entry in tensor.external_data)
        self._beside = sorted({entry.value for entry in entries if entry.key == "location"})
        for name in self._beside:
            if Path(name).is_absolute() or ".." in Path(name).parts or "\0" in name:
                raise ValueError(f"it keeps weights in {name!r}, which is no file beside it")
            if is_special(self.path.parent / name):
                raise ValueError(f"it keeps weights in {name!r}, which is not a file")

    def _wanted(self, asked: str | None) -> str:
        known = dict.fromkeys([*self._declared, *self.tensors])
        if asked is None or asked in known:
            return self._declared[0] if asked is None else asked
        if asked in self._by_node:
            return self._by_node[asked]
        near = difflib.get_close_matches(asked, [*known, *self._by_node], n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
        raise ValueError(
            f"{self.path.name} has no tensor {asked!r}. {hint}Its outputs are {format_list(self._declared)}; the "
            "last of "
            f"its {len(self.tensors):,} tensors are {', '.join(map(repr, self.tensors[-12:]))}."
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the file, and of those beside it that hold its weights."""
        found = hashlib.sha256(self._content)
        for name in self._beside:
            with (self.path.parent / name).open("rb") as file:
                found.update(hashlib.file_digest(file, "sha256").digest())
        return found.hexdigest()

    @cached_property
    def session(self) -> Any:
        """What runs it."""
        runtime = optional_import("onnxruntime", "Running a network")
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = self.threads or os.cpu_count() or 1
        # Threads that wait by counting would take the cores from those that decode pictures.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        folder = str(self.path.parent.resolve())
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
        content = self._content
        if self.output_name not in self._declared:
            model = self._parse()
            model.graph.output.add(name=self.output_name)  # onnxruntime infers its type and shape
            content = model.SerializeToString()
        try:
            return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's own kinds have no common name
            raise ValueError(f"{self.path} cannot be run: {str(error).splitlines()[0]}") from error

    @cached_property
    def _input(self) -> tuple[str, list[int | None], bool, Any]:
        """The name of the input, its shape with None where it is open, whether channels come first, and its type."""
        inputs = self.session.get_inputs()
        if not inputs:
            raise ValueError(f"{self.path.name} does not take pictures: it has no input.")
        shape = [side if isinstance(side, int) else None for side in inputs[0].shape]
        kind = INPUT_TYPES.get(inputs[0].type.removeprefix("tensor(").removesuffix(")"))
        told = ", ".join(f"{one.name}: {one.type} {one.shape}" for one in inputs)
        if len(inputs) != 1 or len(shape) != 4 or kind is None or not {shape[1], shape[3]} & {1, 3, None}:
            raise ValueError(
                f"{self.path.name} does not take pictures: one input of the shape (n, channels, height, width) or "
                f"(n, height, width, channels) is needed; it has {told}."
            )
        sides = [side for side in shape if side is not None]
        if min(sides, default=1) < 1 or math.prod(sides) > MAX_INPUT_VALUES:
            raise ValueError(f"{self.path.name} takes pictures of a shape that none can have: {told}.")
        first = shape[1] in (1, 3) or shape[3] not in (1, 3)
        return inputs[0].name, shape, first, kind

    @property
    def batch(self) -> int | None:
        """How many pictures it takes at a time, if it insists."""
        return self._input[1][0]

    @property
    def size(self) -> tuple[int | None, int | None]:
        """Height and width of its pictures, as far as it says."""
        _, shape, first, _ = self._input
        return (shape[2], shape[3]) if first else (shape[1], shape[2])

    @property
    def gray(self) -> bool:
        """Whether its pictures have one channel."""
        _, shape, first, _ = self._input
        return shape[1 if first else 3] == 1

    @property
    def whole(self) -> bool:
        """Whether it takes whole numbers from 0 to 255, and scales them itself."""
        return self._input[3] is np.uint8

    def features(self, pictures: NDArray[np.float32]) -> NDArray[np.float32]:
        """What the wanted tensor is for some pictures, n x height x width x channels: a row for each."""
        name, shape, first, kind = self._input
        n = len(pictures)
        if shape[0] is not None and n < shape[0]:
            pictures = np.concatenate([pictures, np.zeros((shape[0] - n, *pictures.shape[1:]), np.float32)])
        fed = pictures.transpose(0, 3, 1, 2) if first else pictures
        try:
            [found] = self.session.run([self.output_name], {name: np.ascontiguousarray(fed, dtype=kind)})
        except Exception as error:  # likewise
            raise ValueError(
                f"{self.path.name} failed on pictures {fed.shape}: {str(error).splitlines()[0]}"
            ) from error
        if found.ndim < 2 or len(found) != len(pictures) or found[0].size > MAX_FEATURES:
            raise ValueError(
                f"{self.output_name!r} of {self.path.name} is no row of at most {MAX_FEATURES:,} numbers for each "
                f"picture: of {len(pictures)} it has the shape {found.shape}. Name another with --output-name."
            )
        return np.asarray(found[:n], dtype=np.float32).reshape(n, -1)


def _stored_tensors(graph: Any) -> Iterator[Any]:
    """Iterate over the weights of a graph, those in attributes of its nodes and those of its subgraphs."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        yield from (attribute.t, *attribute.tensors)
        for subgraph in (attribute.g, *attribute.graphs):
            yield from _stored_tensors(subgraph)
