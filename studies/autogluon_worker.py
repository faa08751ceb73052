"""Fit AutoGluon to a table and predict another one, in an environment that has autogluon.tabular.

Files are exchanged in one folder: train.parquet (features, label, domain) and new.parquet (features) are read, and
probabilities.parquet and predicted.parquet are written. Folds of bagging are groups of domains, so that its validation
predicts domains that a model has not seen.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from autogluon.tabular import TabularPredictor

MAX_FOLDS = 8  # the number of folds that AutoGluon recommends


def main(folder: Path, seconds: float) -> None:
    """Fit within some seconds, and write predictions."""
    train = pd.read_parquet(folder / "train.parquet")
    names = np.unique(train.pop("domain"), return_inverse=True)[1]
    train["fold"] = names % MAX_FOLDS
    predictor = TabularPredictor("label", groups="fold", eval_metric="log_loss", path=folder / "models", verbosity=0)
    predictor.fit(train, time_limit=seconds, presets="best_quality", num_cpus=1, dynamic_stacking=False)
    new = pd.read_parquet(folder / "new.parquet")
    P = predictor.predict_proba(new)
    P.columns = P.columns.astype(str)
    P.to_parquet(folder / "probabilities.parquet")
    predictor.predict(new).astype(str).rename("label").to_frame().to_parquet(folder / "predicted.parquet")


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
