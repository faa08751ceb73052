"""Simulated patients of twelve hospitals, and of a thirteenth for which a model is needed."""

from __future__ import annotations

import numpy as np
import polars as pl

HOSPITALS = (
    *("aachen", "berlin", "bonn", "bremen", "dresden", "essen", "hanover", "kiel", "leipzig", "mainz"),
    *("munich", "trier"),
)
# Temperature, heart rate, and the logarithms of CRP, leukocytes and lactate: the mean of viral infections, what a
# bacterial one adds, the standard deviation of patients, and that of hospitals, which differ in devices and patients.
VIRAL_MEAN = np.array([38.3, 92.0, 3.2, 2.0, 0.3])
BACTERIAL_EFFECT = np.array([0.5, 6.0, 0.9, 0.35, 0.2])
PATIENT_STD = np.array([0.5, 12.0, 0.6, 0.25, 0.35])
HOSPITAL_STD = np.array([0.32, 4.8, 0.32, 0.16, 0.2])


def load_hospitals() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Load simulated patients with fever: twelve hospitals to train on, and a new one.

    The label is the column "diagnosis" ("bacterial" or "viral"), the domain is "hospital". Bacterial infections differ
    from viral ones in the same way everywhere, but each hospital has its own devices, which shift the measurements, its
    own patients, and its own habit of measuring lactate. The table has what real tables have: an identifier, a date,
    categories and missing values. It is the same at every call. The new hospital was chosen as one in which a few
    labels help; for most hospitals that this simulation gives, they change little.

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
    [('bacterial', 123), ('viral', 77)]
    """
    hospitals = pl.concat([_simulate(name, 60, seed) for seed, name in enumerate(HOSPITALS, start=100)])
    return hospitals, _simulate("ulm", 200, seed=119)


def _simulate(hospital: str, n_patients: int, seed: int) -> pl.DataFrame:
    """Patients of one hospital, whose seed determines how it differs from the others."""
    rng = np.random.RandomState(seed)  # its numbers are the same in all versions of NumPy
    hospital_mean = rng.normal(VIRAL_MEAN, HOSPITAL_STD)
    is_bacterial = rng.uniform(size=n_patients) < rng.uniform(0.3, 0.6)
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
