"""Who chooses in a study: tasks together or alone, pools, and never the targets."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from study_sample import FEW, METHODS, ONCE, PAIR, PROJECTIONS, QUICK, SAMPLES, D, X, Y, facts, problem, study
from unseen import ProjectionSearchCV, UnseenClassifier
from unseen.evaluation import Protocol, Task, make_tasks
from unseen.evaluation._method_evaluation import evaluate_methods
from unseen.evaluation._run import JobQueue, Study, TestJob, ValidationJob, make_problem, select_methods
from unseen.model_selection import METHODS as TABLE
from unseen.model_selection._ensemble_weights import AcceptanceTest
from unseen.utils.samples import Samples

pytestmark = pytest.mark.usefixtures("few_trees")


@pytest.mark.parametrize("method", [name for name in METHODS if name not in ("auto", "extra trees")])
def test_tasks_that_choose_together_choose_as_each_does_alone(method, tmp_path):
    together = facts(study(tmp_path, ONCE, [method], make_tasks("abcd")))
    for task in make_tasks("abcd")[:2]:
        alone = study(tmp_path, ONCE, [method], [task], name=f"{task.name}.sqlite")
        assert facts(alone).items() <= together.items()


def moved(seed, domains="abcd", n_per_class=12):
    """Domains, moved apart, and hard enough for pools to be wrong."""
    rng, y = np.random.default_rng(seed), np.tile(np.repeat(np.arange(2), n_per_class), len(domains))
    X = 1.6 * rng.normal(size=(2, 3))[y] + rng.normal(size=(len(y), 3))
    d = np.repeat(list(domains), 2 * n_per_class)
    return X + np.repeat(4 * rng.normal(size=(len(domains), 3)), 2 * n_per_class, axis=0), y, d


@pytest.mark.parametrize(
    ("pool", "data", "scoring"),
    [
        ("ensemble of all models, smoothed", moved(0), "accuracy"),
        pytest.param("ensemble of all models", moved(1, "abcde", 15), "neg_log_loss", marks=pytest.mark.slow),
        pytest.param("ensemble of inductive models", moved(2, "abcde", 15), "accuracy", marks=pytest.mark.slow),
    ],
)
def test_auto_is_what_the_classifier_would_choose_without_the_target(pool, data, scoring, monkeypatch):
    if "smoothed" in pool:  # which pays on few data sets
        monkeypatch.setattr(AcceptanceTest, "is_accepted", True)
    X, y, d = (array.copy() for array in data)
    y[:2] = 9  # a class that no source has
    protocol = Protocol(preprocess="none", metric=scoring)
    found = make_problem(Samples(X, y, d), make_tasks(np.unique(d).tolist())[0], 0, protocol)
    (outcome,) = evaluate_methods(["auto"], found)
    told = outcome.settings
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    model = UnseenClassifier(scoring=scoring, transductive=True)
    model.fit(X[found.train], y[found.train], sample_domain=d[found.train])
    assert (told["model"], told["smoothing"]) == (model.best_model_, model.best_estimator_.smoothing)
    assert told["model"] == pool
    assert outcome.validation == pytest.approx(model.best_score_, rel=1e-6)
    assert_array_equal(model.classes_[outcome.codes], model.predict(X[found.test], sample_domain=d[found.test]))
    assert outcome.transductive == (model.best_kind_ == "transductive")
    assert [one["reason"] for one in told["decisions"]] == model.decisions_
    shares = {row["model"]: 0.0 for row in model.members_}
    for row in model.members_:
        shares[row["model"]] += row["weight"]
    assert told["members"] == pytest.approx(shares, rel=1e-6)
    assert told["calibration"]["after"]["log_loss"] == pytest.approx(model.calibration_["after"]["log_loss"], rel=1e-6)
    if scoring == "accuracy":
        assert told["forecast"] == pytest.approx((model.forecast_.mean, model.forecast_.lower, model.forecast_.upper))


def pooled_facts(rows):
    """What pools came to, as far as sums in another order leave it alone."""
    pools = [row for row in rows if row.method == "auto"]
    shares = [{name: round(weight, 5) for name, weight in row.settings["members"].items()} for row in pools]
    return [(row.task, row.accuracy, row.transductive, own) for row, own in zip(pools, shares, strict=True)]


@pytest.mark.slow
def test_pools_are_the_same_whether_their_votes_were_kept_or_are_asked_for_anew(tmp_path, monkeypatch):
    data, protocol, methods = moved(10), ONCE, ["auto", "logistic"]
    todo = make_tasks("abcd")[:1]

    def no_trial(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TestJob, "run", no_trial)
        with pytest.raises(KeyboardInterrupt):  # scores are kept in the file, votes are not
            study(tmp_path, protocol, methods, todo, data, name="stopped.sqlite")
    together = study(tmp_path, protocol, methods, todo, data)
    resumed = study(tmp_path, protocol, methods, todo, data, name="stopped.sqlite")
    monkeypatch.setattr("unseen.evaluation._run.MAX_SCORE_BYTES", 0)
    apart = study(tmp_path, protocol, methods, todo, data, name="apart.sqlite")
    assert pooled_facts(together) == pooled_facts(resumed) == pooled_facts(apart)
    alone = study(tmp_path, protocol, ["logistic"], todo, data, name="alone.sqlite")
    assert facts(alone).items() <= facts(together).items()


def test_a_pool_and_the_methods_in_it_fit_each_candidate_once():
    table, todo = select_methods(["auto", "logistic", "CIDG"]), make_tasks("abcd")
    agenda = JobQueue(Study(SAMPLES, ONCE, StandardScaler(), table), todo, set(), {})
    choices = [unit for unit in agenda.stages[0] if isinstance(unit, ValidationJob)]
    asked = [(unit.train.tobytes(), one.key) for unit in choices for one in unit.candidates]
    assert len(asked) == len(set(asked))
    voting = problem(QUICK).ensemble_candidates(table)
    assert {one.key for unit in choices for one in unit.candidates if one.key in unit.ensemble_keys} == set(voting)
    lone = JobQueue(Study(SAMPLES, QUICK, StandardScaler(), select_methods(FEW)), todo, set(), {})
    assert not any(unit.ensemble_keys or unit.resampled for unit in lone.stages[0])


@pytest.mark.usefixtures("few_trees")
@pytest.mark.parametrize("selection", ["within", "domain"])
def test_no_target_label_reaches_the_choice_or_the_predictions(selection):
    protocol = Protocol(selection=selection, quick=True)
    others = Y.copy()
    target = np.flatnonzero(np.isin(D, PAIR.targets))
    others[target] = np.random.default_rng(0).permutation(Y[target])
    others[target[:3]] = 99  # even a class that no source has
    for one, two in zip(*(evaluate_methods(METHODS, problem(protocol, y=y)) for y in (Y, others)), strict=True):
        assert (one.method, rounded(one.settings), one.ties) == (two.method, rounded(two.settings), two.ties)
        np.testing.assert_array_equal(one.codes, two.codes)


def rounded(settings):
    """Without the last digits: sums over more classes, of which one has no share, may be added up in another order."""
    return json.loads(json.dumps(settings), parse_float=lambda text: float(f"{float(text):.12g}"))


@pytest.mark.usefixtures("few_trees")
def test_the_oracle_does_look_at_the_target():
    others = Y.copy()
    target = np.flatnonzero(np.isin(D, PAIR.targets))
    others[target] = np.random.default_rng(0).permutation(Y[target])
    protocol = Protocol(selection="oracle", quick=True)
    one, two = (list(evaluate_methods(METHODS, problem(protocol, y=y))) for y in (Y, others))
    assert [o.settings for o in one] != [o.settings for o in two]


@pytest.mark.usefixtures("few_trees")
@pytest.mark.parametrize(("preprocess", "methods"), [("l2", FEW), ("standardize", METHODS), ("none", FEW)])
def test_with_source_centering_nothing_is_learned_from_target_samples(tmp_path, preprocess, methods):
    protocol = Protocol(repeats=1, quick=True, centering="source", preprocess=preprocess)
    others = X.copy()
    others[D == "d"] = 5 + 3 * X[D == "d"] ** 2
    one, two = (study(tmp_path, protocol, methods, data=(x, Y, D)) for x in (X, others))
    for row, other in zip(one, two, strict=True):
        assert (row.settings, row.ties, row.accuracies["c"]) == (other.settings, other.ties, other.accuracies["c"])
        assert not row.transductive


@pytest.mark.parametrize("method", PROJECTIONS)
@pytest.mark.parametrize("selection", ["within", "domain"])
def test_a_projections_outcome_is_that_of_a_search_by_hand(method, selection):
    found = problem(Protocol(selection=selection, quick=True), Task(("a", "b", "c"), ("d",)))
    (outcome,) = evaluate_methods((method,), found)
    own = TABLE[method]
    grid = [{name: [value] for name, value in setting.items()} for setting in own.settings(3, quick=True)]
    # Rows of unit length need nothing but themselves, so that all can be prepared at once.
    rows, n = found.prepared, len(found.train)
    place = np.full(len(X), -1)
    place[found.train] = np.arange(n)
    splits = [(place[a], place[b]) for a, b in found.splits]
    search = ProjectionSearchCV(clone(own.transformer).set_params(centering="target"), grid, cv=splits)
    search.fit(rows.X[:n], rows.y[:n], sample_domain=rows.domain[:n])
    assert outcome.settings == search.best_params_
    assert outcome.ties == search.cv_results_["n_ties"][search.best_index_]
    assert outcome.transductive
    np.testing.assert_array_equal(outcome.codes, search.predict(rows.X[n:], sample_domain=rows.domain[n:]))


def prepared_splits(found):
    """Training and held-out samples of each split, prepared on the former alone."""
    for train, test in found.splits:
        prepare = clone(found.preparation).fit(X[train])
        yield prepare.transform(X[train]), Y[train], prepare.transform(X[test]), Y[test]


def test_the_validation_score_is_the_mean_over_the_splits_of_the_best_setting():
    found = problem(Protocol(quick=True, preprocess="standardize"))
    (outcome,) = evaluate_methods(("logistic",), found)
    by_hand = {"logistic": LogisticRegression(max_iter=2000, **outcome.settings), "1-NN": KNeighborsClassifier(1)}
    for method, model in by_hand.items():
        (outcome,) = evaluate_methods((method,), found)
        right = [model.fit(Z, y).score(Z_test, y_test) for Z, y, Z_test, y_test in prepared_splits(found)]
        assert outcome.validation == pytest.approx(np.mean(right))
