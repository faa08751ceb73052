"""Lean grids, which comparisons choose from unless told otherwise, end within noise of the full ones (make slow)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unseen.datasets import load_digits_table
from unseen.evaluation import Protocol, make_tasks, run
from unseen.kernels import SizePlan
from unseen.model_selection import METHODS, limit_evaluation_rows, method_names
from unseen.tables import load_table

DATA = Path(__file__).parents[2] / "shared" / "data"
SETS = {"rotated_mnist": 150, "office_caltech_surf": 120, "office_caltech_efflite0": 120, "gvhd": 40}
SHARING = [name for name in method_names(in_comparison=True, shares="decomposition") if not METHODS[name].members]


def test_lean_grids_are_about_half_of_the_full_ones_and_never_a_single_value():
    for name in SHARING:
        full, lean = (METHODS[name].settings(5, grid=grid) for grid in ("full", "lean"))
        assert len(lean) < 0.8 * len(full)
        assert all(setting in full for setting in lean)
        for parameter in full[0]:
            kinds = [len({str(setting[parameter]) for setting in settings}) for settings in (full, lean)]
            assert min(kinds) == kinds[0] == 1 or kinds[1] > 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["digits", *SETS])
def test_lean_grids_end_within_noise_of_full_ones(name, tmp_path):
    if name != "digits" and not (DATA / name).is_dir():
        pytest.skip(f"{DATA / name} is not there")
    table = load_digits_table() if name == "digits" else load_table(DATA / name, max_per_domain=SETS[name])
    todo, repeats = make_tasks(sorted(set(table.domain.tolist()))), 2
    rules = {"repeats": repeats, "scale": "standardize" if name == "gvhd" else "l2"}
    found = {
        (grid, row.method, row.task, row.repeat): row.accuracy
        for grid in ("full", "lean")
        for row in run(
            table, SHARING, Protocol.paper(grid=grid, **rules), tasks=todo, store=tmp_path / "results.sqlite"
        ).rows
    }
    for method in SHARING:
        lean, full = (
            np.array([np.mean([found[grid, method, task.name, r] for r in range(repeats)]) for task in todo])
            for grid in ("lean", "full")
        )
        lost = 100 * (full - lean)
        print(f"{name}, {method}: full {100 * full.mean():.2f}, lean {-lost.mean():+.2f}")
        assert lost.mean() <= max(0.5, 2 * lost.std(ddof=1) / np.sqrt(len(lost)))


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
