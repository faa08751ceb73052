"""Classifiers of a user's own stand in every contest beside those of the package, on the same terms."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.cluster import KMeans
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import unseen
from helpers import fit_model, three_domains
from unseen import CIDG, DomainCenterer, ProjectionSearchCV, UnseenClassifier
from unseen.model_selection import (
    METHODS,
    EvaluationConfig,
    LeaveOneDomainOut,
    Method,
    best_by_variant,
    evaluate_candidates,
    method_names,
    parse_methods,
    tabulate_candidates,
)
from unseen.models import ModelFileError, load_model, save_model
from unseen.tables import Column, Schema, Table
from unseen.utils.samples import Samples

pytestmark = pytest.mark.usefixtures("few_trees")

X, Y, CODES = three_domains(n_per_cell=8, n_features=3, seed=4)
D = np.array(["a", "b", "c"])[CODES]
SPLITS = list(LeaveOneDomainOut().split(X, Y, D))
TABLE = Table(X, Y, D, Schema(tuple(Column(f"x{i}", "numeric") for i in range(3))), [], "three")


class Told(ClassifierMixin, BaseEstimator):
    """Remembers nothing but whether it is told the right domains; wrong ones are an error."""

    def _check(self, X, sample_domain):
        if sample_domain is None or not np.array_equal(np.asarray(sample_domain), D[_rows(X)]):
            raise RuntimeError(f"wrong domains: {sample_domain}")

    def fit(self, X, y, sample_domain=None):
        self._check(X, sample_domain)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X, sample_domain=None):
        self._check(X, sample_domain)
        return np.full(len(X), self.classes_[0])

    def predict_proba(self, X, sample_domain=None):
        return np.eye(len(self.classes_))[np.searchsorted(self.classes_, self.predict(X, sample_domain))]


class Checking(TransformerMixin, BaseEstimator):
    """The same before a classifier; samples come through unchanged."""

    def fit(self, X, y=None, sample_domain=None):
        Told._check(self, X, sample_domain)
        self.fitted_ = True
        return self

    def transform(self, X, sample_domain=None):
        Told._check(self, X, sample_domain)
        return X


def _rows(Z):
    """Which samples these are."""
    return [int(np.flatnonzero((z == X).all(axis=1))[0]) for z in np.asarray(Z)]


class Broken(ClassifierMixin, BaseEstimator):
    """Raises what nobody expects."""

    def __init__(self, error=ZeroDivisionError):
        self.error = error

    def fit(self, X, y):
        raise self.error("no luck")

    def predict(self, X):
        raise NotImplementedError


class Mute(GaussianNB):
    """Says what no class is called."""

    def predict(self, X):
        return np.full(len(X), 99)


def scored(*items):
    """The contenders that items become."""
    candidates = [c for method in parse_methods(items) for c in method.candidates(3)]
    return best_by_variant(candidates, tabulate_candidates(candidates, Samples(X, Y, D), SPLITS, EvaluationConfig()))


def test_names_pairs_triples_and_methods_become_methods_in_their_order():
    mine = Method("last", "plain", GaussianNB())
    items = ["CIDG", ("mine", SVC()), ("tuned", SVC(), {"C": [1, 10]}), mine, "CIDG"]
    found = parse_methods(items)
    assert [method.name for method in found] == ["CIDG", "mine", "tuned", "last"]
    assert found[0] is METHODS["CIDG"]
    assert [method.own for method in found] == [False, True, True, True]
    assert found[2].settings(3) == [{"C": 1}, {"C": 10}]


@pytest.mark.parametrize(
    ("estimator", "kind"),
    [
        (SVC(), "plain"),
        (make_pipeline(StandardScaler(), SVC()), "plain"),
        (Told(), "invariant"),
        (make_pipeline(StandardScaler(), CIDG(), SVC()), "invariant"),
        (make_pipeline(make_pipeline(Checking()), "passthrough", SVC()), "invariant"),
    ],
)
def test_a_classifier_that_asks_for_domains_is_an_invariant_one(estimator, kind):
    assert parse_methods([("mine", estimator)])[0].kind == kind


MISTAKES = {
    "no classifier": (
        ("mine", LinearRegression()),
        TypeError,
        "estimator of 'mine' must be a classifier; got LinearRegression",
    ),
    "clusters": (("mine", KMeans(2)), TypeError, "estimator of 'mine' must be a classifier"),
    "no estimator": (("mine", 3), TypeError, "estimator of 'mine' must be a classifier; got 3. Pass a scikit-learn"),
    "no method": (Method("mine", "plain"), TypeError, "estimator of 'mine' must be a classifier; got None"),
    "a class": (("mine", SVC), TypeError, r"the class SVC. Pass SVC\(...\) instead"),
    "a name that is taken": (("rbf svm", SVC()), ValueError, "'rbf svm' cannot be .* 'RBF SVM' is a registered"),
    "a name for all": (("auto", SVC()), ValueError, "'auto' cannot be the name"),
    "no name": ((" ", SVC()), ValueError, "' ' cannot be the name"),
    "strange parameters": (("mine", SVC(), {"svc__C": [1]}), ValueError, "grid of 'mine' .* Invalid parameter 'svc'"),
    "no grid": (("mine", SVC(), {"C": 3}), ValueError, "grid of 'mine' must be a parameter grid as for GridSearchCV"),
    "no settings": (("mine", SVC(), {"C": []}), ValueError, "grid of 'mine' must be a parameter grid"),
    "no words": (SVC(), ValueError, r"methods must be names among .* got \['logistic', SVC\(\)\]"),
    "unknown": ("mine", ValueError, "There is no method 'mine'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_what_is_no_method_is_refused_with_a_reason(mistake):
    item, error, message = MISTAKES[mistake]
    with pytest.raises(error, match=message):
        parse_methods(["logistic", item])


def test_two_methods_need_two_names():
    with pytest.raises(ValueError, match="Two methods are called 'mine'"):
        parse_methods([("mine", SVC()), ("mine", GaussianNB())])


def test_settings_of_ones_own_are_chosen_as_grid_search_does():
    svm = SVC(break_ties=True)  # whose probabilities and labels agree
    pipeline, grid = make_pipeline(StandardScaler(), svm), {"svc__C": [0.01, 1.0, 100.0], "svc__gamma": [0.01, 1.0]}
    model = UnseenClassifier([("mine", pipeline, grid)], ensemble=False).fit(X, Y, sample_domain=D)
    search = GridSearchCV(pipeline, grid, cv=SPLITS).fit(X, Y)
    scores = np.array([search.cv_results_[f"split{k}_test_score"] for k in range(len(SPLITS))])
    nested = [scores[k, np.delete(scores, k, axis=0).mean(axis=0).argmax()] for k in range(len(SPLITS))]
    assert model.best_score_ == pytest.approx(np.mean(nested))  # each domain by settings chosen on the others
    assert model.leaderboard_[0].params == search.best_params_
    np.testing.assert_array_equal(model.predict(X), search.predict(X))
    assert search.best_params_["svc__C"] == model.best_estimator_.members_[0][-1].get_params()["svc__C"]


DOMAIN_AWARE = {
    "a classifier": Told(),
    "a step": make_pipeline(Checking(), GaussianNB()),
    "steps": Pipeline([("none", None), ("nested", make_pipeline(Checking(), Checking())), ("last", Told())]),
}


def accuracy(model, X, y):
    return (model.predict(X) == y).mean()


@pytest.mark.parametrize(
    ("kind", "scoring", "routing"),
    [
        *((kind, "accuracy", routing) for kind in DOMAIN_AWARE for routing in (False, True)),
        ("a classifier", accuracy, False),
        ("steps", "neg_log_loss", True),
    ],
)
def test_who_asks_for_domains_is_told_in_fit_and_in_predict(kind, scoring, routing):
    with sklearn.config_context(enable_metadata_routing=routing):
        mine = ("mine", DOMAIN_AWARE[kind])
        model = UnseenClassifier([mine], scoring=scoring).fit(X, Y, sample_domain=D)
        assert np.isfinite(model.best_score_)
        assert model.predict(X[::2], sample_domain=D[::2]).shape == Y[::2].shape
        assert model.predict_proba(X, sample_domain=D).shape == (len(X), 3)
        assert np.isfinite(model.score(X, Y, sample_domain=D))
        with pytest.raises(RuntimeError, match="wrong domains"):
            model.predict(X)


@pytest.mark.parametrize("routing", [False, True])
def test_a_pipeline_of_ones_own_is_the_method_it_is_made_of(routing):
    """A projection inside a user's pipeline sees the domains that it sees in the table of methods."""
    projection = CIDG(conditional_weight="1e2*scale", ridge="1e-2*scale")
    head = ProjectionSearchCV(projection, {}, classifier=GaussianNB())
    with sklearn.config_context(enable_metadata_routing=routing):
        (mine,) = scored(("mine", make_pipeline(projection, GaussianNB())))
        np.testing.assert_allclose(mine.scores, [
            head.fit(X, Y, sample_domain=D).cv_results_[f"split{k}_test_score"][0] for k in range(3)
        ])  # fmt: skip


