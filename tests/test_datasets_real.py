"""Real files, where they are at hand beside the project."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unseen.datasets import _office_caltech, fetch_office_caltech
from unseen.datasets._office_caltech import git_blob_id
from unseen.tables import load_table

DATA = Path(__file__).parents[2] / "shared" / "data"
COUNTS = {"amazon": 958, "webcam": 295, "dslr": 157, "caltech10": 1123}


def folder(name):
    if not (DATA / name).is_dir():
        pytest.skip(f"the real data {name} is not beside the project")
    return DATA / name


def counts(data):
    names, numbers = np.unique(data.domain, return_counts=True)
    return dict(zip(names.tolist(), numbers.tolist(), strict=True))


@pytest.mark.parametrize("inside", [True, False], ids=["the folder itself", "the folder above"])
def test_surf_features_at_hand_are_used_without_download(inside):
    home = folder("office_caltech_surf") if inside else folder("office_caltech_surf").parent
    data = fetch_office_caltech("surf", data_home=home, download=False)
    assert counts(data) == COUNTS
    assert data.data.shape == (2533, 800)
    assert data.data.dtype == np.float64
    assert np.unique(data.target).tolist() == list(range(10))
    assert data.feature_names[-1] == "surf_799"


def test_the_order_of_classes_is_that_of_the_photographs():
    surf = fetch_office_caltech("surf", data_home=folder("office_caltech_surf"), download=False)
    deep = load_table(folder("office_caltech_efflite0"))
    assert counts(deep) == COUNTS
    for name in COUNTS:
        np.testing.assert_array_equal(surf.target[surf.domain == name], deep.y[deep.domain == name])


def test_the_published_deep_features_have_the_known_ids_and_load_as_a_folder():
    home = folder("office_caltech_decaf6_partial")
    for domain in ["dslr", "webcam"]:
        file, blob_id = _office_caltech.PUBLISHED_FILES["decaf6"][domain]
        assert git_blob_id(home / file) == blob_id
    data = load_table(home)
    assert counts(data) == {"dslr_decaf": 157, "webcam_decaf": 295}
    assert data.X.shape[1] == 4068  # of 4,096, without the constant ones


def test_files_at_hand_are_not_asked_for_again():
    with pytest.raises(FileNotFoundError, match="download=False") as caught:
        fetch_office_caltech("decaf6", data_home=folder("office_caltech_decaf6_partial"), download=False)
    text = str(caught.value)
    assert "amazon_decaf.mat" in text
    assert "caltech_decaf.mat" in text
    assert "dslr_decaf.mat" not in text


def test_rotated_mnist_loads_as_a_folder():
    data = load_table(folder("rotated_mnist"))
    assert counts(data) == {f"rot{angle:02d}": 1000 for angle in range(0, 90, 15)}
    assert np.unique(data.y).tolist() == list(range(10))
