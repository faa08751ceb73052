"""Calls that cannot work: bad splits, unknown arguments, domains in the wrong place, models that are not fitted."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline

from mistakes import D, N, X, Y, plain, search
from unseen import CIDG, DICA, DomainCenterer, UndoBias
from unseen.exceptions import FewerComponentsWarning, SingleDomainWarning
from unseen.model_selection import HeldOutDomains, LeaveOneDomainOut, LeavePDomainsOut, WithinDomainSplit

SPLITS = [
    (LeaveOneDomainOut(), {}, "LeaveOneDomainOut needs the domain of each sample"),
    (LeaveOneDomainOut(), {"groups": ["a"] * N}, r"more than 1 domain.* got \['a'\]"),
    (LeavePDomainsOut(0), {"groups": D}, "n_groups must be a positive integer; got 0"),
    (LeavePDomainsOut(3), {"groups": D}, r"more than 3 domains.* got \[0, 1, 2\]"),
    (HeldOutDomains([7]), {"groups": D}, r"HeldOutDomains\(\[7\]\) cannot split"),
    (HeldOutDomains([0, 1, 2]), {"groups": D}, "leave one to train on"),
    (HeldOutDomains([]), {"groups": D}, "out at least one of them"),
    (HeldOutDomains("01"), {"groups": D}, "domains must be a list .* got '01'"),
    (WithinDomainSplit(0.0), {"groups": D}, "train_size must lie between 0 and 1; got 0.0"),
    (WithinDomainSplit(n_splits=0), {"groups": D}, "n_splits must be a positive integer; got 0"),
    (WithinDomainSplit(), {"groups": np.arange(N)}, "has no test samples"),
]


@pytest.mark.parametrize(("splitter", "domains", "message"), SPLITS)
def test_a_bad_split_is_explained(splitter, domains, message):
    with pytest.raises((ValueError, TypeError), match=message):
        list(splitter.split(X, Y, **domains))


def test_a_stratified_split_asks_for_labels():
    with pytest.raises(ValueError, match=r"needs y\. Pass it, or set stratify=False"):
        list(WithinDomainSplit().split(X, groups=D))


@pytest.mark.parametrize("model", [search(), plain()], ids=["search", "comparison"])
def test_an_unknown_argument_of_fit_is_named(model):
    with pytest.raises(TypeError, match=f"{type(model).__name__}.fit got an unexpected argument 'weight'"):
        model.fit(X, Y, sample_domain=D, weight=Y)


@pytest.mark.parametrize("model", [search(), plain(), UndoBias()], ids=["search", "comparison", "Undo-Bias"])
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(len(Y) - 1), r"one number per sample; got an array of shape \("),
        (np.where(np.arange(len(Y)) == 2, -1.0, 1.0), "got -1.0 at position 2"),
        (np.where(np.arange(len(Y)) == 3, np.nan, 1.0), "got nan at position 3"),
        (np.zeros(len(Y)), "at least one of them positive; got 0.0 at position 0"),
    ],
    ids=["few", "negative", "missing", "zero"],
)
def test_weights_that_are_none_are_refused(model, weights, message):
    with pytest.raises(ValueError, match=f"sample_weight must hold .*{message}"):
        model.fit(X, Y, sample_domain=D, sample_weight=weights)


FITS = [CIDG().fit, CIDG().fit_transform, CIDG(feature_map="linear").partial_fit, UndoBias().fit, DomainCenterer().fit]


@pytest.mark.parametrize("fit", [*FITS, search().fit, plain().fit], ids=lambda fit: repr(fit.__self__))
def test_domains_by_position_are_told_their_name(fit):
    with pytest.raises(TypeError, match=rf"{fit.__name__}: too many positional arguments\. .* sample_domain=domain"):
        fit(X, Y, D)


@pytest.mark.parametrize("fit", FITS, ids=lambda fit: repr(fit.__self__))
def test_domains_by_the_name_of_groups_are_told_their_own(fit):
    message = rf"{fit.__name__}: got an unexpected keyword argument 'groups'\. .* sample_domain=domain"
    with pytest.raises(TypeError, match=message):
        fit(X, Y, groups=D)


def test_cross_validation_without_routing_is_told_of_groups():
    with pytest.raises(ValueError, match=r"routing is disabled, .* pass only `groups` .* use groups=domain"):
        cross_validate(UndoBias(), X, Y, cv=LeaveOneDomainOut(), params={"sample_domain": D})


@pytest.mark.parametrize("call", [CIDG().recenter, search().transform, plain().predict, UndoBias().decision_function])
def test_an_unfitted_model_says_so(call):
    with pytest.raises(NotFittedError, match=f"{type(call.__self__).__name__} instance is not fitted"):
        call(X)


@pytest.mark.parametrize("model", [CIDG(), DICA(supervised=False), UndoBias()], ids=repr)
def test_a_model_whose_fit_failed_is_not_fitted(model):
    with pytest.raises(ValueError, match="sample_domain"):
        model.fit(X, Y, sample_domain=D[:-1])
    with pytest.raises(NotFittedError):
        model.predict(X) if isinstance(model, UndoBias) else model.transform(X)


@pytest.mark.parametrize("estimator", [CIDG, UndoBias])
def test_one_domain_is_a_warning_that_points_at_the_call(estimator):
    for domain, reason in ((None, "was fitted without sample_domain"), (["Paris"] * N, "single domain, .*'Paris'")):
        with pytest.warns(SingleDomainWarning, match=rf"{estimator.__name__} .*{reason}") as caught:
            estimator().fit(X, Y, sample_domain=domain)
        assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("fit", [CIDG().fit_transform, make_pipeline(CIDG(), LogisticRegression()).fit])
def test_a_warning_points_at_the_call_through_other_calls_too(fit):
    with pytest.warns(SingleDomainWarning) as caught:
        fit(X, Y)
    assert [warning.filename for warning in caught] == [__file__]


def test_more_components_than_exist_is_a_warning_with_both_numbers():
    with pytest.warns(FewerComponentsWarning, match="n_components=7, but only 2 carry information") as caught:
        model = CIDG(7).fit(X, Y, sample_domain=D)
    assert [warning.filename for warning in caught] == [__file__]
    assert model.transform(X).shape == (N, 2)
