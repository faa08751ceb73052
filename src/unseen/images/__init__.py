"""Features of photographs, computed by a network in an ONNX file, and tables of such features.

Needs onnx, onnxruntime and Pillow: ``pip install 'unseen[images]'``.
"""

from ._extract import Extraction, Extractor, Skipped, extract
from ._features import ImageFeatures, photo_table
from ._photos import Photos, find_photos
from ._pixels import PRESETS, Preprocessing

__all__ = ["Extraction", "ImageFeatures", "Photos", "Preprocessing", "extract", "find_photos", "photo_table"]
