"""Models of tables: chosen, fitted on few rows or many, saved to files that run no code, and asked for predictions.

Stands on the tables, the selection and the novelty of a new table.
"""

from ._card import machine_facts, model_card
from ._file import load_model, read_card, save_model
from ._fit import METHODS as TABLE_METHODS
from ._fit import TableFit, fit_table
from ._fit_plan import FitPlan, stream_text
from ._model import Centres, TableModel
from ._predict import BATCH, RESULT_ENDINGS, Model, ModelFileError, TablePredictions
from ._stream import TableRows, fit_stream, part_of

__all__ = [
    "Model",
    "ModelFileError",
    "TableFit",
    "TableModel",
    "TablePredictions",
    "fit_table",
    "model_card",
    "read_card",
    "save_model",
]
# For other rooms, and for nobody else.
__all__ += ["BATCH", "RESULT_ENDINGS", "TABLE_METHODS", "Centres", "FitPlan", "TableRows", "fit_stream", "load_model"]
__all__ += ["machine_facts", "part_of", "stream_text"]
