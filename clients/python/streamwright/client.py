"""The client for threads."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, List, TypeVar

from ._api import INLINE_BYTES, Address, Api, Call, Feed, NothingLeft, Wait, chunks, not_ended, part, stale
from ._http import Transport
from ._json import dump
from ._retry import Tries
from .errors import StreamwrightError
from .model import Approval, Batch, Cancellation, Event, Item, LogRecord, OutputChunk, Page, Schedule, SignalError, Signalled, Submitted, Waited, Work

T = TypeVar("T")


class Client:
    """Submits work to an engine, follows it, and waits for it. Any number of threads may use one.

    The address is `url`, else `STREAMWRIGHT_URL`, else http://127.0.0.1:8484; the namespace is
    `namespace`, else `WORK_NAMESPACE`, else "default"; the token is `token`, else `STREAMWRIGHT_TOKEN`; the CA of a certificate is the file `ca`, else
    `STREAMWRIGHT_CA`; `cert` and `key` are a client certificate's files.

    While no engine answers, a request is made again for `patience`, a submission for
    `submit_patience`: it has its id before the first try, so it makes one item however often
    it is tried. Queries see at least what this client was told before.

    Its methods raise StreamwrightError.
    """

    def __init__(
        self, url: str | None = None, *, namespace: str | None = None, token: str | None = None, ca: str | None = None, cert: str | None = None, key: str | None = None,
        patience: timedelta = timedelta(seconds=15), submit_patience: timedelta = timedelta(seconds=60),
    ) -> None:
        self._api = Api(patience, submit_patience)
        address = Address.of(url, token, ca, cert, key, namespace)
        self.namespace = address.namespace
        self.transport = Transport(address)

    def close(self) -> None:
        """Close the connections. The client may be used again."""
        self.transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def position(self) -> str:
        """What this client has been told of: pass it on to another one's `saw`."""
        return self._api.position

    def saw(self, position: str) -> None:
        """Have the queries that follow see at least what was told with this position."""
        self._api.saw(position)

    def _do(self, call: Call[T]) -> T:
        tries = Tries(call.patience, call.once)
        while True:
            try:
                return call.read(self.transport.send(call, tries.timeout()))
            except StreamwrightError as err:
                time.sleep(tries.wait(err))

    def request(self, method: str, path: str, body: Any = None, query: Mapping[str, Any] | None = None) -> Any:
        """Make any request of the HTTP API, such as ("GET", "/stats"). One that is no GET is not made twice."""
        return self._do(self._api.call(method, path, lambda doc: doc, query=query, body=body, once=method != "GET"))

    # Submissions.

    def submit(self, work: Work | str, params: Any = None, **options: Any) -> Submitted:
        """Submit an item; it is durable on return. ("email", {...}, priority=8) is short for Work("email", {...}, priority=8)."""
        doc = self._api.submission(work if isinstance(work, Work) else Work(work, params, **options))
        return self._do(self._api.submit(self._inlined(doc)))

    def submit_many(self, works: Iterable[Work]) -> list[Submitted | StreamwrightError]:
        """Submit many items, each decided on its own: the answer to each, in order, is its submission or its error."""
        docs = (dump(self._inlined(self._api.submission(w))) for w in works)
        return [answer for some in chunks(docs) for answer in self._do(self._api.submit_many(some))]

    def _inlined(self, doc: dict[str, Any]) -> dict[str, Any]:
        """Put params that are too large for the request into the object store."""
        if "params" in doc and len(document := dump(doc["params"])) > INLINE_BYTES:
            doc["params"] = self.put("params", doc["id"], document)
        return doc

    def put(self, kind: str, item: str, document: bytes) -> Any:
        """Put a large document into the object store, as `params` or `result` of an item, and return the reference to it."""
        return self._do(self._api.put(kind, item, document))

    def open_batch(self, name: str = "", *, count: int | None = None, callback: Work | None = None, **fields: Any) -> Batch:
        """Open a batch: it completes when the items that name it in `batch` are settled in number, and have ended."""
        return self._do(self._api.open_batch(name, count, callback, fields))

    def seal_batch(self, id: str, count: int | None = None) -> Batch:
        """Settle how many items a batch has: count, else as many as there are."""
        return self._do(self._api.seal_batch(id, count))

    # Items.

    def get(self, id: str) -> Item:
        """Return an item as it is."""
        return self._do(self._api.get(id))

    def list(self, **filters: Any) -> Page:
        """Return a page of items, the latest change first. The filters: docs/guides/HTTP.md; `cursor` goes on."""
        return self._do(self._api.list(filters))

    def all(self, **filters: Any) -> Iterator[Item]:
        """Yield the items of all pages. Raises Unavailable at the end if some may be missing."""
        lacks = None
        while True:
            page = self.list(**filters)
            lacks = lacks or (stale(page) if page.stale else None)
            yield from page.items
            if not page.next_cursor:
                break
            filters["cursor"] = page.next_cursor
        if lacks:
            raise lacks

    def wait(self, id: str, timeout: timedelta | None = None) -> Item:
        """Return an item once it has ended, or the one that it was merged into. Raises an error with code timeout when the time is over."""
        until = time.monotonic() + (math.inf if timeout is None else timeout.total_seconds())
        while True:
            item = self._do(self._api.wait(id, max(until - time.monotonic(), 0.0)))
            if item.ended and not item.merged_into:
                return item
            if time.monotonic() >= until:
                raise not_ended(item)

    def signal(self, id: str, name: str, payload: Any = None, msg_id: str = "") -> Signalled:
        """Send an item a signal. One is sent, however often the request is repeated; with a msg_id of yours, however often you call."""
        return self._do(self._api.signal(id, name, payload, msg_id))

    def present_token(self, token: str, result: Any = None, error: SignalError | None = None) -> str:
        """Present a token that a run has made with `token`: its item gets the signal, with a result of at most 64 KiB or an error.
        Return the item's id.

        The same answer again does nothing more. Raises NotFound if there is no such token, and Conflict with the code
        `already_completed` after another answer, with `ended` if the item has ended without it.
        """
        return self._do(self._api.present_token(token, result, error))

    def approvals(self, **filters: Any) -> Iterator[Approval]:
        """Yield the questions that items ask, those last touched first; filters: type, mine (those that you may answer)."""
        while True:
            page, cursor = self._do(self._api.approvals(filters))
            yield from page
            if not cursor:
                return
            filters["cursor"] = cursor

    def approval(self, id: str) -> Approval:
        """Return the last question that an item has asked, whole: with `answered`, if somebody has answered it."""
        return self._do(self._api.approval(id))

    def answer(self, id: str, choice: str, value: Any = None, comment: str = "", number: int = 0, by: str = "") -> bool:
        """Answer the question that an item asks: approve, edit, reject or answer. False: you had answered so before.

        Raises Conflict with the code `already_completed` if somebody was first, Denied if you may not answer, Invalid if the value does
        not match the form. `number` is that of the question, else of the last, which is looked up first. `by` says who answers where nobody logs in.
        """
        number = number or (self.approval(id)).number
        return self._do(self._api.answer(id, choice, value, comment, number, by))

    def wait_all(self, ids: Iterable[str], timeout: timedelta | None = None) -> Waited:
        """Return items once all of them have ended: at most 1,000. When the time is over, those that have not are in `pending`.

        An answer of the engine has items whole up to 1 MiB, and of the others id, type and state: `get` returns them.
        """
        return self._wait_for(Wait(self._api, ids, False, timeout))

    def wait_any(self, ids: Iterable[str], timeout: timedelta | None = None) -> Waited:
        """Return items once one of them has ended, with all that have ended by then. When the time is over, `ended` is empty."""
        return self._wait_for(Wait(self._api, ids, True, timeout))

    def _wait_for(self, wait: Wait) -> Waited:
        while not wait.over(self._do(wait.call())):
            pass
        return wait.result()

    def cancel(self, id: str, reason: str = "") -> Cancellation:
        """Cancel an item: it does not run, or no longer."""
        return self._do(self._api.cancel(id, reason))

    def replay(self, id: str, **changes: Any) -> None:
        """Queue a dead or cancelled item again, with other `params`, `priority` or `max_attempts`."""
        self._do(self._api.replay(id, changes))

    def history(self, id: str) -> List[Event]:
        """Return an item's events, oldest first: the first 10,000."""
        return self._do(self._api.history(id))

    def logs(self, id: str, limit: int = 1000) -> List[LogRecord]:
        """Return the last records of an item's log."""
        return self._do(self._api.logs(id, limit))

    def output(self, id: str) -> bytes:
        """Return what the item's last run that wrote output has written so far; at most 16 MiB: follow_output has more."""
        return self._do(self._api.output(id))

    def params(self, item: str | Item) -> Any:
        """Return an item's params, also where they are kept in the object store."""
        return self._do(self._api.document(item if isinstance(item, str) else item.id, "params"))

    def result(self, item: str | Item) -> Any:
        """Return an item's result, also where it is kept in the object store."""
        return self._do(self._api.document(item if isinstance(item, str) else item.id, "result"))

    # Who did what.

    def audit(self, *, by: str | None = None, action: str | None = None, type: str | None = None, since: datetime | None = None) -> Iterator[Event]:
        """Yield who did what, oldest first: the cancels, replays, settings and the like, each with `by`. It reaches back as far as the log."""
        filters = {"by": by, "action": action, "type": type, "since": since, "limit": 1000}
        cursor = ""
        while True:
            acts, cursor = self._do(self._api.audit(filters, cursor))
            yield from acts
            if not cursor:
                return

    # Schedules.

    def schedule(self, schedule: Schedule) -> Schedule:
        """Set a schedule: make it, or replace the one of this name."""
        return self._do(self._api.schedule(schedule))

    def schedules(self) -> List[Schedule]:
        """Return the schedules, with their next ticks."""
        return self._do(self._api.schedules())

    def remove_schedule(self, name: str) -> None:
        """Remove a schedule. The items that it has made stay."""
        self._do(self._api.remove_schedule(name))

    def fire(self, name: str) -> Submitted:
        """Make an item of a schedule now."""
        return self._do(self._api.fire(name))

    # Feeds.

    def events(
        self, *, type: Iterable[str] = (), kind: Iterable[str] = (), id: Iterable[str] = (), tenant: str | None = None, label: str | None = None,
        since: datetime | None = None, after: int | None = None,
    ) -> Iterator[Event]:
        """Follow the log, from the call on, or since a time, or after a position (0: from its beginning).

        The feed goes on over lost connections, with no event left out and none twice, until
        the caller stops reading.
        """
        if since is None and after is None:
            after = self._do(self._api.tip())
        filters = {"type": tuple(type), "kind": tuple(kind), "id": tuple(id), "tenant": tenant, "label": label, "since": since}
        feed = self._api.events(filters, after)
        return self._follow(feed, feed.events)

    def follow_logs(self, id: str) -> Iterator[LogRecord]:
        """Follow an item's log, from its first record until the item has ended."""
        feed = Feed(f"/api/v1/work/{part(id)}/logs", {"follow": "true"}, None)
        return self._follow(feed, feed.records)

    def follow_output(self, id: str, after: int | None = None) -> Iterator[OutputChunk]:
        """Follow what an item's runs write, from its beginning or behind the chunk with a seq, until the item has ended."""
        feed = Feed(f"/api/v1/work/{part(id)}/output", {"follow": "true"}, after)
        return self._follow(feed, feed.chunks)

    def _follow(self, feed: Feed, take: Any) -> Iterator[Any]:
        tries = Tries(math.inf)
        while not feed.ended:
            try:
                with self.transport.stream(feed.call(), tries.timeout()) as parts:
                    for data in parts:
                        yield from take(data)
                        tries = Tries(math.inf)
                        if feed.ended:
                            return
            except NothingLeft:
                return
            except StreamwrightError as err:
                time.sleep(tries.wait(err))
                continue
            if not feed.ended:
                time.sleep(0.05)  # the engine has ended the feed: it stops, or its log was cut ahead


