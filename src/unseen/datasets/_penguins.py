"""Palmer penguins: the sex of a species that is not in the training data."""

from __future__ import annotations

import csv
from importlib.resources import files
from typing import Any

import numpy as np

from ..utils.samples import Samples
from ._bunch import make_bunch

FEATURES = ("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g")
DESCR = """\
Palmer penguins

Sizes of 333 adult penguins of three species near Palmer Station, Antarctica, 2007 to 2009: the rows of the data set
palmerpenguins without missing values. The label is the sex, the domain is the species. Males are larger than females
in each species, but the species differ more than the sexes, so a boundary between the sexes of two species is in the
wrong place for the third.

Source: K. B. Gorman, T. D. Williams and W. R. Fraser (2014), Ecological sexual dimorphism and environmental variability
within a community of Antarctic penguins (genus Pygoscelis), PLOS ONE 9(3): e90081. The data are in the public domain
(CC0).
"""


def load_penguins(*, as_frame: bool = False, return_X_y: bool = False) -> Any:
    """Load the sizes of 333 penguins; the label is the sex, the domain is the species.

    Parameters
    ----------
    as_frame, return_X_y : bool, default=False
        Whether to return pandas objects, with `frame` in addition; and whether to return ``(X, y, sample_domain)``
        instead of a Bunch.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch` or tuple of (X, y, sample_domain)
        With `data` (333, 4), `target` ("female" or "male"), `domain` ("Adelie", "Chinstrap" or "Gentoo"),
        `target_names`, `domain_names`, `feature_names` and `DESCR`.

    Examples
    --------
    >>> from unseen.datasets import load_penguins
    >>> X, y, species = load_penguins(return_X_y=True)
    >>> X.shape
    (333, 4)
    >>> [int((species == name).sum()) for name in ("Adelie", "Chinstrap", "Gentoo")]
    [146, 68, 119]
    """
    text = (files(__package__) / "data" / "penguins.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    values = np.array([[float(row[name]) for name in FEATURES] for row in rows])
    sex = np.array([row["sex"] for row in rows])
    species = np.array([row["species"] for row in rows])
    samples = Samples(values, sex, species)
    return make_bunch(samples, ["female", "male"], FEATURES, DESCR, as_frame=as_frame, return_X_y=return_X_y)
