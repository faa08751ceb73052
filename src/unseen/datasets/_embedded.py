"""Data sets that need no download: penguins, simulated hospitals, rotated digits, and the data of the CIDG paper."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from importlib.resources import files
from numbers import Integral
from typing import Any

import numpy as np
import polars as pl
from sklearn.utils import check_random_state, check_scalar

from ..tables import Column, Schema, Table
from ..utils.samples import Samples
from ._bunch import make_bunch

PENGUIN_FEATURES = ("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g")
PENGUINS_DESCR = """\
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
    values = np.array([[float(row[name]) for name in PENGUIN_FEATURES] for row in rows])
    sex = np.array([row["sex"] for row in rows])
    species = np.array([row["species"] for row in rows])
    samples = Samples(values, sex, species)
    return make_bunch(
        samples, ["female", "male"], PENGUIN_FEATURES, PENGUINS_DESCR, as_frame=as_frame, return_X_y=return_X_y
    )


HOSPITALS = (
    *("aachen", "berlin", "bonn", "bremen", "dresden", "essen", "hanover", "kiel", "leipzig", "mainz"),
    *("munich", "trier"),
)
# Temperature, heart rate, and the logarithms of CRP, leukocytes and lactate: the mean of viral infections, what a
# bacterial one adds, the standard deviation of patients, and that of hospitals, which differ in devices and patients.
VIRAL_MEAN = np.array([38.3, 92.0, 3.2, 2.0, 0.3])
BACTERIAL_EFFECT = np.array([0.5, 6.0, 0.9, 0.35, 0.2])
PATIENT_STD = np.array([0.5, 12.0, 0.6, 0.25, 0.35])
HOSPITAL_STD = np.array([0.22, 3.4, 0.22, 0.11, 0.14])
BACTERIAL_SHARES = (0.15, 0.85)  # of patients in the hospitals to train on: from the smallest to the largest
NEW_BACTERIAL_SHARE = 0.75
FIRST_SEED = 100  # of the first of the twelve; the next hospitals have the next seeds, and none was selected


def load_hospitals(*, new_hospital: int = 0) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Load simulated patients with fever: twelve hospitals to train on, and a new one.

    The label is the column "diagnosis" ("bacterial" or "viral"), the domain is "hospital". Bacterial infections differ
    from viral ones in the same way everywhere, but each hospital has its own devices, which shift the measurements, its
    own patients, and its own habit of measuring lactate. The table has what real tables have: an identifier, a date,
    categories and missing values. It is the same at every call.

    The shift of the new hospital is designed: 75% of its patients have bacterial infections on average, while this
    share varies between 15% and 85% in the twelve. Its devices are drawn at random like those of the twelve. Several
    shares were tried before this one was chosen, so the gain of 25 labels is an illustration, not evidence; the numbers
    of new hospitals were not searched.

    Parameters
    ----------
    new_hospital : int, default=0
        Number of the new hospital, 0 or more. Each has the same shift, different devices and different patients.

    Returns
    -------
    hospitals : polars.DataFrame
        720 patients, 60 of each of twelve hospitals.
    new_hospital : polars.DataFrame
        200 patients of a hospital that is not in `hospitals`, with their diagnoses, so that predictions and expected
        performance can be checked.

    Examples
    --------
    >>> from unseen.datasets import load_hospitals
    >>> hospitals, new_hospital = load_hospitals()
    >>> hospitals.shape, new_hospital.shape
    ((720, 12), (200, 12))
    >>> new_hospital["diagnosis"].value_counts(sort=True).rows()
    [('bacterial', 157), ('viral', 43)]
    """
    number = check_scalar(new_hospital, "new_hospital", Integral, min_val=0)
    hospitals = pl.concat(
        [_simulate(name, 60, seed, BACTERIAL_SHARES) for seed, name in enumerate(HOSPITALS, start=FIRST_SEED)]
    )
    seed = FIRST_SEED + len(HOSPITALS) + number
    return hospitals, _simulate("ulm", 200, seed, (NEW_BACTERIAL_SHARE, NEW_BACTERIAL_SHARE))


def _simulate(hospital: str, n_patients: int, seed: int, bacterial_shares: tuple[float, float]) -> pl.DataFrame:
    """Patients of one hospital, whose seed determines how it differs from the others."""
    rng = np.random.RandomState(seed)  # its numbers are the same in all versions of NumPy
    hospital_mean = rng.normal(VIRAL_MEAN, HOSPITAL_STD)
    is_bacterial = rng.uniform(size=n_patients) < rng.uniform(*bacterial_shares)
    values = rng.normal(hospital_mean + np.outer(is_bacterial, BACTERIAL_EFFECT), PATIENT_STD)
    crp, leukocytes, lactate = np.exp(values[:, 2:]).T
    has_leukocytes = rng.uniform(size=n_patients) < 0.95
    has_lactate = rng.uniform(size=n_patients) < rng.uniform(0.3, 0.9)
    days = rng.randint(365, size=n_patients)
    return pl.DataFrame(
        {
            "patient": [f"{hospital}-{number:03d}" for number in range(n_patients)],
            "arrived": (np.datetime64("2025-01-01") + days).astype(str),
            "hospital": [hospital] * n_patients,
            "age": np.clip(rng.normal(rng.normal(52, 5), 18, n_patients), 18, 98).astype(int),
            "sex": rng.choice(["F", "M"], n_patients),
            "arrival": rng.choice(["ambulance", "transfer", "walk-in"], n_patients, p=[0.3, 0.1, 0.6]),
            "temperature": values[:, 0].round(1),
            "heart_rate": values[:, 1].round().astype(int),
            "crp": crp.round(1),
            "leukocytes": pl.Series(leukocytes.round(1)).set(pl.Series(~has_leukocytes), None),
            "lactate": pl.Series(lactate.round(2)).set(pl.Series(~has_lactate), None),
            "diagnosis": np.where(is_bacterial, "bacterial", "viral"),
        }
    )


DOMAIN_NAME = "rot{:02g}"  # formatted with the angle of a domain
MAX_PIXEL_VALUE = 16
DIGITS_DESCR = """\
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
    return make_bunch(samples, names, digits.feature_names, DIGITS_DESCR, as_frame=as_frame, return_X_y=return_X_y)


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


# Table 1 of Li et al. (2018): for each domain, the mean of each class and its number of samples.
TABLE_1 = {
    "domain 1": (((1.0, 2.0), 30), ((2.0, 1.0), 20), ((3.0, 2.0), 30)),
    "domain 2": (((3.5, 2.5), 20), ((4.5, 1.5), 60), ((5.5, 2.5), 40)),
    "domain 3": (((8.0, 2.5), 40), ((9.5, 1.5), 40), ((10.0, 2.5), 40)),
}
# Not in the table: a labeled fourth domain, on which hyperparameters can be selected.
VALIDATION = {"validation": (((6.0, 2.0), 40), ((7.0, 1.0), 40), ((8.0, 2.0), 40))}
STANDARD_DEVIATION = 0.3

SYNTHETIC_DESCR = """\
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
    return make_bunch(samples, names, ["x", "y"], SYNTHETIC_DESCR, as_frame=as_frame, return_X_y=return_X_y)
