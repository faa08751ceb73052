"""Samples, splits and candidates to ask the engine with."""

from __future__ import annotations

import numpy as np

from helpers import three_domains
from unseen.model_selection import Candidate
from unseen.utils.samples import Samples

X, Y, D = three_domains()
NAMES = np.array(["ill", "so so", "well"])
SAMPLES = Samples(X, NAMES[Y], np.array(["a", "b", "c"])[D])
SPLITS = [(np.flatnonzero(s != D), np.flatnonzero(s == D)) for s in range(3)]


def own(classifier, transformer=None, **options):
    return Candidate("own", {}, transformer, classifier, **options)
