"""What every data set hands back: scikit-learn's Bunch, with the domain of each sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import Bunch

from ..citizen import optional_import

Array = np.ndarray[Any, np.dtype[Any]]


class Domain(NamedTuple):
    """The samples of one domain."""

    name: str
    data: Array
    target: Array


def bunch_of(
    domains: Sequence[Domain],
    *,
    target_names: Sequence[str],
    feature_names: Sequence[str],
    description: str,
    as_frame: bool,
) -> Bunch:
    """Stack domains, in the order given, into one Bunch of arrays or of pandas objects."""
    bunch = Bunch(
        data=np.concatenate([domain.data for domain in domains], dtype=_real(domains)),
        target=np.concatenate([domain.target for domain in domains]),
        domain=np.repeat([domain.name for domain in domains], [len(domain.data) for domain in domains]),
        target_names=list(target_names),
        domain_names=[domain.name for domain in domains],
        feature_names=list(feature_names),
        DESCR=description,
    )
    return _framed(bunch) if as_frame else bunch


def _real(domains: Sequence[Domain]) -> np.dtype[Any]:
    """Single precision stays single; all else becomes double, so that differences of counts cannot wrap around."""
    common = np.result_type(*(domain.data.dtype for domain in domains))
    return common if common == np.float32 else np.dtype(np.float64)


def _framed(bunch: Bunch) -> Bunch:
    pd = optional_import("pandas", "as_frame=True")
    bunch.data = pd.DataFrame(bunch.data, columns=bunch.feature_names)
    bunch.target = pd.Series(bunch.target, name="target")
    bunch.domain = pd.Series(bunch.domain, name="domain")
    labels = pd.concat([bunch.target, bunch.domain], axis=1)
    bunch.frame = pd.concat([bunch.data, labels], axis=1)
    return bunch
