"""Contests that would take days are refused at once, in words."""

from __future__ import annotations

import numpy as np
import pytest

import unseen
from helpers import fit_model
from unseen import UnseenClassifier, diagnose
from unseen.tables import Column, Schema, Table


def table(n_classes, n_domains):
    """As few rows as make so many of each."""
    n = 2 * max(n_classes, n_domains)
    X = np.random.default_rng(0).normal(size=(n, 2))
    names = np.char.add("place ", (np.arange(n) // 2 % n_domains).astype(str))
    schema = Schema((Column("a", "numeric"), Column("b", "numeric")))
    return Table(X, np.arange(n) % n_classes, names, schema, [], "many")


@pytest.mark.parametrize(("n_classes", "n_domains", "said"), [(1001, 3, "1,001 classes"), (2, 501, "501 domains")])
def test_too_many_classes_or_domains_are_refused_before_anything_is_trained(n_classes, n_domains, said):
    many = table(n_classes, n_domains)
    with pytest.raises(ValueError, match=f"There are {said}.* at most "):
        unseen.compare(many.X, many.y, sample_domain=many.domain)
    with pytest.raises(ValueError, match=f"There are {said}.* at most "):
        fit_model(many)
    with pytest.raises(ValueError, match=f"There are {said}.* at most "):
        UnseenClassifier().fit(many.X, many.y, sample_domain=many.domain)


def test_a_comparison_that_leaves_out_pairs_takes_fewer_domains():
    many = table(2, 201)
    with pytest.raises(ValueError, match=r"201 domains, which makes 20,100 training sets"):
        unseen.compare(many.X, many.y, sample_domain=many.domain)


def test_a_diagnosis_that_would_take_hours_is_refused_before_its_matrix_is_made():
    many = table(2, 4000)
    with pytest.raises(ValueError, match=r"8,000 samples of 4,000 domains with n_permutations=499 would take hours"):
        diagnose(many.X, many.y, sample_domain=many.domain)
    few = table(2, 40)
    assert len(diagnose(few.X, few.y, sample_domain=few.domain, n_permutations=9).domains) == 40
