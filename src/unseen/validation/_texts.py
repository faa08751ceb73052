"""Texts of a validation: one page for colleagues in plain language, and paragraphs for a paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._measures import MEASURES, MeasureSummary

if TYPE_CHECKING:
    from ._result import ValidationResult

MINUS = "\u2212"
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
    "Higgins 2009": "Higgins, Thompson and Spiegelhalter (2009), A re-evaluation of random-effects meta-analysis, "
    "Journal of the Royal Statistical Society A 172:137-159.",
    "Nagashima 2019": "Nagashima, Noma and Furukawa (2019), Prediction intervals for random-effects meta-analysis: A "
    "confidence distribution approach, Statistical Methods in Medical Research 28:1689-1702.",
    "Röver 2021": "Röver et al. (2021), On weakly informative prior distributions for the heterogeneity parameter in "
    "Bayesian random-effects meta-analysis, Research Synthesis Methods 12:448-474.",
    "Steyerberg 2016": "Steyerberg and Harrell (2016), Prediction models need appropriate internal, internal-external, "
    "and external validation, Journal of Clinical Epidemiology 69:245-247.",
    "Vickers 2006": "Vickers and Elkin (2006), Decision curve analysis: A novel method for evaluating prediction "
    "models, Medical Decision Making 26:565-574.",
    "Viechtbauer 2005": "Viechtbauer (2005), Bias and efficiency of meta-analytic variance estimators in the "
    "random-effects model, Journal of Educational and Behavioral Statistics 30:261-293.",
    "Wilson 1927": "Wilson (1927), Probable inference, the law of succession, and statistical inference, Journal of "
    "the American Statistical Association 22:209-212.",
}
SLOPE_RANGE = (0.8, 1.25)  # calibration slopes beyond which a site is named
RATIO_RANGE = (0.8, 1.25)  # observed:expected ratios beyond which a site is named
MAX_NAMED_SITES = 4


def number(value: float, digits: int = 2) -> str:
    """Format a number; a dash if it is not finite."""
    if not np.isfinite(value):
        return "not defined"
    return f"{value + 0.0:.{digits}f}".replace("-", MINUS)


def interval_text(ends: tuple[float, float], digits: int = 2) -> str:
    """Format an interval."""
    return f"{number(ends[0], digits)} to {number(ends[1], digits)}"


def per_hundred(share: float) -> str:
    """Format a share as a number out of 100."""
    return f"{100 * share:.0f}"


def range_per_hundred(ends: tuple[float, float]) -> str:
    """Format an interval of a share in numbers out of 100."""
    return f"{per_hundred(ends[0])} to {per_hundred(ends[1])}"


def list_sites(names: Sequence[str]) -> str:
    """List the first names."""
    shown = list(names[:MAX_NAMED_SITES])
    if len(names) > MAX_NAMED_SITES:
        return f"{', '.join(shown)} and {len(names) - MAX_NAMED_SITES} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def describe_for_colleagues(result: ValidationResult) -> list[dict[str, Any]]:
    """One page in plain language: what was tested, what to use, what to expect, when not to trust it."""
    expectations = _expect_binary(result) if result.is_binary else _expect_multiclass(result)
    return [
        {"heading": "What was tested", "sentences": _describe_test(result)},
        {"heading": "What to use", "sentences": _describe_choice(result)},
        {"heading": "What to expect at a new site", "sentences": expectations},
        {"heading": "When not to trust it", "sentences": _describe_limits(result)},
    ]


def _describe_test(result: ValidationResult) -> list[str]:
    settings = result.settings
    n_sites = len(result.site_names)
    rows = f"{len(result.y):,} rows from {n_sites} sites"
    sentences = []
    if result.is_binary:
        n_events = int(result.events.sum())
        sentences.append(
            f"A model predicts how likely the event “{settings.positive}” is. It was tested on {rows}, of which "
            f"{n_events:,} ({100 * n_events / len(result.y):.0f}%) have the event."
        )
    else:
        sentences.append(f"A model predicts which of {len(result.classes)} classes a row has. It was tested on {rows}.")
    sentences.append(
        "Every site was left out once: the model was built from the other sites alone and then applied to the site "
        "that was left out. The results therefore show how the model does at a site that it has never seen."
    )
    return sentences


def _describe_choice(result: ValidationResult) -> list[str]:
    method = result.settings.method
    is_default = method == "auto"
    name = "the combined model that the program builds by default (“auto”)" if is_default else f"“{method}”"
    comparisons = []
    better = []
    for record in result.comparison_records:
        if not np.isfinite(record["difference"]):
            continue
        what = "AUC" if record["measure"] == "auc" else "log loss"
        sign = 1 if record["measure"] == "auc" else -1
        gain = sign * record["difference"]
        ends = sorted((sign * record["low"], sign * record["high"]))
        if ends[0] > 0:
            verdict = "is less accurate"
        elif ends[1] < 0:
            verdict = "is more accurate"
            better.append(record["method"])
        else:
            verdict = "is about as accurate, as far as these sites can tell"
        comparisons.append(
            f"“{record['method']}” {verdict} (mean difference in {what} over sites {number(gain, 3)}, 95% interval "
            f"{interval_text((ends[0], ends[1]), 3)}; positive means that “{method}” is better)."
        )
    if better:
        use = f"Consider “{better[0]}” instead of {name}, whose results are on this page."
    elif comparisons:
        use = f"Use {name}, whose results are on this page: no method beside it was more accurate."
    else:
        use = f"The results on this page are those of {name}."
    return [use, *comparisons]


def _expect_binary(result: ValidationResult) -> list[str]:
    sentences = []
    auc = result.get_summary("auc")
    if auc.effects is not None:
        sentences.append(
            "Take one row with the event and one without it at random: the model gives the higher risk to the one "
            f"with the event in about {per_hundred(auc.value)} of 100 such pairs{_new_site(auc)}; 50 would be chance."
        )
    thresholds = [one["threshold"] for one in result.site_records if np.isfinite(one["threshold"] or np.nan)]
    sensitivity = result.get_summary("sensitivity")
    specificity = result.get_summary("specificity")
    if thresholds and sensitivity.effects is not None and specificity.effects is not None:
        sentences.append(
            f"If rows with a risk of {_threshold_text(thresholds)} or more are flagged"
            f"{_aim_text(result.settings.aim)}, about {per_hundred(sensitivity.value)} of 100 rows with the event are "
            f"flagged{_new_site(sensitivity)}, and about {per_hundred(1 - specificity.value)} of 100 rows without it "
            f"are false alarms{_alarms(specificity)}."
        )
    ratio = result.get_summary("observed_expected")
    if ratio.effects is not None:
        sentences.append(
            f"Where the model predicts 100 events in total, about {100 * ratio.value:.0f} are observed"
            f"{_new_site(ratio)}. Before risks are used as numbers at a new site, compare them with its first results."
        )
    sentences += [f"{one.explanation}." for one in (auc, sensitivity, specificity) if one.explanation]
    return sentences


def _expect_multiclass(result: ValidationResult) -> list[str]:
    sentences = []
    for name in result.classes.tolist():
        auc = result.get_summary("auc", of_class=name)
        if auc.effects is not None:
            sentences.append(
                f"Take one row of the class “{name}” and one of another class at random: the model ranks them "
                f"correctly in about {per_hundred(auc.value)} of 100 such pairs{_new_site(auc)}."
            )
    return sentences


def _new_site(summary: MeasureSummary) -> str:
    """The range for a new site, in parentheses; empty if there are too few sites."""
    if not summary.has_range:
        return ""
    return f" (at a new site likely {range_per_hundred(summary.new_site)})"


def _alarms(specificity: MeasureSummary) -> str:
    """The range of false alarms at a new site, in parentheses; empty if there are too few sites."""
    if not specificity.has_range:
        return ""
    low, high = specificity.new_site
    return f" (at a new site likely {range_per_hundred((1 - high, 1 - low))})"


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
    values = _site_values(result)
    failed = [one["site"] for one in result.site_records if one["failure"]]
    if failed:
        sentences.append(f"No model could be built without {list_sites(failed)}, so nothing is known about it there.")
    if result.is_binary:
        sentences += _calibration_limits(values)
        aucs = {site: value for site, value in values["auc"].items() if np.isfinite(value)}
        if len(aucs) > 1:
            worst = min(aucs, key=lambda site: aucs[site])
            sentences.append(
                f"It was weakest at {worst}, where it ranks {per_hundred(aucs[worst])} of 100 pairs correctly. A new "
                "site can be as weak."
            )
        shares = [one["prevalence"] for one in result.site_records]
        sentences.append(
            f"The event occurs in {100 * min(shares):.0f}% to {100 * max(shares):.0f}% of rows of these sites. Where "
            "it is much rarer or more frequent, predicted risks and predictive values are not tested."
        )
    few = [one["site"] for one in result.site_records if one["few_events"]]
    if few:
        n_sites = len(result.site_names)
        which = "All sites have" if len(few) == n_sites else f"{len(few)} of {n_sites} sites ({list_sites(few)}) have"
        sentences.append(f"{which} fewer than 100 rows of the rarer class: their own results are imprecise.")
    sentences.append(
        "The ranges hold for a site that differs from these sites as they differ from each other. They do not hold for "
        "one that measures other things, selects other people, or defines the outcome differently."
    )
    return sentences


def _site_values(result: ValidationResult) -> dict[str, dict[str, float]]:
    """Values of the reported method by measure and site."""
    values: dict[str, dict[str, float]] = {name: {} for name in MEASURES}
    for one in result.site_measures:
        if one.method == result.settings.method:
            values[one.measure][one.site] = one.estimate.value
    return values


def _calibration_limits(values: dict[str, dict[str, float]]) -> list[str]:
    sentences = []
    ratios = values["observed_expected"]
    high = [site for site, ratio in ratios.items() if ratio > RATIO_RANGE[1]]
    low = [site for site, ratio in ratios.items() if ratio < RATIO_RANGE[0]]
    if high:
        sentences.append(f"Predicted risks were clearly too low at {list_sites(high)}.")
    if low:
        sentences.append(f"Predicted risks were clearly too high at {list_sites(low)}.")
    slopes = values["calibration_slope"]
    extreme = [site for site, slope in slopes.items() if slope < SLOPE_RANGE[0]]
    modest = [site for site, slope in slopes.items() if slope > SLOPE_RANGE[1]]
    if extreme:
        sentences.append(
            f"Predicted risks were too extreme at {list_sites(extreme)}: high ones too high, low ones too low."
        )
    if modest:
        sentences.append(
            f"Predicted risks were too cautious at {list_sites(modest)}: high ones too low, low ones too high."
        )
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
    if facts.get("n_features"):
        preprocessing = (
            f" Predictors were the {facts['n_features']} columns listed in the report; missing numbers were replaced "
            "by the median, and missing categories were treated as a category."
        )
    design = (
        f"We validated the model by internal-external cross-validation (Steyerberg 2016): each of {n_sites} sites was "
        f"left out in turn, the complete procedure was repeated on the remaining {n_sites - 1} sites, and the "
        f"resulting model predicted the site left out. {model}, so that no information about the site left out was "
        f"used.{preprocessing}"
    )
    if facts.get("design"):
        design += f" {facts['design']}"
    keys = ["Steyerberg 2016", "DeLong 1988", "Viechtbauer 2005", "Hartung 2001", "Higgins 2009", "Nagashima 2019"]
    keys += ["Debray 2017", "Debray 2019"]
    if result.is_binary:
        keys += ["Wilson 1927", "Vickers 2006"]
        measures = (
            f"For each site we report the area under the ROC curve (AUC) with DeLong's standard error (DeLong 1988), "
            "calibration in the large and the calibration slope from logistic recalibration, the ratio of observed to "
            "expected events (Debray 2017), the Brier score and its scaled version, and, at a decision threshold, "
            "sensitivity, specificity and predictive values with Wilson's intervals (Wilson 1927) and net benefit "
            f"(Vickers 2006). The event was “{settings.positive}”. {_describe_threshold(settings.aim)} Calibration "
            "curves are restricted cubic splines of the logit of the predicted probability."
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
    n_defined = max((len(one.values) for one in result.summaries), default=0)
    quantile = next((one.t_quantile for one in result.summaries if len(one.values) == n_defined), np.nan)
    t_text = (
        f" With {n_defined} sites the quantile of Student's t is {number(quantile)}." if np.isfinite(quantile) else ""
    )
    pooling = (
        "Measures were summarized over sites by random-effects meta-analysis: restricted maximum likelihood "
        f"(Viechtbauer 2005), the Hartung-Knapp {level} confidence interval (Hartung 2001), and a {level} prediction "
        "interval for a new site (Higgins 2009). AUC, sensitivity, specificity and predictive values were combined on "
        "the logit scale, ratios, Brier score and log loss on the log scale, other measures as they are (Debray 2019)."
        f"{t_text} Ranges in the plain-language summary also allow for the uncertainty of the variance between sites "
        f"(Nagashima 2019).{prior}"
    )
    references = "References: " + " ".join(REFERENCES[key] for key in sorted(keys, key=str.lower))
    return [design, measures, pooling, references]


def _describe_threshold(aim: str | float | None) -> str:
    if aim is None:
        return "The threshold was 0.5."
    if not isinstance(aim, str):
        return f"The threshold was {aim}."
    try:
        return f"The threshold was {float(aim)}."
    except ValueError:
        return (
            f"The threshold was chosen for the aim “{aim}” on out-of-domain predictions of the training sites, each of "
            "which had the same weight; the site left out was not used."
        )


def describe_results(result: ValidationResult) -> list[str]:
    """Paragraphs for the Results section of a paper."""
    settings = result.settings
    sites = result.site_records
    sizes = [one["rows"] for one in sites]
    text = f"The {len(sites)} sites had {min(sizes):,} to {max(sizes):,} rows ({len(result.y):,} in total)"
    if result.is_binary:
        n_events = int(result.events.sum())
        shares = [one["prevalence"] for one in sites]
        text += (
            f", of which {n_events:,} had the event ({100 * n_events / len(result.y):.1f}%; "
            f"{100 * min(shares):.1f}% to {100 * max(shares):.1f}% by site)"
        )
    paragraphs = [f"{text}."]
    level = f"{settings.level:.0%}"
    sentences = []
    for one in result.summaries:
        if one.method != settings.method or one.effects is None:
            continue
        label = MEASURES[one.measure].label
        if not result.is_binary and one.of_class is not None:
            label = f"{label} of class “{one.of_class}”"
        sentences.append(
            f"{label}: {number(one.value)} ({level} CI {interval_text(one.interval)}; {level} prediction interval "
            f"{interval_text(one.prediction_interval)}; tau {number(one.effects.tau)}, I² {_percent(one.effects.i2)}"
            f"{_dropped(one)})."
        )
    paragraphs.append("Summary over sites. " + " ".join(sentences))
    differences = []
    for record in result.comparison_records:
        if np.isfinite(record["difference"]):
            what = "AUC" if record["measure"] == "auc" else "log loss"
            differences.append(
                f"{number(record['difference'], 3)} against “{record['method']}” ({level} CI "
                f"{interval_text((record['low'], record['high']), 3)})"
            )
    if differences:
        paragraphs.append(f"The mean difference in {what} over sites was {'; '.join(differences)}.")
    return paragraphs


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%" if np.isfinite(share) else "not defined"


def _dropped(summary: MeasureSummary) -> str:
    n_dropped = 0 if summary.effects is None else summary.effects.n_dropped
    return f"; not defined at {n_dropped} site{'s' if n_dropped > 1 else ''}" if n_dropped else ""
