"""The requests of the HTTP API, and how their replies are read: what both clients have in common."""

from __future__ import annotations

import base64
import json
import math
import os
import re
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Generic, List, Tuple, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from ._ids import new_id
from ._json import dump, instant, reply, request
from .errors import StreamwrightError, error_in, error_of
from .model import SCHEDULE_READ_ONLY, Approval, Batch, Cancellation, Event, Item, LogRecord, OutputChunk, Page, Schedule, SignalError, Signalled, Submitted, Waited, Work

T = TypeVar("T")

INLINE_BYTES = 4 << 20  # a larger document is put into the object store by a request of its own
MAX_DOCUMENT = 64 << 20
REQUEST_BYTES = 6 << 20  # of the items of one request; the engine takes 8 MiB
REQUEST_ITEMS = 10_000
LONGEST_HOLD = 60.0  # seconds for which one request to wait is left open
IDLE_FEED = 40.0  # a feed says something every 15 seconds


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and how its reply is read."""

    method: str
    path: str
    read: Callable[[bytes], T]
    query: Mapping[str, Any] = field(default_factory=dict)
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    once: bool = False
    patience: float = 15.0
    hold: float = 0.0  # how long the engine may take, by intent

    @property
    def target(self) -> str:
        return self.path + ("?" + urlencode(self.query, doseq=True) if self.query else "")

    def seconds(self, timeout: float) -> float:
        """Return the time for a try: a large body takes longer."""
        return timeout + self.hold + len(self.body or b"") / 1e6


def parse(body: bytes) -> Any:
    """Read JSON of the engine's."""
    try:
        return json.loads(body) if body else None
    except ValueError as err:
        raise error_of("internal", f"the reply is no JSON: {err}; is this the engine's address?") from err


def refusal(status: int, body: bytes) -> StreamwrightError:
    """Return the error of a reply whose status is no success."""
    try:
        doc = json.loads(body)
    except ValueError:
        doc = None
    if isinstance(doc, dict) and "code" in doc:
        return error_in(doc)
    code = "unavailable" if status in (502, 503, 504) else "internal"
    return error_of(code, f"the answer is HTTP {status}, and not an engine's: {body[:200]!r}")


