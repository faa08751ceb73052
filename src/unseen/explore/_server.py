"""The web server: one page and the requests of its script, for browsers on this machine only."""

from __future__ import annotations

import asyncio
import base64
import html
import json
import secrets
import socket
import tempfile
import threading
import webbrowser
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..model_selection import EXPECTED_ERRORS
from ..utils.optional_imports import optional_import
from ._code import command_line_code, python_code
from ._ensemble_view import SHARES, EnsembleView, make_ensemble_view
from ._http import make_timed_protocol
from ._new_data_view import NewDataView
from ._request_queue import RequestQueue, Superseded
from ._saving import SUFFIXES, available_name, save
from ._security import HEADERS, RejectedRequest, SecurityMiddleware, parse_request
from ._session import Session
from ._setting import Setting

PURPOSE = "unseen explore"
MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
MAX_CACHED_ENSEMBLES = 4
REDIRECT_PAGE = """\
<!DOCTYPE html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}">
<title>unseen explore</title>
<a href="{address}">Open the page</a>
"""
MAX_TAB_LENGTH = 64  # characters of the identifier of a tab
Sources = Mapping[str, Callable[[], Session]]
Values = dict[str, Any]  # of a request or a response


class Explorer:
    """The requests of the page: data sets by name, each opened at its first request; or a model with a new table."""

    def __init__(self, sources: Sources, new_data: NewDataView | None = None, folder: Path | None = None) -> None:
        self.sources = sources
        self.new_data = new_data
        self.folder = Path.cwd() if folder is None else folder
        self.queue = RequestQueue()
        self._sessions: dict[str, Session] = {}
        self._ensembles: OrderedDict[tuple[str, str], EnsembleView] = OrderedDict()

    async def start(self, request: Values) -> Values:
        """Return the names of the data sets."""
        mode = "data" if self.new_data is None else "model"
        return {"mode": mode, "data": list(self.sources), "version": __version__, "folder": str(self.folder)}

    async def data(self, request: Values) -> Values:
        """Return a data set."""
        session = await self._get_session(request)
        return session.facts

    async def model(self, request: Values) -> Values:
        """Return the predictions of a model on a new table."""
        view = self.new_data
        if view is None:
            raise RejectedRequest(404, "This server shows data, not a model.")
        return await self.queue.run(lambda: view.facts)

    async def solve(self, request: Values) -> Values:
        """Return the features and scores of a setting."""
        session, setting = await self._get_setting(request)
        check_current = self.queue.register(_get_tab(request), "solve")

        def work() -> Values:
            solution = session.solve(setting, check_current, wait_for_validation=False)
            if request.get("before"):
                solution["before"] = session.before(setting)
            return solution

        return await self.queue.run(work, check_current)

    async def validate(self, request: Values) -> Values:
        """Return the validation score of a setting."""
        session, setting = await self._get_setting(request)
        check_current = self.queue.register(_get_tab(request), "validate")
        return await self.queue.run_parts(session.validate(setting), check_current)

    async def surface(self, request: Values) -> Values:
        """Return the validation scores of other settings."""
        session, setting = await self._get_setting(request)
        check_current = self.queue.register(_get_tab(request), "surface")
        return await self.queue.run_parts(session.surface(setting), check_current)

    async def code(self, request: Values) -> Values:
        """Return code that reproduces the setting."""
        session, setting = await self._get_setting(request)
        return {
            "python": python_code(session, setting),
            "command": command_line_code(session, setting),
            "at": str(setting),
        }

    async def save(self, request: Values) -> Values:
        """Write a model or a report to the folder in which the command was started; the page cannot choose the name."""
        session, setting = await self._get_setting(request)
        kind = request.get("kind")
        if not isinstance(kind, str) or kind not in SUFFIXES:
            raise RejectedRequest(400, f"kind must be one of {', '.join(SUFFIXES)}; got {str(kind)[:80]!r}.")
        stem = Path(session.table.name).stem.replace(" ", "-")
        path = available_name(self.folder, f"{stem}-explored", SUFFIXES[kind])
        await self.queue.run(lambda: save(session, setting, path))
        return {"path": str(path)}

    async def ensemble(self, request: Values) -> Values:
        """Return the ensemble of the source domains."""
        view = await self._get_ensemble(request)
        return view.facts

    async def skew(self, request: Values) -> Values:
        """Return the accuracy of the ensembles on batches in which some classes are frequent."""
        share = request.get("share", 0)
        if not isinstance(share, (int, float)) or share not in (0, *SHARES):
            raise RejectedRequest(
                400,
                f"share must be one of {', '.join(map(str, SHARES))}, or 0 for the unchanged batch; got "
                f"{str(share)[:80]!r}.",
            )
        view = await self._get_ensemble(request)
        check_current = self.queue.register(_get_tab(request), "skew")
        return await self.queue.run(lambda: view.skew(share or None), check_current)

    async def _get_ensemble(self, request: Values) -> EnsembleView:
        session, setting = await self._get_setting(request)
        key = (str(request.get("data", next(iter(self.sources)))), setting.held_out)
        if key not in self._ensembles:
            check_current = self.queue.register(_get_tab(request), "ensemble")
            parts = make_ensemble_view(session, setting.held_out)
            self._ensembles[key] = await self.queue.run_parts(parts, check_current)
            while len(self._ensembles) > MAX_CACHED_ENSEMBLES:
                self._ensembles.popitem(last=False)
        return self._ensembles[key]

    async def _get_session(self, request: Values) -> Session:
        name = request.get("data", next(iter(self.sources), None))
        if not isinstance(name, str) or name not in self.sources:
            raise RejectedRequest(404, f"data must be one of {', '.join(self.sources)}; got {str(name)[:80]!r}.")
        if name not in self._sessions:
            session = await self.queue.run(self.sources[name])
            self._sessions.setdefault(name, session)
        return self._sessions[name]

    async def _get_setting(self, request: Values) -> tuple[Session, Setting]:
        session = await self._get_session(request)
        values = request.get("setting", {})
        if not isinstance(values, dict):
            raise RejectedRequest(400, "setting must be an object.")
        return session, session.setting(values)


