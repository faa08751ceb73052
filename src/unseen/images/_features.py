"""Features of photographs as a scikit-learn transformer, and as a table with thumbnails for the report."""

from __future__ import annotations

import base64
import io
import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..tables import Table, format_count, load_table
from ..utils.estimator_mixins import DOCUMENTATION_URL, DocLinkMixin, keyword_parameters, reset_fitted_attributes
from ..utils.io import is_special_file
from ._extract import DEFAULT_BATCH_SIZE, Extractor, Features
from ._photos import find_photos
from ._pixels import Preprocessing, decode_image, quiet_decoding

THUMBNAIL_SIDE = 56  # pixels; a thumbnail then has about one kilobyte
JPEG_QUALITY = 60


@keyword_parameters
class ImageFeatures(DocLinkMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Extract features of images with a network in an ONNX file; the input are paths of images.

    `fit` stores only the hash of the network and the settings. `transform` raises an error for another network, since
    features of two networks are not comparable. A model file contains the hash of the network, not the network itself.
    Loading a model file does not open the network: `model` becomes the name of the file without its folder, and `cache`
    becomes None.

    Parameters
    ----------
    model : str, default="network.onnx"
        Path of the ONNX file. To move a fitted pipeline to another machine, copy this file and set `model` to its path.
    output_name : str, default=None
        Tensor of the network to use as features; None for its first output.
    preprocessing : str or dict, default="torchvision"
        Preprocessing of the images: "caffe", "torchvision", "tf-lite", or settings of
        :class:`~unseen.images.Preprocessing`.
    cache : str, default=None
        File that caches features, so that an image is read once; None for no file.
    batch_size : int, default=16
        Number of images per batch.
    n_jobs : int, default=None
        Number of threads; None for one per core.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    network_ : dict
        The network and its hash, its output, and the preprocessing.

    See Also
    --------
    unseen.images.extract : Extract features of images in folders, with labels and domains.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from unseen.images import ImageFeatures
    >>> pipeline = make_pipeline(ImageFeatures(model="resnet50.onnx"), LogisticRegression())
    >>> pipeline.fit(["cat1.jpg", "cat2.jpg", "dog1.jpg"], ["cat", "cat", "dog"])  # doctest: +SKIP
    >>> pipeline.predict(["new.jpg"])  # doctest: +SKIP
    array(['cat'], dtype='<U3')
    """

    _doc_link_template: ClassVar[str] = f"{DOCUMENTATION_URL}/generated/unseen.images.{{estimator_name}}.html"

    model: Any = "network.onnx"
    output_name: Any = None
    preprocessing: Any = "torchvision"
    cache: Any = None
    batch_size: Any = DEFAULT_BATCH_SIZE
    n_jobs: Any = None
    verbose: Any = 0

    def fit(self, X: Any, y: Any = None) -> ImageFeatures:
        """Open the network and store its hash.

        Parameters
        ----------
        X : array-like of str, of shape (n_samples,) or (n_samples, 1)
            Paths of images, which are not read.
        y : None
            Ignored.

        Returns
        -------
        self : ImageFeatures
            The fitted transformer.
        """
        reset_fitted_attributes(self)
        _check_paths(X)
        extractor = self._extractor()
        self.network_ = extractor.facts
        self._n_features_out = extractor.count_features()
        return self

    def transform(self, X: Any) -> Features:
        """Extract the features of images.

        Parameters
        ----------
        X : array-like of str, of shape (n_samples,) or (n_samples, 1)
            Paths of images. An image that cannot be read is an error, since each needs a row.

        Returns
        -------
        features : ndarray of shape (n_samples, n_features)
            The features, in single precision.
        """
        check_is_fitted(self)
        paths = _check_paths(X)
        if not os.path.exists(os.path.expanduser(self.model)):
            raise FileNotFoundError(
                f"The file model={str(self.model)!r} does not exist. Set model to the path of the network with which "
                f"this transformer was fitted: {self.network_['network']}, sha256 {self.network_['sha256']}."
            )
        extractor = self._extractor()
        # The hash is checked first, so that no other network is run, not even to determine its output.
        self._check_same("sha256", extractor.network.digest, "another network")
        self._check_same("output", extractor.facts["output"], "another output")
        self._check_same("preprocessing", extractor.facts["preprocessing"], "other settings")
        return extractor.extract(paths).X

    def _check_same(self, name: str, value: Any, difference: str) -> None:
        if value != self.network_[name]:
            raise ValueError(
                f"This transformer was fitted with {difference}: {name} was {self.network_[name]}, but {value} for "
                f"model={self.model!r}. Set model to the file with which it was fitted, or fit it again."
            )

    def _extractor(self) -> Extractor:
        path = os.path.abspath(os.path.expanduser(self.model))
        changed = os.stat(path).st_mtime_ns if os.path.exists(path) else 0
        settings = self.get_params(deep=False) | {
            "model": path,
            "preprocessing": vars(Preprocessing.from_spec(self.preprocessing)),
            "strict": True,
        }
        return _open_extractor(changed, json.dumps(settings, default=os.fspath))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = tags.input_tags.string = True
        return tags


@lru_cache(maxsize=2)
def _open_extractor(changed: int, settings: str) -> Extractor:
    """Return an extractor that stays open between calls; it is not an attribute, so that estimators can be pickled.

    `changed` is the modification time of the network: a changed file is opened again.
    """
    return Extractor(**json.loads(settings))


def _check_paths(X: Any) -> list[str]:
    """Return the paths in X, which has a row for each image."""
    paths: NDArray[Any] = np.asarray(X, dtype=object)
    if paths.ndim == 2 and paths.shape[1] == 1:
        paths = paths[:, 0]
    if paths.ndim != 1 or not all(isinstance(path, (str, os.PathLike)) for path in paths.tolist()):
        raise ValueError(f"X must hold the path of an image for each sample; got shape {paths.shape}: {X!r:.80}.")
    return [os.fspath(path) for path in paths.tolist()]


def photo_table(
    source: str | os.PathLike[str],
    model: str | os.PathLike[str],
    domain_from: str | None = None,
    *,
    output_name: str | None = None,
    preprocessing: Preprocessing | Mapping[str, Any] | str = "torchvision",
    cache: str | os.PathLike[str] | None = None,
    batch_size: int = DEFAULT_BATCH_SIZE,
    n_jobs: int | None = None,
    strict: bool = False,
    verbose: int = 0,
) -> Table:
    """Make a table for :func:`unseen.compare` from photographs: features, classes, domains and thumbnails.

    Parameters
    ----------
    source : str or path
        A folder DOMAIN/CLASS/, or a table that lists images: see :func:`~unseen.images.find_photos`.
    model : str or path
        ONNX file of a network.
    domain_from : str, default=None
        Regular expression that matches the domain in a path: see :func:`~unseen.images.find_photos`.
    output_name, preprocessing, cache, batch_size, n_jobs, strict, verbose
        See :func:`~unseen.images.extract`.

    Returns
    -------
    table : unseen.tables.Table
        The table; its `notices` report the number of images that could not be read.

    Examples
    --------
    >>> import unseen
    >>> from unseen.images import photo_table
    >>> table = photo_table("photos", "resnet50.onnx")  # doctest: +SKIP
    >>> unseen.compare(table).to_html()  # doctest: +SKIP
    """
    extractor = Extractor(
        model=model,
        output_name=output_name,
        preprocessing=preprocessing,
        cache=cache,
        batch_size=batch_size,
        n_jobs=n_jobs,
        strict=strict,
        verbose=verbose,
    )
    photos = find_photos(source, domain_from)
    extraction = extractor.extract_collection(photos)
    table = load_table(extraction.to_frame(), label="label", domain="domain", drop=["path"])
    notices = []
    if extraction.skipped:
        notices.append(f"{format_count(len(extraction.skipped), 'image')} could not be read and left out.")
    facts = extraction.facts
    notices.append(f"The features are {facts['output']!r} of {facts['network']}, sha256 {facts['sha256'][:12]}.")
    thumbnails = Thumbnails([photos.root / path for path in extraction.paths])
    return replace(table, name=photos.name, notices=[*notices, *table.notices], pictures=thumbnails)


@dataclass(frozen=True)
class Thumbnails:
    """Thumbnails of the rows of a table, as data URLs that a page can contain."""

    files: Sequence[Path]

    def __call__(self, rows: Sequence[int]) -> list[str]:
        """Return the thumbnails of rows, counted from 0; an empty string for a file that cannot be read."""
        with quiet_decoding(), ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(lambda row: _make_thumbnail(self.files[row]), rows))


def _make_thumbnail(path: Path) -> str:
    try:
        if is_special_file(path):
            return ""
        image = decode_image(path.read_bytes())
    except (OSError, ValueError):  # a report without one thumbnail is better than no report
        return ""
    image.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=JPEG_QUALITY, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"
