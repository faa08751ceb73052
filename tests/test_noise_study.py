"""Where there is nothing to learn, nothing is reported: labels at random, in Python from end to end."""

from __future__ import annotations

import numpy as np
import pytest

from unseen import UnseenClassifier

SEEDS, DOMAINS, ROWS, CLASSES, FEATURES, FRESH = 60, 5, 25, 3, 4, 2
COVERAGE = 0.8


def noise(seed):
    """Domains to fit on, and fresh ones; labels have nothing to do with features."""
    rng = np.random.default_rng(seed)
    domain = np.repeat(np.arange(DOMAINS + FRESH), ROWS)
    return rng.normal(size=(len(domain), FEATURES)), rng.integers(CLASSES, size=len(domain)), domain


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Every prediction set contains all:UserWarning")  # as they should on noise
@pytest.mark.parametrize("transductive", [False, True], ids=["inductive", "transductive"])
def test_on_noise_scores_are_at_chance_steps_are_not_accepted_and_sets_cover(transductive):
    """About two minutes for inductive models, and three for all."""
    scores, accepted, covered, missed = [], [], [], []
    for seed in range(SEEDS):
        X, y, domain = noise(seed)
        known = domain < DOMAINS
        model = UnseenClassifier(transductive=transductive).fit(X[known], y[known], sample_domain=domain[known])
        scores.append(model.best_score_)
        accepted.append(model.best_kind_ == "transductive")
        for fresh in range(DOMAINS, DOMAINS + FRESH):
            own = domain == fresh
            sets = model.predict_set(X[own], COVERAGE, sample_domain=domain[own])
            covered.append(np.mean([label in held for label, held in zip(y[own], sets, strict=True)]))
            score = model.score(X[own], y[own], sample_domain=domain[own])
            missed.append((score < model.forecast_.lower, score > model.forecast_.upper))
    mean, error = np.mean(scores), np.std(scores, ddof=1) / np.sqrt(SEEDS)
    below, above = np.sum(missed, axis=0)
    print(
        f"\n{SEEDS} fits to noise, transductive={transductive}: mean best_score_ {mean:.4f}, standard error "
        f"{error:.4f}, chance {1 / CLASSES:.4f}; a transductive step accepted in {np.mean(accepted):.1%}; sets at "
        f"{COVERAGE} cover {np.mean(covered):.3f}; of {len(missed)} forecasts {below} too high and {above} too low"
    )
    assert abs(mean - 1 / CLASSES) < 2 * error
    assert np.mean(accepted) <= 0.1
    assert np.mean(covered) >= 0.78
    assert below + above <= 0.1 * len(missed)
