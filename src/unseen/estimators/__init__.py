"""The estimators: projections as recipes, Undo-Bias, centring of domains, and all of these on Dask collections.

Stands on the algebra and the kernels. One file a method.
"""

from ._cidg import CIDG
from ._cluster import ClusterLost, mapped, processes
from ._dask_blocks import compute, is_dask
from ._dica import DICA
from ._distributed import predict as predict_lazily
from ._distributed import tree
from ._domain_centerer import DomainCenterer
from ._kfda import KFDA
from ._mda import MDA
from ._projection import Projection, adopt_statistics, collect_statistics, invariance_weights
from ._sca import SCA
from ._space import Space, check_gram, learns_nothing
from ._statistics import Statistics, total
from ._undo_bias import UndoBias

__all__ = [
    "CIDG",
    "DICA",
    "KFDA",
    "MDA",
    "SCA",
    "ClusterLost",
    "DomainCenterer",
    "Projection",
    "Space",
    "Statistics",
    "UndoBias",
    "adopt_statistics",
    "check_gram",
    "collect_statistics",
    "compute",
    "invariance_weights",
    "is_dask",
    "learns_nothing",
    "mapped",
    "predict_lazily",
    "processes",
    "total",
    "tree",
]
