"""Learning curve over domains: what further domains, or further rows of each, are worth on a new domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit
from scipy.stats import f as f_distribution

from .. import __version__
from ..linalg import Array, Ints
from ..metrics import expected_performance
from ..model_selection import (
    Candidate,
    EvaluationConfig,
    Metric,
    Scorer,
    Scoring,
    Split,
    check_metric,
    evaluate_candidates,
    expand_methods,
    full_repr,
    get_metric,
    metric_range,
    parse_methods,
    single_thread,
    softmax,
)
from ..report import draw_site_curve, format_score, render_site_curve
from ..tables import Dates, Scale, TableOptions, make_preprocessor
from ..utils.optional_imports import optional_import
from ..utils.samples import Samples
from ._protocol import Task, hash_data
from ._result import EvaluationResult
from ._run import Execution, Job, JobRunner, complete_jobs, read_data
from ._store import Row

AVERAGE = "average"  # name of the model in the results file
# Members of an average, a cheap stand-in for the ensemble: a linear and a nonlinear model, neither of which needs a
# kernel matrix.
AVERAGE_METHODS = ("logistic", "gradient boosting")
MIN_DOMAINS = 4  # curves of 1, 2 and 3 training domains are the least to fit a power law to
MAX_SIZES = 8  # numbers of training domains that are evaluated, spaced like a geometric series
MAX_SUBSETS = 20  # of each size; one for each domain if all others are used
ROW_SHARES = (0.25, 0.5)  # of the rows of each training domain
# Exponents of the power law. Error rates of many learners fall with an exponent between 0.5 and 1; the rest is caution.
EXPONENTS = np.linspace(0.2, 2.0, 37)
LEVEL = 0.95  # of intervals
N_DRAWS = 20  # of one training set for each held-out domain, over which prediction intervals are averaged
MORE_DOMAINS = (1, 2, 5, 10)


@dataclass(frozen=True)
class CurvePoint:
    """Scores on new domains of models that were trained on some number of domains.

    Attributes
    ----------
    n_domains : int
        Number of training domains.
    mean : float
        Mean score over held-out domains.
    lower, upper : float
        95% prediction interval of the score on a new domain.
    n_models : int
        Number of training sets.
    """

    n_domains: int
    mean: float
    lower: float
    upper: float
    n_models: int


@dataclass(frozen=True)
class CurveGain:
    """What more data are worth, extrapolated by a power law.

    Attributes
    ----------
    gain, lower, upper : float
        Expected change of the score on a new domain, and its 95% interval.
    """

    gain: float
    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class PowerLaw:
    """Score = limit - slope * size^-exponent, with one exponent and a limit and slope for each held-out domain.

    Attributes
    ----------
    sizes : ndarray of shape (n_sizes,)
        Sizes of the training data.
    scores : ndarray of shape (n_domains, n_sizes)
        Mean score of each held-out domain; NaN where there is none.
    """

    sizes: Array
    scores: Array

    def fit(self, exponent: float) -> tuple[Array, float]:
        """Least squares slopes of domains that have scores at two sizes or more, and the sum of squared residuals."""
        scores = self.scores[self._n_known >= 2]
        x = np.where(np.isfinite(scores), -(self.sizes**-exponent), np.nan)
        dx = x - np.nanmean(x, axis=1, keepdims=True)
        dy = scores - np.nanmean(scores, axis=1, keepdims=True)
        slopes = np.nansum(dx * dy, axis=1) / np.nansum(np.square(dx), axis=1)
        return slopes, float(np.nansum(np.square(dy - slopes[:, None] * dx)))

    @property
    def _n_known(self) -> Ints:
        """Number of sizes at which each domain has a score."""
        n_known: Ints = np.isfinite(self.scores).sum(axis=1)
        return n_known

    @cached_property
    def plausible_exponents(self) -> list[float]:
        """The exponent of least squares, then those that an F test at the 5% level does not reject."""
        errors = np.array([self.fit(exponent)[1] for exponent in EXPONENTS])
        freedom = int(np.maximum(self._n_known - 2, 0).sum()) - 1
        limit = np.inf
        if freedom >= 1:
            limit = errors.min() * (1 + f_distribution.isf(1 - LEVEL, 1, freedom) / freedom)
        return [float(EXPONENTS[errors.argmin()]), *EXPONENTS[errors <= limit].tolist()]

    def gain(self, size: float, new_size: float) -> CurveGain:
        """Change of the mean score from one size to another, with a paired t interval over held-out domains.

        The interval is the union of those of all plausible exponents, since a curve over few sizes hardly determines
        the exponent.
        """
        means = []
        halves = []
        for exponent in self.plausible_exponents:
            gains = self.fit(exponent)[0] * (size**-exponent - new_size**-exponent)
            m = len(gains)
            if m < 2:
                return CurveGain(float(gains[0]) if m else np.nan, np.nan, np.nan)
            means.append(gains.mean())
            halves.append(stdtrit(m - 1, (1 + LEVEL) / 2) * gains.std(ddof=1) / np.sqrt(m))
        lowest = np.subtract(means, halves).min()
        highest = np.add(means, halves).max()
        return CurveGain(float(means[0]), float(lowest), float(highest))


@dataclass(frozen=True, eq=False, repr=False)
class SiteLearningCurve(EvaluationResult):
    """The expected score on a new domain against the number of training domains; see `unseen.site_learning_curve`.

    Attributes
    ----------
    domains : tuple of str
        The domains.
    metric : Metric
        The metric; larger is better.
    methods : tuple of str
        The models whose mean was evaluated.
    points : tuple of CurvePoint
        The scores at each number of training domains.
    by_sites, by_rows : PowerLaw
        The curves over numbers of training domains, and over shares of the rows of each.
    """

    domains: tuple[str, ...]
    metric: Metric
    methods: tuple[str, ...]
    points: tuple[CurvePoint, ...]
    by_sites: PowerLaw
    by_rows: PowerLaw

    def gain(self, n_more: int) -> CurveGain:
        """What further domains are worth to a model of all domains."""
        m = len(self.domains)
        return self.by_sites.gain(m, m + n_more)

    @property
    def row_gain(self) -> CurveGain:
        """What twice the rows of each domain are worth."""
        return self.by_rows.gain(1.0, 2.0)

    def predict(self, n_domains: int) -> CurvePoint:
        """Expected score, with its prediction interval, on a new domain for a model of this number of domains.

        Beyond the evaluated numbers the last point is moved by the power law: the ends of its prediction interval by
        the ends of the interval of the gain.

        Parameters
        ----------
        n_domains : int
            Number of training domains, at least the largest that was evaluated, which is one less than all.
        """
        last = self.points[-1]
        if n_domains < last.n_domains:
            raise ValueError(f"n_domains must be at least {last.n_domains}; got {n_domains}. See points for fewer.")
        gain = self.by_sites.gain(last.n_domains, n_domains)
        values = last.mean + gain.gain, last.lower + gain.lower, last.upper + gain.upper
        mean, lower, upper = np.clip(values, *metric_range(self.metric.scoring)).tolist()
        return CurvePoint(n_domains, mean, min(lower, mean), max(upper, mean), 0)

    def sentences(self) -> list[str]:
        """Return what the curve says in sentences."""
        percent = self.metric.percent
        unit = "%" * percent
        now = self.predict(len(self.domains))
        score, lower, upper = (f"{format_score(value, percent)}{unit}" for value in (now.mean, now.lower, now.upper))

        def format_gain(gain: CurveGain) -> str:
            values = (gain.gain, gain.lower, gain.upper)
            mean, low, high = (format_score(value, percent, signed=True) for value in values)
            return f"{mean}{' points' * percent} ({low} to {high})"

        return [
            f"A model of these {len(self.domains)} domains reaches {score} {self.metric.label} on a new domain, 95% "
            f"prediction interval {lower} to {upper}. The model is the mean of {' and '.join(self.methods)}.",
            f"Expected gain from two more domains: {format_gain(self.gain(2))}; from twice the rows of each domain: "
            f"{format_gain(self.row_gain)}.",
            "The gains are extrapolated by a power law over subsets of domains, and assume further domains like these.",
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON and the figure."""
        m = len(self.domains)
        sizes = [m, *(m + n for n in MORE_DOMAINS)]
        exponents = self.by_sites.plausible_exponents
        return {
            "domains": list(self.domains),
            "metric": self.metric.label,
            "is_percent": self.metric.percent,
            "methods": list(self.methods),
            "points": [asdict(point) for point in self.points],
            "extrapolated": [asdict(self.predict(size)) for size in sizes],
            "gains": [{"more_domains": n, **asdict(self.gain(n))} for n in MORE_DOMAINS],
            "row_gain": asdict(self.row_gain),
            "row_points": [
                {"share": share, "mean": mean}
                for share, mean in zip(
                    self.by_rows.sizes.tolist(), np.nanmean(self.by_rows.scores, axis=0).tolist(), strict=True
                )
            ],
            "exponent": [exponents[0], min(exponents), max(exponents)],
            "sentences": self.sentences(),
        }

    def records(self) -> list[dict[str, Any]]:
        """Return a record for each point and each extrapolated one."""
        summary = self.to_dict()
        return [
            {**point, "extrapolated": name == "extrapolated"}
            for name in ("points", "extrapolated")
            for point in summary[name]
        ]

    def to_frame(self) -> Any:
        """Return the points and the extrapolation as a pandas DataFrame."""
        return optional_import("pandas", "to_frame()").DataFrame(self.records())

    def plot(self, figure: Any = None) -> Any:
        """Draw the curve with its prediction intervals.

        Parameters
        ----------
        figure : matplotlib Figure or SubFigure, default=None
            Figure to draw on; None creates one.

        Returns
        -------
        figure : matplotlib Figure or SubFigure
            The figure.
        """
        return draw_site_curve(self.to_dict(), figure)

    def to_html(self) -> str:
        """Return the sentences and the points as one self-contained page.

        Returns
        -------
        page : str
            HTML.
        """
        return render_site_curve(self.to_dict())

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def __repr__(self) -> str:
        return f"<SiteLearningCurve: {len(self.domains)} domains, {self.metric.label}>"


