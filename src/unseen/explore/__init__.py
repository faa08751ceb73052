"""A live page on a data set: what weights do to a picture, to scatters and to accuracy, while a slider moves.

Asks the engine, the algebra and the models for everything, and computes nothing itself. `Session` is a data set that is
being explored, `NewDataView` a fitted model on new rows, `Server` the server.
"""

from ._code import command_line_code, python_code
from ._new_data_view import NewDataView
from ._saving import save
from ._server import Explorer, Server, make_application
from ._session import Origin, Session
from ._setting import Setting
from ._sources import embedded_sources, table_source

__all__: list[str] = []  # the command is the way in
# For other rooms, and for nobody else.
__all__ += [
    "Explorer",
    "NewDataView",
    "Origin",
    "Server",
    "Session",
    "Setting",
    "command_line_code",
    "make_application",
]
__all__ += ["embedded_sources", "python_code", "save", "table_source"]
