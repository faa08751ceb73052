"""Threads of one process: the bits of a fit alone, and a process that is left as it was."""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_info, threadpool_limits

from helpers import METHODS, make, three_domains
from unseen import CIDG, KFDA, SCA, DomainCenterer, PivotedNystroem, ProjectionSearchCV, UndoBias, UnseenClassifier
from unseen.estimators import LIBLINEAR
from unseen.exceptions import ignore_warnings
from unseen.model_selection import single_thread

X, Y, D = three_domains(n_features=6)
WIDE = np.random.default_rng(0).normal(size=(len(X), 2 * len(X)))  # where a linear SVM draws random numbers


def projection(estimator, X=X):
    fitted = estimator.fit(X, Y, sample_domain=D)
    return fitted.eigenvalues_, fitted.transform(X), fitted.transform(X[::-1], sample_domain=D[::-1])


def stream():
    fitted = SCA(feature_map=RBFSampler(n_components=30, random_state=0))
    for part in np.array_split(np.arange(len(X)), 3):
        fitted.partial_fit(X[part], Y[part], sample_domain=D[part])
    return fitted.finalize().eigenvalues_, fitted.transform(X)


def undo_bias(X=X):
    fitted = UndoBias().fit(X, Y, sample_domain=D)
    return fitted.coef_, fitted.domain_coef_, fitted.decision_function(X)


def search(**options):
    fitted = ProjectionSearchCV(CIDG(kernel="linear"), {"ridge": ["scale", "0.1*scale"]}, **options)
    fitted.fit(WIDE, Y, sample_domain=D)
    parts = vars(fitted.best_estimator_[-1])
    return fitted.cv_results_["mean_test_score"], parts.get("coef_"), fitted.transform(WIDE), fitted.predict(WIDE)


def pool():
    fitted = UnseenClassifier(methods=["1-NN", "linear SVM"]).fit(WIDE, Y, sample_domain=D)
    board = [[*row.scores.values()] for row in fitted.leaderboard_]
    return np.array(board), fitted.predict_proba(WIDE), fitted.predict(WIDE)


FITS = {
    **{name: lambda name=name: projection(make(name)) for name in METHODS},
    "target-centered": lambda: projection(CIDG(centering="target")),
    "landmarks": lambda: projection(KFDA(feature_map=PivotedNystroem(20, random_state=0))),
    "stream": stream,
    "PivotedNystroem": lambda: (PivotedNystroem(20, random_state=0).fit_transform(X),),
    "DomainCenterer": lambda: (DomainCenterer().fit_transform(X, sample_domain=D),),
    "UndoBias": undo_bias,
    "UndoBias, wide": lambda: undo_bias(WIDE),
    "search": search,
    "search, linear SVM": lambda: search(classifier=LinearSVC(random_state=0)),
    "UnseenClassifier": pool,
}


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
@pytest.mark.filterwarnings("ignore")  # filters belong to the process, and scikit-learn changes them for a moment
def test_eight_threads_that_fit_at_once_give_the_bits_of_one(fit):
    alone, gate = fit(), threading.Barrier(8)

    def at_once(_):
        gate.wait()
        return fit()

    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(at_once, range(8)))
    for other in together:
        for own, right in zip(other, alone, strict=True):
            np.testing.assert_array_equal(own, right, strict=True)


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_blas_keeps_to_one_thread_until_the_last_who_asked_has_left():
    with threadpool_limits(2):
        before = blas_threads()
        first, second = single_thread(), single_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert blas_threads() == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == before == {2}


def test_filters_of_warnings_are_those_of_before_once_all_have_left():
    before = list(warnings.filters)
    first, second = ignore_warnings(FutureWarning), ignore_warnings((UserWarning, "of old"))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    warnings.warn("of old", UserWarning, stacklevel=1)
    with pytest.raises(UserWarning, match="new"):
        warnings.warn("new", UserWarning, stacklevel=1)
    second.__exit__(None, None, None)
    assert warnings.filters == before


def test_what_fails_inside_leaves_the_process_as_it_was():
    before = list(warnings.filters)
    with threadpool_limits(2):
        with pytest.raises(ZeroDivisionError), single_thread(), ignore_warnings(Warning):
            raise ZeroDivisionError
        assert blas_threads() == {2}
    assert warnings.filters == before


class Counting(TransformerMixin, BaseEstimator):
    """A feature map that notes how many threads BLAS has."""

    seen = set()  # noqa: RUF012 - of all copies

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        self.seen.update(blas_threads())
        return X


def test_a_search_keeps_to_one_thread_from_the_decompositions_to_the_fit_of_the_chosen():
    Counting.seen.clear()
    with threadpool_limits(2):
        ProjectionSearchCV(CIDG(feature_map=Counting()), {}).fit(X, Y, sample_domain=D)
        assert Counting.seen == {1}
        UnseenClassifier(methods=["KFDA"], feature_map=Counting()).fit(X, Y, sample_domain=D)
        assert Counting.seen == {1}


class Alone:
    """A classifier that may be fitted while nobody else draws from liblinear's random numbers."""

    def fit(self, X, y, sample_weight=None):
        assert LIBLINEAR.locked()
        return super().fit(X, y, sample_weight)


class AloneLinear(Alone, LinearSVC):
    pass


class AloneLogistic(Alone, LogisticRegression):
    pass


HEADS = {
    "linear SVM": AloneLinear(),
    "in a pipeline": make_pipeline(StandardScaler(), AloneLinear()),
    "logistic": AloneLogistic(solver="liblinear"),
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("balance", ["none", "classes"])
def test_who_draws_from_the_random_numbers_of_liblinear_draws_alone(head, balance):
    two = Y < 2
    fitted = UnseenClassifier(methods=[("mine", head)], balance=balance)
    fitted.fit(X[two], Y[two], sample_domain=D[two])
    assert fitted.best_model_ == "mine"
    assert not LIBLINEAR.locked()


def test_others_need_not_wait_for_liblinear():
    class Free(SVC):
        def fit(self, X, y, sample_weight=None):
            assert not LIBLINEAR.locked()
            return super().fit(X, y, sample_weight)

    assert UnseenClassifier(methods=[("mine", Free())]).fit(X, Y, sample_domain=D).best_model_ == "mine"
