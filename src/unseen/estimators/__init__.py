"""Estimators: projections, Undo-Bias, centering of domains, streaming, and Dask collections.

The package imports `linalg`, `kernels` and `utils`.
"""

from ._dask import align_blocks, compute, map_blocks, reduce_blocks, row_blocks, tree_reduce
from ._dask import predict as predict_lazily
from ._discriminants import CIDG, DICA, KFDA, MDA, SCA
from ._domain_centering import (
    DomainCenterer,
    DomainCenters,
    DomainTransformer,
    apply_centering,
    centers_batches,
    get_domain_centers,
    transform_all_without_centering,
)
from ._harmonizer import DomainHarmonizer
from ._marginal_transfer import MarginalTransferClassifier
from ._projection import (
    FEATURE_MAPS,
    Projection,
    ProjectionProblem,
    collect_statistics,
    fit_from_statistics,
    make_problem,
    validation_options,
)
from ._statistics import Statistics, feature_spectrum, sum_statistics
from ._undo_bias import LIBLINEAR, UndoBias

__all__ = [
    "CIDG",
    "DICA",
    "KFDA",
    "MDA",
    "SCA",
    "DomainCenterer",
    "DomainHarmonizer",
    "MarginalTransferClassifier",
    "UndoBias",
]
