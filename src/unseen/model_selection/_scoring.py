"""Scores of out-of-domain predictions: metrics, tables of scores, and the best candidates.

Metrics are those of scikit-learn for classification. A held-out domain may lack some classes, which its scorers of
probabilities and decision values do not allow for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import average_precision_score, get_scorer, log_loss, roc_auc_score
from sklearn.utils import _safe_indexing

from ..exceptions import ignore_warnings, warn
from ..linalg import Array, Ints
from ..utils.samples import Samples
from ..utils.validation import Labels, format_list
from ._candidate import Candidate
from ._ensemble_math import SMALLEST_PROBABILITY, Mask, standard_error

if TYPE_CHECKING:
    from ._ensemble_math import CrossFittingFolds
    from ._evaluation import Prediction
    from ._splitters import Split

Scoring = str | Callable[..., float]
TIE_TOLERANCE = 1e-12  # means of the same fractions may differ by rounding
FIT_FACTS = ("fit_seconds", "predict_seconds", "n_components", "ridge", "weight")  # of Prediction
KINDS_BY_SIMPLICITY = ("plain", "inductive", "transductive")


def _one_vs_rest(metric: Callable[..., float], y: Any, scores: Array, classes: Labels, sample_weight: Any) -> float:
    """Mean of a ranking metric over classes, each against the others; of two classes, the metric of the second class.

    The result is that of scikit-learn if all classes occur. Decision values and probabilities are both accepted, and
    classes that do not occur, or occur alone, are omitted.
    """
    if scores.ndim == 1:
        scores = np.column_stack([-scores, scores])
    values = []
    for k in range(1 if len(classes) == 2 else 0, len(classes)):
        in_class = np.asarray(y) == classes[k]
        if 0 < np.average(in_class, weights=sample_weight) < 1:
            values.append(metric(in_class, scores[:, k], sample_weight=sample_weight))
    return float(np.mean(values)) if values else np.nan


def _negative_log_loss(y: Any, P: Array, classes: Labels, sample_weight: Any) -> float:
    return -float(log_loss(y, P, labels=classes, sample_weight=sample_weight))


def _negative_brier_score(y: Any, P: Array, classes: Labels, sample_weight: Any) -> float:
    """Sum over classes of the squared differences, halved for two classes, whose differences are equal."""
    squares = np.square(P - (np.asarray(y)[:, None] == classes)).sum(axis=1)
    return -float(np.average(squares, weights=sample_weight)) / (2 if len(classes) == 2 else 1)


PROBABILITIES = ("predict_proba",)
RANKING_RESPONSES = ("decision_function", "predict_proba")
# Metrics that depend on more than labels and allow for missing classes: functions of true classes, a response, its
# classes and weights; and the methods of a classifier of which the first one that it has gives this response.
RESPONSE_METRICS: dict[Any, tuple[Callable[..., float], tuple[str, ...]]] = {
    "roc_auc": (partial(_one_vs_rest, roc_auc_score), RANKING_RESPONSES),
    "roc_auc_ovr": (partial(_one_vs_rest, roc_auc_score), RANKING_RESPONSES[::-1]),
    "average_precision": (partial(_one_vs_rest, average_precision_score), RANKING_RESPONSES),
    "neg_log_loss": (_negative_log_loss, PROBABILITIES),
    "log_loss": (_negative_log_loss, PROBABILITIES),  # the name in METRICS
    "neg_brier_score": (_negative_brier_score, PROBABILITIES),
}
# Scorers with a positive class, which is the class 1 in scikit-learn.
POSITIVE_CLASS_SCORERS = ("f1", "jaccard", "precision", "recall")


@dataclass(frozen=True)
class Metric:
    """Names of a metric.

    Attributes
    ----------
    label : str
        Name in reports. Larger values are better.
    scoring : str or callable
        Name of a scikit-learn scorer for two or more classes, or a scorer.
    percent : bool
        Whether it is a fraction, which reports show in percent.
    """

    label: str
    scoring: Scoring
    percent: bool = False


METRICS = {
    "accuracy": Metric("accuracy", "accuracy", percent=True),
    "balanced_accuracy": Metric("balanced accuracy", "balanced_accuracy", percent=True),
    "f1": Metric("F1", "f1", percent=True),
    "f1_macro": Metric("macro F1", "f1_macro", percent=True),
    "precision": Metric("precision", "precision", percent=True),
    "precision_macro": Metric("macro precision", "precision_macro", percent=True),
    "recall": Metric("recall", "recall", percent=True),
    "recall_macro": Metric("macro recall", "recall_macro", percent=True),
    "jaccard": Metric("Jaccard index", "jaccard", percent=True),
    "jaccard_macro": Metric("macro Jaccard index", "jaccard_macro", percent=True),
    "roc_auc": Metric("AUC", "roc_auc_ovr"),
    "average_precision": Metric("average precision", "average_precision"),
    "log_loss": Metric("negative log loss", "neg_log_loss"),
    "neg_brier_score": Metric("negative Brier score", "neg_brier_score"),
    "matthews_corrcoef": Metric("matthews corrcoef", "matthews_corrcoef"),
}
AVERAGED_SCORERS = {f"{name}_{average}" for name in POSITIVE_CLASS_SCORERS for average in ("micro", "weighted")}
# Values of the parameter `scoring` of estimators, beside callables.
SCORING_NAMES = {*METRICS, *(str(metric.scoring) for metric in METRICS.values()), *AVERAGED_SCORERS}


def get_metric(name: Scoring) -> Metric:
    """Return a metric: by a key or a label of `METRICS`, by the name of a scikit-learn scorer, or of a scorer.

    These are the values of `metric` of functions and of `scoring` of estimators. Names of scikit-learn have the meaning
    that they have there: "f1" is that of the positive class, and "f1_macro" the mean over classes. A scorer that is a
    callable is called "score".

    Examples
    --------
    >>> from unseen.model_selection import get_metric
    >>> get_metric("AUC").scoring, get_metric("macro F1") == get_metric("f1_macro"), get_metric("accuracy").percent
    ('roc_auc_ovr', True, True)
    >>> get_metric("f1_weighted")
    Metric(label='f1 weighted', scoring='f1_weighted', percent=True)
    """
    if not isinstance(name, str):
        return Metric("score", name)
    normalized = name.lower().replace(" ", "_")
    for key, metric in METRICS.items():
        if normalized in {key, metric.scoring, metric.label.lower().replace(" ", "_")}:
            return metric
    if name not in AVERAGED_SCORERS:
        names = [*METRICS, *sorted(AVERAGED_SCORERS)]
        raise ValueError(f"There is no metric {name!r}; there are {', '.join(names)}, and scorers as callables.")
    return Metric(name.replace("_", " "), name, percent=True)


def check_metric(scoring: Scoring, classes: Labels) -> None:
    """Raise ValueError if a scorer is not applicable to these classes."""
    if scoring in POSITIVE_CLASS_SCORERS and len(classes) > 2:
        raise ValueError(f"The metric {scoring!r} needs two classes; there are {len(classes)}. Use '{scoring}_macro'.")


def metric_range(scoring: Scoring, n_classes: int | None = None) -> tuple[float, float]:
    """Return the lowest and the highest value that a metric can take.

    Parameters
    ----------
    scoring : str or callable
        Name of a metric, as for :func:`get_metric`, or a scorer, whose range is not known.
    n_classes : int, default=None
        Number of classes. The Brier score of two classes lies between 0 and 1, that of more classes between 0 and 2;
        None gives the wider range.

    Returns
    -------
    low, high : float
        Infinite where the metric has no bound, or where its range is not known.

    Examples
    --------
    >>> from unseen.model_selection import metric_range
    >>> metric_range("AUC"), metric_range("matthews_corrcoef"), metric_range("neg_brier_score", n_classes=2)
    ((0.0, 1.0), (-1.0, 1.0), (-1.0, 0.0))
    """
    if callable(scoring):
        return -np.inf, np.inf
    ranges = {
        "neg_log_loss": (-np.inf, 0.0),
        "neg_brier_score": (-1.0 if n_classes == 2 else -2.0, 0.0),
        "matthews_corrcoef": (-1.0, 1.0),
    }
    return ranges.get(str(get_metric(scoring).scoring), (0.0, 1.0))


def uses_labels_only(scoring: Scoring) -> bool:
    """Whether a metric is computed from predicted labels alone."""
    return not callable(scoring) and scoring not in RESPONSE_METRICS


def score_labels(scoring: Scoring, y: Any, predicted: Any, classes: Labels, sample_weight: Any = None) -> float:
    """Score predicted labels by a metric that uses labels only.

    The positive class of scorers that need one is 1, as in scikit-learn. If neither of two classes is 1, as for text,
    it is the second one in sorted order, as for AUC.
    """
    if scoring == "accuracy":  # as in scikit-learn, whose checks of labels take a hundred times as long
        return float(np.average(np.asarray(y) == predicted, weights=sample_weight))
    scorer = get_scorer(scoring)
    options = dict(scorer._kwargs)
    if scoring in POSITIVE_CLASS_SCORERS and 1 not in classes.tolist():
        options["pos_label"] = classes.tolist()[1]
    with _ignore_undefined():
        return float(scorer._score_func(y, predicted, **options, sample_weight=sample_weight))


def score_model(scoring: Scoring, model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Score of a fitted classifier; a callable gets sample weights if it, or the metric behind it, takes them."""
    if callable(scoring):
        parameters = inspect.signature(getattr(scoring, "_score_func", scoring)).parameters
        weights = (
            {"sample_weight": sample_weight} if "sample_weight" in parameters and sample_weight is not None else {}
        )
        with _ignore_undefined():
            return float(scoring(model, X, y, **weights))
    methods = ("predict",) if uses_labels_only(scoring) else RESPONSE_METRICS[scoring][1]
    responses = {name: getattr(model, name)(X) for name in methods if hasattr(model, name)}
    return score_responses(scoring, y, responses, model.classes_, sample_weight)