def test_other_metaestimators_are_told_while_routing_is_on():
    with sklearn.config_context(enable_metadata_routing=True):
        asking = Told().set_fit_request(sample_domain=True)
        search = GridSearchCV(asking, {}, cv=2)
        assert parse_methods([("mine", search)])[0].kind == "invariant"
    assert parse_methods([("mine", search)])[0].kind == "plain"


def test_the_head_of_a_search_may_be_a_pipeline_that_asks_for_domains():
    class Head(ClassifierMixin, BaseEstimator):
        def fit(self, Z, y, sample_domain=None):
            assert len(set(sample_domain)) >= 2
            self.model_ = GaussianNB().fit(Z, y)
            self.classes_ = self.model_.classes_
            return self

        def predict(self, Z, sample_domain=None):
            assert sample_domain is not None
            return self.model_.predict(Z)

    plain, asking = (
        ProjectionSearchCV(CIDG(), {"ridge": ["1e-2*scale", "scale"]}, classifier=make_pipeline(StandardScaler(), last))
        for last in (GaussianNB(), Head())
    )
    plain.fit(X, Y, sample_domain=D)
    asking.fit(X, Y, sample_domain=D)
    np.testing.assert_array_equal(asking.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(asking.predict(X, sample_domain=D), plain.predict(X))


def test_a_pipeline_that_centers_new_domains_is_transductive():
    centered = make_pipeline(StandardScaler(), DomainCenterer(), GaussianNB())
    model = UnseenClassifier([("mine", centered)], transductive=True).fit(X, Y, sample_domain=D)
    assert model.best_kind_ == "transductive"
    with pytest.raises(ValueError, match=r"which is transductive\. Allow transductive models"):
        UnseenClassifier([("mine", centered)]).fit(X, Y, sample_domain=D)


@pytest.mark.parametrize("error", [TypeError, KeyError, MemoryError])
def test_whatever_ones_own_raises_is_a_reason(error):
    field = scored("logistic", ("mine", Broken(error)))
    assert field[0].error == ""
    assert field[1].error == f"{error.__name__}: {error('no luck')}"
    with pytest.warns(RuntimeWarning, match=f"mine has no score.*{error.__name__}"):
        assert UnseenClassifier(["logistic", ("mine", Broken(error))]).fit(X, Y, sample_domain=D).best_model_ != "mine"


def test_who_stops_the_work_is_obeyed():
    with pytest.raises(KeyboardInterrupt):
        scored(("mine", Broken(KeyboardInterrupt)))


def test_what_a_method_of_the_package_raises_unexpectedly_is_raised():
    candidate = next(replace(METHODS["logistic"], classifier=Broken(TypeError)).candidates(3))
    with pytest.raises(TypeError, match="no luck"):
        list(evaluate_candidates([candidate], Samples(X, Y, D), SPLITS, EvaluationConfig()))


def test_where_nothing_can_be_scored_the_reason_is_told():
    with pytest.raises(ValueError, match=r"No model has a score.* mine: RuntimeError: no luck"):
        fit_model(TABLE, ("mine", Broken(RuntimeError)))


def test_labels_that_are_no_class_are_a_failure_that_names_them():
    (mine,) = scored(("mine", Mute()))
    assert "one of the classes 0, 1, 2 for each of 24 samples; got 24 labels, such as 99" in mine.error


def test_ones_own_is_compared_fitted_saved_loaded_and_reported(tmp_path):
    """From arrays to a report, and from a table to predictions of a file, without a word to the table of methods."""
    mine = ("mine", make_pipeline(CIDG(), LogisticRegression()), {"cidg__ridge": np.array([1e-2, 1e-1])})
    found = unseen.compare(X, Y, sample_domain=D, methods=["logistic", mine])
    by_name = {method["name"]: method for method in found.to_dict()["methods"]}
    assert list(by_name) == ["logistic", "mine"]
    assert by_name["mine"]["mean"] is not None
    assert {row.settings["cidg__ridge"] for row in found.rows if row.method == "mine"} <= {1e-2, 1e-1}
    assert "mine" in found.to_html()
    json.dumps(found.to_dict(), allow_nan=False)
    fit = fit_model(TABLE, mine)
    assert (fit.card["model"], fit.card["kind"]) == ("mine", "inductive")
    assert fit.card["scores"]["baseline"] is not None  # a plain classifier stands beside an invariant one
    fit.save(tmp_path / "mine.unseen")
    again = load_model(tmp_path / "mine.unseen")
    Z = StandardScaler().fit(X)
    expected = UnseenClassifier([mine]).fit(Z.transform(X), Y, sample_domain=D).predict(Z.transform(X))
    np.testing.assert_array_equal(again.predict(X), expected)
    np.testing.assert_array_equal(again.predict_table(X).frame["label"].to_numpy(), expected)


def test_a_failure_of_ones_own_is_a_row_with_its_reason():
    found = unseen.compare(X, Y, sample_domain=D, methods=["logistic", ("mine", Broken(TypeError))])
    mine = next(method for method in found.to_dict()["methods"] if method["name"] == "mine")
    assert mine["failed"] == "TypeError: no luck"


def test_centering_inside_a_pipeline_needs_whole_batches():
    model = fit_model(TABLE, ("mine", make_pipeline(DomainCenterer(), LogisticRegression())), transductive=True)
    np.testing.assert_array_equal(model.predict_table(X).frame["label"].to_numpy(), model.predict(X))
    longer = make_pipeline(DomainCenterer(), StandardScaler(), LogisticRegression())
    model = fit_model(TABLE, ("mine", longer), transductive=True)
    assert model.predict(X).shape == Y.shape
    with pytest.raises(ValueError, match=r"needs all samples of a new domain.*pipeline of two steps"):
        model.predict_table(X)


@pytest.mark.parametrize(
    "estimator", [GradientBoostingClassifier(n_estimators=3), GaussianNB(), LinearDiscriminantAnalysis()]
)
def test_a_model_of_types_that_files_do_not_hold_is_refused_with_what_to_do(tmp_path, estimator):
    fit = fit_model(TABLE, ("mine", estimator))
    advice = "Model files hold .*LogisticRegression.*name these types as trusted"
    with pytest.raises(ModelFileError, match=f"{type(estimator).__name__}.*{advice}"):
        save_model(fit.estimator, tmp_path / "mine.unseen", {})
    assert list(tmp_path.iterdir()) == []


def test_baselines_are_compared_and_never_chosen_by_themselves():
    baselines = ["majority", "nearest mean"]
    assert set(baselines) <= set(method_names(kind="plain", in_comparison=True))
    assert set(baselines).isdisjoint(method_names(in_ensemble=True))
    (majority,) = scored("majority")
    counts = [np.unique(Y[train], return_counts=True) for train, _ in SPLITS]
    expected = [
        np.mean(Y[test] == names[n.argmax()]) for (names, n), (_, test) in zip(counts, SPLITS, strict=True)
    ]  # fmt: skip
    np.testing.assert_allclose(majority.scores, expected)


def test_every_method_says_what_it_is():
    assert [name for name, method in METHODS.items() if not method.description] == []
