"""The synthetic data of the CIDG paper."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..utils.samples import Samples
from ._bunch import make_bunch

# Table 1 of Li et al. (2018): for each domain, the mean of each class and its number of samples.
TABLE_1 = {
    "domain 1": (((1.0, 2.0), 30), ((2.0, 1.0), 20), ((3.0, 2.0), 30)),
    "domain 2": (((3.5, 2.5), 20), ((4.5, 1.5), 60), ((5.5, 2.5), 40)),
    "domain 3": (((8.0, 2.5), 40), ((9.5, 1.5), 40), ((10.0, 2.5), 40)),
}
# Not in the table: a labeled fourth domain, on which hyperparameters can be selected.
VALIDATION = {"validation": (((6.0, 2.0), 40), ((7.0, 1.0), 40), ((8.0, 2.0), 40))}
STANDARD_DEVIATION = 0.3

DESCR = """\
Synthetic domains of the CIDG paper (Li et al., AAAI 2018, Table 1)

Two features, three classes, three domains, normal with standard deviation 0.3. From domain to domain the classes move
along the first axis, so P(X|Y) changes, and so do the class proportions. Domains 1 and 2 are the paper's sources,
domain 3 its target. The optional validation domain lies between them.
"""


def make_synthetic(
    *, validation_domain: bool = False, as_frame: bool = False, return_X_y: bool = False, random_state: Any = None
) -> Any:
    """Generate the synthetic data of the CIDG paper.

    Parameters
    ----------
    validation_domain : bool, default=False
        Whether to add a fourth domain, on which hyperparameters can be selected.
    as_frame, return_X_y : bool, default=False
        Whether to return pandas objects, with `frame` in addition; and whether to return ``(X, y, sample_domain)``
        instead of a Bunch.
    random_state : int, RandomState instance or None, default=None
        Seed of the random generator.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch` or tuple of (X, y, sample_domain)
        With `data` (n_samples, 2), `target`, `domain`, `target_names`, `domain_names`, `feature_names`, `DESCR`.

    Examples
    --------
    >>> from unseen.datasets import make_synthetic
    >>> data = make_synthetic(random_state=0)
    >>> data.data.shape
    (320, 2)
    >>> [int((data.domain == name).sum()) for name in data.domain_names]
    [80, 120, 120]
    >>> X, y, sample_domain = make_synthetic(return_X_y=True, random_state=0)
    """
    rng = check_random_state(random_state)
    table = TABLE_1 | VALIDATION if validation_domain else TABLE_1
    values = []
    labels = []
    domains = []
    for name, classes in table.items():
        for label, (mean, count) in enumerate(classes, start=1):
            values.append(rng.normal(mean, STANDARD_DEVIATION, size=(count, 2)))
            labels.append(np.full(count, label))
            domains.append(np.full(count, name))
    samples = Samples(np.concatenate(values), np.concatenate(labels), np.concatenate(domains))
    names = ["class 1", "class 2", "class 3"]
    return make_bunch(samples, names, ["x", "y"], DESCR, as_frame=as_frame, return_X_y=return_X_y)
