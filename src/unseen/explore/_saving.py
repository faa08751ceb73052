"""A setting as a model or as a report, by the functions that the other commands call."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..model_selection import Method
from ..models import TableRows, fit_table, model_card, save_model
from ..study import Protocol, compare_table
from ..utils.io import atomic_write
from ._code import command_line_code
from ._session import Session
from ._setting import Setting

COMPARED_METHODS = ("KFDA", "logistic", "RBF SVM", "1NN")  # what the report sets a setting against
SUFFIXES = {"model": ".unseen", "report": ".html"}


def make_method(setting: Setting) -> Method:
    """The setting as a method of its own, in which nothing is left to choose."""
    pipeline = setting.candidate().pipeline
    about = f"{setting.method} as it was set on the page"
    return Method(f"{setting.method} (explored)", "invariant", pipeline, about=about)


def save(session: Session, setting: Setting, path: Path) -> None:
    """Write a model of all domains, or a report in which the setting stands beside other methods; by the ending."""
    if path.suffix == SUFFIXES["model"]:
        table, how = session.whole, {"scale": session.scale, "seed": session.seed}
        found = fit_table(table, make_method(setting), **how)
        told = replace(table, notices=[*table.notices, *found.remarks])
        card = model_card(
            told,
            found,
            method=make_method(setting).name,
            source=TableRows(table),
            command=command_line_code(session, setting),
            **how,
        )
        save_model(found.model, path, card)
        return
    protocol = Protocol("domain", repeats=1, preprocess=session.scale, seed=session.seed)
    methods = [make_method(setting), *COMPARED_METHODS]
    page = compare_table(session.table, protocol, methods, command=command_line_code(session, setting)).to_html()
    with atomic_write(path) as file:
        file.write_text(page, encoding="utf-8")


def available_name(folder: Path, stem: str, ending: str) -> Path:
    """A name in a folder that nothing has yet."""
    names = (folder / f"{stem}{'' if k == 1 else f'-{k}'}{ending}" for k in range(1, 10_000))
    return next(path for path in names if not path.exists())
