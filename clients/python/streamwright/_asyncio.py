"""HTTP for asyncio: HTTP/1.1 on asyncio's streams, as much of it as the engine speaks.

http.client in threads would be less code, but each item that a program waits for would hold
a thread, and a cancelled task would leave its request running. Here a waiter costs a task and
a connection, and a task that is cancelled closes its connection at once. What there is to
parse is a status line, headers, and bodies with a length or in chunks.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from ._api import IDLE_FEED, Address, Call, NothingLeft, refusal
from ._http import MAX_IDLE, MAX_KEPT
from .errors import error_of

LIMIT = 1 << 20  # of a line
MAX_HEADERS = 200


class Connection:
    """A connection to the engine, for one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.status = 0
        self.reusable = False
        self._headers: dict[str, str] = {}

    async def exchange(self, address: Address, call: Call[Any]) -> None:
        """Send a request, and read the head of the answer."""
        headers = {"Host": f"{address.host}:{address.port}", **address.headers, **call.headers}
        if call.body is not None or call.method != "GET":
            headers["Content-Length"] = str(len(call.body or b""))
        if call.body is not None:
            headers["Content-Type"] = "application/json"
        head = f"{call.method} {address.prefix}{call.target} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items())
        with suppress(BrokenPipeError, ConnectionResetError):  # it may have answered before it has read all
            self.writer.write(head.encode("latin-1") + b"\r\n" + (call.body or b""))
            await self.writer.drain()
        while True:
            version, status, *_ = (await self._line()).split(" ", 2) + ["", ""]
            self.status = int(status)
            self._headers = {}
            while line := await self._line():
                name, _, value = line.partition(":")
                self._headers[name.lower()] = value.strip()
                if len(self._headers) > MAX_HEADERS:
                    raise ValueError("too many headers")
            if self.status >= 200:
                break
        self.reusable = version == "HTTP/1.1" and self._headers.get("connection", "").lower() != "close"

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes."""
        if self.status in (204, 304):
            return
        if self._headers.get("transfer-encoding", "").lower() == "chunked":
            while left := int((await self._line()).partition(";")[0], 16):
                while left:
                    part = await self._some(left)
                    left -= len(part)
                    yield part
                await self._line()
            while await self._line():
                pass
        elif (length := self._headers.get("content-length")) is not None:
            left = int(length)
            while left:
                part = await self._some(left)
                left -= len(part)
                yield part
        else:
            self.reusable = False
            while part := await self.reader.read(1 << 16):
                yield part

    async def _some(self, most: int) -> bytes:
        part = await self.reader.read(min(most, 1 << 16))
        if not part:
            raise EOFError("it ended in the middle of an answer")
        return part

    async def _line(self) -> str:
        line = await self.reader.readline()
        if not line.endswith(b"\n"):
            raise EOFError("it ended before the answer")
        return line.decode("latin-1").rstrip("\r\n")


class AsyncTransport:
    """Makes requests to one engine, in one event loop."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._kept: list[tuple[float, Connection]] = []

    async def send(self, call: Call[Any], timeout: float) -> bytes:
        """Make a request once, and return the reply's body. Raises StreamwrightError."""
        async with self._open(call, timeout, call.seconds(timeout)) as conn:
            body = b"".join([part async for part in conn.parts()])
            if conn.status >= 300:
                raise refusal(conn.status, body)
            return body

    @asynccontextmanager
    async def stream(self, call: Call[Any], timeout: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a feed, and give its bytes as they come. The feed ends with its connection."""
        async with self._open(call, timeout, None) as conn:
            if conn.status >= 300:
                raise refusal(conn.status, b"".join([part async for part in conn.parts()]))
            if conn.status == 204:
                raise NothingLeft
            conn.reusable = False
            yield self._alive(conn)

    async def close(self) -> None:
        """Close the connections that are kept."""
        kept, self._kept = self._kept, []
        for _, conn in kept:
            conn.writer.close()

    async def _alive(self, conn: Connection) -> AsyncIterator[bytes]:
        parts = conn.parts()
        while True:
            try:
                async with asyncio.timeout(IDLE_FEED):
                    part = await anext(parts)
            except StopAsyncIteration:
                return
            yield part

    @asynccontextmanager
    async def _open(self, call: Call[Any], timeout: float, whole: float | None) -> AsyncIterator[Connection]:
        """Make a request, and give the connection when the answer's head has come. whole bounds the time for all of it."""
        url, conn, done = self._address.url, None, False
        try:
            conn = self._idle() or await self._connect(timeout)
            async with asyncio.timeout(whole):
                async with asyncio.timeout(call.seconds(timeout)):
                    await conn.exchange(self._address, call)
                yield conn
            done = conn.reusable
        except ssl.SSLCertVerificationError as err:
            raise error_of("unauthenticated", f"the certificate of {url} is not trusted: {err.verify_message}; name its CA with ca, or STREAMWRIGHT_CA") from err
        except TimeoutError as err:
            if conn is None:
                raise error_of("unavailable", f"no engine answers at {url}: it can't be connected to in time", untaken=True) from err
            raise error_of("timeout", f"the engine at {url} has not answered in time") from err
        except (OSError, EOFError, ValueError) as err:
            if conn is None:
                raise error_of("unavailable", f"no engine answers at {url}: {err}; is `engine serve` running there?", untaken=True) from err
            raise error_of("unavailable", f"the connection to {url} broke: {err}") from err
        finally:
            if conn is not None:
                if done and len(self._kept) < MAX_KEPT:
                    self._kept.append((time.monotonic(), conn))
                else:
                    conn.writer.close()

    async def _connect(self, timeout: float) -> Connection:
        a = self._address
        async with asyncio.timeout(timeout):
            return Connection(*await asyncio.open_connection(a.host, a.port, ssl=a.tls, limit=LIMIT))

    def _idle(self) -> Connection | None:
        """Return a connection that is kept and sound."""
        while self._kept:
            since, conn = self._kept.pop()
            if time.monotonic() - since < MAX_IDLE and not conn.reader.at_eof() and not conn.writer.is_closing():
                return conn
            conn.writer.close()
        return None
