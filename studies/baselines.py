"""Baselines for `unseen.fit`: classifiers as people prepare and tune them for a new domain.

All are pipelines on a DataFrame. The search holds out each source domain in turn; with more than `MAX_FOLDS` source
domains it holds out groups of domains. It selects the hyperparameters with the smallest mean log loss.

- logistic regression: median imputation and scaling of numbers, one-hot encoding of text with missing values as a
  category; six values of C;
- gradient boosting (HistGradientBoostingClassifier): missing values and categories as such; four settings;
- random forest: 500 trees with default settings, median imputation of numbers, ordinal codes for text; not tuned;
- LightGBM: 300 trees, missing values and categories as such; four settings;
- CatBoost: default settings, with text columns as its categories; not tuned;
- AutoGluon: 60 seconds in an environment of its own (see `studies.autogluon_worker`), with domains as groups of its
  bagged folds.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler

BASELINES = ("logistic regression", "gradient boosting", "random forest", "LightGBM", "CatBoost")
AUTOGLUON = "AutoGluon"
AUTOGLUON_SECONDS = 60
GRIDS: dict[str, dict[str, list[Any]]] = {
    "logistic regression": {"classifier__C": [0.001, 0.01, 0.1, 1.0, 10.0, 100.0]},
    "gradient boosting": {"classifier__learning_rate": [0.03, 0.1], "classifier__max_leaf_nodes": [5, 31]},
    "LightGBM": {"classifier__learning_rate": [0.03, 0.1], "classifier__num_leaves": [5, 31]},
}
N_TREES = 500
MAX_FOLDS = 15
# A forest gives probabilities of exactly 0. Without a floor, one such row would decide the log loss of a domain.
PROBABILITY_FLOOR = 1e-3


def align_probabilities(P: np.ndarray, known: Sequence[Any], classes: Sequence[Any]) -> np.ndarray:
    """Return probabilities with one column for each of `classes`; a class that the model does not know has 0."""
    aligned = np.zeros((len(P), len(classes)))
    position = {label: j for j, label in enumerate(classes)}
    for j, label in enumerate(known):
        aligned[:, position[label]] = P[:, j]
    return aligned


def log_loss(codes: np.ndarray, P: np.ndarray) -> float:
    """Mean log loss; probabilities below `PROBABILITY_FLOOR` count as that."""
    probabilities = P[np.arange(len(codes)), codes]
    return float(-np.log(np.maximum(probabilities, PROBABILITY_FLOOR)).mean())


def score_negative_log_loss(estimator: Any, X: pd.DataFrame, y: np.ndarray) -> float:
    """Scorer for a search in which a training fold may lack classes of the test fold."""
    classes, codes = np.unique(np.concatenate([estimator.classes_, y]), return_inverse=True)
    P = align_probabilities(estimator.predict_proba(X), estimator.classes_.tolist(), classes.tolist())
    return -log_loss(codes[len(estimator.classes_) :], P)


def make_pipeline_for(name: str, X: pd.DataFrame, n_trees: int, n_jobs: int | None) -> Pipeline:
    """Return a baseline with default hyperparameters for the columns of X: numbers, and text."""
    numbers = X.select_dtypes("number").columns.tolist()
    texts = [column for column in X.columns if column not in numbers]
    # A column may be empty in all source domains of a fold.
    impute_numbers = SimpleImputer(strategy="median", keep_empty_features=True)
    ordinal = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    if name == "logistic regression":
        # The encoder makes missing values a category; a category that is new at prediction has zeros in all columns.
        one_hot = OneHotEncoder(handle_unknown="ignore")
        scaled = make_pipeline(impute_numbers, StandardScaler())
        columns = ColumnTransformer([("numbers", scaled, numbers), ("texts", one_hot, texts)])
        classifier: Any = LogisticRegression(max_iter=1000)
    elif name == "gradient boosting":
        columns = ColumnTransformer([("numbers", "passthrough", numbers), ("texts", ordinal, texts)])
        is_categorical = [False] * len(numbers) + [True] * len(texts)
        classifier = HistGradientBoostingClassifier(categorical_features=is_categorical, random_state=0)
    elif name == "random forest":
        ordinal.set_params(unknown_value=-1, encoded_missing_value=-2)
        columns = ColumnTransformer([("numbers", impute_numbers, numbers), ("texts", ordinal, texts)])
        classifier = RandomForestClassifier(n_trees, random_state=0, n_jobs=n_jobs)
    elif name == "LightGBM":
        columns = _with_categories(numbers, texts, _make_categories)
        classifier = import_module("lightgbm").LGBMClassifier(n_estimators=300, random_state=0, n_jobs=1, verbose=-1)
    elif name == "CatBoost":
        columns = _with_categories(numbers, texts, _fill_texts)
        classifier = import_module("catboost").CatBoostClassifier(
            cat_features=texts, random_seed=0, thread_count=n_jobs or 1, allow_writing_files=False, verbose=False
        )
    else:
        raise ValueError(f"name={name!r} is not a baseline. Use one of {', '.join(BASELINES)}.")
    return Pipeline([("columns", columns), ("classifier", classifier)])


def _with_categories(numbers: list[str], texts: list[str], convert: Callable[..., Any]) -> ColumnTransformer:
    """Columns as a DataFrame, whose texts are converted."""
    as_categories = FunctionTransformer(convert, feature_names_out="one-to-one")
    columns = ColumnTransformer(
        [("numbers", "passthrough", numbers), ("texts", as_categories, texts)], verbose_feature_names_out=False
    )
    return columns.set_output(transform="pandas")


def _make_categories(X: pd.DataFrame) -> pd.DataFrame:
    """Text columns as pandas categories, which LightGBM matches with those of training."""
    return X.astype("category")


def _fill_texts(X: pd.DataFrame) -> pd.DataFrame:
    """Text columns as strings; CatBoost takes no missing categories."""
    return X.astype(object).where(X.notna(), "missing").astype(str)


def fit_baseline(
    name: str,
    X: pd.DataFrame,
    y: np.ndarray,
    domain: np.ndarray,
    *,
    n_trees: int = N_TREES,
    max_folds: int = MAX_FOLDS,
    n_jobs: int | None = None,
) -> Any:
    """Fit a baseline to the rows of source domains, with hyperparameters selected on held-out source domains."""
    pipeline = make_pipeline_for(name, X, n_trees, n_jobs)
    if name not in GRIDS:
        return pipeline.fit(X, y)
    # With as many folds as domains, each fold is one domain.
    cv = GroupKFold(min(len(np.unique(domain)), max_folds))
    search = GridSearchCV(pipeline, GRIDS[name], scoring=score_negative_log_loss, cv=cv, n_jobs=n_jobs)
    return search.fit(X, y, groups=domain)


@dataclass(frozen=True)
class AutoGluonModel:
    """Predictions of AutoGluon for the rows that it was asked for, with the interface of a fitted classifier."""

    classes_: list[str]
    P: np.ndarray
    predicted: list[str]

    def predict_proba(self, X: pd.DataFrame) -> np.ndarray:
        """Probabilities of the rows that were passed to `fit_autogluon`."""
        return self.P

    def predict(self, X: pd.DataFrame) -> list[str]:
        """Classes of the rows that were passed to `fit_autogluon`."""
        return self.predicted


def fit_autogluon(python: Path, X: pd.DataFrame, y: np.ndarray, domain: np.ndarray, X_new: pd.DataFrame) -> Any:
    """Fit AutoGluon in another environment, whose interpreter is `python`, and predict new rows."""
    with tempfile.TemporaryDirectory() as folder:
        X.assign(label=y, domain=domain).to_parquet(Path(folder, "train.parquet"))
        X_new.to_parquet(Path(folder, "new.parquet"))
        worker = Path(__file__).with_name("autogluon_worker.py")
        subprocess.run([python, worker, folder, str(AUTOGLUON_SECONDS)], check=True, stdout=subprocess.DEVNULL)
        P = pd.read_parquet(Path(folder, "probabilities.parquet"))
        predicted = pd.read_parquet(Path(folder, "predicted.parquet"))["label"].tolist()
    return AutoGluonModel(P.columns.tolist(), P.to_numpy(), predicted)