def score_responses(
    scoring: str, y: Any, responses: Mapping[str, Any], classes: Labels, sample_weight: Any = None
) -> float:
    """Score of what methods of a classifier returned, by their names."""
    if uses_labels_only(scoring):
        return score_labels(scoring, y, responses["predict"], classes, sample_weight)
    metric, methods = RESPONSE_METRICS[scoring]
    for name in methods:
        if name in responses:
            return metric(y, np.asarray(responses[name]), classes, sample_weight)
    raise AttributeError(f"The metric needs {' or '.join(methods)}, but the classifier does not have it.")


def _ignore_undefined() -> Any:
    """Ignore warnings about undefined scores, which are left out with one warning for all models."""
    return ignore_warnings(UndefinedMetricWarning, (UserWarning, "y_pred contains classes not in y_true"))


class FixedPredictions(ClassifierMixin, BaseEstimator):
    """A classifier with stored results of its methods for one batch, for scorers of users, which take a classifier."""

    def __init__(self, classes: Any, responses: Mapping[str, Any]) -> None:
        self.classes_ = classes
        for name, values in responses.items():
            method = partial(self._get_stored, values)
            vars(method)["__name__"] = name  # by which scorers distinguish responses
            setattr(self, name, method)

    @staticmethod
    def _get_stored(values: Any, X: Any) -> Any:
        return values


