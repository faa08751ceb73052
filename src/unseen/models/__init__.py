"""Models of tables: chosen, fitted on few rows or many, saved to files that run no code, and asked for predictions.

Stands on the tables, the selection and the novelty of a new table.
"""

from ._file import ModelFileError, load_model, read_card, save_model
from ._fit import AUTO, TableFit, fit_table
from ._machine import machine_facts
from ._model import Centres, TableModel
from ._stream import Rows, TableRows

__all__ = ["ModelFileError", "TableFit", "TableModel", "fit_table", "load_model", "read_card", "save_model"]
# For other rooms, and for nobody else.
__all__ += ["AUTO", "Centres", "Rows", "TableRows", "machine_facts"]