def _get_tab(request: Values) -> str:
    tab = request.get("tab", "")
    if not isinstance(tab, str) or len(tab) > MAX_TAB_LENGTH:
        raise RejectedRequest(400, f"tab must be a string of at most {MAX_TAB_LENGTH} characters.")
    return tab


def make_application(explorer: Explorer, token: str, port: int) -> SecurityMiddleware:
    """Make the ASGI application."""
    optional_import("starlette", PURPOSE)
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    def respond(values: Values, status: int = 200) -> Response:
        text = json.dumps(values, default=_encode_array, allow_nan=False)
        return Response(text, status, media_type="application/json")

    def make_endpoint(name: str) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            try:
                return respond(await getattr(explorer, name)(await parse_request(request)))
            except Superseded:
                return Response(None, 204)  # not an error: the page has sent a newer request
            except RejectedRequest as rejection:
                return respond({"error": str(rejection)}, rejection.status)
            except (*EXPECTED_ERRORS, ImportError, OSError) as error:
                return respond({"error": str(error)}, 422)

        return endpoint

    def make_file_endpoint(file: Any) -> Callable[[Request], Any]:
        body = file.read_bytes()
        media_type = MEDIA_TYPES[Path(file.name).suffix]

        async def endpoint(request: Request) -> Response:
            return Response(body, 200, media_type=media_type)

        return endpoint

    routes = []
    for file in resources.files(__package__).joinpath("static").iterdir():
        if "." in file.name:
            path = "/" if file.name == "index.html" else f"/{file.name}"
            routes.append(Route(path, make_file_endpoint(file)))
    for name in (
        "start",
        "data",
        "model",
        "solve",
        "validate",
        "surface",
        "code",
        "save",
        "ensemble",
        "skew",
    ):
        routes.append(Route(f"/api/{name}", make_endpoint(name), methods=["POST"]))
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False  # an unknown path is an error, not a redirect
    return SecurityMiddleware(app, token, port)


def _encode_array(value: Any) -> Any:
    """Encode an array as its bytes, since JSON would write thousands of numbers one by one."""
    if isinstance(value, np.ndarray) and value.dtype == np.float32:
        return {"shape": list(value.shape), "float32": base64.b64encode(value.astype("<f4").tobytes()).decode()}
    return value.item()


def bind_socket(port: int) -> socket.socket:
    """Return a socket that accepts connections from this machine only; port 0 selects a free port."""
    server_socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server_socket.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        server_socket.close()
        raise OSError(
            f"Port {port} cannot be used ({error}). Pass another port with the parameter port, or 0 for a free one."
        ) from error
    return server_socket


class Server:
    """A server of the page, with a random token in its address.

    Parameters
    ----------
    explorer : Explorer
        The object that handles the requests.
    port : int, default=0
        Port on 127.0.0.1; 0 selects a free one.
    """

    def __init__(self, explorer: Explorer, port: int = 0) -> None:
        uvicorn = optional_import("uvicorn", PURPOSE)
        self.token = secrets.token_urlsafe(24)
        self.socket = bind_socket(port)
        self.port = self.socket.getsockname()[1]
        config = uvicorn.Config(
            make_application(explorer, self.token, self.port),
            http=make_timed_protocol(),
            ws="none",
            lifespan="off",
            headers=list(HEADERS.items()),  # also of responses that uvicorn makes, such as 404 and 503
            server_header=False,
            log_level="warning",
            access_log=False,
            limit_concurrency=200,
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=16_384,
        )
        self.server = uvicorn.Server(config)

    @property
    def address(self) -> str:
        """The address of the page; it contains the token and grants access."""
        return f"http://127.0.0.1:{self.port}/{self.token}/"

    def run(self, *, browser: bool = False, at: str = "") -> None:
        """Serve until Ctrl-C."""
        with ExitStack() as stack:
            stack.callback(self.socket.close)
            if browser:
                page = stack.enter_context(_write_redirect(self.address + (f"#{at}" if at else "")))
                threading.Timer(0.3, webbrowser.open, [page]).start()
            with suppress(KeyboardInterrupt):  # the server raises it again after it has shut down
                asyncio.run(self.server.serve([self.socket]))


@contextmanager
def _write_redirect(address: str) -> Iterator[str]:
    """Yield the address of a private file that redirects a browser to the page.

    All users of the machine can read the command line of the browser, so it must not contain the address with the
    token.
    """
    with tempfile.TemporaryDirectory(prefix="unseen-explore-") as folder:  # only the user can read it
        path = Path(folder, "open.html")
        path.write_text(REDIRECT_PAGE.format(address=html.escape(address)), encoding="utf-8")
        yield path.as_uri()
