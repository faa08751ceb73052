"""The server: one page, a few calls, for browsers of this machine alone."""

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
MAX_CACHED_ENSEMBLES = 4  # that are kept
REDIRECT_PAGE = """\
<!DOCTYPE html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}">
<title>unseen explore</title>
<a href="{address}">Open the page</a>
"""
MAX_TAB_LENGTH = 64  # letters of the name of a tab
Sources = Mapping[str, Callable[[], Session]]
Facts = dict[str, Any]


class Explorer:
    """What the calls of the page are about: data sets by name, each opened when it is first looked at; or a model."""

    def __init__(self, sources: Sources, newcomers: NewDataView | None = None, folder: Path | None = None) -> None:
        self.sources, self.newcomers = sources, newcomers
        self.folder = Path.cwd() if folder is None else folder
        self.desk = RequestQueue()
        self._sessions: dict[str, Session] = {}
        self._pools: OrderedDict[tuple[str, str], EnsembleView] = OrderedDict()

    async def start(self, told: Facts) -> Facts:
        """What there is to look at."""
        mode = "data" if self.newcomers is None else "model"
        return {"mode": mode, "data": list(self.sources), "version": __version__, "folder": str(self.folder)}

    async def data(self, told: Facts) -> Facts:
        """A data set."""
        return (await self._session(told)).facts

    async def model(self, told: Facts) -> Facts:
        """A model on a new table."""
        if self.newcomers is None:
            raise RejectedRequest(404, "There is no model here, but data.")
        found = self.newcomers
        return await self.desk.run(lambda: None, lambda: found.facts)

    async def solve(self, told: Facts) -> Facts:
        """A setting."""
        session, setting = await self._setting(told)
        going = self.desk.take(_get_tab(told), "solve")

        def work() -> Facts:
            found = session.solve(setting, going, patient=False)
            return {**found, "before": session.before(setting)} if told.get("before") else found

        return await self.desk.run(going, work)

    async def validate(self, told: Facts) -> Facts:
        """What was pending of a setting."""
        session, setting = await self._setting(told)
        return await self.desk.each(self.desk.take(_get_tab(told), "validate"), session.validate(setting))

    async def surface(self, told: Facts) -> Facts:
        """Other settings around it."""
        session, setting = await self._setting(told)
        return await self.desk.each(self.desk.take(_get_tab(told), "surface"), session.surface(setting))

    async def code(self, told: Facts) -> Facts:
        """The same as code."""
        session, setting = await self._setting(told)
        return {
            "python": python_code(session, setting),
            "command": command_line_code(session, setting),
            "at": str(setting),
        }

    async def save(self, told: Facts) -> Facts:
        """Write a model or a report into the folder in which the command was started; nobody else chooses names."""
        session, setting = await self._setting(told)
        kind = told.get("kind")
        if not isinstance(kind, str) or kind not in SUFFIXES:
            raise RejectedRequest(400, f"kind must be one of {', '.join(SUFFIXES)}.")
        path = available_name(
            self.folder, f"{Path(session.table.name).stem.replace(' ', '-')}-explored", SUFFIXES[kind]
        )
        await self.desk.run(lambda: None, lambda: save(session, setting, path))
        return {"path": str(path)}

    async def pool(self, told: Facts) -> Facts:
        """The pool of all sources."""
        return (await self._pool(told)).facts

    async def skew(self, told: Facts) -> Facts:
        """What pools say of a batch in which some classes are frequent."""
        share = told.get("share", 0)
        if not isinstance(share, (int, float)) or share not in (0, *SHARES):
            raise RejectedRequest(
                400, f"share must be one of {', '.join(map(str, SHARES))}, or 0 for the batch as it is."
            )
        view = await self._pool(told)
        return await self.desk.run(self.desk.take(_get_tab(told), "skew"), lambda: view.skew(share or None))

    async def _pool(self, told: Facts) -> EnsembleView:
        session, setting = await self._setting(told)
        key = str(told.get("data", next(iter(self.sources)))), setting.held
        if key not in self._pools:
            going = self.desk.take(_get_tab(told), "pool")
            self._pools[key] = await self.desk.each(going, make_ensemble_view(session, setting.held))
            while len(self._pools) > MAX_CACHED_ENSEMBLES:
                self._pools.popitem(last=False)
        return self._pools[key]

    async def _session(self, told: Facts) -> Session:
        name = told.get("data", next(iter(self.sources), None))
        if not isinstance(name, str) or name not in self.sources:
            raise RejectedRequest(404, "There are no such data.")
        if name not in self._sessions:
            opened = self.sources[name]
            found = await self.desk.run(lambda: None, opened)
            self._sessions.setdefault(name, found)
        return self._sessions[name]

    async def _setting(self, told: Facts) -> tuple[Session, Setting]:
        session, given = await self._session(told), told.get("setting", {})
        if not isinstance(given, dict):
            raise RejectedRequest(400, "setting must be an object.")
        return session, session.setting(given)


