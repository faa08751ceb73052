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

from ..utils.io import is_special_file
from ..utils.optional_imports import optional_import
from ..utils.validation import format_list

MAX_FEATURES = 2**16
MAX_INPUT_VALUES = 2**26  # of the input of a network with a fixed shape
INPUT_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


class Network:
    """A network for images in an ONNX file.

    Parameters
    ----------
    path : str or path
        Path of the ONNX file.
    output_name : str, default=None
        Name of a tensor; None for the first declared output.
    n_jobs : int, default=None
        Number of threads that run the network; None or -1 for one per core.
    """

    def __init__(self, path: str | os.PathLike[str], output_name: str | None = None, n_jobs: int | None = None) -> None:
        self.path = Path(path).expanduser()
        self.n_threads = n_jobs if n_jobs is not None and n_jobs > 0 else os.cpu_count() or 1
        if not self.path.is_file():
            raise FileNotFoundError(f"The file {str(self.path)!r} does not exist. Pass an ONNX file as model.")
        try:
            self._content = self.path.read_bytes()
            self._read(self._parse())
        except (OSError, ValueError) as error:
            raise ValueError(f"{self.path} is not an ONNX file, or it is damaged ({error}).") from error
        self.output_name = self._resolve_output(output_name)

    def _parse(self) -> Any:
        """Parse the file as an ``onnx.ModelProto``; weights in other files are not read."""
        onnx = optional_import("onnx", "Reading a network")
        try:
            return onnx.load_model_from_string(self._content)
        except Exception as error:  # protobuf's DecodeError is not a ValueError
            raise ValueError(str(error)) from error

    def _read(self, model: Any) -> None:
        """List the tensors in the order in which they are computed, the outputs, and the files that hold weights."""
        # Constants are the same for every image, so they are not features.
        nodes = [node for node in model.graph.node if node.op_type != "Constant"]
        self.tensors: list[str] = [name for node in nodes for name in node.output if name]
        self._declared: list[str] = [output.name for output in model.graph.output]
        if not self._declared:
            raise ValueError("it declares no output")
        entries = (entry for tensor in _stored_tensors(model.graph) for entry in tensor.external_data)
        self._weight_files = sorted({entry.value for entry in entries if entry.key == "location"})
        folder = self.path.parent.resolve()
        for name in self._weight_files:
            if "\0" in name or not (folder / name).resolve().is_relative_to(folder):
                raise ValueError(f"it stores weights in {name!r}, which is outside the folder of the network")
            if is_special_file(self.path.parent / name):
                raise ValueError(f"it stores weights in {name!r}, which is not a regular file")

    def _resolve_output(self, name: str | None) -> str:
        """Return the name of a tensor, by default of the first declared output; raise if there is no such tensor."""
        if name is None or name in {*self._declared, *self.tensors}:
            return name or self._declared[0]
        similar = difflib.get_close_matches(name, [*self._declared, *self.tensors], n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(map(repr, similar))}? " if similar else ""
        raise ValueError(
            f"{self.path.name} has no tensor {name!r}. {hint}Its outputs are {format_list(self._declared)}; the last "
            f"of its {len(self.tensors):,} tensors are {', '.join(map(repr, self.tensors[-12:]))}."
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the file and of the files that store its weights."""
        digest = hashlib.sha256(self._content)
        for name in self._weight_files:
            with (self.path.parent / name).open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()

    @cached_property
    def session(self) -> Any:
        """The onnxruntime session."""
        runtime = optional_import("onnxruntime", "Running a network")
        runtime.disable_telemetry_events()
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = self.n_threads
        # Threads that spin while they wait would take processor time from the threads that decode images.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        folder = str(self.path.parent.resolve())
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
        content = self._content
        if self.output_name not in self._declared:
            model = self._parse()
            model.graph.output.add(name=self.output_name)  # onnxruntime infers its type and shape
            content = model.SerializeToString()
        try:
            # Without the fallback, which would print errors to standard output and run into them again.
            return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"], enable_fallback=0)
        except Exception as error:  # the exceptions of onnxruntime have no common base class
            raise ValueError(f"{self.path} cannot be run: {str(error).splitlines()[0]}") from error

    @cached_property
    def _input(self) -> tuple[str, list[int | None], bool, Any]:
        """The name of the input, its shape with None for variable sizes, whether channels come first, and its type."""
        inputs = self.session.get_inputs()
        if not inputs:
            raise ValueError(f"{self.path.name} does not take images: it has no input.")
        shape = [side if isinstance(side, int) else None for side in inputs[0].shape]
        kind = INPUT_TYPES.get(inputs[0].type)
        description = ", ".join(f"{tensor.name}: {tensor.type} {tensor.shape}" for tensor in inputs)
        if len(inputs) != 1 or len(shape) != 4 or kind is None or not {shape[1], shape[3]} & {3, None}:
            raise ValueError(
                f"{self.path.name} does not take images: it needs one input of floats of shape (n, 3, height, width) "
                f"or (n, height, width, 3); it has {description}."
            )
        sides = [side for side in shape if side is not None]
        if min(sides, default=1) < 1 or math.prod(sides) > MAX_INPUT_VALUES:
            raise ValueError(f"The input of {self.path.name} has an invalid or too large shape: {description}.")
        has_channels_first = shape[1] == 3 or shape[3] != 3
        return inputs[0].name, shape, has_channels_first, kind

    @property
    def batch_size(self) -> int | None:
        """The number of images per batch, if the network prescribes it."""
        return self._input[1][0]

    @property
    def size(self) -> tuple[int | None, int | None]:
        """Height and width of the images, with None for variable sizes."""
        _, shape, has_channels_first, _ = self._input
        return (shape[2], shape[3]) if has_channels_first else (shape[1], shape[2])

    def features(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return a row of features for each image, from images of shape (n, height, width, channels)."""
        name, shape, has_channels_first, dtype = self._input
        n_images = len(images)
        if shape[0] is not None and n_images < shape[0]:
            padding = np.zeros((shape[0] - n_images, *images.shape[1:]), np.float32)
            images = np.concatenate([images, padding])
        inputs = images.transpose(0, 3, 1, 2) if has_channels_first else images
        try:
            [outputs] = self.session.run([self.output_name], {name: np.ascontiguousarray(inputs, dtype=dtype)})
        except Exception as error:  # the exceptions of onnxruntime have no common base class
            raise ValueError(
                f"{self.path.name} failed on images of shape {inputs.shape}: {str(error).splitlines()[0]}"
            ) from error
        if outputs.ndim < 2 or len(outputs) != len(images) or outputs[0].size > MAX_FEATURES:
            raise ValueError(
                f"The tensor {self.output_name!r} of {self.path.name} must have a row of at most {MAX_FEATURES:,} "
                f"numbers for each image; for {len(images)} images its shape is {outputs.shape}. Select another tensor "
                "with the parameter output_name."
            )
        return np.asarray(outputs[:n_images], dtype=np.float32).reshape(n_images, -1)


def _stored_tensors(graph: Any) -> Iterator[Any]:
    """Iterate over the weights of a graph, including those in attributes of its nodes and in its subgraphs."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        yield from (attribute.t, *attribute.tensors)
        for subgraph in (attribute.g, *attribute.graphs):
            yield from _stored_tensors(subgraph)
