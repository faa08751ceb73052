"""The HTTP protocol of uvicorn with a time limit for the arrival of a request."""

from __future__ import annotations

import asyncio
from typing import Any

MAX_REQUEST_SECONDS = 10.0  # sufficient, since requests come from this machine and are small


def make_timed_protocol() -> Any:
    """Return the protocol class for uvicorn, which is imported only here."""
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class TimedProtocol(H11Protocol):
        """Close a connection without a complete request in time, since the number of connections is limited.

        uvicorn limits the time between two requests, but neither the time until the first request nor the time that a
        request takes. The response to a request that is not HTTP also has the default headers of the server.
        """

        timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.expect_request()

        def on_response_complete(self) -> None:
            self.expect_request()
            super().on_response_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            if self.timer is not None:
                self.timer.cancel()
            super().connection_lost(exc)

        def expect_request(self) -> None:
            if self.timer is not None:
                self.timer.cancel()
            self.timer = self.loop.call_later(MAX_REQUEST_SECONDS, self.close_unless_complete)

        def close_unless_complete(self) -> None:
            if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):  # the time of a response is not limited
                self.transport.close()

        def send_400_response(self, msg: str) -> None:
            headers = [
                *self.server_state.default_headers,
                (b"content-type", b"text/plain; charset=utf-8"),
                (b"connection", b"close"),
            ]
            response = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
            for event in (response, h11.Data(data=msg.encode("ascii")), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
            self.transport.close()

    return TimedProtocol
