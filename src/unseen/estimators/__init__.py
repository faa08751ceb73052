"""The estimators: projections as recipes, Undo-Bias, centering of domains, and all of these on Dask collections.

Stands on the algebra and the kernels. One file a method.
"""

from ..utils.optional_imports import is_dask
from ._cidg import CIDG
from ._dask import compute, tree_reduce
from ._dask import predict as predict_lazily
from ._dica import DICA
from ._domain_centerer import DomainCenterer
from ._domain_centering import (
    DomainCenters,
    DomainTransformer,
    apply_centering,
    centers_batches,
    get_domain_centers,
    transform_all_without_centering,
    transform_without_centering,
)
from ._feature_space import check_gram, is_fitted_map, map_features
from ._kfda import KFDA
from ._mda import MDA
from ._parallel import ClusterLostError, cluster_errors, map_on_cluster, parallel
from ._projection import FEATURE_MAPS, Projection, ProjectionProblem, invariance_weights, validation_options
from ._sca import SCA
from ._statistics import Statistics, collect_statistics, feature_spectrum, fit_from_statistics, sum_statistics
from ._undo_bias import LIBLINEAR, UndoBias

__all__ = [
    "CIDG",
    "DICA",
    "FEATURE_MAPS",
    "KFDA",
    "LIBLINEAR",
    "MDA",
    "SCA",
    "ClusterLostError",
    "DomainCenterer",
    "DomainCenters",
    "DomainTransformer",
    "Projection",
    "ProjectionProblem",
    "Statistics",
    "UndoBias",
    "apply_centering",
    "centers_batches",
    "check_gram",
    "cluster_errors",
    "collect_statistics",
    "compute",
    "feature_spectrum",
    "fit_from_statistics",
    "get_domain_centers",
    "invariance_weights",
    "is_dask",
    "is_fitted_map",
    "map_features",
    "map_on_cluster",
    "parallel",
    "predict_lazily",
    "sum_statistics",
    "transform_all_without_centering",
    "transform_without_centering",
    "tree_reduce",
    "validation_options",
]
