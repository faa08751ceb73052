"""What all data sets share, and the rotated digits: disjoint, balanced, always the same."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from unseen import CIDG
from unseen.datasets import load_hospitals, load_penguins, load_rotated_digits, load_vlcs, make_synthetic

KEYS = {"data", "target", "domain", "target_names", "domain_names", "feature_names", "DESCR"}


def a_folder(path):
    for name in ["V", "L", "C", "S"]:
        np.savez(path / f"{name}.npz", X=np.arange(15.0).reshape(5, 3), y=[1, 2, 3, 4, 5])
    return path


@pytest.fixture(params=["penguins", "synthetic", "rotated digits", "vlcs"])
def load(request, tmp_path):
    return {
        "penguins": load_penguins,
        "synthetic": lambda **options: make_synthetic(random_state=0, **options),
        "rotated digits": load_rotated_digits,
        "vlcs": lambda **options: load_vlcs(a_folder(tmp_path), **options),
    }[request.param]


def test_every_data_set_is_a_bunch_of_the_same_parts(load):
    bunch = load()
    assert set(bunch) == KEYS
    assert len(bunch.data) == len(bunch.target) == len(bunch.domain)
    assert bunch.data.dtype == np.float64
    assert bunch.data.shape[1] == len(bunch.feature_names)
    assert set(bunch.domain) == set(bunch.domain_names)
    assert len(np.unique(bunch.target)) == len(bunch.target_names)
    assert all(isinstance(name, str) for name in [*bunch.target_names, *bunch.domain_names, *bunch.feature_names])
    assert len(bunch.DESCR.splitlines()) > 2


def test_frames_hold_what_arrays_hold(load):
    pandas = pytest.importorskip("pandas")
    plain, framed = load(), load(as_frame=True)
    assert set(framed) == KEYS | {"frame"}
    assert isinstance(framed.data, pandas.DataFrame)
    assert isinstance(framed.target, pandas.Series)
    assert list(framed.frame.columns) == [*plain.feature_names, "target", "domain"]
    np.testing.assert_array_equal(framed.data, plain.data)
    np.testing.assert_array_equal(framed.target, plain.target)
    np.testing.assert_array_equal(framed.domain, plain.domain)


def test_importing_the_data_sets_imports_nothing_optional():
    code = (
        "import sys, sklearn.utils; before = set(sys.modules); "  # scikit-learn may import pandas by itself
        "import unseen.datasets as d; d.make_synthetic(random_state=0); d.load_rotated_digits(); "
        "print({'pooch', 'requests', 'pandas'} & (set(sys.modules) - before))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.strip() == "set()"


def test_quarter_turns_turned_back_are_the_digits_each_exactly_once():
    digits = load_digits()
    data = load_rotated_digits(angles=(0, 90, 180, 270))
    back = [
        np.rot90(data.data[data.domain == name].reshape(-1, 8, 8), -turns, axes=(1, 2)).reshape(-1, 64)
        for turns, name in enumerate(["rot00", "rot90", "rot180", "rot270"])
    ]
    row = {image.tobytes(): i for i, image in enumerate(digits.data)}
    assert len(row) == len(digits.data)  # all images differ, so an image tells where it came from
    found = [row[image.tobytes()] for image in np.rint(np.vstack(back))]
    assert sorted(found) == list(range(len(digits.data)))
    np.testing.assert_array_equal(data.target, digits.target[found])


@pytest.mark.parametrize("angles", [(0, 15, 30, 45, 60, 75), (0, 7.5), (-20, 5, 40), tuple(range(100))])
def test_each_domain_gets_its_share_of_every_class(angles):
    data = load_rotated_digits(angles=angles)
    counts = np.array([[np.sum((data.domain == d) & (data.target == j)) for j in range(10)] for d in data.domain_names])
    assert counts.sum() == 1797
    assert np.ptp(counts.sum(axis=1)) <= 1
    assert np.ptp(counts, axis=0).max() <= 1
    assert counts.min() >= 1


@pytest.mark.parametrize(
    ("angles", "error", "message"),
    [
        ((), ValueError, "must be 2 to 174 finite numbers.*got 0"),
        ((30,), ValueError, "must be 2 to 174 finite numbers.*got 1"),
        ((0, 15, 0), ValueError, "that differ"),
        ((-90, 270), ValueError, "full turns"),
        ((0, float("nan")), ValueError, "finite"),
        (range(0, 350, 2), ValueError, "2 to 174.*got 175"),
        ("0,15", TypeError, "sequence of numbers"),
        (45, TypeError, "sequence of numbers.*got 45"),
        (("0", "fifteen"), TypeError, "fifteen"),
    ],
)
def test_angles_that_make_no_domains_are_refused(angles, error, message):
    with pytest.raises(error, match=message):
        load_rotated_digits(angles=angles)


def test_target_centered_cidg_transfers_the_sex_of_penguins_to_a_new_species_where_plain_regression_fails():
    X, y, species = load_penguins(return_X_y=True)
    plain = make_pipeline(StandardScaler(), LogisticRegression())
    invariant = make_pipeline(StandardScaler(), CIDG(kernel="linear", centering="target"), LogisticRegression())
    for name in np.unique(species):
        train = species != name
        plain.fit(X[train], y[train])
        invariant.fit(X[train], y[train], cidg__sample_domain=species[train])
        assert invariant.score(X[~train], y[~train]) > max(0.85, plain.score(X[~train], y[~train]) + 0.05)


def test_the_new_hospital_has_the_columns_of_the_twelve_and_is_not_among_them():
    hospitals, new_hospital = load_hospitals()
    assert hospitals.schema == new_hospital.schema
    assert hospitals["hospital"].n_unique() == 12
    assert hospitals["hospital"].value_counts()["count"].unique().to_list() == [60]
    assert new_hospital["hospital"].unique().to_list() == ["ulm"]
    assert set(hospitals["diagnosis"]) == set(new_hospital["diagnosis"]) == {"bacterial", "viral"}
    assert hospitals.equals(load_hospitals(new_hospital=3)[0])


def test_each_new_hospital_has_the_designed_share_of_bacterial_infections_and_different_patients():
    new_hospitals = [load_hospitals(new_hospital=number)[1] for number in range(8)]
    shares = [(table["diagnosis"] == "bacterial").mean() for table in new_hospitals]
    assert np.mean(shares) == pytest.approx(0.75, abs=0.03)
    assert len({table["crp"].sum() for table in new_hospitals}) == 8
    with pytest.raises(ValueError, match="new_hospital == -1, must be >= 0"):
        load_hospitals(new_hospital=-1)
