"""A fitted model on a new table: where its rows lie among the sources, how novel they are, which are least certain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..models import load_model
from ..utils.validation import format_list

MOST_ROWS = 5_000  # that are listed and drawn


class NewDataView:
    """Rows of a new table under a model file.

    Parameters
    ----------
    model : path
        A file that ``unseen fit`` wrote.
    new : path
        The table.
    domain : str, default=None
        The column that tells its domains apart.
    """

    def __init__(self, model: Path, new: Path, domain: str | None = None) -> None:
        self.model, self.new, self.domain = load_model(model), new, domain
        self.name = f"{model.name} on {new.name}"

    @property
    def facts(self) -> dict[str, Any]:
        """All that is shown, in plain values: rows from the least certain on."""
        found = self.model.predict_table(self.new, domain=self.domain)
        frame = found.frame
        assert frame is not None  # since nothing was written
        classes = [str(name) for name in self.model.classes_.tolist()]
        columns = [f"p({name})" for name in self.model.classes_.tolist()]
        if not set(columns) <= set(frame.columns):
            raise ValueError(
                "The model gives labels without probabilities, so that no row is less certain than others."
            )
        P = frame.select(columns).to_numpy()
        certain = P.max(axis=1)
        order = np.argsort(certain, kind="stable")[:MOST_ROWS]
        X, *_ = self.model.open_table(self.new, domain=self.domain).whole()
        inside = self.model.table_model
        rows, sources = inside.novelty.project_to_plane(inside.prepare(X[order]))
        domains = frame["domain"].to_list() if "domain" in frame.columns else [None] * len(certain)
        return {
            "name": self.name,
            "rows": len(certain),
            "classes": classes,
            "sources": [str(name) for name in inside.novelty.domains_.tolist()],
            "summary": found.summary,
            "notices": [*found.notices],
            "row": (order + 1).tolist(),
            "label": [str(name) for name in frame["label"].gather(order).to_list()],
            "certain": certain[order].tolist(),
            "probabilities": P[order].tolist(),
            "domain": [None if domains[at] is None else str(domains[at]) for at in order.tolist()],
            "places": np.asarray(rows, dtype=np.float32),
            "source_places": np.asarray(sources, dtype=np.float32).tolist(),
            "text": format_list([entry["text"] for entry in found.summary["novelty"]], quote=False),
        }
