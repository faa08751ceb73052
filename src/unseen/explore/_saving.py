"""Write a setting as a model file or as a report, with the functions that the other commands use."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..model_selection import Method
from ..models import TableRows, fit_table, model_card, save_model
from ..study import COMPARISON_PROTOCOL, compare_table
from ..utils.io import atomic_write
from ._code import command_line_code
from ._session import Session
from ._setting import Setting

COMPARED_METHODS = ("KFDA", "logistic", "RBF SVM", "1-NN")  # methods that the report compares with the setting
SUFFIXES = {"model": ".unseen", "report": ".html"}


def make_method(setting: Setting) -> Method:
    """Make a method from the setting, without hyperparameters to select."""
    pipeline = setting.candidate().pipeline
    about = f"{setting.method} as set on the page"
    return Method(f"{setting.method} (explored)", "invariant", pipeline, description=about)


def save(session: Session, setting: Setting, path: Path) -> None:
    """Write a model of all domains, or a report that compares the setting with other methods, by the suffix."""
    method = make_method(setting)
    command = command_line_code(session, setting)
    if path.suffix == SUFFIXES["model"]:
        table = session.full_table
        # The centering of the setting was selected on the page.
        result = fit_table(table, method, scale=session.scale, transductive=True, random_state=session.seed)
        card = model_card(
            replace(table, notices=[*table.notices, *result.remarks]),
            result,
            method=method.name,
            scale=session.scale,
            random_state=session.seed,
            source=TableRows(table),
            command=command,
        )
        save_model(result.model, path, card)
        return
    protocol = replace(
        COMPARISON_PROTOCOL,
        repeats=1,
        preprocess=session.scale,
        centering="target" if setting.centering == "target" else "source",
        seed=session.seed,
    )
    page = compare_table(session.table, protocol, [method, *COMPARED_METHODS], command=command).to_html()
    with atomic_write(path) as file:
        file.write_text(page, encoding="utf-8")


def available_name(folder: Path, stem: str, suffix: str) -> Path:
    """Return a path in the folder that does not exist yet."""
    path = folder / f"{stem}{suffix}"
    number = 2
    while path.exists():
        path = folder / f"{stem}-{number}{suffix}"
        number += 1
    return path
