"""Access control: only browsers on this machine that know the token; and limits on the content of requests."""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

MAX_REQUEST_BYTES = 65_536
MAX_JSON_DEPTH = 4
Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]
# Headers of every response. The page may use only scripts, styles, images and requests of this server, may not be shown
# in a frame, and does not pass its address on.
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}


class RejectedRequest(Exception):
    """A request that is rejected, with a status code and a reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class SecurityMiddleware:
    """Check the token in the path and the origin of every request before the application handles it.

    With DNS rebinding, a page of another site sends its own name as the host; otherwise it sends its own origin. Both
    are rejected, for every method.
    """

    def __init__(self, app: App, token: str, port: int) -> None:
        self.app = app
        self.token = token
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Pass the request on to the application, or reject it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        try:
            if scope["type"] != "http":
                raise RejectedRequest(403, "Only the protocol http is supported.")
            inner = {**scope, "path": self._path(scope)}
        except RejectedRequest as rejection:
            await send_rejection(send, rejection)
            return
        await self.app(inner, receive, send)

    def _path(self, scope: Scope) -> str:
        """Return the path after the token, or raise RejectedRequest."""
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
        if len(headers.get("host", [])) != 1 or headers["host"][0] not in self.hosts:
            raise RejectedRequest(403, "The header Host is not the address of this server.")
        origins = {f"http://{host}" for host in self.hosts}
        if not set(headers.get("origin", [])) <= origins:
            raise RejectedRequest(403, "Requests from other sites are not allowed.")
        token = ""
        path = "/"
        if scope["path"].startswith("/"):
            token, _, rest = scope["path"][1:].partition("/")
            path += rest
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            raise RejectedRequest(403, "The address has no valid token. Use the address that the command printed.")
        # The file with which the command opens a browser is another site as well. It may open the page, and no more.
        opens_page = (
            path == "/"
            and headers.get("sec-fetch-mode") == ["navigate"]
            and headers.get("sec-fetch-dest") == ["document"]
        )
        if not set(headers.get("sec-fetch-site", [])) <= {"same-origin", "none"} and not opens_page:
            raise RejectedRequest(403, "Requests from other sites are not allowed.")
        return path


async def send_rejection(send: Any, rejection: RejectedRequest) -> None:
    """Send the reason of a rejection."""
    body = json.dumps({"error": str(rejection)}).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": rejection.status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


async def parse_request(request: Any) -> dict[str, Any]:
    """Return the JSON object in the body of a request, or raise RejectedRequest."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise RejectedRequest(415, "The content type must be application/json.")
    from starlette.requests import ClientDisconnect

    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_REQUEST_BYTES:
                raise RejectedRequest(413, f"The request must have at most {MAX_REQUEST_BYTES:,} bytes.")
    except ClientDisconnect as error:
        raise RejectedRequest(400, "The request is incomplete.") from error
    try:
        values = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RejectedRequest(400, "The request is not valid JSON.") from error
    if not isinstance(values, dict) or not all(_is_plain(value) for value in values.values()):
        raise RejectedRequest(400, "The request must be an object of strings and numbers.")
    return values


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Return whether a value consists of strings, numbers and objects, which are not nested too deeply."""
    if isinstance(value, dict) and depth < MAX_JSON_DEPTH:
        return all(_is_plain(part, depth + 1) for part in value.values())
    return isinstance(value, (str, int, float))