DEFAULT_NAMESPACE = "default"
_NAMESPACE = re.compile(r"(?=.{1,32}\Z)[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Address:
    """Where an engine is, and how to get in."""

    url: str
    host: str
    port: int
    prefix: str
    tls: ssl.SSLContext | None
    headers: Mapping[str, str]
    namespace: str

    @staticmethod
    def of(url: str | None, token: str | None, ca: str | None, cert: str | None, key: str | None, namespace: str | None = None) -> Address:
        """Make an address of what the caller gives, else of the environment."""
        url = url or os.environ.get("STREAMWRIGHT_URL") or "http://127.0.0.1:8484"
        namespace = namespace if namespace is not None else os.environ.get("WORK_NAMESPACE") or DEFAULT_NAMESPACE
        if not _NAMESPACE.fullmatch(namespace):
            raise ValueError(f"invalid namespace {namespace!r}: use at most 32 characters of a-z and 0-9, with single - between them")
        token = token if token is not None else os.environ.get("STREAMWRIGHT_TOKEN")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not an engine's address: use one such as http://127.0.0.1:8484")
        if parts.username or parts.password:
            raise ValueError("the address has a user in it: the engine's HTTP server takes a token (STREAMWRIGHT_TOKEN) or a client certificate")
        tls = None
        if parts.scheme == "https":
            tls = ssl.create_default_context(cafile=ca or os.environ.get("STREAMWRIGHT_CA") or None)
            if cert:
                tls.load_cert_chain(cert, key)
        headers = {"User-Agent": "streamwright-python"}
        if token:
            headers["Authorization"] = "Bearer " + token
        port = parts.port or (443 if tls else 80)
        prefix = parts.path.rstrip("/")
        if namespace != DEFAULT_NAMESPACE:
            prefix += "/ns/" + namespace
        return Address(url, parts.hostname, port, prefix, tls, headers, namespace)


class NothingLeft(Exception):
    """Ends a feed: the engine has told all of it before."""


class Feed:
    """A stream of events that is read to its end, over several connections."""

    def __init__(self, path: str, query: Mapping[str, Any], last: int | None) -> None:
        self.path, self.query, self.last = path, query, last
        self.ended = False
        self._rest = b""
        self._lines: list[str] = []

    def call(self) -> Call[bytes]:
        """Return the request that begins, or goes on behind what was read."""
        self._rest, self._lines = b"", []
        headers = {"Accept": "text/event-stream"}
        if self.last is not None:
            headers["Last-Event-ID"] = str(self.last)
        return Call("GET", self.path, bytes, self.query, headers=headers)

    def take(self, data: bytes) -> Iterator[tuple[str, Any]]:
        """Yield the name and data of each event that is whole with these bytes."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for raw in lines:
            line = raw.rstrip(b"\r").decode()
            if line:
                self._lines.append(line)
                continue
            fields: dict[str, str] = {}
            for text in self._lines:
                name, _, value = text.partition(":")
                if name:
                    fields[name] = value.removeprefix(" ")
            self._lines = []
            if "data" not in fields:
                continue
            doc = json.loads(fields["data"])
            if fields.get("id"):
                self.last = int(fields["id"])
            yield fields.get("event", ""), doc

    def events(self, data: bytes) -> Iterator[Event]:
        """Yield the events of the log that are whole with these bytes."""
        for name, doc in self.take(data):
            if name == "gap":
                yield Event(self.last or 0, "gap", data=doc)
            else:
                yield reply(Event, doc)

    def records(self, data: bytes) -> Iterator[LogRecord]:
        """Yield the records of an item's log that are whole with these bytes."""
        for name, doc in self.take(data):
            if name == "end":
                self.ended = True
            else:
                yield reply(LogRecord, doc)

    def chunks(self, data: bytes) -> Iterator[OutputChunk]:
        """Yield the parts of an item's output that are whole with these bytes."""
        for name, doc in self.take(data):
            if name == "end":
                self.ended = True
            elif name == "output":  # a reset is told by its first chunk
                written = base64.b64decode(doc["base64"]) if "base64" in doc else doc.get("text", "").encode()
                yield OutputChunk(doc["seq"], doc["attempt"], doc["offset"], written, doc.get("reset", False), doc.get("cut", False))


class Api:
    """Makes the requests, and keeps the highest position that was told."""

    def __init__(self, patience: timedelta, submit_patience: timedelta) -> None:
        self.position = ""
        self._patience = patience.total_seconds()
        self._submit_patience = submit_patience.total_seconds()

    def saw(self, position: str) -> None:
        """Have the queries that follow see at least what a reply with this position has told."""
        if position.isdigit() and (not self.position or int(position) > int(self.position)):
            self.position = position

    def call(self, method: str, path: str, read: Callable[[Any], T], *, query: Mapping[str, Any] | None = None, body: Any = None, **more: Any) -> Call[T]:
        """Make a call; read gets the JSON of the reply."""
        def whole(data: bytes) -> T:
            doc = parse(data)
            if isinstance(doc, dict):
                for place in (doc, *(e for e in doc.get("items") or [] if isinstance(e, dict) and method == "POST")):
                    self.saw(str(place.get("position", "")))
            return read(doc)

        told = {k: instant(v) if isinstance(v, datetime) else v for k, v in (query or {}).items() if v is not None and v != ""}
        return Call(method, "/api/v1" + path, whole, told, None if body is None else dump(body), **(_defaults(self._patience) | more))

    def query(self, path: str, read: Callable[[Any], T], *, query: Mapping[str, Any] | None = None, **more: Any) -> Call[T]:
        """Make a call that sees at least what this client was told."""
        return self.call("GET", path, read, query={**(query or {}), "min_position": self.position}, **more)

    # Submissions.

    def put(self, kind: str, item: str, document: bytes) -> Call[Any]:
        """Put a document into the object store. The reply is the reference to it."""
        if len(document) > MAX_DOCUMENT:
            raise error_of("too_large", f"the {kind} have {len(document)} bytes, at most {MAX_DOCUMENT} are stored: keep it elsewhere and pass a reference")
        query = {"kind": kind, "item": item}
        made: Call[Any] = self.call("POST", "/blobs", lambda doc: doc["document"], query=query, patience=self._submit_patience, hold=10.0)
        return replace(made, body=document)

    def submission(self, work: Work) -> dict[str, Any]:
        """Return the request of an item, which has its id from now on."""
        doc = request(work)
        doc["id"] = work.id or new_id()
        if work.signal:
            doc["signal"] = {"msg_id": new_id(), **request(work.signal)}
        return doc

    def submit(self, doc: Mapping[str, Any]) -> Call[Submitted]:
        return self.call("POST", "/work", lambda d: reply(Submitted, d), body=doc, patience=self._submit_patience)

    def submit_many(self, docs: Sequence[bytes]) -> Call[list[Submitted | StreamwrightError]]:
        def read(doc: Any) -> list[Submitted | StreamwrightError]:
            return [error_in(d["error"]) if "error" in d else reply(Submitted, d) for d in doc["items"]]

        made = self.call("POST", "/work", read, patience=self._submit_patience)
        return replace(made, body=b'{"items":[' + b",".join(docs) + b"]}")

    def open_batch(self, name: str, count: int | None, callback: Work | None, fields: Mapping[str, Any]) -> Call[Batch]:
        doc: dict[str, Any] = {"id": new_id(), "name": name, **fields}
        if count is not None:
            doc["count"] = count
        if callback is not None:
            doc["callback"] = self.submission(callback)
        return self.call("POST", "/batches", lambda d: reply(Batch, d), body=doc, patience=self._submit_patience)

    def seal_batch(self, id: str, count: int | None) -> Call[Batch]:
        doc = {} if count is None else {"count": count}
        return self.call("POST", f"/batches/{part(id)}/seal", lambda d: reply(Batch, d), body=doc, patience=self._submit_patience)

    def fire(self, name: str) -> Call[Submitted]:
        return self.call("POST", f"/schedules/{part(name)}/fire", lambda d: reply(Submitted, d), body={"id": new_id()}, patience=self._submit_patience)

    # Items.

    def get(self, id: str) -> Call[Item]:
        return self.query(f"/work/{part(id)}", item_of)

    def list(self, filters: Mapping[str, Any]) -> Call[Page]:
        return self.query("/work", lambda d: Page([item_of(i) for i in d["items"]], d.get("next_cursor", ""), d.get("stale", "")), query=filters)

    def wait(self, id: str, seconds: float) -> Call[Item]:
        hold = min(seconds, LONGEST_HOLD)
        return self.query(f"/work/{part(id)}/wait", item_of, query={"timeout": f"{max(int(hold * 1000), 1)}ms"}, hold=hold, patience=seconds)

    def signal(self, id: str, name: str, payload: Any, msg_id: str) -> Call[Signalled]:
        body: dict[str, Any] = {"name": name, "msg_id": msg_id or new_id()}
        if payload is not None:
            body["payload"] = payload
        return self.call("POST", f"/work/{part(id)}/signals", lambda d: reply(Signalled, d), body=body)

    def present_token(self, token: str, result: Any, error: SignalError | None) -> Call[str]:
        if result is not None and error is not None:
            raise ValueError("a token is presented with a result or with an error, not with both")
        body: dict[str, Any] = {}
        if result is not None:
            body["result"] = result
        if error is not None:
            body["error"] = error
        return self.call("POST", f"/tokens/{part(token)}", lambda d: str(d["id"]), body=body)

    def approvals(self, filters: Mapping[str, Any]) -> Call[Tuple[List[Approval], str]]:
        return self.query("/approvals", lambda d: ([reply(Approval, a) for a in d["approvals"]], d.get("next_cursor", "")), query=filters)

    def approval(self, id: str) -> Call[Approval]:
        return self.query(f"/approvals/{part(id)}", lambda d: reply(Approval, d))

    def answer(self, id: str, choice: str, value: Any, comment: str, number: int, by: str) -> Call[bool]:
        body: dict[str, Any] = {"choice": choice, "comment": comment, "number": number, "by": by}
        if value is not None:
            body["value"] = value
        return self.call("POST", f"/approvals/{part(id)}", lambda d: not d.get("repeat", False), body=body)

    def wait_for(self, ids: Sequence[str], any_of: bool, seconds: float) -> Call[Waited]:
        def read(doc: Any) -> Waited:
            items = [item_of(i) for i in doc["ended"]]
            for item in items:
                self.saw(item.position)
            return Waited(items, [p["id"] for p in doc.get("pending", [])], doc.get("merged", {}))

        hold = min(seconds, LONGEST_HOLD)
        body = {"ids": list(ids), "any": any_of, "timeout_ms": max(int(hold * 1000), 1), "min_position": self.position}
        return self.call("POST", "/work/wait", read, body=body, hold=hold, patience=seconds)

    def cancel(self, id: str, reason: str) -> Call[Cancellation]:
        return self.call("DELETE", f"/work/{part(id)}", lambda d: reply(Cancellation, d), query={"reason": reason})

    def replay(self, id: str, changes: Mapping[str, Any]) -> Call[None]:
        return self.call("POST", f"/work/{part(id)}/replay", lambda d: None, body=changes, once=True)

    def history(self, id: str) -> Call[List[Event]]:
        return self.query(f"/work/{part(id)}/history", lambda d: [reply(Event, e) for e in d["events"]])

    def logs(self, id: str, limit: int) -> Call[List[LogRecord]]:
        return self.call("GET", f"/work/{part(id)}/logs", lambda d: [reply(LogRecord, r) for r in d["records"]], query={"limit": limit})

    def output(self, id: str) -> Call[bytes]:
        return Call("GET", f"/api/v1/work/{part(id)}/output", bytes, patience=self._patience)

    def audit(self, filters: Mapping[str, Any], cursor: str) -> Call[Tuple[List[Event], str]]:
        """Ask for who did what. The reply has the cursor of what follows; empty: nothing does."""
        return self.call("GET", "/audit", lambda d: ([reply(Event, e) for e in d["acts"]], d.get("next_cursor", "")), query={**filters, "cursor": cursor})

    def document(self, id: str, which: str) -> Call[Any]:
        # Not by self.call: a user's document is no reply, whatever names it has in it.
        return Call("GET", f"/api/v1/work/{part(id)}/{which}", parse, patience=self._patience, hold=60.0)

    # Schedules.

    def schedule(self, s: Schedule) -> Call[Schedule]:
        return self.call("PUT", f"/schedules/{part(s.name)}", lambda d: schedule_of(d["schedule"]), body=request(s, SCHEDULE_READ_ONLY))

    def schedules(self) -> Call[List[Schedule]]:
        return self.query("/schedules", lambda d: [schedule_of(s) for s in d["schedules"]])

    def remove_schedule(self, name: str) -> Call[None]:
        return self.call("DELETE", f"/schedules/{part(name)}", lambda d: None, once=True)

    # Feeds.

    def tip(self) -> Call[int]:
        """Ask where the log ends, so that a feed that begins there leaves nothing out."""
        return self.call("GET", "/info", lambda d: int(d["position"]))

    def events(self, filters: Mapping[str, Any], last: int | None) -> Feed:
        return Feed("/api/v1/events", {k: instant(v) if isinstance(v, datetime) else v for k, v in filters.items() if v is not None and v != ()}, last)


def _defaults(patience: float) -> dict[str, Any]:
    return {"patience": patience}


def part(text: str) -> str:
    """Return a part of a path."""
    return quote(text, safe="")


def item_of(doc: Any) -> Item:
    return reply(Item, doc)


def schedule_of(doc: Any) -> Schedule:
    return reply(Schedule, doc)


def chunks(docs: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Cut many submissions into requests that the engine takes."""
    some: list[bytes] = []
    size = 0
    for doc in docs:
        if some and (len(some) == REQUEST_ITEMS or size + len(doc) > REQUEST_BYTES):
            yield some
            some, size = [], 0
        some.append(doc)
        size += len(doc)
    if some:
        yield some


def not_ended(item: Item) -> StreamwrightError:
    """Return the error of a wait whose time is over."""
    return error_of("timeout", f"item {item.id} has not ended in the time given for it: it is {item.state}, goes on, and can be waited for again")


class Wait:
    """A wait for many items, over as many requests as it takes."""

    def __init__(self, api: Api, ids: Iterable[str], any_of: bool, timeout: timedelta | None) -> None:
        self._api, self._any = api, any_of
        self._asked = [id.upper() for id in ids]
        self._until = time.monotonic() + (math.inf if timeout is None else timeout.total_seconds())
        self._known = Waited([], self._asked, {})

    def call(self) -> Call[Waited]:
        """Return the next request: for those that have not ended yet."""
        return self._api.wait_for(self._known.pending, self._any, max(self._until - time.monotonic(), 0.0))

    def over(self, out: Waited) -> bool:
        """Take an answer, and report whether it is the last."""
        self._known = Waited([*self._known.ended, *out.ended], out.pending, {**self._known.merged, **out.merged})
        return not out.pending or self._any and bool(out.ended) or time.monotonic() >= self._until

    def result(self) -> Waited:
        """Return what is known, in the order asked."""
        known = self._known
        by_id = {i.id: i for i in known.ended}
        order = dict.fromkeys(known.merged.get(id, id) for id in self._asked)
        return Waited([by_id[id] for id in order if id in by_id], known.pending, known.merged)


def stale(page: Page) -> StreamwrightError:
    """Return the error of a list that may lack items."""
    return error_of("unavailable", f"the list may lack items: {page.stale}; ask again", timedelta(seconds=1))
