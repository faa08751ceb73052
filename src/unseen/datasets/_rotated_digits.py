"""Handwritten digits, with one rotation angle per domain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..tables import Column, Schema, Table
from ..utils.samples import Samples
from ._bunch import make_bunch

DOMAIN_NAME = "rot{:02g}"  # formatted with the angle of a domain
MAX_PIXEL_VALUE = 16
DESCR = """\
Rotated digits

The 1797 handwritten digits of scikit-learn's load_digits (8 x 8 pixels, 0 to 16, ten classes), distributed over the
angles: every image is in one domain only, and every class is spread evenly over the domains. The images of each domain
are rotated counterclockwise by its angle, with linear interpolation. Pixels that leave the frame are lost; new pixels
are 0.

Source of the images: E. Alpaydin and C. Kaynak (1998), Optical Recognition of Handwritten Digits.
"""


def load_rotated_digits(
    *, angles: Sequence[float] = (0, 15, 30, 45, 60, 75), as_frame: bool = False, return_X_y: bool = False
) -> Any:
    """Load scikit-learn's digits as domains of disjoint images, each rotated by one angle.

    Nothing is downloaded and nothing is random: the same angles always give the same data.

    Parameters
    ----------
    angles : sequence of float, default=(0, 15, 30, 45, 60, 75)
        Angles in degrees, counterclockwise, two or more: one domain for each. The images are distributed equally.
    as_frame, return_X_y : bool, default=False
        Whether to return pandas objects, with `frame` in addition; and whether to return ``(X, y, sample_domain)``
        instead of a Bunch.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch` or tuple of (X, y, sample_domain)
        With `data` (1797, 64) in 0..16, `target` (0 to 9), `domain` (such as "rot15"), `target_names`, `domain_names`,
        `feature_names` and `DESCR`.

    Examples
    --------
    >>> from unseen.datasets import load_rotated_digits
    >>> data = load_rotated_digits(angles=(0, 30, 60))
    >>> data.domain_names
    ['rot00', 'rot30', 'rot60']
    >>> [int((data.domain == name).sum()) for name in data.domain_names]
    [599, 599, 599]
    """
    from scipy.ndimage import rotate
    from sklearn.datasets import load_digits

    digits = load_digits()
    degrees = _check_angles(angles, max_angles=int(np.bincount(digits.target).min()))
    # Images are assigned to domains in turn, class after class, so that the sizes of domains differ by at most one.
    domain_codes = np.empty(len(digits.target), dtype=np.intp)
    domain_codes[np.argsort(digits.target, kind="stable")] = np.arange(len(domain_codes)) % len(degrees)
    order = np.argsort(domain_codes, kind="stable")
    domain_codes = domain_codes[order]
    images = digits.images[order]
    for i, angle in enumerate(degrees):
        if angle % 360:
            in_domain = domain_codes == i
            rotated = rotate(images[in_domain], angle, axes=(1, 2), reshape=False, order=1)
            images[in_domain] = np.clip(rotated, 0, MAX_PIXEL_VALUE)
    domain_names = np.array([DOMAIN_NAME.format(angle) for angle in degrees])
    samples = Samples(images.reshape(len(images), -1), digits.target[order], domain_names[domain_codes])
    names = [str(digit) for digit in range(10)]
    return make_bunch(samples, names, digits.feature_names, DESCR, as_frame=as_frame, return_X_y=return_X_y)


def _check_angles(angles: Sequence[float], max_angles: int) -> list[float]:
    try:
        degrees = [float(angle) for angle in angles]
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"angles must be a sequence of numbers, in degrees, such as (0, 30, 60); got {angles!r}."
        ) from error
    n_different = len({DOMAIN_NAME.format(angle % 360) for angle in degrees})
    if not np.isfinite(degrees).all() or n_different < len(degrees) or not 2 <= len(degrees) <= max_angles:
        raise ValueError(
            f"angles must be 2 to {max_angles} finite numbers of degrees that differ, also after full turns of 360 "
            f"degrees, as each angle needs an image of the rarest digit; got {len(degrees)}: {degrees}."
        )
    return degrees


def load_digits_table() -> Table:
    """Load the data of `load_rotated_digits` as a table.

    Examples
    --------
    >>> from unseen.datasets import load_digits_table
    >>> table = load_digits_table()
    >>> sorted(set(table.domain.tolist()))
    ['rot00', 'rot15', 'rot30', 'rot45', 'rot60', 'rot75']
    """
    data = load_rotated_digits()
    schema = Schema(tuple(Column(name, "numeric") for name in data.feature_names), label="digit", domain="rotation")
    return Table(data.data, data.target, data.domain, schema, [], "rotated digits")
