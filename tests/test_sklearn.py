"""scikit-learn's own estimator checks, for every estimator and for the settings that change its contract."""

from __future__ import annotations

import pytest
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_methods_subset_invariance, parametrize_with_checks

from unseen import CIDG, DICA, KFDA, MDA, SCA, DomainCenterer, ProjectionSearchCV, UndoBias, UnseenClassifier

ESTIMATORS = [
    CIDG(),
    KFDA(),
    SCA(),
    DICA(),
    DICA(supervised=False),
    MDA(),
    UndoBias(),
    CIDG(kernel="laplacian"),
    CIDG(kernel="linear"),
    CIDG(kernel="precomputed"),
    CIDG(feature_map="linear"),
    CIDG(feature_map=Nystroem(n_components=10, random_state=0)),
    CIDG(scaling="unit_norm", norm_weight=1.0),
    CIDG(centering="target"),
    DomainCenterer(),
    ProjectionSearchCV(CIDG(), {"ridge": ["1e-2*scale", "scale"], "conditional_weight": [0, "scale"]}, cv=2),
    ProjectionSearchCV(KFDA(kernel="linear"), {"ridge": ["scale"]}, classifier=LogisticRegression(), cv=2),
    UnseenClassifier(methods=["kfda"], cv=2),
]


REPEATED = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
ALIKE = "Projections see all samples alike, and the solver of the classifier has its tolerance."
SOLVER = "liblinear visits repeated samples in another order, and the checks stop it after five passes."


def expected_failures(estimator):
    is_projection = isinstance(estimator, UnseenClassifier) and estimator.methods == ["kfda"]
    if isinstance(estimator, ProjectionSearchCV) or is_projection:
        return dict.fromkeys(REPEATED, ALIKE)
    if isinstance(estimator, UndoBias):
        return {REPEATED[0]: SOLVER}
    if isinstance(estimator, DomainCenterer) or getattr(estimator, "centering", "source") == "target":
        return {
            "check_methods_subset_invariance": "Centering a new domain on its batch is what this is for: the "
            "result for a sample depends on its batch, and a batch of one is refused."
        }
    return {}


@pytest.mark.filterwarnings("ignore::unseen.exceptions.SingleDomainWarning")
def test_the_automatic_ensemble_predicts_a_sample_alone_as_in_a_batch():
    """By its defaults, but for `cv`: the check passes no domains."""
    check_methods_subset_invariance("UnseenClassifier", UnseenClassifier(cv=2))


@pytest.mark.filterwarnings("ignore::unseen.exceptions.SingleDomainWarning")
# The checks set max_iter to 5 where there is such a parameter.
@pytest.mark.filterwarnings("ignore:Liblinear failed to converge:sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learn_estimator_checks(estimator, check):
    check(estimator)
