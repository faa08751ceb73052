"""The estimators: projections as recipes, Undo-Bias, centring of domains, and all of these on Dask collections.

Stands on the algebra and the kernels. One file a method.
"""

from ..citizen import is_dask
from ._centring import (
    Centring,
    DomainTransformer,
    centers_batches,
    centred,
    centring_of,
    uncentred,
    uncentred_together,
)
from ._cidg import CIDG
from ._cluster import ClusterLost, cluster_errors, mapped, processes
from ._dica import DICA
from ._distributed import compute, tree
from ._distributed import predict as predict_lazily
from ._domain_centerer import DomainCenterer
from ._harmonizer import DomainHarmonizer
from ._kfda import KFDA
from ._marginal_transfer import MarginalTransferClassifier
from ._mda import MDA
from ._projection import (
    FEATURE_MAPS,
    Equation,
    Projection,
    invariance_weights,
    validation_of,
)
from ._sca import SCA
from ._space import check_gram, features_of, learns_nothing
from ._statistics import Statistics, adopt, collect, feature_spectrum, total
from ._undo_bias import LIBLINEAR, UndoBias

__all__ = [
    "CIDG",
    "DICA",
    "FEATURE_MAPS",
    "KFDA",
    "LIBLINEAR",
    "MDA",
    "SCA",
    "Centring",
    "ClusterLost",
    "DomainCenterer",
    "DomainHarmonizer",
    "DomainTransformer",
    "Equation",
    "MarginalTransferClassifier",
    "Projection",
    "Statistics",
    "UndoBias",
    "adopt",
    "centers_batches",
    "centred",
    "centring_of",
    "check_gram",
    "cluster_errors",
    "collect",
    "compute",
    "feature_spectrum",
    "features_of",
    "invariance_weights",
    "is_dask",
    "learns_nothing",
    "mapped",
    "predict_lazily",
    "processes",
    "total",
    "tree",
    "uncentred",
    "uncentred_together",
    "validation_of",
]
