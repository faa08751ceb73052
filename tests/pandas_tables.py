"""What is read from DataFrames of pandas, for a comparison of processes with and without polars."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import unseen
from unseen.exceptions import NewDataWarning
from unseen.tables import TableError, load_table


def make_messy(patients):
    """Columns that are hard to read."""
    n = len(patients)
    return patients[["hospital", "diagnosis", "age"]].assign(
        marks=["?" if i % 5 == 0 else f" {i / 4} " for i in range(n)],
        words=["NA" if i % 9 == 0 else ["red", "Green", "blue "][i % 3] for i in range(n)],
        codes=pd.Categorical([1 + i % 4 for i in range(n)]),
        zeros=[f"00{i % 5}" for i in range(n)],
        flags=["true" if i % 2 else "FALSE" for i in range(n)],
        day=[f"{1 + i % 28:02d}.0{1 + i % 9}.20{i % 30:02d}" for i in range(n)],
        moment=[f"2024-01-{1 + i % 28:02d}T{i % 24:02d}:30:00+02:00" for i in range(n)],
        plain_day=[None if i == 3 else date(2020, 1, 1) + timedelta(days=i) for i in range(n)],
        wait=pd.to_timedelta(np.arange(n) * 1.5, unit="h"),
        price=[Decimal(i) / 4 for i in range(n)],
        large=[2**60 + i if i % 2 else None for i in range(n)],
        infinite=[np.inf if i == 7 else i / 3 for i in range(n)],
        lists=[[i] for i in range(n)],
        raw=[b"x"] * n,
        half_read=["x" if i == 50 else str(i / 7) for i in range(n)],
    )


ASKED_MESSY = [{}, {"dates": "ordinal"}, {"categories": ["zeros", "marks"], "drop": ["age"]}]
LABELS = [
    [1, 2],
    [1.0, 2.0],
    ["1", "2.0"],
    [True, False],
    ["true", " False"],
    ["007", "1"],
    ["1.5", "2.5"],
    ["a", "b"],
]


def bad_columns(n):
    return {
        "missing labels": {"diagnosis": [None if i == 4 else "ab"[i % 2] for i in range(n)]},
        "measured labels": {"diagnosis": [i / 7 for i in range(n)]},
        "one domain": {"hospital": ["bonn"] * n},
    }


def read(frame, **options):
    try:
        table = load_table(frame, label="diagnosis", domain="hospital", **options)
    except TableError as error:
        return str(error)
    facts = table.schema.to_dict(), table.notices, table.left_out, table.rows.tolist()
    return table.X, table.y, table.domain, table.group, facts


def results(patients, odd, asked):
    """What is read from frames, and predicted by a model of one."""
    messy = make_messy(patients)
    n = len(messy)
    tables = [read(frame, **options) for frame in (patients, odd) for options in asked]
    tables += [read(messy, **options) for options in ASKED_MESSY]
    tables += [read(messy.assign(diagnosis=[labels[i % 2] for i in range(n)])) for labels in LABELS]
    tables += [read(messy.assign(diagnosis=["none", "ill", "well"] * (n // 3)), unlabeled="none")]
    tables += [read(messy.assign(**columns)) for columns in bad_columns(n).values()]
    tables += [read(messy.to_dict("records")), read({name: messy[name].tolist() for name in messy})]
    model = unseen.fit(
        patients, label="diagnosis", domain="hospital", methods="logistic", group="patient_id", drop=["note", "ward"],
        dates="ordinal",
    )  # fmt: skip
    new = patients.drop(columns="diagnosis").assign(sex=["x", *patients["sex"][1:]])
    with pytest.warns(NewDataWarning, match="'x'"):
        labels = model.predict(new)
    novelty = model.novelty(new, sample_domain="hospital")
    row = model.predict_proba(patients.iloc[0])
    return tables, labels, novelty, row
