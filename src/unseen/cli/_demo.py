"""``unseen demo``: the experiment of the paper, a table of penguins, and a model for a new hospital."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import _options as o
from ._report import message_console, print_result, save_figure, translate_errors

if TYPE_CHECKING:
    from ..linalg import Array

N_LABELS = 25  # of the new hospital, to which the model is adapted


def demo(
    folder: Annotated[
        Path,
        o.make_option(o.OUTPUT, metavar="FOLDER", file_okay=False, help="Folder of the figure and the model file."),
    ] = Path(),
    format: o.Format = "txt",
    quiet: o.Quiet = False,
    jobs: o.AutomaticJobs = None,
) -> None:
    """Show what the package does on three data sets: the paper's, penguins, and hospitals. Takes half a minute.

    Example: unseen demo
    """
    from ..exceptions import DataWarning, NewDataWarning, ignore_warnings

    with translate_errors(), ignore_warnings(DataWarning, NewDataWarning):
        folder.mkdir(parents=True, exist_ok=True)
        result = {
            "synthetic": show_synthetic(folder / "synthetic.png", jobs),
            "penguins": compare_penguins(),
            "hospitals": predict_new_hospital(folder / "hospitals.unseen", jobs),
        }
        print_result(result, show_demo, format)


def show_synthetic(path: Path, n_jobs: int | None) -> dict[str, Any]:
    """Repeat the experiment of the paper, and draw its figure if matplotlib is installed."""
    from importlib.util import find_spec

    from ..evaluation import draw_synthetic, draw_synthetic_figure, run_synthetic

    message_console.print("The experiment of the paper ...")
    draw = draw_synthetic(0)
    rows = run_synthetic([draw], selections=["a held-out domain"], n_jobs=n_jobs)
    has_figure = find_spec("matplotlib") is not None
    if has_figure:
        save_figure(draw_synthetic_figure(draw, rows), path)
    accuracies = {row.method: row.accuracy for row in rows}
    return {"1-NN": accuracies["1-NN"], "CIDG": accuracies["CIDG"], "figure": str(path) if has_figure else None}


def compare_penguins() -> dict[str, Any]:
    """Predict the sex of each species of penguins from the other two, with and without CIDG."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from ..datasets import load_penguins
    from ..estimators import CIDG

    X, y, species = load_penguins(return_X_y=True)
    plain = make_pipeline(StandardScaler(), LogisticRegression())
    result: dict[str, Any] = {"cross-validation": float(cross_val_score(plain, X, y, cv=10).mean()), "species": {}}
    for name in np.unique(species):
        is_new = species == name
        scaler = StandardScaler().fit(X[~is_new])
        train, test = scaler.transform(X[~is_new]), scaler.transform(X[is_new])
        projection = CIDG(kernel="linear", centering="target").fit(train, y[~is_new], sample_domain=species[~is_new])

        def score(train: Array, test: Array) -> float:
            return float(LogisticRegression().fit(train, y[~is_new]).score(test, y[is_new]))  # noqa: B023

        result["species"][str(name)] = {
            "logistic": score(train, test),
            "CIDG": score(projection.transform(train), projection.transform(test)),
        }
    return result


def predict_new_hospital(path: Path, n_jobs: int | None) -> dict[str, Any]:
    """Fit a model to twelve hospitals, and measure it on a thirteenth, before and after adaptation to some labels."""
    from sklearn.metrics import log_loss

    from ..datasets import load_hospitals
    from ..models import fit

    message_console.print("A model for a new hospital ...")
    hospitals, new_hospital = load_hospitals()
    model = fit(hospitals, label="diagnosis", domain="hospital", n_jobs=n_jobs)
    model.save(path)
    labeled, rest = new_hospital.head(N_LABELS), new_hospital.tail(-N_LABELS)
    expected = model.card["expected_performance"]
    result: dict[str, Any] = {
        "expected": {key: expected[key] for key in ("mean", "lower", "upper")},
        "rows": len(rest),
        "model": str(path),
    }
    for name, one in (("model", model), ("adapted", model.adapt(labeled, "diagnosis"))):
        truth = rest["diagnosis"].to_numpy()
        result[f"{name}_accuracy"] = float((one.predict(rest) == truth).mean())
        result[f"{name}_log_loss"] = float(log_loss(truth, one.predict_proba(rest), labels=one.classes_))
    return result


def show_demo(result: dict[str, Any]) -> None:
    """Print the three results, each in at most eight lines."""
    synthetic = result["synthetic"]
    penguins = result["penguins"]
    hospitals = result["hospitals"]
    expected = hospitals["expected"]
    species = penguins["species"]

    def cells(key: str) -> str:
        return "".join(f"{100 * scores[key]:10.1f}%" for scores in species.values())

    lines = [
        "Use unseen.fit for models that must work on domains without training data.",
        "",
        "1. The experiment of the paper: trained on two domains, tested on a third",
        f"   1-NN                  {100 * synthetic['1-NN']:10.1f}%",
        f"   CIDG, then 1-NN       {100 * synthetic['CIDG']:10.1f}%  (in the paper: 86.67%)",
        *([f"   Figure: {synthetic['figure']}"] if synthetic["figure"] else []),
        "",
        "2. Penguins: the sex of a species that is not in the training data",
        f"   {'':22}{''.join(f'{name:>11}' for name in species)}",
        f"   logistic regression   {cells('logistic')}",
        f"   CIDG, then the same   {cells('CIDG')}",
        f"   Cross-validation over all rows gives logistic regression {100 * penguins['cross-validation']:.1f}%.",
        "",
        "3. Fever in twelve hospitals: a model for a thirteenth",
        f"   Expected accuracy there: {100 * expected['mean']:.0f}% (95% prediction interval "
        f"{100 * expected['lower']:.0f}% to {100 * expected['upper']:.0f}%)",
        f"   Measured on {hospitals['rows']} patients: {100 * hospitals['model_accuracy']:.1f}%, log loss "
        f"{hospitals['model_log_loss']:.3f}",
        f"   Adapted to {N_LABELS} labels: {100 * hospitals['adapted_accuracy']:.1f}%, log loss "
        f"{hospitals['adapted_log_loss']:.3f}",
        f"   Details: unseen show {hospitals['model']}",
    ]
    typer.echo("\n".join(lines))