def _get_tab(told: Facts) -> str:
    name = told.get("tab", "")
    if not isinstance(name, str) or len(name) > MAX_TAB_LENGTH:
        raise RejectedRequest(400, f"tab must be a text of at most {MAX_TAB_LENGTH} letters.")
    return name


def make_application(explorer: Explorer, token: str, port: int) -> SecurityMiddleware:
    """An ASGI application."""
    optional_import("starlette", PURPOSE)
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    def answer(facts: Facts, status: int = 200) -> Response:
        text = json.dumps(facts, default=_encode_array, allow_nan=False)
        return Response(text, status, media_type="application/json")

    def calling(name: str) -> Callable[[Request], Any]:
        async def call(request: Request) -> Response:
            try:
                return answer(await getattr(explorer, name)(await parse_request(request)))
            except Superseded:
                return Response(None, 204)  # no error: nobody waits for it
            except RejectedRequest as refusal:
                return answer({"error": str(refusal)}, refusal.status)
            except (*EXPECTED_ERRORS, ImportError, OSError) as error:
                return answer({"error": str(error)}, 422)

        return call

    def serving(file: Any) -> Callable[[Request], Any]:
        body, kind = file.read_bytes(), MEDIA_TYPES[Path(file.name).suffix]

        async def page(request: Request) -> Response:
            return Response(body, 200, media_type=kind)

        return page

    calls = ("start", "data", "model", "solve", "validate", "surface", "code", "save", "pool", "skew")
    files = [file for file in resources.files(__package__).joinpath("static").iterdir() if "." in file.name]
    routes = [Route(f"/{'' if file.name == 'index.html' else file.name}", serving(file)) for file in files]
    routes += [Route(f"/api/{name}", calling(name), methods=["POST"]) for name in calls]
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False  # a path that is none of ours leads nowhere
    return SecurityMiddleware(app, token, port)


def _encode_array(value: Any) -> Any:
    """Arrays as their bytes: a picture has thousands of numbers, which JSON would write one by one."""
    if isinstance(value, np.ndarray) and value.dtype == np.float32:
        return {"shape": list(value.shape), "float32": base64.b64encode(value.astype("<f4").tobytes()).decode()}
    return value.item()


def bind_socket(port: int) -> socket.socket:
    """A socket of this machine alone; port 0 takes one that is free."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        found.close()
        raise OSError(f"Port {port} cannot be used ({error}): choose another with --port, or leave it out.") from error
    return found


class Server:
    """A server that is about to run, and where.

    Parameters
    ----------
    explorer : Explorer
        What it is about.
    port : int, default=0
        Where it listens, on 127.0.0.1; 0 takes one that is free.
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
            headers=list(HEADERS.items()),  # also of answers that the application does not make, such as 404 and 503
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
        """Where browsers find the page; whoever knows it may come in."""
        return f"http://127.0.0.1:{self.port}/{self.token}/"

    def run(self, *, browser: bool = False, at: str = "") -> None:
        """Serve until Ctrl-C."""
        with ExitStack() as stack:
            stack.callback(self.socket.close)
            if browser:
                page = stack.enter_context(_write_redirect(self.address + (f"#{at}" if at else "")))
                threading.Timer(0.3, webbrowser.open, [page]).start()
            with suppress(KeyboardInterrupt):  # passed on by the server once it has shut down
                asyncio.run(self.server.serve([self.socket]))


@contextmanager
def _write_redirect(address: str) -> Iterator[str]:
    """Yield the address of a private file that leads a browser to a page.

    A browser is started with an address on its command line, which all users of the machine can read: it must not be
    the one with the token.
    """
    with tempfile.TemporaryDirectory(prefix="unseen-explore-") as folder:  # which only the user may enter
        path = Path(folder, "open.html")
        path.write_text(REDIRECT_PAGE.format(address=html.escape(address)), encoding="utf-8")
        yield path.as_uri()
