"""The estimators: projections as recipes, Undo-Bias, centring of domains, and all of these on Dask collections.

Stands on the algebra and the kernels. One file a method.
"""

from ..citizen import is_dask
from ._centring import (
    DomainCenters,
    DomainTransformer,
    apply_centering,
    centers_batches,
    get_domain_centers,
    transform_all_without_centering,
    transform_without_centering,
)
from ._cidg import CIDG
from ._cluster import ClusterLostError, cluster_errors, map_on_cluster, parallel
from ._dica import DICA
from ._distributed import compute, tree_reduce
from ._distributed import predict as predict_lazily
from ._domain_centerer import DomainCenterer
from ._kfda import KFDA
from ._mda import MDA
from ._projection import (
    FEATURE_MAPS,
    Projection,
    ProjectionProblem,
    invariance_weights,
    validation_options,
)
from ._sca import SCA
from ._space import check_gram, is_fitted_map, map_features
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
    "DomainCenters",
    "ClusterLostError",
    "DomainCenterer",
    "DomainTransformer",
    "ProjectionProblem",
    "Projection",
    "Statistics",
    "UndoBias",
    "fit_from_statistics",
    "centers_batches",
    "apply_centering",
    "get_domain_centers",
    "check_gram",
    "cluster_errors",
    "collect_statistics",
    "compute",
    "feature_spectrum",
    "map_features",
    "invariance_weights",
    "is_dask",
    "is_fitted_map",
    "map_on_cluster",
    "predict_lazily",
    "parallel",
    "sum_statistics",
    "tree_reduce",
    "transform_without_centering",
    "transform_all_without_centering",
    "validation_options",
]