@dataclass(frozen=True)
class Scorer:
    """Scores of predictions on splits of samples.

    Where even perfect predictions have no score, such as AUC where a single class was held out, the score is NaN for
    all candidates.
    """

    scoring: Scoring
    samples: Samples
    splits: Sequence[Split]

    def __call__(self, prediction: Prediction) -> float:
        """Score of a prediction; raises ValueError or AttributeError if a response that the metric needs is missing."""
        responses = prediction.responses
        if prediction.codes is None or self.undefined_reason(prediction.split):
            return np.nan
        if "score" in responses:
            return float(responses["score"])
        stored = {"predict": self.samples.classes[prediction.codes], **responses}
        return self._score(prediction.split, stored, stored.pop("classes_", self.samples.classes))

    def score_probabilities(self, split: int, P: Array, codes: Ints | None = None) -> float:
        """Score of probabilities of all classes, and of predicted classes, by default the most probable ones."""
        if self.undefined_reason(split):
            return np.nan
        classes = self.samples.classes
        responses = {"predict": classes[P.argmax(axis=1) if codes is None else codes]}
        if not uses_labels_only(self.scoring):
            logits = np.log(np.maximum(P, SMALLEST_PROBABILITY))
            responses["predict_proba"] = P
            responses["decision_function"] = logits[:, 1] - logits[:, 0] if len(classes) == 2 else logits
        return self._score(split, responses, classes)

    def _score(self, split: int, responses: Mapping[str, Any], classes: Labels) -> float:
        test = self.splits[split][1]
        weight = self.samples.weights(test)
        y = self.samples.y[test]
        if not callable(self.scoring):
            return score_responses(self.scoring, y, responses, classes, weight)
        X = _safe_indexing(self.samples.X, test)
        return score_model(self.scoring, FixedPredictions(classes, responses), X, y, weight)

    def undefined_reason(self, split: int) -> str:
        """Why the metric is not defined on a split; empty if it is."""
        train, test = self.splits[split]
        weight = self.samples.weights(test)
        if weight is not None:
            test = test[weight > 0]
            if not len(test):
                return "its samples have no weight"
        if self.scoring not in RESPONSE_METRICS:
            return ""
        present = np.unique(self.samples.codes[test])
        is_known = np.isin(present, self.samples.codes[train])
        if RESPONSE_METRICS[self.scoring][1] == PROBABILITIES:
            return "" if is_known.all() else "it needs samples of classes that occur in the training data"
        if is_known.any() and len(present) > 1:
            return ""
        return "it needs samples of at least two classes that occur in the training data"

    def warn_undefined(self, is_defined: Mask) -> None:
        """Warn about the first splits on which the metric is not defined; raise ValueError if it is on none of them."""
        splits = np.flatnonzero(~is_defined).tolist()
        if not splits:
            return
        name = self.scoring if isinstance(self.scoring, str) else "The score"
        domains = np.unique(np.concatenate([self.samples.domain[self.splits[k][1]].astype(str) for k in splits]))
        reason = self.undefined_reason(splits[0]) or "it is NaN for all models"
        message = (
            f"{name} is not defined on {len(splits)} of {len(is_defined)} held-out parts, with the domains "
            f"{format_list(domains.tolist())}; reason for the first: {reason}. "
        )
        if not is_defined.any():
            raise ValueError(f"{message}Hold out parts that have all classes, or score by accuracy.")
        warn(f"{message}They are left out of the means of all models.", UndefinedMetricWarning)


