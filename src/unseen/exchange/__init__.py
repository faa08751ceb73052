"""Studies of several sites without moving a row: sites exchange plans, statistics, models and results as files.

`aggregate` computes the statistics of a site under a plan, `fit_statistics` fits models from the statistics of all
sites, `score_site` evaluates models on a site, and `combine` selects a setting and makes the validation report. May
import every package except `images`, `explore` and `cli`.
"""

from ._combine import CombinedValidation, combine
from ._files import ExchangeError
from ._fit import fit_statistics
from ._plan import StudyPlan, draft_plan, load_plan
from ._results import SiteResults, score_site
from ._statistics import SiteStatistics, aggregate

__all__ = [
    "CombinedValidation",
    "ExchangeError",
    "SiteResults",
    "SiteStatistics",
    "StudyPlan",
    "aggregate",
    "combine",
    "draft_plan",
    "fit_statistics",
    "load_plan",
    "score_site",
]
