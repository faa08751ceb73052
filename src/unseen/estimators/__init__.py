"""Estimators: projections, Undo-Bias, centering of domains, streaming, and Dask collections.

Each method has one module. The package imports `linalg`, `kernels` and `utils`.
"""

from ..utils.optional_imports import is_dask
from ._cidg import CIDG
from ._dask import align_blocks, compute, map_blocks, reduce_blocks, row_blocks, tree_reduce
from ._dica import DICA
from ._domain_centering import (
    DomainCenterer,
    DomainCenters,
    DomainTransformer,
    apply_centering,
    centers_batches,
    get_domain_centers,
    transform_all_without_centering,
)
from ._feature_space import check_gram, is_fitted_map, map_features
from ._harmonizer import DomainHarmonizer
from ._kfda import KFDA
from ._lazy_prediction import DaskPredictor
from ._lazy_prediction import predict as predict_lazily
from ._marginal_transfer import MarginalTransferClassifier
from ._mda import MDA
from ._parallel import ClusterLostError, cluster_errors, map_on_cluster, parallel
from ._projection import FEATURE_MAPS, Projection, invariance_weights, make_problem, validation_options
from ._projection_problem import ProjectionProblem
from ._sca import SCA
from ._statistics import Statistics, feature_spectrum, sum_statistics
from ._streaming import collect_statistics, fit_from_statistics
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