def tabulate_scores(
    predictions: Iterable[Prediction], score: Callable[[Prediction], float], n_candidates: int, n_splits: int
) -> dict[str, Any]:
    """Scores and costs by candidate and split, mean scores, and the first error of each candidate.

    Only `defined` splits count: those on which some candidate has a score, or all candidates failed.
    """
    shape = n_candidates, n_splits
    scores = np.full(shape, np.nan)
    facts = {name: np.zeros(shape) for name in FIT_FACTS}
    reasons = np.full(shape, "", dtype=object)
    for prediction in predictions:
        position = prediction.candidate, prediction.split
        reasons[position] = prediction.error
        try:
            scores[position] = score(prediction)
        except (ValueError, AttributeError) as missing:  # the scorer needs a method that the classifier does not have
            reasons[position] = f"{type(missing).__name__}: {missing}"
        for name, values in facts.items():
            values[position] = getattr(prediction, name)
    scored_by_none = ~np.isfinite(scores).any(axis=0)
    defined = ~(scored_by_none & (reasons == "").any(axis=0))
    reasons[~np.isfinite(scores) & (reasons == "")] = "The score is not a number."
    return {
        "scores": scores,
        "defined": defined,
        "seconds": facts["fit_seconds"] + facts["predict_seconds"],
        "errors": [next(filter(None, row[defined]), "") for row in reasons],
        "facts": facts,
        "mean_test_score": scores[:, defined].mean(axis=1) if defined.any() else np.full(n_candidates, np.nan),
        "mean_n_components": facts["n_components"].mean(axis=1),
        "mean_ridge": facts["ridge"].mean(axis=1),
        "mean_invariance_weight": facts["weight"].mean(axis=1),
    }


