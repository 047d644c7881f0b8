"""HTTP for threads: http.client, with connections that are kept for the next request.

TLS, chunked replies and the parsing of headers are http.client's. A connection is one
request's at a time; one that the engine has closed meanwhile, or that was idle for long, is
not used again.
"""

from __future__ import annotations

import http.client
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ._api import IDLE_FEED, Address, Call, NothingLeft, refusal
from .errors import StreamwrightError, error_of

MAX_IDLE = 60.0  # seconds; the engine closes connections after twice that
MAX_KEPT = 32  # connections


class Line:
    """Lets another thread break off a request.

    It closes its side of the connection alone: if the engine has answered already, the
    answer is still read, so that an item it carries is not lost; else the engine takes back
    what it would have sent.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sock: socket.socket | None = None
        self.ended = False

    def attach(self, sock: socket.socket | None) -> None:
        with self._lock:
            self._sock = sock
            if self.ended and sock is not None:
                raise error_of("unavailable", "the request was broken off", untaken=True)

    def hang_up(self, how: int = socket.SHUT_WR) -> None:
        with self._lock:
            self.ended = True
            if self._sock is not None:
                with suppress(OSError):
                    socket.socket.shutdown(self._sock, how)  # of TCP: SSLSocket's own would drop the TLS session


class Transport:
    """Makes requests to one engine. It may be used by any number of threads."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._kept: list[tuple[float, http.client.HTTPConnection]] = []
        self._pid = os.getpid()

    def send(self, call: Call[Any], timeout: float, line: Line | None = None) -> bytes:
        """Make a request once, and return the reply's body. Raises StreamwrightError."""
        conn = self._connection(timeout)
        kept = False
        try:
            response = self._exchange(conn, call, call.seconds(timeout), line)
            with self._faults(sent=True):
                body = response.read()
            kept = not response.will_close
        finally:
            if line is not None:
                with suppress(StreamwrightError):
                    line.attach(None)
            self._keep(conn) if kept and not (line and line.ended) else conn.close()
        if response.status >= 300:
            raise refusal(response.status, body)
        return body

    @contextmanager
    def stream(self, call: Call[Any], timeout: float) -> Iterator[Iterator[bytes]]:
        """Open a feed, and give its bytes as they come. The feed ends with its connection."""
        conn = self._connection(timeout)
        try:
            response = self._exchange(conn, call, call.seconds(timeout), None)
            if response.status >= 300:
                raise refusal(response.status, response.read())
            if response.status == 204:
                raise NothingLeft
            if conn.sock is not None:
                conn.sock.settimeout(IDLE_FEED)
            yield self._parts(response)
        finally:
            conn.close()

    def close(self) -> None:
        """Close the connections that are kept."""
        with self._lock:
            kept, self._kept = self._kept, []
        for _, conn in kept:
            conn.close()

    def _parts(self, response: http.client.HTTPResponse) -> Iterator[bytes]:
        with self._faults(sent=True):
            while part := response.read1(1 << 16):
                yield part

    def _exchange(self, conn: http.client.HTTPConnection, call: Call[Any], seconds: float, line: Line | None) -> http.client.HTTPResponse:
        address = self._address
        with self._faults(sent=False):
            if conn.sock is None:
                conn.connect()
        sock: Any = conn.sock
        sock.settimeout(seconds)
        if line is not None:
            line.attach(sock)
        headers = {**address.headers, **call.headers}
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        with self._faults(sent=True):
            with suppress(BrokenPipeError, ConnectionResetError):  # it may have answered before it has read all
                conn.request(call.method, address.prefix + call.target, call.body, headers)
            return conn.getresponse()

    @contextmanager
    def _faults(self, sent: bool) -> Iterator[None]:
        """Turn what goes wrong on the way into errors."""
        url = self._address.url
        try:
            yield
        except ssl.SSLCertVerificationError as err:
            raise error_of("unauthenticated", f"the certificate of {url} is not trusted: {err.verify_message}; name its CA with ca, or STREAMWRIGHT_CA") from err
        except TimeoutError as err:
            if not sent:
                raise error_of("unavailable", f"no engine answers at {url}: it can't be connected to in time", untaken=True) from err
            raise error_of("timeout", f"the engine at {url} has not answered in time") from err
        except (OSError, http.client.HTTPException) as err:
            if not sent:
                raise error_of("unavailable", f"no engine answers at {url}: {err}; is `engine serve` running there?", untaken=True) from err
            raise error_of("unavailable", f"the connection to {url} broke: {err}") from err

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        """Return a connection that is kept and sound, else a new one that is not yet connected."""
        while True:
            with self._lock:
                if self._pid != os.getpid():  # forked: the connections are the parent's
                    for _, conn in self._kept:
                        conn.close()
                    self._kept, self._pid = [], os.getpid()
                if not self._kept:
                    break
                since, conn = self._kept.pop()
            if time.monotonic() - since < MAX_IDLE and conn.sock is not None and not _readable(conn.sock):
                return conn
            conn.close()
        a = self._address
        if a.tls is not None:
            return http.client.HTTPSConnection(a.host, a.port, timeout=timeout, context=a.tls)
        return http.client.HTTPConnection(a.host, a.port, timeout=timeout)

    def _keep(self, conn: http.client.HTTPConnection) -> None:
        with self._lock:
            if len(self._kept) < MAX_KEPT and conn.sock is not None:
                self._kept.append((time.monotonic(), conn))
                return
        conn.close()


def _readable(sock: socket.socket) -> bool:
    """Report whether an idle connection has something to read, which is its end."""
    try:
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(0))
    except (OSError, ValueError, AttributeError):
        return True
