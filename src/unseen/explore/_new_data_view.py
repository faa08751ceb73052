"""Predictions of a fitted model on a new table: positions among the source domains, novelty, certainty."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..models import load_model
from ..utils.validation import format_list

MAX_LISTED_ROWS = 5_000


class NewDataView:
    """Predictions of a model file on a new table.

    Parameters
    ----------
    model : path
        Model file that ``unseen fit`` wrote.
    new : path
        The new table.
    domain : str, default=None
        Column of the domains of the new table.
    """

    def __init__(self, model: Path, new: Path, domain: str | None = None) -> None:
        self.model = load_model(model)
        self.new = new
        self.domain = domain
        self.name = f"{model.name} on {new.name}"

    @property
    def facts(self) -> dict[str, Any]:
        """Everything that the page shows, as plain values; rows in ascending order of certainty."""
        prediction = self.model.predict_table(self.new, domain=self.domain)
        frame = prediction.frame
        assert frame is not None  # since no output file was given
        classes = [str(name) for name in self.model.classes_.tolist()]
        columns = [f"p({name})" for name in self.model.classes_.tolist()]
        if not set(columns) <= set(frame.columns):
            raise ValueError("The model predicts labels without probabilities, so rows cannot be sorted by certainty.")
        P = frame.select(columns).to_numpy()
        certainty = P.max(axis=1)
        order = np.argsort(certainty, kind="stable")[:MAX_LISTED_ROWS]
        X, *_ = self.model.open_table(self.new, domain=self.domain).read()
        table_model = self.model.table_model
        features = table_model.novelty_features(table_model.prepare(X[order]))
        positions, source_positions = table_model.novelty.project_to_plane(features)
        domains = frame["domain"].to_list() if "domain" in frame.columns else [None] * len(certainty)
        return {
            "name": self.name,
            "rows": len(certainty),
            "classes": classes,
            "sources": [str(name) for name in table_model.novelty.domains_.tolist()],
            "summary": prediction.summary,
            "notices": [*prediction.notices],
            "row": (order + 1).tolist(),
            "label": [str(name) for name in frame["label"].gather(order).to_list()],
            "certainty": certainty[order].tolist(),
            "probabilities": P[order].tolist(),
            "domain": [None if domains[i] is None else str(domains[i]) for i in order.tolist()],
            "positions": np.asarray(positions, dtype=np.float32),
            "source_positions": np.asarray(source_positions, dtype=np.float32).tolist(),
            "text": format_list([entry["text"] for entry in prediction.summary["novelty"]], quote=False),
        }