def best_index(results: dict[str, Any], among: Sequence[int] | Ints | None = None) -> int:
    """Index of the best mean score; ties go to the fewest components, the largest ridge, the largest invariance weight.

    That is the simplest and most regularized of equal settings; after that, the first in the grid.
    """
    indices = np.arange(len(results["mean_test_score"])) if among is None else np.asarray(among)
    means = results["mean_test_score"][indices]
    if not np.isfinite(means).any():  # all candidates failed
        return int(indices[0])
    tied = indices[means >= np.nanmax(means) - TIE_TOLERANCE]
    facts = zip(
        results["mean_n_components"][tied],
        -results["mean_ridge"][tied],
        -results["mean_invariance_weight"][tied],
        tied.tolist(),
        strict=True,
    )
    return min(facts)[-1]


@dataclass(frozen=True)
class CandidateResult:
    """Result of a variant of a method with its best settings on each held-out part.

    Attributes
    ----------
    candidate : Candidate
        The best settings, by the mean over held-out parts.
    scores : ndarray of shape (n_splits,)
        On each held-out part, of the settings that are best on the other parts; NaN where it failed, and where the
        metric is not defined.
    seconds : float
        Cost of all settings of the variant.
    error : str
        Why there are no scores, if there are none.
    defined : ndarray of bool, default=...
        Held-out parts that count, the same for all candidates.
    scored : tuple of Candidate
        The settings that were scored on each held-out part; empty if that was always `candidate`.
    """

    candidate: Candidate
    scores: Array
    seconds: float = 0.0
    error: str = ""
    defined: Any = ...
    scored: tuple[Candidate, ...] = ()

    @property
    def mean(self) -> float:
        """Mean score over held-out parts that count."""
        return float(np.mean(self.scores[self.defined]))


def best_by_variant(
    candidates: Sequence[Candidate],
    results: dict[str, Any],
    folds: CrossFittingFolds | None = None,
    fold_results: Sequence[dict[str, Any]] | None = None,
    among: Collection[Candidate] | None = None,
) -> list[CandidateResult]:
    """The best settings of each variant, by the table of all candidates on all splits; `among` some of them.

    With `folds`, the score on a held-out part is that of the settings which are best on the parts that its fold keeps,
    by the scores of that fold if these differ. Without, it is that of the settings that are best on all parts, as a
    grid search reports it, which is optimistic. A variant that fails on some split has no mean, is never selected, and
    keeps its error. Splits on which the metric is not defined do not count.
    """
    if folds is not None and fold_results is None:
        fold_results = [restrict_results(results, kept) for kept in folds.kept]
    variants = []
    positions_by_name: dict[str, list[int]] = {}
    for i, candidate in enumerate(candidates):
        if among is None or candidate in among:
            positions_by_name.setdefault(candidate.variant, []).append(i)
    for variant in positions_by_name.values():
        best = best_index(results, variant)
        scores = results["scores"][best]
        scored: tuple[Candidate, ...] = ()
        if folds is not None and fold_results is not None:
            settings = [best_index(single_fold, variant) for single_fold in fold_results]
            positions = [settings[fold] for fold in folds.predicted_by]
            scores = results["scores"][positions, np.arange(len(positions))]
            scored = tuple(candidates[i] for i in positions)
        error = next((results["errors"][i] for i in variant if results["errors"][i]), "")
        seconds = float(sum(results["seconds"][i].sum() for i in variant))
        error = "" if np.isfinite(results["mean_test_score"][best]) else error
        variants.append(CandidateResult(candidates[best], scores, seconds, error, results["defined"], scored))
    return variants


