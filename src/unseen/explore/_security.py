"""Who may come in: browsers of this machine, at this address, with the token; and what they may bring."""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

MAX_REQUEST_BYTES = 65_536  # bytes of a request
MAX_JSON_DEPTH = 4  # levels of what it holds
Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]
# Of every answer. No script, style, picture or request but our own, in no frame, and no address passed on.
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
    """A request that is not answered, with its status and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class SecurityMiddleware:
    """Asks every request for the token in its path, and for where it comes from, before anything else sees it.

    A page elsewhere that has its name point to this machine sends its own name as the host; one that calls this address
    sends its own as the origin. Both are refused, whatever the method.
    """

    def __init__(self, app: App, token: str, port: int) -> None:
        self.app, self.token = app, token
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answer, or refuse."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        try:
            if scope["type"] != "http":
                raise RejectedRequest(403, "Only http is spoken here.")
            inner = {**scope, "path": self._path(scope)}
        except RejectedRequest as refusal:
            await send_rejection(send, refusal)
            return
        await self.app(inner, receive, send)

    def _path(self, scope: Scope) -> str:
        """The path behind the token."""
        values: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            values.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
        if len(values.get("host", [])) != 1 or values["host"][0] not in self.hosts:
            raise RejectedRequest(403, "This is another host.")
        origins = {f"http://{host}" for host in self.hosts}
        if not set(values.get("origin", [])) <= origins:
            raise RejectedRequest(403, "Other sites may not call.")
        _, token, *rest = scope["path"].split("/", 2)[:3] if scope["path"].startswith("/") else ("", "")
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            raise RejectedRequest(403, "The address lacks its token: use the one that the command printed.")
        path = "/" + "".join(rest)
        # The file by which the command opens a browser is another site, too: it may lead to the page, and do no more.
        opens_page = path == "/" and values.get("sec-fetch-mode") == ["navigate"]
        opens_page = opens_page and values.get("sec-fetch-dest") == ["document"]
        if not set(values.get("sec-fetch-site", [])) <= {"same-origin", "none"} and not opens_page:
            raise RejectedRequest(403, "Other sites may not call.")
        return path


async def send_rejection(send: Any, refusal: RejectedRequest) -> None:
    """Say why, and nothing else."""
    body = json.dumps({"error": str(refusal)}).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


async def parse_request(request: Any) -> dict[str, Any]:
    """The object that a request brings; of another kind, too large or broken, it is refused."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise RejectedRequest(415, "Send application/json.")
    from starlette.requests import ClientDisconnect

    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_REQUEST_BYTES:
                raise RejectedRequest(413, f"At most {MAX_REQUEST_BYTES:,} bytes are read.")
    except ClientDisconnect as error:
        raise RejectedRequest(400, "The request is not complete.") from error
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RejectedRequest(400, "This is no JSON.") from error
    if not isinstance(found, dict) or not all(_is_plain(value) for value in found.values()):
        raise RejectedRequest(400, "Send an object of texts and numbers.")
    return found


def _is_plain(value: Any, depth: int = 0) -> bool:
    if isinstance(value, dict) and depth < MAX_JSON_DEPTH:
        return all(_is_plain(part, depth + 1) for part in value.values())
    return isinstance(value, (str, int, float))
