"""Models can be copied, stored and refitted; data that were handed in stay as they were."""

from __future__ import annotations

import copy
import pickle

import joblib
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel

from helpers import three_domains
from unseen import CIDG, DICA, KFDA, MDA, SCA, UndoBias

MODELS = [
    CIDG(),
    KFDA(),
    SCA(),
    DICA(),
    DICA(supervised=False),
    MDA(),
    CIDG(centering="target"),
    CIDG(kernel="poly", degree=2),
    CIDG(feature_map="linear"),
    CIDG(feature_map=Nystroem(n_components=10, random_state=0)),
    UndoBias(),
]


@pytest.fixture
def data():
    return three_domains(n_per_cell=4)


def answers(model, X):
    return model.decision_function(X) if isinstance(model, UndoBias) else model.transform(X)


def through_joblib(model, path):
    joblib.dump(model, path / "model.joblib")
    return joblib.load(path / "model.joblib")


def through_memory_map(model, path):
    joblib.dump(model, path / "model.joblib")
    return joblib.load(path / "model.joblib", mmap_mode="r")


COPIES = {
    "pickle": lambda model, path: pickle.loads(pickle.dumps(model)),
    "deepcopy": lambda model, path: copy.deepcopy(model),
    "joblib": through_joblib,
    "memory map": through_memory_map,
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_copy_gives_identical_answers(model, how, data, tmp_path):
    X, y, d = data
    model = clone(model).fit(X, y, sample_domain=d)
    np.testing.assert_array_equal(answers(COPIES[how](model, tmp_path), X), answers(model, X))


def test_a_recentered_model_survives_storage(data, tmp_path):
    X, y, d = data
    model = CIDG().fit(X, y, sample_domain=d).recenter(X[:5] + 1)
    for copied in COPIES.values():
        other = copied(model, tmp_path)
        assert other.recentered_
        np.testing.assert_array_equal(other.transform(X[:1]), model.transform(X[:1]))


def fitted_attributes(model):
    return {name for name in vars(model) if name.endswith("_")}


CHANGES = {
    "kernel to feature map": ({}, {"feature_map": "linear"}),
    "feature map to kernel": ({"feature_map": Nystroem(n_components=10, random_state=0)}, {"feature_map": None}),
    "rbf to precomputed": ({}, {"kernel": "precomputed"}),
    "three components to one": ({}, {"n_components": 1}),
    "source to target": ({}, {"centering": "target"}),
}


@pytest.mark.parametrize("before", [CIDG, SCA])
@pytest.mark.parametrize("change", CHANGES)
def test_a_refit_forgets_the_earlier_fit(before, change, data):
    X, y, d = data
    first, second = CHANGES[change]
    model = before(**first).fit(np.hstack([X, X]), -y, sample_domain=d % 2)
    model.set_params(**second)
    fresh = before(**{**first, **second})
    samples = rbf_kernel(X) if model.kernel == "precomputed" else X
    model.fit(samples, y, sample_domain=d)
    fresh.fit(samples, y, sample_domain=d)
    assert fitted_attributes(model) == fitted_attributes(fresh)
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.domains_.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(model.transform(samples), fresh.transform(samples))
    assert model.get_feature_names_out().tolist() == fresh.get_feature_names_out().tolist()


def test_a_refit_without_labels_forgets_the_classes(data):
    X, y, d = data
    model = DICA().fit(X, y, sample_domain=d)
    assert model.classes_.tolist() == [0, 1, 2]
    model.set_params(supervised=False).fit(X, sample_domain=d)
    assert not hasattr(model, "classes_")
    assert model.cell_counts_.shape == (3, 1)


def test_a_refit_forgets_names_of_features_and_recentering(data):
    pd = pytest.importorskip("pandas")
    X, y, d = data
    model = CIDG().fit(pd.DataFrame(X, columns=list("abce")), y, sample_domain=d)
    twin = model.recenter(pd.DataFrame(X + 1, columns=list("abce")))
    assert twin.recentered_
    twin.fit(X, y, sample_domain=d)
    assert not twin.recentered_
    assert not hasattr(twin, "feature_names_in_")
    assert model.feature_names_in_.tolist() == list("abce")  # and its origin keeps what it knew


def test_a_refit_of_undo_bias_forgets_the_earlier_fit(data):
    X, y, d = data
    model = UndoBias().fit(np.hstack([X, X]), y % 2, sample_domain=d % 2)
    model.fit(X, y, sample_domain=d)
    fresh = UndoBias().fit(X, y, sample_domain=d)
    assert fitted_attributes(model) == fitted_attributes(fresh)
    np.testing.assert_array_equal(model.domain_coef_, fresh.domain_coef_)
    assert model.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize("container", [np.asarray, np.asfortranarray, sparse.csr_array], ids=["C", "F", "sparse"])
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_data_are_left_alone(model, container, data):
    if container is sparse.csr_array and not model.__sklearn_tags__().input_tags.sparse:
        pytest.skip("takes dense samples only")
    X, y, d = data
    given, labels, domains = container(X.copy()), y.copy(), d.copy()
    model = clone(model).fit(given, labels, sample_domain=domains)
    answers(model, given)
    if not isinstance(model, UndoBias):
        model.fit_transform(given, labels, sample_domain=domains)
        model.recenter(given)
    np.testing.assert_array_equal(given.toarray() if sparse.issparse(given) else given, X)
    np.testing.assert_array_equal(labels, y)
    np.testing.assert_array_equal(domains, d)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_what_happens_to_the_data_later_does_not_matter(model, data):
    X, y, d = data
    mine, new = X.copy(), X[:7] + 1
    model = clone(model).fit(mine, y, sample_domain=d)
    before = answers(model, new)
    mine[:] = 0
    np.testing.assert_array_equal(answers(model, new), before)


@pytest.mark.parametrize("model", MODELS[:-1], ids=repr)
def test_single_precision_in_is_single_precision_out(model, data):
    X, y, d = data
    X = X.astype(np.float32)
    single, double = clone(model).fit(X, y, sample_domain=d), clone(model).fit(X.astype(float), y, sample_domain=d)
    Z, expected = single.transform(X), double.transform(X.astype(float))
    assert Z.dtype == np.float32
    assert expected.dtype == np.float64
    np.testing.assert_allclose(Z, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())


def test_a_representation_names_the_parameters_that_differ():
    assert repr(CIDG(2, ridge=0.1)) == "CIDG(n_components=2, ridge=0.1)"
    assert repr(KFDA()) == "KFDA()"
    assert CIDG(2).get_params()["n_components"] == 2
