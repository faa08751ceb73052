"""Domain labels reach the estimators through scikit-learn's pipelines, cross-validation and searches."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict, cross_validate
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from helpers import three_domains
from unseen import CIDG, DICA, KFDA, MDA, SCA, ProjectionSearchCV, UndoBias, UnseenClassifier
from unseen.model_selection import LeaveOneDomainOut

METHODS = [CIDG, KFDA, SCA, DICA, MDA]


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture
def data():
    return three_domains()


def by_hand(model, X, y, d, held_out):
    """Accuracy of 1-NN on a domain that neither the projection nor the classifier has seen."""
    seen = d != held_out
    Z = model.fit_transform(X[seen], y[seen], sample_domain=d[seen])
    one_nn = KNeighborsClassifier(1).fit(Z, y[seen])
    return one_nn.score(model.transform(X[~seen], sample_domain=d[~seen]), y[~seen])


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("centering", ["source", "target"])
@pytest.mark.parametrize("method", METHODS)
def test_cross_validation_over_domains_equals_fitting_by_hand(method, centering, data):
    X, y, d = data
    pipeline = make_pipeline(method(centering=centering), KNeighborsClassifier(1))
    scores = cross_validate(
        pipeline, X, y, cv=LeaveOneGroupOut(), params={"sample_domain": d, "groups": d}, error_score="raise"
    )
    expected = [by_hand(method(centering=centering), X, y, d, held_out) for held_out in np.unique(d)]
    np.testing.assert_array_equal(scores["test_score"], expected)


@pytest.mark.usefixtures("routing")
def test_pipeline_passes_domain_labels_on_when_it_predicts(data):
    X, y, d = data
    seen = d < 2
    pipeline = make_pipeline(StandardScaler(), CIDG(centering="target"), KNeighborsClassifier(1))
    pipeline.fit(X[seen], y[seen], sample_domain=d[seen])
    scaler, cidg, one_nn = (step for _, step in pipeline.steps)
    # Half of the batch is a domain of its own, the other half one that was seen: each has its own center.
    expected = one_nn.predict(cidg.transform(scaler.transform(X), sample_domain=d))
    np.testing.assert_array_equal(pipeline.predict(X, sample_domain=d), expected)
    np.testing.assert_array_equal(
        pipeline[:-1].transform(X, sample_domain=d), cidg.transform(scaler.transform(X), sample_domain=d)
    )
    assert not np.allclose(pipeline[:-1].transform(X, sample_domain=d), pipeline[:-1].transform(X))


@pytest.mark.usefixtures("routing")
def test_undo_bias_gets_its_domains_in_cross_validation(data):
    X, y, d = data
    predicted = cross_val_predict(UndoBias(), X, y, cv=LeaveOneGroupOut(), params={"sample_domain": d, "groups": d})
    for held_out in np.unique(d):
        seen = d != held_out
        alone = UndoBias().fit(X[seen], y[seen], sample_domain=d[seen])
        np.testing.assert_array_equal(predicted[~seen], alone.predict(X[~seen]))


CHOSEN = [UnseenClassifier(["logistic"]), ProjectionSearchCV(KFDA(), {"ridge": ["scale"]})]


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("model", CHOSEN, ids=["comparison", "search"])
def test_a_pipeline_that_ends_in_a_search_can_be_scored_with_weights_and_without(model):
    X, y, d = three_domains(n_per_cell=6, n_domains=4)
    scaler = StandardScaler().set_fit_request(sample_weight=False)
    pipeline = make_pipeline(scaler, clone(model)).fit(X, y, sample_domain=d)
    weights, truth = 1.0 + np.arange(len(y)), np.roll(y, 1)  # some of it wrong
    right = pipeline.predict(X) == truth
    assert pipeline.score(X, truth, sample_domain=d) == np.mean(right)
    weighted = np.average(right, weights=weights)
    assert pipeline.score(X, truth, sample_weight=weights, sample_domain=d) == pytest.approx(weighted)
    assert weighted != np.mean(right)


@pytest.mark.parametrize(
    "methods", [["logistic"], ["logistic", "centered RBF SVM"], ["linear SVM", "cidg"], "auto", ["nonsense"]]
)
def test_before_fit_a_comparison_offers_what_every_possible_choice_has(methods):
    model = UnseenClassifier(methods, transductive=True)
    assert [name for name in ("predict_proba", "decision_function") if hasattr(model, name)] == ["predict_proba"]
    for name in ("predict_proba", "predict_set"):
        with pytest.raises(NotFittedError):
            getattr(model, name)([[0.0]])


@pytest.mark.parametrize("ensemble", [True, False])
@pytest.mark.usefixtures("routing")
def test_a_comparison_can_be_calibrated(ensemble):
    X, y, d = three_domains(n_per_cell=6, n_domains=4)
    model = CalibratedClassifierCV(UnseenClassifier(["logistic"]), cv=LeaveOneDomainOut(), ensemble=ensemble)
    assert model.fit(X, y, sample_domain=d).predict_proba(X).shape == (len(X), 3)


@pytest.mark.usefixtures("routing")
def test_a_user_can_turn_the_request_for_domain_labels_off(data):
    X, y, d = data
    deaf = KFDA().set_fit_request(sample_domain=False).set_transform_request(sample_domain=False)
    with pytest.raises(TypeError, match="sample_domain"):
        make_pipeline(deaf, KNeighborsClassifier(1)).fit(X, y, sample_domain=d)


def test_without_routing_a_pipeline_takes_domain_labels_by_the_name_of_the_step(data):
    X, y, d = data
    pipeline = make_pipeline(CIDG(), KNeighborsClassifier(1)).fit(X, y, cidg__sample_domain=d)
    alone = CIDG().fit(X, y, sample_domain=d)
    np.testing.assert_array_equal(pipeline[0].dual_coef_, alone.dual_coef_)
    np.testing.assert_array_equal(pipeline[0].domains_, alone.domains_)


def test_without_routing_cross_validation_takes_domain_labels_by_the_name_of_the_step(data):
    X, y, d = data
    pipeline = make_pipeline(CIDG(), KNeighborsClassifier(1))
    scores = cross_validate(
        pipeline, X, y, groups=d, cv=LeaveOneGroupOut(), params={"cidg__sample_domain": d}, error_score="raise"
    )
    expected = [by_hand(CIDG(), X, y, d, held_out) for held_out in np.unique(d)]
    np.testing.assert_array_equal(scores["test_score"], expected)


@pytest.mark.parametrize("method", METHODS)
def test_pandas_output_has_the_names_the_index_and_the_values(method, data):
    pd = pytest.importorskip("pandas")
    X, y, d = data
    frame = pd.DataFrame(X, columns=["a", "b", "c", "e"], index=np.arange(len(X))[::-1])
    model = method(2).set_output(transform="pandas")
    Z = model.fit_transform(frame, y, sample_domain=d)
    assert list(Z.columns) == [f"{method.__name__.lower()}0", f"{method.__name__.lower()}1"]
    assert list(Z.columns) == model.get_feature_names_out().tolist()
    assert Z.index.equals(frame.index)
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "e"]
    np.testing.assert_allclose(Z, method(2).fit_transform(X, y, sample_domain=d), rtol=1e-9, atol=1e-12)


def test_columns_in_another_order_are_refused(data):
    pd = pytest.importorskip("pandas")
    X, y, d = data
    frame = pd.DataFrame(X, columns=["a", "b", "c", "e"])
    model = CIDG().fit(frame, y, sample_domain=d)
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(frame[["b", "a", "c", "e"]])


def test_labels_may_be_columns_of_a_frame(data):
    pd = pytest.importorskip("pandas")
    X, y, d = data
    names = np.array(["Paris", "Lyon", "Nice"])[d]
    frame = pd.DataFrame({"y": y, "site": pd.Categorical(names)}, index=np.arange(len(X))[::-1])
    model = CIDG().fit(X, frame["y"], sample_domain=frame["site"])
    assert model.domains_.tolist() == ["Lyon", "Nice", "Paris"]
    np.testing.assert_array_equal(model.dual_coef_, CIDG().fit(X, y, sample_domain=names).dual_coef_)
