"""What the engine shares changes nothing: its predictions are those of fits one by one, to the last of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from unseen.model_selection import (
    HEADS,
    METHODS,
    EvaluationConfig,
    LeaveOneDomainOut,
    LeavePDomainsOut,
    bind_domains,
    evaluate_candidates,
    ignore_expected_warnings,
    method_names,
    tabulate_candidates,
)
from unseen.utils.samples import Samples

pytestmark = pytest.mark.usefixtures("few_trees")

PREPARATION = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
ALONE = method_names(needs_feature_map=False, members=())  # all but those that choose among others, or need a map
# Classifiers that scikit-learn can put behind the same preparation, with settings that it knows.
KNOWN = {"1-NN": {}, "majority": {}, "nearest mean": {}, "gradient boosting": {"classifier__max_iter": [3, 6]}}
KNOWN |= {"logistic": {"classifier__C": [0.1, 10.0]}, "linear SVM": {"classifier__C": [0.01, 1.0]}}
KNOWN |= {"RBF SVM": {"classifier__C": [1.0, 10.0], "classifier__gamma": [0.02, 0.3]}}
KNOWN |= {"extra trees": {"classifier__min_samples_leaf": [1, 5], "classifier__n_estimators": [5]}}


@cache
def table(seed, n_domains=4, n_classes=3, n_features=4):
    """Domains that lack classes, one of them all but one, and rows that lack values, in no order."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(4, 12, size=(n_domains, n_classes))
    counts[rng.permutation(n_domains)[:2], rng.integers(0, n_classes, 2)] = 0
    counts[seed % n_domains, 1:] = 0
    d, y = (np.repeat(index, counts.ravel()) for index in map(np.ravel, np.indices(counts.shape)))
    X = rng.normal(size=(len(y), n_features)) + rng.normal(size=(n_classes, n_features))[y]
    X += rng.normal(size=(n_domains, n_features))[d]
    X[rng.random(X.shape) < 0.1] = np.nan
    order = rng.permutation(len(y))
    return Samples(X[order], np.array(["ill", "unsure", "well"])[y[order]], np.array(["a", "b", "c", "d"])[d[order]])


@cache
def splits(seed):
    """Each domain held out once, and some pairs of which either is held out of the same training rows."""
    samples = table(seed)
    one = LeaveOneDomainOut().split(samples.X, samples.y, samples.domain)
    pairs = [*LeavePDomainsOut(2).split(samples.X, samples.y, samples.domain)][::3]
    apart = [(train, test[samples.domain[test] == name]) for train, test in pairs for name in "abcd"]
    return [*one, *((train, test) for train, test in apart if len(test))]


@cache
def asked(seed):
    """Two settings of each method, or all it has; of a projection, under each head and each centering."""
    rng, found = np.random.default_rng(seed), []
    for name in ALONE:
        own = list(METHODS[name].candidates(3, quick=True, heads=HEADS, centerings=("source", "target")))
        settings = list({str(one.settings): one.settings for one in own}.values())
        some = [settings[i] for i in rng.permutation(len(settings))[:2]]
        found += [small(one) for one in own if one.settings in some]
    return found


def small(candidate):
    """With few trees, which are quickly grown."""
    few = {"extra trees": {"n_estimators": 5}, "gradient boosting": {"max_iter": 3}}.get(candidate.method)
    return replace(candidate, classifier=clone(candidate.classifier).set_params(**few)) if few else candidate


@cache
def said(seed):
    """All candidates on all splits at once, so that everything is shared that ever is."""
    return list(evaluate_candidates(asked(seed), table(seed), splits(seed), EvaluationConfig(preparation=PREPARATION)))


def by_hand(candidate, samples, train, test):
    """One fit of its own, and what it says of the held-out rows."""
    prepare = clone(PREPARATION).fit(samples.X[train])
    known, new = samples.take(train), samples.take(test)
    with ignore_expected_warnings():
        pipeline = candidate.fit(prepare.transform(known.X), known.y, known.domain)
        model, seen = bind_domains(pipeline, prepare.transform(new.X), new.domain)
        return model.predict(seen)


@pytest.mark.parametrize("seed", [0, 1])
def test_every_candidate_speaks_of_every_split(seed):
    assert [one.error for one in said(seed) if one.error] == []
    pairs = sorted((one.candidate, one.split) for one in said(seed))
    assert pairs == list(np.ndindex(len(asked(seed)), len(splits(seed))))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", ALONE)
def test_each_method_predicts_as_when_it_is_fitted_alone(name, seed):
    samples, rng = table(seed), np.random.default_rng(seed)
    own = [one for one in said(seed) if asked(seed)[one.candidate].method == name]
    for one in (own[i] for i in rng.permutation(len(own))[:7]):
        candidate = asked(seed)[one.candidate]
        expected = by_hand(candidate, samples, *splits(seed)[one.split])
        told = f"{candidate.variant} {candidate.settings}, split {one.split}"
        np.testing.assert_array_equal(samples.classes[one.codes], expected, told)


def of_scikit(name, grid):
    """A method of the table as candidates of the engine, and as a pipeline of scikit-learn."""
    known = {key.removeprefix("classifier__"): values for key, values in grid.items()}
    method = replace(METHODS[name], grid=known)
    return list(method.candidates(3)), Pipeline([("preparation", PREPARATION), ("classifier", method.classifier)])


@pytest.mark.parametrize("name", KNOWN)
def test_scores_are_those_of_a_grid_search_of_scikit_learn(name):
    samples, parts, (candidates, pipeline) = table(1), splits(1), of_scikit(name, KNOWN[name])
    found = tabulate_candidates(candidates, samples, parts, EvaluationConfig(preparation=PREPARATION))["scores"]
    search = GridSearchCV(pipeline, KNOWN[name], cv=parts, scoring="accuracy", refit=False)
    with ignore_expected_warnings():
        results = search.fit(samples.X, samples.y).cv_results_
    expected = [results[f"split{k}_test_score"] for k in range(len(parts))]
    np.testing.assert_array_equal(found, np.transpose(expected))
