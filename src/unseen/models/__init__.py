"""Models of tables: model selection and fitting on tables of any size, model files that run no code, and prediction.

Imports from `tables`, `model_selection` and `shift`.
"""

from ._fit import (
    AUTO,
    check_threshold,
    choose_domain_threshold,
    choose_ensemble_threshold,
    choose_positive,
    fit,
    list_candidates,
    make_preparation,
    refit_selected,
)
from ._model import RESULT_ENDINGS, Model, ModelFileError, TablePredictions
from ._model_card import quote_label, summarize_card
from ._model_file import check_storable, load_model, read_card, save_model
from ._table_model import TableModel

__all__ = [
    "Model",
    "ModelFileError",
    "TableModel",
    "TablePredictions",
    "fit",
    "load_model",
    "read_card",
    "save_model",
]
