"""A network as a scikit-learn transformer, so that a pipeline may lead from file names to labels."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ..utils.estimator_mixins import DOCUMENTATION_URL, DocLinkMixin, keyword_parameters, reset_fitted_attributes
from ._extract import DEFAULT_BATCH_SIZE, Extractor, Features
from ._pixels import Preprocessing


@keyword_parameters
class ImageFeatures(DocLinkMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Features of pictures by a network in an ONNX file: a transformer that takes their paths.

    It learns nothing but which network it was fitted with, and refuses to go on with another: features of two networks
    have nothing in common. A model file holds the hash of the network, not the network itself. Loading one opens no
    network: `model` becomes the name of the file without its folder, and `cache` None.

    Parameters
    ----------
    model : str, default="network.onnx"
        The file. To move a fitted pipeline to another machine, copy the file as well, and set this to where it is.
    output_name : str, default=None
        The tensor that is wanted, any of the network's; None for its first output.
    preprocessing : str or dict, default="torchvision"
        What is done to pictures first: "caffe", "torchvision", "tf-lite", or settings of
        :class:`~unseen.images.Preprocessing`.
    cache : str, default=None
        A file that keeps features, so that a picture is read once.
    batch_size : int, default=16
        Pictures that the network is given at a time.
    n_jobs : int, default=None
        Threads; None for one on each core.
    verbose : int, default=0
        1 shows progress.

    Attributes
    ----------
    network_ : dict
        The network and its hash, its output, and the preprocessing.

    See Also
    --------
    unseen.images.extract : The same for folders, with labels and domains.

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
        """Open the network, and remember which it is.

        Parameters
        ----------
        X : array-like of str, of shape (n_samples,) or (n_samples, 1)
            Paths of pictures, which are not read yet.
        y : None
            Not used.

        Returns
        -------
        self : ImageFeatures
            Fitted.
        """
        reset_fitted_attributes(self)
        _check_paths(X)
        extractor = self._extractor()
        self.network_ = extractor.facts
        self._n_features_out = extractor.width()
        return self

    def transform(self, X: Any) -> Features:
        """The features of pictures.

        Parameters
        ----------
        X : array-like of str, of shape (n_samples,) or (n_samples, 1)
            Their paths. One that cannot be read is an error, since there must be a row for each.

        Returns
        -------
        features : ndarray of shape (n_samples, n_features)
            In single precision.
        """
        check_is_fitted(self)
        paths = _check_paths(X)
        if not os.path.exists(os.path.expanduser(self.model)):
            raise FileNotFoundError(
                f"There is no file {str(self.model)!r}. Set model to the path of the network that this was fitted "
                f"with: {self.network_['network']}, sha256 {self.network_['sha256']}."
            )
        extractor = self._extractor()
        # The hash comes first: no other network is run, not even to find its output.
        self._require_same("sha256", extractor.network.digest, "another network")
        self._require_same("output", extractor.facts["output"], "another output")
        self._require_same("preprocessing", extractor.facts["preprocessing"], "other settings")
        return extractor.extract(paths).X

    def _require_same(self, name: str, found: Any, what: str) -> None:
        if found != self.network_[name]:
            raise ValueError(
                f"This was fitted with {what}: {name} was {self.network_[name]}, and of {self.model} it is {found}. "
                "Set model to the file that it was fitted with, or fit it again."
            )

    def _extractor(self) -> Extractor:
        path = os.path.abspath(os.path.expanduser(self.model))
        changed = os.stat(path).st_mtime_ns if os.path.exists(path) else 0
        own = self.get_params(deep=False) | {
            "preprocessing": vars(Preprocessing.from_spec(self.preprocessing)),
            "model": path,
        }
        return _open_extractor(changed, json.dumps(own | {"strict": True}, default=os.fspath))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = tags.input_tags.string = True
        return tags


@lru_cache(maxsize=2)
def _open_extractor(changed: int, settings: str) -> Extractor:
    """A network, held open between calls: it is no part of an estimator that is copied, sent or saved."""
    return Extractor(**json.loads(settings))


def _check_paths(X: Any) -> list[str]:
    """Paths, from whatever holds a row for each."""
    paths: NDArray[Any] = np.asarray(X, dtype=object)
    if paths.ndim == 2 and paths.shape[1] == 1:
        paths = paths[:, 0]
    if paths.ndim != 1 or not all(isinstance(path, (str, os.PathLike)) for path in paths.tolist()):
        raise ValueError(f"X must hold the path of a picture for each sample; got shape {paths.shape}: {X!r:.80}.")
    return [os.fspath(path) for path in paths.tolist()]
