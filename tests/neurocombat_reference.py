"""What the package neuroCombat makes of a few synthetic samples, stored for machines where it is not installed.

``python tests/neurocombat_reference.py`` writes tests/neurocombat_reference.json again; it needs neuroCombat and
pandas. Covariates are whole numbers because the package stores them in single precision.
"""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import numpy as np

FILE = Path(__file__).with_suffix(".json")
OPTIONS = {
    "empirical Bayes": {},
    "each feature by itself": {"eb": False},
    "means of each feature": {"eb": False, "mean_only": True},
    "reference site": {"reference": "b"},
}


def samples():
    """Samples of three sites, their sites, and two covariates."""
    rng = np.random.default_rng(2007)
    domain = np.repeat(["a", "b", "c"], [5, 6, 8])
    covariates = np.column_stack([rng.integers(20, 80, size=19), np.arange(19) % 2]).astype(float)
    X = rng.normal(size=(19, 4)) * [1.0, 2.0, 0.5, 10.0] + [0.0, 5.0, -3.0, 100.0]
    X += covariates @ (rng.normal(size=(2, 4)) * [[0.02], [0.5]])
    sites = np.searchsorted(["a", "b", "c"], domain)
    X = X * rng.uniform(0.5, 2.0, size=(3, 4))[sites] + rng.normal(size=(3, 4))[sites]
    return X, domain, covariates


def run_package(X, domain, covariates, *, eb=True, mean_only=False, reference=None):
    """The samples as neuroCombat harmonizes them; it takes features in rows."""
    import pandas as pd
    from neuroCombat import neuroCombat

    frame = pd.DataFrame({"site": domain})
    columns = []
    for i in range(0 if covariates is None else covariates.shape[1]):
        columns.append(f"covariate {i}")
        frame[columns[-1]] = covariates[:, i]
    options = {"eb": eb, "mean_only": mean_only, "ref_batch": reference, "continuous_cols": columns}
    # neuroCombat 0.2.12 uses an alias for a reference site that NumPy has removed.
    with mock.patch.object(np, "int", int, create=True):
        return neuroCombat(dat=X.T.copy(), covars=frame, batch_col="site", **options)["data"].T


def main():
    X, domain, covariates = samples()
    outputs = {name: run_package(X, domain, covariates, **options).tolist() for name, options in OPTIONS.items()}
    content = {"X": X.tolist(), "domain": domain.tolist(), "covariates": covariates.tolist(), "outputs": outputs}
    FILE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
