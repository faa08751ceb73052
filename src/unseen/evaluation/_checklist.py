"""Reporting items of TRIPOD-Cluster and TRIPOD+AI, filled where the validation knows the answer.

The items are worded for this report; the original checklists are those of Debray et al. (2023), BMJ 380:e071018, and
Collins et al. (2024), BMJ 385:e078378.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._result import ValidationResult

AUTHOR = "AUTHOR: "


def make_checklist(result: ValidationResult) -> list[dict[str, str]]:
    """All items with their section, and the answer or what the author has to add."""
    settings = result.settings
    facts = settings.facts
    sites = result.site_records
    n_sites = len(sites)
    n_few = sum(one["few_events"] for one in sites)
    shares = [one["missing_share"] for one in sites if one["missing_share"] is not None]
    failures = [one["site"] for one in sites if one["failure"]]
    missing = "Missing values per site are in the table of sites"
    if shares:
        missing += f" ({100 * min(shares):.1f}% to {100 * max(shares):.1f}% of all values)"
    if result.is_binary:
        sample_size = f"{len(result.y):,} {result.unit}, {int(result.events.sum()):,} events, {n_sites} sites"
        outcome = f"Binary; the event is “{settings.event or settings.positive}”"
    else:
        sample_size = f"{len(result.y):,} rows, {n_sites} sites, {len(result.classes)} classes"
        outcome = f"{len(result.classes)} classes: {', '.join(map(str, result.classes.tolist()[:10]))}"
    size = result.development_size
    if size is not None:
        needed = f"; Riley's criteria ask for {size.n_rows:,.0f} {result.unit} with {size.n_parameters} parameters"
    else:
        needed = "; " + AUTHOR + "justification"
    aim = "External validation of a fitted model" if settings.external else "Internal-external validation of a model"
    if n_sites == 1:
        heterogeneity = "One site: differences between sites cannot be estimated"
    else:
        heterogeneity = "Random-effects summaries with tau, I² and prediction intervals"
    fairness = None
    if result.subgroups:
        fairness = f"Performance by {', '.join(result.subgroups)} in the section on subgroups"
    key = result.get_summary("auc") if result.is_binary else None
    abstract = None
    if key is not None and key.is_defined:
        low, high = key.interval
        abstract = f"{sample_size}; AUC {key.value:.2f} ({low:.2f} to {high:.2f}); " + AUTHOR + "aims and conclusion"
    columns = facts.get("columns") or []
    predictors = f"{facts['n_features']} columns" if facts.get("n_features") else "see the table"
    if columns:
        predictors += f": {', '.join(columns[:12])}{' and others' if len(columns) > 12 else ''}"
    items = [
        (
            "Title and abstract",
            "Title names the prediction model, the people, the outcome and the clustered data",
            None,
        ),
        (
            "Title and abstract",
            "Abstract gives aims, data, sites, methods and the main results with intervals",
            abstract,
        ),
        ("Introduction", "Medical context, existing models, why a model is needed, known inequalities in care", None),
        ("Introduction", "Aim: development or validation of a model", aim),
        ("Data", "Source of the data and why it represents the people of interest", None),
        (
            "Data",
            "What a cluster (site) is, how sites were selected, and their number",
            f"{n_sites} sites; " + AUTHOR + "how they were selected",
        ),
        ("Data", "Start and end of data collection, length of follow-up", None),
        ("Participants", "Setting of each site, eligibility, treatments received", None),
        (
            "Outcome",
            "Definition of the outcome, time point, who assessed it, differences between sites",
            f"{outcome}; " + AUTHOR + "definition and assessment",
        ),
        (
            "Predictors",
            "Definition of predictors, when and how they were measured, differences between sites",
            f"{predictors}; " + AUTHOR + "definitions",
        ),
        (
            "Sample size",
            "How the size was determined, and whether it is sufficient",
            f"{sample_size}; {n_few} sites with fewer than 100 rows of the rarer class{needed}",
        ),
        (
            "Missing data",
            "Amount of missing data, and how it was handled",
            f"{missing}. Missing numbers are replaced by the median of the training sites; missing categories are a "
            "category",
        ),
        (
            "Analysis",
            "Preparation of predictors, rescaling, selection",
            f"Scaling “{facts.get('scale', 'standardize')}”, one-hot encoding of categories, fitted on the training "
            "sites only",
        ),
        (
            "Analysis",
            "Type of model, all steps of building it, hyperparameters, calibration",
            f"Model “{settings.method}”; see its card"
            if settings.external
            else f"Method “{settings.method}”; settings, weights and calibration selected on held-out training sites",
        ),
        (
            "Analysis",
            "How differences between sites in predictor effects and outcome frequency were handled",
            heterogeneity,
        ),
        (
            "Analysis",
            "Measures of performance, and how they were summarized over sites",
            "See the Methods text of this report",
        ),
        (
            "Analysis",
            "Class imbalance: methods, and recalibration after them",
            f"Weights of classes or sites in training: {facts.get('balance', 'none')}",
        ),
        ("Analysis", "Fairness: how performance in relevant subgroups was examined", fairness),
        (
            "Analysis",
            "Output of the model and how thresholds were chosen",
            f"Probabilities; threshold: {settings.aim if settings.aim is not None else 0.5}",
        ),
        (
            "Analysis",
            "Differences between development and evaluation data",
            "The sites were not used to build the model; their case mix is in the table of sites"
            if settings.external
            else "Every site served once as evaluation data and otherwise as development data",
        ),
        ("Open science", "Ethical approval, funding, conflicts of interest", None),
        ("Open science", "Protocol and registration", None),
        (
            "Open science",
            "Availability of data and code",
            f"Software: unseen {facts.get('version', '')}, command: {facts.get('command', '')}; "
            + AUTHOR
            + "availability of data",
        ),
        ("Open science", "Involvement of patients and the public", None),
        (
            "Results",
            "Flow of participants, by site",
            "Rows and events by site are in the table of sites; " + AUTHOR + "exclusions",
        ),
        (
            "Results",
            "Characteristics of participants, by site, with missing values",
            "Prevalence, missing share and case mix by site; " + AUTHOR + "table of characteristics",
        ),
        (
            "Results",
            "The full model, or how to obtain predictions from it",
            "Written to a file by `unseen fit` with the same options",
        ),
        (
            "Results",
            "Performance with intervals, overall and by site",
            "Forest plots, calibration, decision and ROC curves in this report",
        ),
        (
            "Results",
            "Heterogeneity between sites, and model updating",
            f"{heterogeneity}; no updating was done"
            + (f"; no model without {', '.join(failures)}" if failures else ""),
        ),
        ("Discussion", "Interpretation, including fairness and comparison with earlier models", None),
        (
            "Discussion",
            "Limitations: representativeness, sample size, overfitting, missing data",
            "See “When not to trust it” on the first page; " + AUTHOR + "representativeness",
        ),
        (
            "Discussion",
            "Use in practice: handling of poor input data, expertise needed, next steps",
            "The plain-language page states when not to trust the model; " + AUTHOR + "use in practice",
        ),
    ]
    return [
        {"section": section, "item": item, "answer": AUTHOR + "to be filled in" if answer is None else answer}
        for section, item, answer in items
    ]