def restrict_results(results: dict[str, Any], kept: Mask) -> dict[str, Any]:
    """The same results with means over some held-out parts only; candidates that fail anywhere have none.

    Where nothing is kept all means are 0, so that the simplest settings are preferred.
    """
    counted = results["defined"] & kept
    means = results["scores"][:, counted].mean(axis=1) if counted.any() else np.zeros(len(results["scores"]))
    has_mean = np.isfinite(results["mean_test_score"])
    return {**results, "defined": counted, "mean_test_score": np.where(has_mean, means, np.nan)}


def warn_about_failures(results: Sequence[CandidateResult]) -> None:
    """Warn why some candidates have no score, if others have one."""
    for result in results:
        if result.error and not all(other.error for other in results):
            warn(
                f"{result.candidate.variant} has no score and is left out of the selection: {result.error}",
                RuntimeWarning,
            )


def select_result(results: Sequence[CandidateResult]) -> CandidateResult:
    """The best mean, unless the best of a simpler kind is worse by at most one standard error of the difference.

    Among plain classifiers the RBF SVM is selected unless another is distinguishably better. A wide rbf kernel makes it
    a linear SVM, so it nests the linear models: where the data cannot distinguish them, it loses little if the truth is
    linear, and a linear model may lose much if it is not.
    """
    reasons = [f" {result.candidate.variant}: {result.error}" for result in results if result.error]
    scored = [result for result in results if np.isfinite(result.mean)]
    if not scored:
        first_reason = "".join(reasons[:1])
        raise ValueError(f"No model has a score on every held-out part. Check the data and the scorer.{first_reason}")
    best = max(scored, key=lambda result: (result.mean, -KINDS_BY_SIMPLICITY.index(result.candidate.kind)))
    for kind in KINDS_BY_SIMPLICITY[: KINDS_BY_SIMPLICITY.index(best.candidate.kind)]:
        simpler = [result for result in scored if result.candidate.kind == kind]
        best_simpler = max(simpler, key=lambda result: result.mean, default=None)
        if best_simpler is not None and is_within_error(best, best_simpler):
            best = best_simpler
            break
    for result in scored:
        if result.candidate.variant == "RBF SVM" and result.candidate.kind == best.candidate.kind:
            return result if is_within_error(best, result) else best
    return best


def is_within_error(better: CandidateResult, other: CandidateResult) -> bool:
    """Whether an advantage, paired by held-out part, is within one standard error of zero."""
    difference = (better.scores - other.scores)[better.defined]
    return bool(difference.mean() <= standard_error(difference))


MAX_RARE_FREQUENCY = 0.1  # accuracy hardly depends on a class that is less frequent


def describe_rare_class(counts: Mapping[Any, int]) -> str | None:
    """Describe the rarest class if accuracy hardly depends on it; `counts` are the numbers of samples of the classes.

    A class is rare if its frequency is below a tenth, and below half of that in balanced data: each of twenty balanced
    classes has a frequency of a twentieth.
    """
    rarest = min(counts, key=lambda name: counts[name])
    most_frequent = max(counts, key=lambda name: counts[name])
    total = sum(counts.values())
    if counts[rarest] / total >= min(MAX_RARE_FREQUENCY, 0.5 / len(counts)):
        return None
    return (
        f"Class {rarest} has {counts[rarest] / total:.1%} of the samples; always predicting {most_frequent} has an "
        f"accuracy of {counts[most_frequent] / total:.1%}."
    )
