"""A local web page that shows the effect of the weights of a projection on features, scatters and accuracy.

`Session` is a data set that is explored, `Server` the server of the page. All numbers come from ``model_selection``;
this package computes none itself.
"""

from ._server import Server
from ._session import Session, open_examples
from ._setting import Setting

__all__: list[str] = []  # the public interface is the command ``unseen explore``
