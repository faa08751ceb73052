"""The web server: one page and the requests of its script, for browsers on this machine only."""

from __future__ import annotations

import hmac
import html
import json
import secrets
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import Any

from ..model_selection import EXPECTED_ERRORS
from ..utils.io import plain_values
from ._session import Session
from ._setting import Setting

FILES = {
    "": ("index.html", "text/html; charset=utf-8"),
    "app.js": ("app.js", "text/javascript; charset=utf-8"),
    "style.css": ("style.css", "text/css; charset=utf-8"),
}
REQUEST_SECONDS = 10.0  # sufficient, since requests come from this machine and are small
MAX_REQUEST_BYTES = 65_536
# Headers of every response. The page may use only scripts, styles and requests of this server, may not be shown in a
# frame, and does not pass its address on.
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}
REDIRECT_PAGE = """\
<!DOCTYPE html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}">
<title>unseen explore</title>
<a href="{address}">Open the page</a>
"""
Values = dict[str, Any]  # of a request or a response


class RejectedRequest(Exception):
    """A request that is rejected, with a status and a reason."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Server(ThreadingHTTPServer):
    """A server of the page, with a random token in its address.

    Parameters
    ----------
    sources : mapping of str to callable
        Data sets by name; each is opened at its first request.
    port : int, default=0
        Port on 127.0.0.1; 0 selects a free one.
    """

    daemon_threads = True  # Ctrl-C does not wait for a computation

    def __init__(self, sources: Mapping[str, Callable[[], Session]], port: int = 0) -> None:
        self.sources = sources
        self.token = secrets.token_urlsafe(24)
        self._sessions: dict[str, Session] = {}
        self._lock = threading.Lock()  # one computation at a time
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except (OSError, OverflowError) as error:
            raise OSError(
                f"Port {port} cannot be used ({error}). Pass another port with the parameter port, or 0 for a free one."
            ) from error

    @property
    def address(self) -> str:
        """The address of the page; it contains the token and grants access."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"

    def run(self, *, browser: bool = False) -> None:
        """Serve until Ctrl-C."""
        with self, _write_redirect(self.address) as page, suppress(KeyboardInterrupt):
            if browser:
                threading.Timer(0.3, webbrowser.open, [page]).start()
            self.serve_forever()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore browsers that do not wait for a response; print other errors."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def respond(self, name: str, request: Values) -> Values:
        """Return the response to a request of the page."""
        data = request.get("data", next(iter(self.sources)))
        if not isinstance(data, str) or data not in self.sources:
            names = ", ".join(self.sources)
            raise RejectedRequest(HTTPStatus.NOT_FOUND, f"data must be one of {names}; got {str(data)[:80]!r}.")
        values = request.get("setting", {})
        if not isinstance(values, dict):
            raise RejectedRequest(HTTPStatus.BAD_REQUEST, "setting must be an object.")
        with self._lock:
            if data not in self._sessions:
                self._sessions[data] = self.sources[data]()
            session = self._sessions[data]
            if name == "data":
                return {"sources": list(self.sources), **session.describe()}
            setting = Setting.from_values(values, session.domains)
            if name == "solve":
                return session.solve(setting)
            if name == "validate":
                return {"accuracy": session.validate(setting, request.get("domain", ""))}
        raise RejectedRequest(HTTPStatus.NOT_FOUND, "The request is unknown.")


class _Handler(BaseHTTPRequestHandler):
    """Check the address and the origin of each request before it is handled.

    With DNS rebinding, a page of another site sends its own name as the host; otherwise it sends its own origin. Both
    are rejected, for every method.
    """

    server: Server
    server_version = "unseen"
    sys_version = ""
    timeout = REQUEST_SECONDS

    def do_GET(self) -> None:
        """Send the page, its script or its style."""
        with self._sending_errors():
            path = self._authorize()
            if path not in FILES:
                raise RejectedRequest(HTTPStatus.NOT_FOUND, "The file is unknown.")
            name, media_type = FILES[path]
            self._send(resources.files(__package__).joinpath("static", name).read_bytes(), media_type)

    def do_POST(self) -> None:
        """Send the response to a request of the script."""
        with self._sending_errors():
            folder, _, name = self._authorize().partition("/")
            if folder != "api":
                raise RejectedRequest(HTTPStatus.NOT_FOUND, "The request is unknown.")
            response = self.server.respond(name, self._read_json())
            self._send(json.dumps(plain_values(response), allow_nan=False).encode())

    @contextmanager
    def _sending_errors(self) -> Iterator[None]:
        try:
            yield
        except (RejectedRequest, *EXPECTED_ERRORS, ImportError) as error:
            status = error.status if isinstance(error, RejectedRequest) else HTTPStatus.UNPROCESSABLE_ENTITY
            self._send(json.dumps({"error": str(error)}).encode(), status=status)

    def _authorize(self) -> str:
        """Return the path after the token, or raise RejectedRequest."""
        hosts = {f"127.0.0.1:{self.server.server_port}", f"localhost:{self.server.server_port}"}
        host = self.headers.get_all("host", [])
        if len(host) != 1 or host[0] not in hosts:
            raise RejectedRequest(HTTPStatus.FORBIDDEN, "The header Host is not the address of this server.")
        token, _, path = self.path.removeprefix("/").partition("/")
        if not hmac.compare_digest(token.encode(), self.server.token.encode()):
            reason = "The address has no valid token. Use the address that the command printed."
            raise RejectedRequest(HTTPStatus.FORBIDDEN, reason)
        is_same_origin = set(self.headers.get_all("origin", [])) <= {f"http://{name}" for name in hosts}
        is_same_site = set(self.headers.get_all("sec-fetch-site", [])) <= {"same-origin", "none"}
        # The file with which the command opens a browser is another site as well. It may open the page, and no more.
        opens_page = (
            path == ""
            and self.headers.get_all("sec-fetch-mode") == ["navigate"]
            and self.headers.get_all("sec-fetch-dest") == ["document"]
        )
        if not is_same_origin or not (is_same_site or opens_page):
            raise RejectedRequest(HTTPStatus.FORBIDDEN, "Requests from other sites are not allowed.")
        return path

    def _read_json(self) -> Values:
        """Return the JSON object in the body, or raise RejectedRequest."""
        if self.headers.get_content_type() != "application/json":
            raise RejectedRequest(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The content type must be application/json.")
        length = self.headers.get("content-length", "")
        if not (length.isascii() and length.isdecimal()):
            raise RejectedRequest(HTTPStatus.LENGTH_REQUIRED, "The length of the request is missing.")
        if len(length) > len(str(MAX_REQUEST_BYTES)) or int(length) > MAX_REQUEST_BYTES:
            reason = f"The request must have at most {MAX_REQUEST_BYTES:,} bytes."
            raise RejectedRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason)
        try:
            values = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict):
            raise RejectedRequest(HTTPStatus.BAD_REQUEST, "The request is not a JSON object.")
        return values

    def _send(self, body: bytes, media_type: str = "application/json", status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        self.send_header("content-type", media_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def end_headers(self) -> None:
        """Add the security headers, also to responses that the base class makes."""
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: addresses contain the token."""


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
