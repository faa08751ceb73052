"""Models of tables: model selection and fitting on tables of any size, model files that run no code, and prediction.

Imports from `tables`, `model_selection` and `shift`.
"""

from ._fit import (
    check_threshold,
    choose_domain_threshold,
    choose_ensemble_threshold,
    choose_positive,
    fit,
    with_threshold,
)
from ._model import RESULT_ENDINGS, Model, ModelFileError, TablePredictions
from ._model_card import model_card, quote_label, summarize_card
from ._model_file import check_storable, load_model, read_card, save_model
from ._table_fit import (
    AUTO,
    TableFit,
    TableRows,
    fit_notices,
    fit_table,
    list_candidates,
    make_preparation,
    open_row_stream,
    refit_selected,
    resolve_methods,
)
from ._table_model import TableModel

__all__ = [
    "Model",
    "ModelFileError",
    "TableFit",
    "TableModel",
    "TablePredictions",
    "fit",
    "fit_table",
    "load_model",
    "model_card",
    "read_card",
    "save_model",
]
