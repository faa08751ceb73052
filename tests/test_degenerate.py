"""Degenerate data give the right answer or a clear error: the cheap part of what ``make degenerate`` runs."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

from degenerate_cases import CASES, many, ordinary
from degenerate_oracles import BOUND, LINEAR, RBF, REFUSED, judged, refusal
from unseen import CIDG, UnseenClassifier
from unseen.linalg import conditional_contrast, prior_normalized_contrast

DIRECT = {*RBF, *LINEAR, "PivotedNystroem", "DomainCenterer", "UndoBias", "ProjectionSearchCV", "diagnose", "Novelty"}
# One estimator for each kind of data, and all that once went wrong.
ANSWERS = [
    ("constant features", "KFDA"),
    ("copied features", "MDA, linear"),
    ("copied samples", "PivotedNystroem"),
    ("one sample per class", "DICA"),
    ("one sample per cell", "CIDG, in chunks"),
    ("disjoint classes", "DICA, linear"),
    ("disjoint classes", "DICA, feature map"),
    ("times 1e-150", "UndoBias"),
    ("times 1e-30", "CIDG, feature map"),
    ("times 1e30", "KFDA, linear"),
    ("times 1e-300", "DomainCenterer"),
    ("times 1e300", "DomainCenterer"),
    ("columns from 1e-300 to 1e300", "DomainCenterer"),
    ("constant features", "diagnose"),
    ("integers", "SCA"),
    ("bytes", "CIDG, landmarks"),
    ("booleans", "UDICA, feature map"),
    ("float16", "CIDG"),
    ("float16, large", "diagnose"),
    ("float32", "ProjectionSearchCV"),
    ("one feature", "CIDG with norm"),
    ("classes identical inside", "KFDA, feature map"),
    ("classes identical to each other", "SCA, linear"),
    ("weights of 1e+30", "CIDG"),
    ("weights of 1e+30", "MDA"),
    ("weights of 1e+300", "SCA, linear"),
    ("norm_weight of 1e300", "CIDG with norm, linear"),
    ("ridge 0", "SCA, linear"),
    ("ridge 1e-300", "DICA, linear"),
    ("ridge 1e300", "DICA, linear"),
]
REFUSALS = [(case, subject) for case, subjects, _ in REFUSED for subject in subjects if subject in DIRECT]


@pytest.mark.parametrize(("case", "subject"), ANSWERS)
def test_degenerate_data_have_the_answer_of_the_oracle(case, subject):
    outcome = judged(subject, CASES[case]())
    assert outcome.kind == "right", outcome


@pytest.mark.parametrize(("case", "subject"), REFUSALS)
def test_what_has_no_answer_is_refused_in_words(case, subject):
    outcome = judged(subject, CASES[case]())
    assert outcome.kind == "refused", outcome
    assert refusal(case, subject, outcome.message), outcome.message


def test_contrasts_cost_what_the_present_cells_do():
    case = many(2000, 5000, 5000)
    counts = np.zeros((2000, 5000), dtype=int)
    np.add.at(counts, (case.d[::50], case.y[::50]), 1)
    counts = counts[counts.any(axis=1)][:, counts.any(axis=0)]
    assert conditional_contrast(counts).shape == (np.count_nonzero(counts),) * 2
    assert prior_normalized_contrast(counts).shape == (np.count_nonzero(counts), len(counts))


def test_many_classes_in_a_stream_are_no_measurement():
    case = many(2, 40, 60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = CIDG(feature_map="linear").partial_fit(case.X, case.y, sample_domain=case.d)
        assert model.transform(case.X).shape == (60, 10)


def test_long_indices_of_sparse_samples_are_made_short_for_liblinear():
    case = ordinary()
    X = sparse.csr_array(case.X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    model, short = (UnseenClassifier(["linear SVM"]).fit(part, case.y, sample_domain=case.d) for part in (X, case.X))
    np.testing.assert_allclose(model.predict_proba(X), short.predict_proba(case.X), atol=BOUND)
    assert X.indices.dtype == np.int64  # the user's stay what they are
