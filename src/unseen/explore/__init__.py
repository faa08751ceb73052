"""A local web page that shows the effect of the weights of a projection on features, scatters and accuracy.

`Session` is a data set that is explored, `NewDataView` a fitted model with new rows, `Server` the server. All numbers
come from ``model_selection`` and ``models``; this package computes none itself.
"""

from ._code import command_line_code, python_code
from ._new_data_view import NewDataView
from ._saving import save
from ._server import Explorer, Server, make_application
from ._session import Origin, Session
from ._setting import Setting
from ._sources import embedded_sources, table_source

__all__: list[str] = []  # the public interface is the command ``unseen explore``
