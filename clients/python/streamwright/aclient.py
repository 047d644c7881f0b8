"""The client for asyncio: see _asyncio.py for how it speaks HTTP."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, List, TypeVar

from ._api import INLINE_BYTES, Address, Api, Call, Feed, NothingLeft, Wait, chunks, not_ended, part, stale
from ._asyncio import AsyncTransport
from ._json import dump
from ._retry import Tries
from .errors import StreamwrightError
from .model import Approval, Batch, Cancellation, Event, Item, LogRecord, OutputChunk, Page, Schedule, SignalError, Signalled, Submitted, Waited, Work

T = TypeVar("T")


class AsyncClient:
    """A Client whose methods are awaited: see there for what they do. Any number of tasks of one event loop may use it.

    A task that waits costs no thread, and a task that is cancelled ends its request at once
    (a submission may have been made all the same: give it an id to look).

    Its methods raise StreamwrightError.
    """

    def __init__(
        self, url: str | None = None, *, namespace: str | None = None, token: str | None = None, ca: str | None = None, cert: str | None = None, key: str | None = None,
        patience: timedelta = timedelta(seconds=15), submit_patience: timedelta = timedelta(seconds=60),
    ) -> None:
        self._api = Api(patience, submit_patience)
        address = Address.of(url, token, ca, cert, key, namespace)
        self.namespace = address.namespace
        self.transport = AsyncTransport(address)

    async def close(self) -> None:
        """Close the connections. The client may be used again."""
        await self.transport.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def position(self) -> str:
        """What this client has been told of: pass it on to another one's `saw`."""
        return self._api.position

    def saw(self, position: str) -> None:
        """Have the queries that follow see at least what was told with this position."""
        self._api.saw(position)

    async def _do(self, call: Call[T]) -> T:
        tries = Tries(call.patience, call.once)
        while True:
            try:
                return call.read(await self.transport.send(call, tries.timeout()))
            except StreamwrightError as err:
                await asyncio.sleep(tries.wait(err))

    async def request(self, method: str, path: str, body: Any = None, query: Mapping[str, Any] | None = None) -> Any:
        """Make any request of the HTTP API, such as ("GET", "/stats"). One that is no GET is not made twice."""
        return await self._do(self._api.call(method, path, lambda doc: doc, query=query, body=body, once=method != "GET"))

    # Submissions.

    async def submit(self, work: Work | str, params: Any = None, **options: Any) -> Submitted:
        """Submit an item; it is durable on return. ("email", {...}, priority=8) is short for Work("email", {...}, priority=8)."""
        doc = self._api.submission(work if isinstance(work, Work) else Work(work, params, **options))
        return await self._do(self._api.submit(await self._inlined(doc)))

    async def submit_many(self, works: Iterable[Work]) -> list[Submitted | StreamwrightError]:
        """Submit many items, each decided on its own: the answer to each, in order, is its submission or its error."""
        docs = [dump(await self._inlined(self._api.submission(w))) for w in works]
        return [answer for some in chunks(docs) for answer in await self._do(self._api.submit_many(some))]

    async def _inlined(self, doc: dict[str, Any]) -> dict[str, Any]:
        """Put params that are too large for the request into the object store."""
        if "params" in doc and len(document := dump(doc["params"])) > INLINE_BYTES:
            doc["params"] = await self.put("params", doc["id"], document)
        return doc

    async def put(self, kind: str, item: str, document: bytes) -> Any:
        """Put a large document into the object store, as `params` or `result` of an item, and return the reference to it."""
        return await self._do(self._api.put(kind, item, document))

    async def open_batch(self, name: str = "", *, count: int | None = None, callback: Work | None = None, **fields: Any) -> Batch:
        """Open a batch: it completes when the items that name it in `batch` are settled in number, and have ended."""
        return await self._do(self._api.open_batch(name, count, callback, fields))

    async def seal_batch(self, id: str, count: int | None = None) -> Batch:
        """Settle how many items a batch has: count, else as many as there are."""
        return await self._do(self._api.seal_batch(id, count))

    # Items.

    async def get(self, id: str) -> Item:
        """Return an item as it is."""
        return await self._do(self._api.get(id))

    async def list(self, **filters: Any) -> Page:
        """Return a page of items, the latest change first. The filters: docs/guides/HTTP.md; `cursor` goes on."""
        return await self._do(self._api.list(filters))

    async def all(self, **filters: Any) -> AsyncIterator[Item]:
        """Yield the items of all pages. Raises Unavailable at the end if some may be missing."""
        lacks = None
        while True:
            page = await self.list(**filters)
            lacks = lacks or (stale(page) if page.stale else None)
            for item in page.items:
                yield item
            if not page.next_cursor:
                break
            filters["cursor"] = page.next_cursor
        if lacks:
            raise lacks

    async def wait(self, id: str, timeout: timedelta | None = None) -> Item:
        """Return an item once it has ended, or the one that it was merged into. Raises an error with code timeout when the time is over."""
        until = time.monotonic() + (math.inf if timeout is None else timeout.total_seconds())
        while True:
            item = await self._do(self._api.wait(id, max(until - time.monotonic(), 0.0)))
            if item.ended and not item.merged_into:
                return item
            if time.monotonic() >= until:
                raise not_ended(item)

    async def signal(self, id: str, name: str, payload: Any = None, msg_id: str = "") -> Signalled:
        """Send an item a signal. One is sent, however often the request is repeated; with a msg_id of yours, however often you call."""
        return await self._do(self._api.signal(id, name, payload, msg_id))

    async def present_token(self, token: str, result: Any = None, error: SignalError | None = None) -> str:
        """Present a token that a run has made with `token`: its item gets the signal, with a result of at most 64 KiB or an error.
        Return the item's id.

        The same answer again does nothing more. Raises NotFound if there is no such token, and Conflict with the code
        `already_completed` after another answer, with `ended` if the item has ended without it.
        """
        return await self._do(self._api.present_token(token, result, error))

    async def approvals(self, **filters: Any) -> AsyncIterator[Approval]:
        """Yield the questions that items ask, those last touched first; filters: type, mine (those that you may answer)."""
        while True:
            page, cursor = await self._do(self._api.approvals(filters))
            for approval in page:
                yield approval
            if not cursor:
                return
            filters["cursor"] = cursor

    async def approval(self, id: str) -> Approval:
        """Return the last question that an item has asked, whole: with `answered`, if somebody has answered it."""
        return await self._do(self._api.approval(id))

    async def answer(self, id: str, choice: str, value: Any = None, comment: str = "", number: int = 0, by: str = "") -> bool:
        """Answer the question that an item asks: approve, edit, reject or answer. False: you had answered so before.

        Raises Conflict with the code `already_completed` if somebody was first, Denied if you may not answer, Invalid if the value does
        not match the form. `number` is that of the question, else of the last, which is looked up first. `by` says who answers where nobody logs in.
        """
        number = number or (await self.approval(id)).number
        return await self._do(self._api.answer(id, choice, value, comment, number, by))

    async def wait_all(self, ids: Iterable[str], timeout: timedelta | None = None) -> Waited:
        """Return items once all of them have ended: at most 1,000. When the time is over, those that have not are in `pending`.

        An answer of the engine has items whole up to 1 MiB, and of the others id, type and state: `get` returns them.
        """
        return await self._wait_for(Wait(self._api, ids, False, timeout))

    async def wait_any(self, ids: Iterable[str], timeout: timedelta | None = None) -> Waited:
        """Return items once one of them has ended, with all that have ended by then. When the time is over, `ended` is empty."""
        return await self._wait_for(Wait(self._api, ids, True, timeout))

    async def _wait_for(self, wait: Wait) -> Waited:
        while not wait.over(await self._do(wait.call())):
            pass
        return wait.result()

    async def cancel(self, id: str, reason: str = "") -> Cancellation:
        """Cancel an item: it does not run, or no longer."""
        return await self._do(self._api.cancel(id, reason))

    async def replay(self, id: str, **changes: Any) -> None:
        """Queue a dead or cancelled item again, with other `params`, `priority` or `max_attempts`."""
        await self._do(self._api.replay(id, changes))

    async def history(self, id: str) -> List[Event]:
        """Return an item's events, oldest first: the first 10,000."""
        return await self._do(self._api.history(id))

    async def logs(self, id: str, limit: int = 1000) -> List[LogRecord]:
        """Return the last records of an item's log."""
        return await self._do(self._api.logs(id, limit))

    async def output(self, id: str) -> bytes:
        """Return what the item's last run that wrote output has written so far; at most 16 MiB: follow_output has more."""
        return await self._do(self._api.output(id))

    async def params(self, item: str | Item) -> Any:
        """Return an item's params, also where they are kept in the object store."""
        return await self._do(self._api.document(item if isinstance(item, str) else item.id, "params"))

    async def result(self, item: str | Item) -> Any:
        """Return an item's result, also where it is kept in the object store."""
        return await self._do(self._api.document(item if isinstance(item, str) else item.id, "result"))

    # Who did what.

    async def audit(self, *, by: str | None = None, action: str | None = None, type: str | None = None, since: datetime | None = None) -> AsyncIterator[Event]:
        """Yield who did what, oldest first: the cancels, replays, settings and the like, each with `by`. It reaches back as far as the log."""
        filters = {"by": by, "action": action, "type": type, "since": since, "limit": 1000}
        cursor = ""
        while True:
            acts, cursor = await self._do(self._api.audit(filters, cursor))
            for act in acts:
                yield act
            if not cursor:
                return

    # Schedules.

    async def schedule(self, schedule: Schedule) -> Schedule:
        """Set a schedule: make it, or replace the one of this name."""
        return await self._do(self._api.schedule(schedule))

    async def schedules(self) -> List[Schedule]:
        """Return the schedules, with their next ticks."""
        return await self._do(self._api.schedules())

    async def remove_schedule(self, name: str) -> None:
        """Remove a schedule. The items that it has made stay."""
        await self._do(self._api.remove_schedule(name))

    async def fire(self, name: str) -> Submitted:
        """Make an item of a schedule now."""
        return await self._do(self._api.fire(name))

    # Feeds.

    async def events(
        self, *, type: Iterable[str] = (), kind: Iterable[str] = (), id: Iterable[str] = (), tenant: str | None = None, label: str | None = None,
        since: datetime | None = None, after: int | None = None,
    ) -> AsyncIterator[Event]:
        """Follow the log, from the call on, or since a time, or after a position (0: from its beginning).

        The feed goes on over lost connections, with no event left out and none twice, until
        the caller stops reading.
        """
        if since is None and after is None:
            tip = await self._do(self._api.tip())
            after = tip
        filters = {"type": tuple(type), "kind": tuple(kind), "id": tuple(id), "tenant": tenant, "label": label, "since": since}
        feed = self._api.events(filters, after)
        async for event in self._follow(feed, feed.events):
            yield event

    async def follow_logs(self, id: str) -> AsyncIterator[LogRecord]:
        """Follow an item's log, from its first record until the item has ended."""
        feed = Feed(f"/api/v1/work/{part(id)}/logs", {"follow": "true"}, None)
        async for record in self._follow(feed, feed.records):
            yield record

    async def follow_output(self, id: str, after: int | None = None) -> AsyncIterator[OutputChunk]:
        """Follow what an item's runs write, from its beginning or behind the chunk with a seq, until the item has ended."""
        feed = Feed(f"/api/v1/work/{part(id)}/output", {"follow": "true"}, after)
        async for chunk in self._follow(feed, feed.chunks):
            yield chunk

    async def _follow(self, feed: Feed, take: Any) -> AsyncIterator[Any]:
        tries = Tries(math.inf)
        while not feed.ended:
            try:
                async with self.transport.stream(feed.call(), tries.timeout()) as parts:
                    async for data in parts:
                        for told in take(data):
                            yield told
                        tries = Tries(math.inf)
                        if feed.ended:
                            return
            except NothingLeft:
                return
            except StreamwrightError as err:
                await asyncio.sleep(tries.wait(err))
                continue
            if not feed.ended:
                await asyncio.sleep(0.05)  # the engine has ended the feed: it stops, or its log was cut ahead


