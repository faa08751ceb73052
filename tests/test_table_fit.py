"""Scores of ``unseen fit`` stand for domains that nothing in the model has seen."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from helpers import fit_model, three_domains
from unseen import KFDA, DomainCenterer
from unseen.kernels import median_squared_distance
from unseen.model_selection import METHODS, Candidate, EvaluationConfig, LeaveOneDomainOut, evaluate_candidates
from unseen.tables import Column, Schema, Table, make_preprocessor
from unseen.utils.samples import Samples


def held_out(table, candidate):
    """Accuracy on each site, prepared and fitted without it."""
    samples = Samples(table.X, table.y, table.domain)
    splits = list(LeaveOneDomainOut().split(table.X, table.y, table.domain))
    said = evaluate_candidates(
        [candidate], samples, splits, EvaluationConfig(preparation=make_preprocessor(table.schema))
    )
    return [np.mean(p.codes == samples.codes[splits[p.split][1]]) for p in sorted(said, key=lambda p: p.split)]


SITES = ["north", "south", "west"]


@pytest.fixture
def table():
    """Numbers with gaps on three sites, classes that overlap."""
    X, y, codes = three_domains(n_per_cell=10, n_classes=2)
    X[::7, 0] = np.nan
    columns = tuple(Column(f"x{i}", "numeric") for i in range(X.shape[1]))
    return Table(2 * X, y, np.array(SITES)[codes], Schema(columns), [], "three sites")


def best_without(table, site):
    """The settings of logistic regression that are best on the other sites."""
    candidates = list(METHODS["logistic"].candidates(2))
    others = [k for k, name in enumerate(SITES) if name != site]
    return max(candidates, key=lambda one: np.mean([held_out(table, one)[k] for k in others]))


def test_scores_are_those_of_pipelines_and_settings_that_never_saw_the_held_out_domain(table):
    found = fit_model(table, "logistic")
    for name in SITES:
        train, test = table.domain != name, table.domain == name
        settings = best_without(table, name).settings
        model = make_pipeline(make_preprocessor(table.schema), LogisticRegression(max_iter=2000, **settings))
        expected = roc_auc_score(
            table.y[test], model.fit(table.X[train], table.y[train]).decision_function(table.X[test])
        )
        # Calibration of probabilities changes neither their order nor which model predicts them.
        k = SITES.index(name)
        _, P, codes = found.estimator.ensemble.held_out[k]
        assert roc_auc_score(codes, P[:, 1]) == pytest.approx(expected)


class Recorder(KNeighborsClassifier):
    """Remembers what it was trained on."""

    seen: ClassVar[list] = []

    def fit(self, X, y):
        self.seen.append(X)
        return super().fit(X, y)


def test_the_preparation_is_fitted_without_the_held_out_domain(table):
    held_out(table, Candidate("", {}, None, Recorder(2)))
    for name, seen in zip(SITES, Recorder.seen, strict=True):
        expected = make_preprocessor(table.schema).fit_transform(table.X[table.domain != name])
        np.testing.assert_array_equal(seen, expected)


def test_the_width_of_a_kernel_follows_the_training_data(table):
    prepared = make_preprocessor(table.schema).fit_transform(table.X)
    for rows in (slice(None), table.domain != "west"):
        candidate = Candidate("", {}, None, SVC(gamma="0.5*median"))
        model = candidate.fit(prepared[rows], table.y[rows], table.domain[rows])
        assert model[-1].gamma == 0.5 / median_squared_distance(prepared[rows])


@pytest.mark.parametrize("transformer", [None, KFDA(centering="target"), DomainCenterer()])
def test_a_held_out_domain_leaves_no_trace_in_its_own_score(table, transformer):
    """Labels of a domain may be shuffled and its rows repeated: what predicts them stays the same."""
    shares = "decomposition" if isinstance(transformer, KFDA) else "nothing"
    candidate = Candidate("", {}, transformer, KNeighborsClassifier(1), shares=shares)
    rows = np.append(np.arange(len(table.X)), np.flatnonzero(table.domain == "west"))  # means of west stay as they are
    twice = type(table)(table.X[rows], table.y[rows], table.domain[rows], table.schema, [], "")
    scores = [held_out(t, candidate) for t in (table, twice)]
    assert scores[0][2] == scores[1][2]


def test_an_invariant_model_is_shown_beside_a_plain_one(table):
    found = fit_model(table, "undo-bias")
    plain = {name: held_out(table, best_without(table, name))[k] for k, name in enumerate(SITES)}
    assert found.card["scores"]["baseline"] == plain
    assert fit_model(table, "1-nn").card["scores"]["baseline"] is None


@pytest.mark.parametrize("method", ["1-nn", "kfda", "logistic", "linear SVM", "RBF SVM"])
def test_one_method_is_its_classifier_with_a_temperature(table, method):
    """Classes are those of the classifier, and probabilities grow with what it says of them."""
    found = fit_model(table, method)
    (member,), (weight,) = found.estimator.ensemble.members_, found.estimator.ensemble.weights
    assert (weight, len(found.card["ensemble"]["members"]), len(found.card["leaderboard"])) == (1, 1, 0)
    prepared = found.estimator.prepare(table.X)
    np.testing.assert_array_equal(found.estimator.predict(table.X), member.predict(prepared))
    P = found.estimator.predict_proba(table.X)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    if hasattr(member, "decision_function"):
        decided = member.decision_function(prepared)
        assert (np.diff(P[np.argsort(decided), 1]) >= 0).all()
