"""Features of photographs, computed by a network in an ONNX file, and tables of such features.

Needs onnx, onnxruntime and Pillow: ``pip install 'unseen[images]'``.
"""

from ._extract import Extraction, Skipped, extract
from ._network import Network
from ._photos import Photos, find_photos
from ._pixels import PRESETS, Preprocessing

__all__ = ["Extraction", "Photos", "Preprocessing", "extract", "find_photos"]
