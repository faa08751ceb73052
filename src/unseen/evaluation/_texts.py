"""Texts of a validation: a page for colleagues in plain language, paragraphs for a paper, a reporting checklist."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from ..report import format_number
from ._measures import MEASURES, MeasureSummary

if TYPE_CHECKING:
    from ._result import ValidationResult

# In alphabetical order; the keys are those of the texts below.
REFERENCES = {
    "Debray 2017": "Debray et al. (2017), A guide to systematic review and meta-analysis of prediction model "
    "performance, BMJ 356:i6460.",
    "Debray 2019": "Debray et al. (2019), A framework for meta-analysis of prediction model studies with binary and "
    "time-to-event outcomes, Statistical Methods in Medical Research 28:2768-2786.",
    "DeLong 1988": "DeLong, DeLong and Clarke-Pearson (1988), Comparing the areas under two or more correlated "
    "receiver operating characteristic curves, Biometrics 44:837-845.",
    "Hartung 2001": "Hartung and Knapp (2001), A refined method for the meta-analysis of controlled clinical trials "
    "with binary outcome, Statistics in Medicine 20:3875-3889.",
    "Nagashima 2019": "Nagashima, Noma and Furukawa (2019), Prediction intervals for random-effects meta-analysis: A "
    "confidence distribution approach, Statistical Methods in Medical Research 28:1689-1702.",
    "Röver 2021": "Röver et al. (2021), On weakly informative prior distributions for the heterogeneity parameter in "
    "Bayesian random-effects meta-analysis, Research Synthesis Methods 12:448-474.",
    "Stijnen 2010": "Stijnen, Hamza and Özdemir (2010), Random effects meta-analysis of event outcome in the framework "
    "of the generalized linear mixed model with applications in sparse data, Statistics in Medicine 29:3046-3067.",
    "Steyerberg 2016": "Steyerberg and Harrell (2016), Prediction models need appropriate internal, internal-external, "
    "and external validation, Journal of Clinical Epidemiology 69:245-247.",
    "Vickers 2006": "Vickers and Elkin (2006), Decision curve analysis: A novel method for evaluating prediction "
    "models, Medical Decision Making 26:565-574.",
    "Viechtbauer 2005": "Viechtbauer (2005), Bias and efficiency of meta-analytic variance estimators in the "
    "random-effects model, Journal of Educational and Behavioral Statistics 30:261-293.",
    "Wilson 1927": "Wilson (1927), Probable inference, the law of succession, and statistical inference, Journal of "
    "the American Statistical Association 22:209-212.",
}
MAX_NAMED_SITES = 4


def interval_text(ends: tuple[float, float], digits: int = 2) -> str:
    """Format an interval."""
    return f"{format_number(ends[0], digits)} to {format_number(ends[1], digits)}"


def per_hundred(share: float) -> str:
    """Format a share as a number out of 100."""
    return f"{100 * share:.0f}"


def list_sites(names: Sequence[str]) -> str:
    """List the first names."""
    shown = list(names[:MAX_NAMED_SITES])
    if len(names) > MAX_NAMED_SITES:
        return f"{', '.join(shown)} and {len(names) - MAX_NAMED_SITES} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def describe_for_colleagues(result: ValidationResult) -> list[dict[str, Any]]:
    """One page in plain language: the main figures, what was tested, what to use, what to expect, what to doubt."""
    expectations = _expect_binary(result) if result.is_binary else _expect_multiclass(result)
    several = len(result.site_names) > 1
    parts: list[dict[str, Any]] = [
        {"heading": "In short", "sentences": _describe_main_figures(result)},
        {"heading": "What was tested", "sentences": _describe_test(result)},
        {"heading": "What to use", "sentences": _describe_choice(result)},
        {"heading": "What to expect at a new site" if several else "Performance", "sentences": expectations},
        {"heading": "When not to trust it", "sentences": _describe_limits(result)},
    ]
    return [part for part in parts if part["sentences"]]


def _describe_main_figures(result: ValidationResult) -> list[str]:
    """Discrimination and calibration in one line, and what the intervals of the latter allow to conclude."""
    if not result.is_binary:
        return []
    summaries = [result.get_summary(name) for name in ("auc", "calibration_slope", "observed_expected")]
    figures = [
        f"{label} {format_number(one.value, 2)} ({interval_text(one.interval)})"
        for label, one in zip(("AUC", "calibration slope", "observed:expected ratio"), summaries, strict=True)
        if one.is_defined
    ]
    sentences = [f"{', '.join(figures)}, each with its {result.settings.level:.0%} confidence interval."]
    slope, ratio = summaries[1:]
    high_risks = {"below": "too extreme: high ones too high, low ones too low", "above": "too cautious"}
    for one, meaning in ((ratio, {"below": "too high", "above": "too low"}), (slope, high_risks)):
        side = _side_of_one(one.interval)
        if one.is_defined and side:
            sentences.append(f"On average over sites, predicted risks are {meaning[side]}.")
    return sentences


def _side_of_one(interval: tuple[float, float]) -> str:
    """Side of 1 on which an interval lies; empty if it contains 1 or is not defined."""
    if interval[1] < 1:
        return "below"
    return "above" if interval[0] > 1 else ""


def _describe_test(result: ValidationResult) -> list[str]:
    n_sites = len(result.site_names)
    rows = f"{len(result.table.y):,} {result.unit} from {n_sites} site{'s' if n_sites > 1 else ''}"
    sentences = []
    if result.is_binary:
        n_events = int(result.events.sum())
        sentences.append(
            f"A model predicts how likely {result.event} is. It was tested on {rows}, of which {n_events:,} "
            f"({100 * n_events / len(result.table.y):.1f}%) have it."
        )
    else:
        sentences.append(
            f"A model predicts which of {len(result.classes)} classes {result.unit} have. It was tested on {rows}."
        )
    if result.settings.external:
        sentences.append(
            f"The model “{result.settings.external}” was built before from other sites and was applied without change."
        )
    else:
        sentences.append(
            "Every site was left out once: the model was built from the other sites alone and then applied to the "
            "site that was left out. The results therefore show how the model does at a site that it has never seen."
        )
    return sentences


def _describe_choice(result: ValidationResult) -> list[str]:
    """The recommendation, and the differences from other methods with their intervals."""
    if result.recommendation is None:
        return []
    sentences = [result.recommendation.sentence]
    differences = _list_differences(result, "{1} {0} ({2})")
    if differences:
        what = "AUC" if result.is_binary else "log loss"
        sentences.append(
            f"Mean difference in {what} over sites of {result.settings.method}, whose results are on this page, from "
            f"others, with {result.settings.level:.0%} interval: {', '.join(differences)}."
        )
    return sentences


def _expect_binary(result: ValidationResult) -> list[str]:
    sentences = []
    unit = result.unit
    auc = result.get_summary("auc")
    if auc.is_defined:
        sentences.append(
            f"Of two {unit}, one with {result.event} and one without, the model gives the higher risk to the one with "
            f"it in about {per_hundred(auc.value)} of 100 such pairs{_new_site(auc)}; 50 would be chance."
        )
    thresholds = [one["threshold"] for one in result.site_records if one["threshold"] is not None]
    sensitivity = result.get_summary("sensitivity")
    specificity = result.get_summary("specificity")
    if thresholds and sensitivity.is_defined and specificity.is_defined:
        sentences.append(
            f"If {unit} with a risk of {_threshold_text(thresholds)} or more are flagged"
            f"{_aim_text(result.settings.aim)}, about {per_hundred(sensitivity.value)} of 100 {unit} with "
            f"{result.event} are flagged{_new_site(sensitivity)}, and about {per_hundred(1 - specificity.value)} of "
            f"100 without it are false alarms{_new_site(specificity, is_complement=True)}."
        )
    sentences += _describe_net_benefit(result)
    ratio = result.get_summary("observed_expected")
    if ratio.is_defined:
        sentences.append(
            f"Where the model predicts 100 events in total, about {100 * ratio.value:.0f} are observed"
            f"{_new_site(ratio)}. Before risks are used as numbers at a new site, compare them with its first results."
        )
    sentences += [f"{one.explanation}." for one in (auc, sensitivity, specificity) if one.explanation]
    return sentences


def _describe_net_benefit(result: ValidationResult) -> list[str]:
    """Whether the model is more useful than flagging nobody and than flagging everybody, at the stated odds."""
    against = {"nobody": result.get_summary("net_benefit"), "everybody": result.get_summary("net_benefit_over_all")}
    if not all(one.is_defined for one in against.values()):
        return []
    parts = []
    for whom, one in against.items():
        if one.interval[0] > 0:
            verdict = "more useful than"
        elif one.interval[1] < 0:
            verdict = "less useful than"
        else:
            verdict = "not clearly different from"
        parts.append(
            f"{verdict} flagging {whom} (net benefit per 100 {result.unit} {format_number(100 * one.value, 1)}, "
            f"{interval_text((100 * one.interval[0], 100 * one.interval[1]), 1)})"
        )
    weight = f"a missed event counts {format_number(1 / result.odds, 1)} times a false alarm"
    return [f"If {weight}, the model is {' and '.join(parts)}."]


def _expect_multiclass(result: ValidationResult) -> list[str]:
    sentences = []
    for name in result.classes.tolist():
        auc = result.get_summary("auc", of_class=name)
        if auc.is_defined:
            sentences.append(
                f"Take one row of the class “{name}” and one of another class at random: the model ranks them "
                f"correctly in about {per_hundred(auc.value)} of 100 such pairs{_new_site(auc)}."
            )
    return sentences


def _new_site(summary: MeasureSummary, *, is_complement: bool = False) -> str:
    """The range of a share, or of its complement, for a new site, in parentheses; empty if there are too few sites."""
    if not summary.has_range:
        return ""
    low, high = summary.prediction_interval
    if is_complement:
        low, high = 1 - high, 1 - low
    return f" (at a new site likely {per_hundred(low)} to {per_hundred(high)})"


def _threshold_text(thresholds: Sequence[float]) -> str:
    low, high = min(thresholds), max(thresholds)
    if high - low < 0.005:
        return f"{100 * low:.0f}%"
    return f"{100 * float(np.median(thresholds)):.0f}% ({100 * low:.0f}% to {100 * high:.0f}%, depending on the site)"


def _aim_text(aim: str | float | None) -> str:
    if aim is None or not isinstance(aim, str):
        return ""
    name, _, value = aim.partition("=")
    if name == "youden":
        return ", the threshold with the largest sum of sensitivity and specificity at the other sites"
    if name == "cost":
        misses, alarms = value.split(":")
        return f", chosen at the other sites so that a missed event costs {misses} and a false alarm {alarms}"
    if name in ("sensitivity", "specificity"):
        return f", chosen for a {name} of {float(value):.0%} at the other sites"
    return ""


def _describe_limits(result: ValidationResult) -> list[str]:
    sentences = []
    unit = result.unit
    failed = [one["site"] for one in result.site_records if one["failure"]]
    if failed:
        sentences.append(f"No model could be built without {list_sites(failed)}, so nothing is known about it there.")
    if result.is_binary:
        sentences += _calibration_limits(result)
        by_site = result.estimates[result.settings.method, "auc", result.settings.positive]
        aucs = {site: estimate for site, estimate in by_site.items() if np.isfinite(estimate.value)}
        if len(aucs) > 1:
            worst = min(aucs, key=lambda site: aucs[site].value)
            sentences.append(
                f"The lowest AUC was that of {worst}: {format_number(aucs[worst].value, 2)} "
                f"({interval_text(aucs[worst].interval)}). A new site can be as weak."
            )
        shares = [one["prevalence"] for one in result.site_records]
        sentences.append(
            f"The event occurs in {100 * min(shares):.1f}% to {100 * max(shares):.1f}% of {unit} of these sites. Where "
            "it is much rarer or more frequent, predicted risks and predictive values are not tested."
        )
    sentences += _size_limits(result)
    if result.has_repeated_units:
        sentences.append(
            f"Some {unit} belong to the same group, such as a patient. Standard errors within sites treat them as "
            "independent, so intervals of single sites are too narrow; summaries over sites are affected less."
        )
    if len(result.site_names) > 1:
        sentences.append(
            "The ranges hold for a site that differs from these sites as they differ from each other. They do not hold "
            "for one that measures other things, selects other people, or defines the outcome differently."
        )
    return sentences


def _size_limits(result: ValidationResult) -> list[str]:
    """Sites that are too small for precise results, and the number of rows that the model needs."""
    sentences = []
    few = [one["site"] for one in result.site_records if one["few_events"]]
    if few:
        n_sites = len(result.site_names)
        which = "All sites have" if len(few) == n_sites else f"{len(few)} of {n_sites} sites ({list_sites(few)}) have"
        if n_sites == 1:
            which = "The site has"
        what = "events or fewer than 100 non-events" if result.is_binary else "rows of the rarest class"
        sentences.append(f"{which} fewer than 100 {what}: their own results are imprecise.")
    size = result.development_size
    if size is not None and not result.settings.external:
        largest = max(one["rows"] for one in result.site_records)
        n_training = len(result.table.y) - largest
        verdict = "is enough" if n_training >= size.n_rows else "is too few"
        sentences.append(
            f"A regression model with {size.n_parameters} parameters needs about {size.n_rows:,.0f} {result.unit} "
            f"(Riley's criteria at R² {format_number(size.r2, 2)}); {n_training:,} or more were used, which {verdict}."
        )
    return sentences


def _calibration_limits(result: ValidationResult) -> list[str]:
    """Name the sites whose intervals exclude calibrated risks."""
    sentences = []
    for name, below, above in (
        ("observed_expected", "clearly too high", "clearly too low"),
        ("calibration_slope", "clearly too extreme (high ones too high, low ones too low)", "clearly too cautious"),
    ):
        for side, meaning in (("above", above), ("below", below)):
            by_site = result.estimates[result.settings.method, name, result.settings.positive]
            sites = [site for site, estimate in by_site.items() if _side_of_one(estimate.interval) == side]
            if sites:
                sentences.append(f"Predicted risks were {meaning} at {list_sites(sites)}.")
    return sentences


def describe_methods(result: ValidationResult) -> list[str]:
    """Paragraphs for the Methods section of a paper, and the references."""
    settings = result.settings
    facts = settings.facts
    n_sites = len(result.site_names)
    level = f"{settings.level:.0%}"
    if settings.method == "auto":
        model = (
            f"The model was the default of the software unseen (version {facts.get('version', '')}): a weighted "
            "average of the predicted probabilities of several classifiers. Their settings, weights and the "
            "temperature that calibrates them were selected on held-out training sites"
        )
    else:
        model = (
            f"The model was “{settings.method}”, fitted with the software unseen (version {facts.get('version', '')}). "
            "Its settings and the temperature that calibrates its probabilities were selected on held-out training "
            "sites"
        )
    preprocessing = ""
    columns = result.table.schema.feature_names
    if columns:
        preprocessing = (
            f" Predictors were the {len(columns)} columns listed in the report; missing numbers were replaced "
            "by the median, and missing categories were treated as a category."
        )
    if settings.external:
        design = (
            f"We validated the frozen model “{settings.external}” externally on {n_sites} site"
            f"{'s' if n_sites > 1 else ''} that it was not built from; it was applied without change, with the "
            f"software unseen (version {facts.get('version', '')}).{preprocessing}"
        )
    else:
        design = (
            f"We validated the model by internal-external cross-validation (Steyerberg 2016): each of {n_sites} sites "
            f"was left out in turn, the complete procedure was repeated on the remaining {n_sites - 1} sites, and the "
            f"resulting model predicted the site left out. {model}, so that no information about the site left out was "
            f"used.{preprocessing}"
        )
    if facts.get("design"):
        design += f" {facts['design']}"
    keys = ["DeLong 1988", "Debray 2017"]
    if not settings.external:
        keys.append("Steyerberg 2016")
    if result.is_binary:
        keys += ["Wilson 1927", "Vickers 2006"]
        measures = (
            f"For each site we report the area under the ROC curve (AUC) with DeLong's standard error (DeLong 1988), "
            "calibration in the large and the calibration slope from logistic recalibration, the ratio of observed to "
            "expected events (Debray 2017), the Brier score and its scaled version, and, at a decision threshold, "
            "sensitivity, specificity and predictive values with Wilson's intervals (Wilson 1927) and net benefit "
            "(Vickers 2006) against flagging no row and against flagging every row. The event was "
            f"“{settings.event or settings.positive}”. {_describe_threshold(settings.aim)} In net benefit, a false "
            f"positive has {format_number(result.odds, 3)} times the weight of a missed event. Calibration curves are "
            "restricted cubic splines of the logit of the predicted probability."
        )
    else:
        measures = (
            "For each site we report the log loss and, for each class against all others, the area under the ROC curve "
            "(AUC) with DeLong's standard error (DeLong 1988), calibration in the large, the calibration slope and the "
            "ratio of observed to expected rows (Debray 2017)."
        )
    prior = ""
    if settings.use_prior:
        keys.append("Röver 2021")
        prior = (
            " The standard deviation between sites had a half-normal prior, of scale 0.5 for log odds and 1.5 for the "
            "logarithm of the observed:expected ratio (Röver 2021, Debray 2019); intervals are then posterior "
            "quantiles."
        )
    pooling = []
    if n_sites > 1:
        keys += ["Nagashima 2019", "Stijnen 2010", "Viechtbauer 2005", "Hartung 2001", "Debray 2019"]
        pooling = [
            "Sensitivity, specificity and predictive values were summarized over sites by a binomial random-effects "
            "model with a logit link, observed:expected ratios by a Poisson random-effects model with a log link and "
            "the expected number as an offset, both fitted by maximum likelihood with adaptive Gauss-Hermite "
            "quadrature, without a correction of zero cells (Stijnen 2010). Other measures were summarized by their "
            "standard errors within sites: restricted maximum likelihood (Viechtbauer 2005) and the Hartung-Knapp "
            f"{level} confidence interval (Hartung 2001), on the logit scale for the AUC and the Brier score, on the "
            "scale of their range for net benefit and the scaled Brier score, and as they are for calibration in the "
            f"large and the slope (Debray 2019). All intervals have {n_sites - 1} degrees of freedom, the number of "
            f"sites minus 1. {level} prediction intervals for a new site average over the confidence distribution of "
            "the standard deviation between sites, tau, which follows from the chi-square distribution of the "
            f"heterogeneity statistic (Nagashima 2019).{prior}"
        ]
    if result.has_repeated_units:
        pooling.append("Standard errors within sites treat rows of the same group as independent.")
    references = "References: " + " ".join(REFERENCES[key] for key in sorted(keys, key=str.lower))
    return [design, measures, *pooling, references]


def _describe_threshold(aim: str | float | None) -> str:
    if aim is None:
        return "The threshold was 0.5."
    if not isinstance(aim, str):
        return f"The threshold was {aim}."
    return (
        f"The threshold was chosen for the aim “{aim}” on out-of-domain predictions of the training sites, each of "
        "which had the same weight; the site left out was not used."
    )


def describe_results(result: ValidationResult) -> list[str]:
    """Paragraphs for the Results section of a paper."""
    settings = result.settings
    sites = result.site_records
    sizes = [one["rows"] for one in sites]
    unit = result.unit
    text = f"The {len(sites)} sites had {min(sizes):,} to {max(sizes):,} {unit} ({len(result.table.y):,} in total)"
    if len(sites) == 1:
        text = f"The site had {sizes[0]:,} {unit}"
    if result.is_binary:
        n_events = int(result.events.sum())
        shares = [one["prevalence"] for one in sites]
        text += (
            f", of which {n_events:,} had the event ({100 * n_events / len(result.table.y):.1f}%; "
            f"{100 * min(shares):.1f}% to {100 * max(shares):.1f}% by site)"
        )
    paragraphs = [f"{text}."]
    level = f"{settings.level:.0%}"
    sentences = []
    for (method, measure, of_class), one in result.summaries.items():
        if method != settings.method or not one.is_defined:
            continue
        label = MEASURES[measure].label
        if not result.is_binary and of_class is not None:
            label = f"{label} of class “{of_class}”"
        text = f"{label}: {format_number(one.value, 2)} ({level} CI {interval_text(one.interval)}"
        if one.effects is not None:
            text += (
                f"; {level} prediction interval {interval_text(one.prediction_interval)}; tau "
                f"{format_number(one.effects.tau, 2)}, I² {format_number(100 * one.effects.i2, 0)}%"
            )
        if one.effects is not None and one.n_dropped:
            text += f"; not defined at {one.n_dropped} site{'s' * (one.n_dropped > 1)}"
        sentences.append(f"{text}).")
    title = "Summary over sites" if len(sites) > 1 else "Performance"
    paragraphs.append(f"{title}. " + " ".join(sentences))
    differences = _list_differences(result, "{} against “{}” ({})")
    if differences:
        what = "AUC" if result.is_binary else "log loss"
        paragraphs.append(f"The mean difference in {what} over sites, with {level} CI, was {'; '.join(differences)}.")
    return paragraphs


def _list_differences(result: ValidationResult, template: str) -> list[str]:
    """Format the differences from other methods with their intervals."""
    return [
        template.format(
            format_number(record["difference"], 3),
            record["method"],
            interval_text((record["low"], record["high"]), 3),
        )
        for record in result.comparison_records
        if np.isfinite(record["difference"])
    ]


AUTHOR = "AUTHOR: "


def make_checklist(result: ValidationResult) -> list[dict[str, str]]:
    """Items of TRIPOD-Cluster and TRIPOD+AI with their section, and the answer or what the author has to add.

    The items are worded for this report; the original checklists are those of Debray et al. (2023), BMJ 380:e071018,
    and Collins et al. (2024), BMJ 385:e078378.
    """
    settings = result.settings
    sites = result.site_records
    size = result.development_size
    columns = result.table.schema.feature_names
    is_external = bool(settings.external)
    missing = [one["missing_share"] for one in sites if one["missing_share"] is not None]
    failures = [one["site"] for one in sites if one["failure"]]
    sample_size = f"{len(result.table.y):,} {result.unit}, {len(sites)} sites, {len(result.classes)} classes"
    outcome = f"{len(result.classes)} classes: {', '.join(map(str, result.classes.tolist()[:10]))}"
    abstract = ""
    if result.is_binary:
        sample_size = f"{len(result.table.y):,} {result.unit}, {int(result.events.sum()):,} events, {len(sites)} sites"
        outcome = f"Binary; the event is “{settings.event or settings.positive}”"
        auc = result.get_summary("auc")
        if auc.is_defined:
            abstract = (
                f"{sample_size}; AUC {auc.value:.2f} ({interval_text(auc.interval)}); {AUTHOR}aims and conclusion"
            )
    heterogeneity = "Random-effects summaries with tau, I² and prediction intervals"
    if len(sites) == 1:
        heterogeneity = "One site: differences between sites cannot be estimated"
    needed = f"{AUTHOR}justification"
    if size is not None:
        needed = f"Riley's criteria ask for {size.n_rows:,.0f} {result.unit} with {size.n_parameters} parameters"
    model = f"Method “{settings.method}”; settings, weights and calibration selected on held-out training sites"
    separation = "Every site served once as evaluation data and otherwise as development data"
    if is_external:
        model = f"Model “{settings.method}”; see its card"
        separation = "The sites were not used to build the model; their case mix is in the table of sites"
    values = {
        "scale": "standardize",
        "balance": "none",
        "version": "",
        "command": "",
        **settings.facts,
        "abstract": abstract,
        "aim": "External validation of a fitted model" if is_external else "Internal-external validation of a model",
        "n_sites": len(sites),
        "outcome": outcome,
        "predictors": f"{len(columns)} columns: {', '.join(columns[:12])}{' and others' * (len(columns) > 12)}",
        "sample_size": sample_size,
        "n_few": sum(one["few_events"] for one in sites),
        "needed": needed,
        "missing": f" ({100 * min(missing):.1f}% to {100 * max(missing):.1f}% of all values)" if missing else "",
        "model": model,
        "heterogeneity": heterogeneity,
        "fairness": f"Performance by {', '.join(result.subgroups)} in the section on subgroups"
        * bool(result.subgroups),
        "threshold": 0.5 if settings.aim is None else settings.aim,
        "separation": separation,
        "failures": f"; no model without {', '.join(failures)}" if failures else "",
    }
    text = files(__package__).joinpath("checklist.csv").read_text(encoding="utf-8")
    items = csv.DictReader(text.splitlines())
    return [{**item, "answer": item["answer"].format(**values) or f"{AUTHOR}to be filled in"} for item in items]
