"""Handwritten digits, each domain turned by another angle."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.utils import Bunch

from ..tables import Column, Schema, Table
from ..utils.samples import Samples
from ._bunch import make_bunch

DOMAIN_NAME = "rot{:02g}"  # of a domain, by its angle
DESCR = """\
Rotated digits

The 1797 handwritten digits of scikit-learn's load_digits (8 x 8 pixels, 0 to 16, ten classes), shared out among the
angles: every image is in one domain only, and every class is spread evenly over the domains. Each domain's images are
turned counter-clockwise by its angle, with linear interpolation. What leaves the frame is lost; what enters is 0.

Source of the images: E. Alpaydin and C. Kaynak (1998), Optical Recognition of Handwritten Digits.
"""


def load_rotated_digits(*, angles: Sequence[float] = (0, 15, 30, 45, 60, 75), as_frame: bool = False) -> Bunch:
    """Load scikit-learn's digits, with disjoint images turned by each angle.

    Nothing is downloaded and nothing is random: the same angles always give the same data.

    Parameters
    ----------
    angles : sequence of float, default=(0, 15, 30, 45, 60, 75)
        Degrees, counter-clockwise: one domain for each, two or more. Their number decides how many images each gets.
    as_frame : bool, default=False
        Whether `data`, `target` and `domain` are pandas objects; adds `frame`.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
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
    degrees = _checked_angles(angles, most=int(np.bincount(digits.target).min()))
    part = np.empty(len(digits.target), dtype=np.intp)  # dealt out like cards, class after class: sizes hardly differ
    part[np.argsort(digits.target, kind="stable")] = np.arange(len(part)) % len(degrees)
    order = np.argsort(part, kind="stable")
    images = digits.images[order]
    for i, angle in enumerate(degrees):
        if angle % 360:
            own = part[order] == i
            images[own] = np.clip(rotate(images[own], angle, axes=(1, 2), reshape=False, order=1), 0, 16)
    names = np.array([DOMAIN_NAME.format(angle) for angle in degrees])
    samples = Samples(images.reshape(len(images), -1), digits.target[order], names[part[order]])
    return make_bunch(samples, [str(digit) for digit in range(10)], digits.feature_names, DESCR, as_frame=as_frame)


def _checked_angles(angles: Sequence[float], most: int) -> list[float]:
    try:
        if isinstance(angles, str):
            raise TypeError
        degrees = [float(angle) for angle in angles]
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"angles must be a sequence of numbers, in degrees, such as (0, 30, 60); got {angles!r}."
        ) from error
    if not np.isfinite(degrees).all():
        raise ValueError(f"angles must be finite numbers of degrees; got {degrees}.")
    if len(degrees) < 2:
        raise ValueError(f"angles must hold at least 2 angles, one for each domain; got {len(degrees)}: {degrees}.")
    if len({DOMAIN_NAME.format(angle % 360) for angle in degrees}) < len(degrees):
        raise ValueError(
            f"angles must differ, also after full turns of 360 degrees; got {degrees}. "
            "Leave out one of those that are alike."
        )
    if len(degrees) > most:
        raise ValueError(
            f"angles holds {len(degrees)} angles, but the rarest digit has {most} images, and each angle needs its "
            f"own. Give at most {most} angles."
        )
    return degrees


def load_digits_table() -> Table:
    """The data of `load_rotated_digits`, which come with scikit-learn, as a table.

    Examples
    --------
    >>> from unseen.datasets import embedded
    >>> table = embedded()
    >>> sorted(set(table.domain.tolist()))
    ['rot00', 'rot15', 'rot30', 'rot45', 'rot60', 'rot75']
    """
    data = load_rotated_digits()
    schema = Schema(tuple(Column(name, "numeric") for name in data.feature_names), label="digit", domain="rotation")
    return Table(data.data, data.target, data.domain, schema, [], "rotated digits")
