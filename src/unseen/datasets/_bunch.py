"""The return value of all loaders: scikit-learn's Bunch, with the domain of each sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from ..utils.optional_imports import optional_import
from ..utils.samples import Samples


def make_bunch(
    samples: Samples,
    target_names: Sequence[str],
    feature_names: Sequence[str],
    description: str,
    *,
    as_frame: bool,
    return_X_y: bool = False,
) -> Any:
    """Make a Bunch of arrays or of pandas objects; with `return_X_y`, return features, labels and domains only."""
    bunch = Bunch(
        data=samples.X,
        target=samples.y,
        domain=np.asarray(samples.domain, dtype=str),
        target_names=list(target_names),
        domain_names=list(dict.fromkeys(samples.domain.tolist())),
        feature_names=list(feature_names),
        DESCR=description,
    )
    if as_frame:
        pd = optional_import("pandas", "as_frame=True")
        bunch.data = pd.DataFrame(bunch.data, columns=bunch.feature_names)
        bunch.target = pd.Series(bunch.target, name="target")
        bunch.domain = pd.Series(bunch.domain, name="domain")
        bunch.frame = pd.concat([bunch.data, bunch.target, bunch.domain], axis=1)
    return (bunch.data, bunch.target, bunch.domain) if return_X_y else bunch
