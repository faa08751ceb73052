"""Models that predict held-out domains are fitted to fewer rows where there are many of them."""

from __future__ import annotations

import pytest

from unseen.kernels import SizePlan
from unseen.model_selection import METHODS, limit_evaluation_rows


@pytest.mark.parametrize(
    ("rows", "domains", "is_single", "expected"),
    [(5_418, 36, False, 3_000), (5_418, 36, True, None), (5_418, 10, False, None), (2_900, 100, False, None)],
)
def test_with_many_domains_ensembles_are_selected_by_models_of_fewer_rows(rows, domains, is_single, expected):
    plan = SizePlan.from_rows(rows, ensemble=True)
    candidates = list(METHODS["auto"].candidates(3))
    limited = limit_evaluation_rows(candidates, plan, is_single=is_single, n_domains=domains)
    assert [one.max_evaluation_rows for one in limited] == [expected] * len(candidates)
    assert [one.max_train_rows for one in limited] == [one.max_train_rows for one in candidates]
