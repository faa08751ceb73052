"""``unseen demo``: the experiment of the paper, a table of penguins, and a model for a new hospital."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from . import _options as o
from ._report import message_console, print_lines, save_figure

N_LABELS = 25  # of a new hospital, to which the model is adapted
N_NEW_HOSPITALS = 16


def demo(
    folder: Annotated[
        Path,
        o.make_option(o.OUTPUT, metavar="FOLDER", file_okay=False, help="Folder of the figure and the model file."),
    ] = Path(),
    quiet: o.Quiet = False,
    jobs: o.AutomaticJobs = None,
) -> None:
    """Show what the package does on three data sets: the paper's, penguins, and hospitals. Takes half a minute.

    Example: unseen demo
    """
    from ..exceptions import DataWarning, NewDataWarning, ignore_warnings

    folder.mkdir(parents=True, exist_ok=True)
    with ignore_warnings(DataWarning, NewDataWarning):
        print_lines(["Use unseen.fit for models that must work on domains without training data.", ""])
        print_lines([*reproduce_experiment(folder / "synthetic.png", jobs), ""])
        print_lines([*predict_penguins(), ""])
        print_lines(predict_new_hospitals(folder / "hospitals.unseen", jobs))


def reproduce_experiment(path: Path, n_jobs: int | None) -> list[str]:
    """Repeat the experiment of the paper, and draw its figure if matplotlib is installed."""
    from ..evaluation import draw_synthetic, draw_synthetic_figure, run_synthetic

    message_console.print("The experiment of the paper ...")
    draw = draw_synthetic(0)
    rows = run_synthetic([draw], selections=["a held-out domain"], n_jobs=n_jobs)
    accuracies = {row.method: row.accuracy for row in rows}
    lines = [
        "1. The experiment of the paper: trained on two domains, tested on a third",
        f"   1-NN                  {accuracies['1-NN']:10.1%}",
        f"   CIDG, then 1-NN       {accuracies['CIDG']:10.1%}  (in the paper: 86.67%)",
    ]
    if find_spec("matplotlib") is not None:
        save_figure(draw_synthetic_figure(draw, rows), path)
        lines.append(f"   Figure: {path}")
    return lines


def predict_penguins() -> list[str]:
    """Predict the sex of each species of penguins from the other two, with and without CIDG."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from ..datasets import load_penguins
    from ..estimators import CIDG

    X, y, species = load_penguins(return_X_y=True)
    names = sorted(set(species.tolist()))
    plain = make_pipeline(StandardScaler(), LogisticRegression())
    within = cross_val_score(plain, X, y, cv=10).mean()
    accuracies = []
    invariant_accuracies = []
    cidg = CIDG(kernel="linear", centering="target")
    invariant = make_pipeline(StandardScaler(), cidg, LogisticRegression())
    for name in names:
        is_new = species == name
        train, test = X[~is_new], X[is_new]
        accuracies.append(plain.fit(train, y[~is_new]).score(test, y[is_new]))
        invariant.fit(train, y[~is_new], cidg__sample_domain=species[~is_new])
        invariant_accuracies.append(invariant.score(test, y[is_new]))
    return [
        "2. Penguins: the sex of a species that is not in the training data",
        f"   {'':22}{''.join(f'{name:>11}' for name in names)}",
        f"   logistic regression   {''.join(f'{accuracy:11.1%}' for accuracy in accuracies)}",
        f"   CIDG, then the same   {''.join(f'{accuracy:11.1%}' for accuracy in invariant_accuracies)}",
        f"   Cross-validation over all rows gives logistic regression {within:.1%}.",
    ]


def predict_new_hospitals(path: Path, n_jobs: int | None) -> list[str]:
    """Fit a model to twelve hospitals, and measure it on new ones, before and after adaptation to some labels."""
    from scipy.stats import sem
    from sklearn.metrics import accuracy_score, log_loss

    from ..datasets import load_hospitals
    from ..models import fit

    message_console.print("A model for a new hospital ...")
    hospitals, first = load_hospitals()
    model = fit(hospitals, label="diagnosis", domain="hospital", n_jobs=n_jobs)
    model.save(path)
    expected = model.card["expected_performance"]
    accuracies = []  # one row per new hospital: of the model, and of the adapted model
    losses = []
    for number in range(N_NEW_HOSPITALS):
        _, new_hospital = load_hospitals(new_hospital=number)
        rest = new_hospital.tail(-N_LABELS)
        truth = rest["diagnosis"].to_numpy()
        models = [model, model.adapt(new_hospital.head(N_LABELS), "diagnosis")]
        accuracies.append([accuracy_score(truth, one.predict(rest)) for one in models])
        losses.append([log_loss(truth, one.predict_proba(rest), labels=one.classes_) for one in models])
    gains = [after - before for before, after in accuracies]
    mean = sum(before for before, _ in accuracies) / N_NEW_HOSPITALS
    n_inside = sum(expected["lower"] <= before <= expected["upper"] for before, _ in accuracies)
    return [
        "3. Fever in twelve hospitals: a model for a thirteenth",
        f"   Expected accuracy there: {expected['mean']:.0%} (95% prediction interval {expected['lower']:.0%} to "
        f"{expected['upper']:.0%})",
        f"   Measured on {first.height - N_LABELS} patients: {accuracies[0][0]:.1%}, log loss {losses[0][0]:.3f}",
        f"   Adapted to {N_LABELS} labels: {accuracies[0][1]:.1%}, log loss {losses[0][1]:.3f}",
        f"   {N_NEW_HOSPITALS} new hospitals: {mean:.1%} on average, {n_inside} of them in the interval; adapted to "
        f"{N_LABELS}",
        f"   labels: {100 * sum(gains) / len(gains):+.1f} points (standard error {100 * sem(gains):.1f})",
        f"   Details: unseen show {path}",
    ]
