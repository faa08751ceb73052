"""Which rows of a new domain to label."""

from __future__ import annotations

import numpy as np

from ..linalg import Array, Ints


def select_rows_to_label(P: Array, n: int, *, seed: int = 0) -> Ints:
    """Select rows whose labels help to adapt a model: stratified by predicted class and by uncertainty.

    Rows are ordered by predicted class and, within a class, by the probability of that class. The order is divided into
    `n` strata of equal size, and one row is drawn at random from each. So predicted classes and degrees of uncertainty
    have the shares in the selection that they have in the table, and rows are selected with equal probabilities, both
    up to rounding: labels are representative, and vary less than those of a simple random sample.

    Parameters
    ----------
    P : ndarray of shape (n_rows, n_classes)
        Predicted probabilities.
    n : int
        Number of rows to select.
    seed : int, default=0
        Seed of the draw.

    Returns
    -------
    rows : ndarray of shape (n,)
        Positions of the selected rows, in ascending order; all rows if there are fewer than `n`.

    Examples
    --------
    >>> import numpy as np
    >>> from unseen.adaptation import select_rows_to_label
    >>> P = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.45, 0.55]])
    >>> rows = select_rows_to_label(P, 2)
    >>> P[rows].argmax(axis=1).tolist()
    [0, 1]
    """
    if n < 1:
        raise ValueError(f"n={n} must be at least 1.")
    n_rows = len(P)
    if n >= n_rows:
        return np.arange(n_rows)
    rng = np.random.default_rng(seed)
    # Confidence decreases in one class and increases in the next, so that neighboring strata are similar.
    predicted = P.argmax(axis=1)
    confidence = P.max(axis=1)
    order = np.lexsort((np.where(predicted % 2 == 0, -confidence, confidence), predicted))
    edges = np.arange(n + 1) * n_rows // n
    positions = edges[:-1] + np.floor(rng.random(n) * np.diff(edges)).astype(np.intp)
    return np.sort(order[positions])
