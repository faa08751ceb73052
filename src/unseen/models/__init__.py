"""Models of tables: chosen, fitted on few rows or many, saved to files that run no code, and asked for predictions.

Stands on the tables, the selection and the novelty of a new table.
"""

from ._fit_data import fit
from ._model import RESULT_ENDINGS, Model, ModelFileError, TablePredictions
from ._model_card import model_card
from ._model_file import check_storable, load_model, read_card, save_model
from ._row_stream import TableRows, open_row_stream
from ._table_fit import AUTO, TableFit, fit_notices, fit_table
from ._table_model import TableModel

__all__ = [
    "Model",
    "ModelFileError",
    "TableFit",
    "TableModel",
    "TablePredictions",
    "fit",
    "fit_table",
    "model_card",
    "read_card",
    "save_model",
]
# For other rooms, and for nobody else.
__all__ += ["AUTO", "RESULT_ENDINGS", "TableRows", "fit_notices", "load_model"]
__all__ += ["check_storable", "open_row_stream"]