def site_learning_curve(
    data: Any,
    y: Any = None,
    *,
    sample_domain: Any = None,
    label: str | None = None,
    domain: str | None = None,
    group: str | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    unlabeled: str | int | None = None,
    dates: Dates = "drop",
    categories: Sequence[str] | None = None,
    missing: Mapping[str, Any] | None = None,
    max_per_domain: int | None = None,
    scale: Scale = "standardize",
    methods: Sequence[Any] = AVERAGE_METHODS,
    metric: str = "accuracy",
    store: str | Path | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> SiteLearningCurve:
    """Estimate what further domains, and further rows of each domain, are worth on a new domain.

    Models are trained on subsets of the domains and evaluated on the domains that are not in the subset. A power law
    is fitted to the scores of each held-out domain against the number of training domains, and extrapolated. The same
    is done with random halves and quarters of the rows of the training domains.

    Parameters
    ----------
    data : DataFrame, dict, list of dict, str, path, Table or array-like
        A table with columns of labels and domains, or samples with `y` and `sample_domain`.
    y, sample_domain : array-like of shape (n_samples,), default=None
        Classes and domains of samples, unless they are columns of a table.
    label, domain, group, features, drop, unlabeled, dates, categories, missing, max_per_domain
        The roles of the columns and the rows to use, as for :func:`unseen.tables.load_table`.
    scale : {"standardize", "l2", "none"}, default="standardize"
        See :func:`unseen.tables.make_preprocessor`.
    methods : sequence of str, default=("logistic", "gradient boosting")
        Models whose mean probabilities are evaluated, each with one setting: names in
        `unseen.model_selection.METHODS`. The default is cheap; the ensemble of :func:`unseen.fit` is as a rule a little
        better, at every number of domains.
    metric : str, default="accuracy"
        The score: see :func:`unseen.fit`.
    store : str or path, default=None
        File of results, from which an interrupted computation continues; other data and settings in it are kept apart.
        None stores no results.
    random_state : int, default=0
        Seed of the subsets.
    n_jobs : int, default=None
        Number of processes.
    verbose : int, default=0
        1 shows progress.

    Returns
    -------
    curve : SiteLearningCurve
        Points with prediction intervals, and gains. ``print`` shows sentences.

    Examples
    --------
    >>> from unseen import site_learning_curve
    >>> from unseen.datasets import load_digits_table
    >>> curve = site_learning_curve(load_digits_table(), max_per_domain=40, methods=["logistic"])
    >>> [point.n_domains for point in curve.points]
    [1, 2, 3, 4, 5]
    """
    options = TableOptions(
        label=label,
        domain=domain,
        group=group,
        features=features,
        drop=drop,
        unlabeled=unlabeled,
        dates=dates,
        categories=categories,
        missing=missing,
        max_per_domain=max_per_domain,
        seed=random_state,
    )
    table = read_data(data, y, sample_domain, options, "site_learning_curve")
    samples = table.samples
    domains = np.unique(table.domain).tolist()
    m = len(domains)
    if m < MIN_DOMAINS:
        raise ValueError(
            f"A learning curve over domains needs at least {MIN_DOMAINS} domains, since it trains on subsets of them "
            f"and holds others out; there are {m}."
        )
    chosen = get_metric(metric)
    check_metric(chosen.scoring, samples.classes)
    candidates = make_average_candidates(methods, len(samples.classes))
    rng = np.random.default_rng(random_state)
    subsets = make_subsets(m, rng)
    training_sets = [np.flatnonzero(np.isin(samples.domain_codes, subset)) for subset in subsets]
    training_sizes = [float(len(subset)) for subset in subsets]
    for share in ROW_SHARES:
        rows = _draw_share(samples, share, rng)
        training_sets += [rows[samples.domain_codes[rows] != d] for d in range(m)]
        training_sizes += [share] * m
    preparation = make_preprocessor(table.schema, scale)
    jobs = []
    for i, rows in enumerate(training_sets):  # the number of a training set is the repeat of its job
        sources = np.unique(samples.domain[rows]).tolist()
        task = Task(tuple(sources), tuple(name for name in domains if name not in sources))
        jobs.append(Job(task, i, (AVERAGE,)))
    configuration = {
        "learning curve": [candidate.key for candidate in candidates],
        "data": hash_data(samples),
        "scale": full_repr(preparation),
        "metric": full_repr(chosen.scoring),
        "seed": random_state,
        "unseen": __version__,
    }
    runner = SubsetRunner(
        samples, training_sets, candidates, EvaluationConfig(preparation), chosen.scoring, {AVERAGE: configuration}
    )
    completed = complete_jobs(runner, jobs, Execution(store, n_jobs, verbose))
    by_set = np.full((len(jobs), m), np.nan)
    rows_by_job = [completed[job.task.name, AVERAGE, job.repeat] for job in jobs]
    for i, row in enumerate(rows_by_job):
        for name, score in row.accuracies.items():
            by_set[i, domains.index(name)] = score
    if all(row.status == "failed" for row in rows_by_job):
        raise ValueError(f"No model could be fitted. First reason: {rows_by_job[0].reason}")
    names = tuple(candidate.method for candidate in candidates)
    return make_curve(tuple(domains), chosen, names, np.array(training_sizes), by_set, len(subsets), random_state)


@dataclass(frozen=True)
class SubsetRunner(JobRunner):
    """Samples, training sets and models: what every job needs."""

    samples: Samples
    training_sets: Sequence[Ints]
    candidates: Sequence[Candidate]
    config: EvaluationConfig
    scoring: Scoring
    configurations: Mapping[str, dict[str, Any]]

    def predict(self, job: Job) -> list[Row]:
        """Scores of one training set on the domains that it holds out; NaN where the metric is not defined."""
        train = self.training_sets[job.repeat]
        splits = [(train, np.flatnonzero(self.samples.domain == name)) for name in job.task.targets]
        row = Row(AVERAGE, job.task.name, job.task.targets, job.repeat)
        scorer = Scorer(self.scoring, self.samples, splits)
        accuracies = {}
        with single_thread():
            averages = predict_averages(self.candidates, self.samples, splits, self.config)
        for k, (P, error) in enumerate(averages):
            if P is None:
                return [replace(row, status="failed", reason=error)]
            accuracies[job.task.targets[k]] = float(scorer.score_probabilities(k, P))
        return [replace(row, accuracies=accuracies)]


def make_average_candidates(methods: Sequence[Any], n_classes: int) -> list[Candidate]:
    """Make the candidates of an average: the middle one of the settings of each method in the automatic ensemble.

    For logistic regression that is C=1. Methods that need batches of a new domain are an error, since rows are
    predicted one by one.
    """
    candidates = []
    for method in expand_methods(parse_methods(list(methods)), transductive=False):
        settings = list(method.candidates(n_classes, grid="ensemble", heads=("logistic",)))
        candidates.append(settings[len(settings) // 2])
    return candidates


def predict_averages(
    candidates: Sequence[Candidate], samples: Samples, splits: Sequence[Split], config: EvaluationConfig
) -> list[tuple[Array | None, str]]:
    """Predict the held-out rows of each split by the mean probabilities of candidates.

    Where no candidate could be fitted, such as to rows of a single class, there is the reason instead.
    """
    fitted: list[list[Array]] = [[] for _ in splits]
    errors = [""] * len(splits)
    for prediction in evaluate_candidates(candidates, samples, splits, config, with_decision_scores=True):
        if prediction.codes is None:
            errors[prediction.split] = errors[prediction.split] or prediction.error
        else:
            fitted[prediction.split].append(softmax(prediction.responses["decision_scores"]))
    return [
        (sum(parts[1:], start=parts[0]) / len(parts) if parts else None, error)
        for parts, error in zip(fitted, errors, strict=True)
    ]


def make_subsets(m: int, rng: np.random.Generator) -> list[Ints]:
    """Make subsets of m domains to train on: for each size, neighbors on a random circle, so that all occur equally.

    Of the largest size, m - 1, there are all m subsets; of the others at most 20.
    """
    sizes = np.unique(np.round(np.geomspace(1, m - 1, MAX_SIZES)).astype(int))
    subsets: dict[tuple[int, ...], Ints] = {}
    for size in sizes.tolist():
        circle = rng.permutation(m)
        starts = np.arange(m) if size == m - 1 else rng.permutation(m)[:MAX_SUBSETS]
        for start in starts.tolist():
            subset = np.sort(np.roll(circle, -start)[:size])
            subsets[tuple(subset.tolist())] = subset
    return list(subsets.values())


def _draw_share(samples: Samples, share: float, rng: np.random.Generator) -> Ints:
    """Draw a share of the rows of each class in each domain, at least one."""
    cells = samples.domain_codes * len(samples.classes) + samples.codes
    drawn = []
    for cell in np.unique(cells):
        rows = np.flatnonzero(cells == cell)
        drawn.append(rng.permutation(rows)[: max(int(np.ceil(share * len(rows))), 1)])
    return np.sort(np.concatenate(drawn))


def make_curve(
    domains: tuple[str, ...],
    metric: Metric,
    methods: tuple[str, ...],
    training_sizes: Array,
    by_set: Array,
    n_subsets: int,
    random_state: int = 0,
) -> SiteLearningCurve:
    """Make a learning curve of scores.

    Parameters
    ----------
    domains, metric, methods
        Names.
    training_sizes : ndarray of shape (n_sets,)
        Number of domains of each subset of domains, then the share of rows of each sample of rows.
    by_set : ndarray of shape (n_sets, n_domains)
        Score of each training set on each domain; NaN where the domain was in training or there is no score.
    n_subsets : int
        How many of the training sets are subsets of domains.
    random_state : int, default=0
        Seed of the draws over which prediction intervals are averaged.
    """
    m = len(domains)
    subsets = by_set[:n_subsets]
    sizes = np.unique(training_sizes[:n_subsets])
    rng = np.random.default_rng(random_state)
    bounds = metric_range(metric.scoring)
    curve = np.full((m, len(sizes)), np.nan)
    points = []
    for i, size in enumerate(sizes):
        own = subsets[training_sizes[:n_subsets] == size]
        curve[:, i] = np.ma.masked_invalid(own).mean(axis=0).filled(np.nan)
        if np.isfinite(curve[:, i]).sum() >= 2:
            lower, upper = _prediction_interval(own, bounds, rng)
            points.append(CurvePoint(int(size), float(np.nanmean(curve[:, i])), lower, upper, len(own)))
    if not points or points[-1].n_domains != m - 1:
        raise ValueError(f"{metric.label} is not defined on enough domains for a learning curve. Use another metric.")
    shares = np.unique(training_sizes[n_subsets:])
    row_scores = [np.nanmax(by_set[n_subsets:][training_sizes[n_subsets:] == share], axis=0) for share in shares]
    by_rows = PowerLaw(np.array([*shares, 1.0]), np.column_stack([*row_scores, curve[:, -1]]))
    return SiteLearningCurve(domains, metric, methods, tuple(points), PowerLaw(sizes, curve), by_rows)


def _prediction_interval(scores: Array, bounds: tuple[float, float], rng: np.random.Generator) -> tuple[float, float]:
    """Interval for the score on a new domain, from scores of training sets (rows) on domains (columns).

    Each draw takes one training set for each held-out domain, so that differences between training sets count as well
    as differences between domains; the ends are averaged over draws.
    """
    tested = [column[np.isfinite(column)] for column in scores.T]
    tested = [column for column in tested if len(column)]
    n_draws = 1 if all(len(column) == 1 for column in tested) else N_DRAWS
    ends = []
    for _ in range(n_draws):
        drawn = np.array([rng.choice(column) for column in tested])
        ends.append(expected_performance(drawn, metric_range=bounds, level=LEVEL).prediction_interval)
    lower, upper = np.mean(ends, axis=0)
    return float(lower), float(upper)
