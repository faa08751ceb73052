"""Models of tables: chosen, fitted on few rows or many, saved to files that run no code, and asked for predictions.

Stands on the tables, the selection and the novelty of a new table.
"""

from ._card import model_card
from ._door import fit
from ._file import check_storable, load_model, read_card, save_model
from ._fit import AUTO, TableFit, fit_notices, fit_table
from ._model import TableModel
from ._predict import RESULT_ENDINGS, Model, ModelFileError, TablePredictions
from ._stream import TableRows, open_row_stream

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
