"""The worker: it polls for items, runs their tasks, and reports what came of it.

Threads, beside one for each run of a task that is not async: `poll` keeps the worker
registered, has one poll open, and ends the worker; `report` sends what gathers (log records,
progress, checkpoints, tokens, ends), in order, and again until it is answered; `heartbeat` names what
runs, which keeps its leases; `watch` ends runs whose time or lease is over. Async tasks run on
one event loop, in a thread of its own or the program's.

The engine wins: a worker keeps nothing that outlives it, and what it believes of a run ends
with the engine's answer. One lock guards all that the threads share; no request is made while
it is held.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import math
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any

from ._api import INLINE_BYTES, MAX_DOCUMENT, Call, part
from ._http import Line
from ._json import Unfit, dump, load
from ._retry import backoff, may_repeat, wait_after
from .client import Client
from .errors import Invalid, NotFound, StreamwrightError, Unavailable, WorkerIdInUse, error_in, error_of
from .model import Continuation, EndedWait
from .run import PROGRESS_EVERY, Cancelled, Fail, Run, current, cut, log_line, outcome_of, traceback_of
from .tasks import App, Task

log = logging.getLogger("streamwright.worker")

POLL_WAIT = 30.0  # seconds that a poll waits for work
REQUEST = 10.0  # seconds for the answer to anything else
SETTLE = 5.0  # seconds for the last answers when it ends
LOST_SESSION = 120.0  # seconds after which the engine has taken a session for dead that its worker did not learn of
ABANDON = 10.0  # seconds for a run to end once it must stop
MAX_REPORTS, MAX_REPORT_BYTES, MAX_LOGS, MAX_LOG_BYTES, MAX_CHECKPOINT = 500, 6 << 20, 10_000, 100 << 10, 64 << 10
MAX_CHUNK = 64 << 10  # bytes of output
STALE = frozenset({"stale_token", "wrong_state", "wrong_attempt", "wrong_worker"})
OVER = STALE | {"not_found"}
AGAIN = frozenset({"unavailable", "timeout", "not_owner", "internal", "queue_full", "rate_limited", "unknown_worker", "worker_id_in_use"})


@dataclass
class _Report:
    run: Run
    doc: dict[str, Any]
    body: bytes
    saved: Future[None] | None = None
    tries: int = 0


class Worker:
    """Runs an app's tasks: `concurrency` at once.

    `run` does so until SIGTERM or SIGINT, until the engine drains the worker, or until `stop`.
    `start` does not wait; `stop` ends it. What runs then has `drain_timeout` to end, and is
    handed back if it does not.

    The id must be unique among the workers alive; without one it makes one. A worker that
    runs something asks at least every `heartbeat` whether it was cancelled. Async tasks run on
    `loop`, else on one of the worker's own.
    """

    def __init__(
        self, app: App, client: Client | None = None, *, concurrency: int = 4, id: str | None = None, capabilities: Sequence[str] = (),
        drain_timeout: timedelta = timedelta(seconds=30), heartbeat: timedelta = timedelta(seconds=3),
        loop: asyncio.AbstractEventLoop | None = None, host: str | None = None, version: str = "",
    ) -> None:
        if not app.tasks:
            raise ValueError("the app has no tasks: give it some with @app.task(name)")
        if not 1 <= concurrency <= 1000:
            raise ValueError(f"concurrency is {concurrency}: it must be 1 to 1,000")
        self.id = id or _fresh_id()
        self.client = client or app.client
        self._tasks = dict(app.tasks)
        self._own_id = id is None
        self._drain, self._least = drain_timeout.total_seconds(), heartbeat.total_seconds()
        self._registration = {
            "types": sorted(self._tasks), "capabilities": list(capabilities), "slots": concurrency,
            "host": host or socket.gethostname(), "version": version,
        }
        self._slots = concurrency
        self._loop, self._own_loop = loop, loop is None
        self._threads: list[threading.Thread] = []
        self._ended = threading.Event()
        self._error: BaseException | None = None

        self._cond = threading.Condition()  # guards what follows, and the runs
        self._started = self._stopping = self._hurry = self._draining = self._closed = False
        self._signals = 0
        self._session = ""  # empty: not registered
        self._every = 10.0
        self._beat_at = 0.0
        self._line = Line()  # of the open poll
        self._runs: dict[str, Run] = {}  # by token: what has come and has no answer to its end
        self._executing: set[Run] = set()  # their tasks, and those of runs that are forgotten
        self._queue: list[_Report] = []
        self._logs: list[dict[str, Any]] = []

        self._most = MAX_REPORTS  # of one request; owned by the report thread

    # Its life.

    def run(self, signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT)) -> None:
        """Work until a signal, a drain, or `stop`; a second signal cuts the drain short. Raises what ended it otherwise."""
        before = {}
        if threading.current_thread() is threading.main_thread():
            before = {s: signal.signal(s, self._signalled) for s in signals}
        try:
            self.start()
            while not self._ended.wait(0.2):
                pass  # Python misses a signal that comes between its last look for one and a wait
        finally:
            for s, handler in before.items():
                signal.signal(s, handler)
        if self._error is not None:
            raise self._error

    def start(self) -> None:
        """Begin. It registers as soon as an engine answers."""
        with self._cond:
            if self._started:
                raise RuntimeError("a worker is started once: make a new one")
            self._started = True
        if self._loop is None and any(t.is_async for t in self._tasks.values()):
            self._loop = asyncio.new_event_loop()
            self._thread("loop", self._looping)
        for name, target in (("report", self._reporting), ("heartbeat", self._beating), ("watch", self._watching), ("poll", self._live)):
            self._thread(name, target)

    def stop(self, timeout: timedelta | None = None) -> None:
        """Take no more, let what runs end, and leave; returns when that is done. Raises what ended the worker otherwise."""
        self._stop_soon()
        if self._started and not self._ended.wait(None if timeout is None else timeout.total_seconds()):
            raise error_of("timeout", "the worker has not stopped in the time given for it; it goes on")
        if self._error is not None:
            raise self._error

    def _looping(self) -> None:
        """Run the event loop of async tasks: a thread."""
        assert self._loop is not None
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def _stop_soon(self) -> None:
        with self._cond:
            if not self._stopping:
                log.info("stopping: %d runs have %g s to end", len(self._runs), self._drain)
            self._stopping = True
            self._cond.notify_all()
            line = self._line
        line.hang_up()

    def _signalled(self, *_: Any) -> None:
        # In the main thread, which may hold the lock: another thread does it.
        def tell() -> None:
            with self._cond:
                self._signals += 1
                self._hurry = self._signals > 1
            self._stop_soon()

        threading.Thread(target=tell, daemon=True).start()

    def _thread(self, name: str, target: Callable[[], Any]) -> None:
        def whole() -> None:
            try:
                target()
            except BaseException as err:  # a fault of this package: it ends the worker
                self._error = err
                self._stop_soon()

        t = threading.Thread(target=whole, name="streamwright-" + name, daemon=True)
        self._threads.append(t)
        t.start()

    def _live(self) -> None:
        """Work, and end: the poll thread."""
        try:
            self._polling()
        except BaseException as err:
            self._error = err
        try:
            self._finish()
        finally:
            self._ended.set()

    def _finish(self) -> None:
        """Let the runs end, and leave."""
        def running() -> list[Run]:
            return list(self._executing)

        with self._cond:
            # A drain by the engine waits for the runs as long as they take.
            self._cond.wait_for(lambda: not running() or self._stopping or self._error is not None)
            self._stopping = True
            self._cond.wait_for(lambda: not running() or self._hurry, self._drain)
            for r in running():
                self._end_run(r, "shutdown")
            self._cond.wait_for(lambda: not running(), ABANDON)
            for r in running():
                log.error("%s %s does not end: its item's lease will run out", r.type, r.id)
                self._forget(r)
            self._cond.wait_for(lambda: not self._runs and not self._logs, SETTLE)
            session, self._closed = self._session, True
            self._cond.notify_all()
        if session:
            with suppress(StreamwrightError):  # the engine will notice by the missing heartbeats
                self._send("DELETE", "", None, headers={"Work-Session": session}, timeout=2.0)
        if self._own_loop and self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
        for t in self._threads:
            if t is not threading.current_thread():
                t.join(SETTLE)

    # Requests.

    def _send(self, method: str, path: str, body: Any, *, headers: dict[str, str] | None = None, timeout: float = REQUEST, hold: float = 0.0, line: Line | None = None) -> Any:
        """Make a request of the worker's, once."""
        data = body if isinstance(body, bytes) or body is None else dump(body)
        call: Call[Any] = self.client._api.call(method, f"/workers/{part(self.id)}{path}", lambda doc: doc)
        call = replace(call, body=data, headers=headers or {}, hold=hold)
        return call.read(self.client.transport.send(call, timeout, line))

    def _pause(self, seconds: float) -> None:
        """Wait, unless the worker stops."""
        with self._cond:
            self._cond.wait_for(lambda: self._stopping or self._draining, seconds)

    def _going(self) -> bool:
        return not (self._stopping or self._draining)

    def _register(self) -> None:
        """Register, as soon as an engine answers. Raises what trying again can't change."""
        tries, lost = 0, math.inf  # when an answer was first lost: its registration may have been made
        while self._going():
            try:
                call: Call[Any] = self.client._api.call("POST", "/workers", lambda doc: doc, body={"worker": self.id, **self._registration})
                doc = call.read(self.client.transport.send(call, REQUEST))
            except StreamwrightError as err:
                now = time.monotonic()
                if isinstance(err, Unavailable):
                    lost = min(lost, now)
                # This one had it, or may have it by that answer: until the engine takes that session for dead.
                taken = isinstance(err, WorkerIdInUse) and (bool(self._session) or lost <= now < lost + LOST_SESSION)
                if taken and self._own_id and not self._session:
                    self.id = _fresh_id()
                if not taken and not may_repeat(err, False) and err.code != "internal":
                    raise
                (log.warning if tries == 0 else log.debug)("the worker is not registered, and tries again: %s", err)
                self._pause(max(wait_after(err, tries), 0.5 if taken else 0.0))
                tries += 1
                continue
            with self._cond:
                self._session, self._every, self._beat_at = doc["session"], doc["heartbeat_ms"] / 1000, 0.0
                self._cond.notify_all()
            log.info("registered as %s", self.id)
            return

    # Polls.

    def _polling(self) -> None:
        """Have one poll open, which takes as much as slots are free, until the worker ends."""
        tries, named, number, sure = 0, "", 0, True
        self._register()
        while self._going():
            try:
                if not sure:
                    self._beat()  # first: an engine that was restarted does not know what runs here
                if not named:
                    number += 1
                    named = f"{self.id[:40]}-{number}"
                with self._cond:
                    # The engine knows nothing of the runs that are forgotten, which go on.
                    self._cond.wait_for(lambda: not self._going() or self._room() > 0)
                    self._line = line = Line()
                    if not self._going():
                        return
                    room = self._room()
                body = {"session": self._session, "poll_id": named, "max": min(room, 100), "wait_ms": int(POLL_WAIT * 1000)}
                reply = self._send("POST", "/poll", body, hold=POLL_WAIT, line=line)
            except StreamwrightError as err:
                sure = False
                if not self._going():
                    return
                if isinstance(err, WorkerIdInUse):
                    self._give_way()
                    named = ""
                elif err.code == "unknown_worker":
                    self._register()
                    named = ""
                else:
                    level = logging.DEBUG if tries and isinstance(err, Unavailable) else logging.WARNING
                    log.log(level, "a poll has failed, and is made again: %s", err)
                    self._pause(wait_after(err, tries) if isinstance(err, Unavailable) else 5 * backoff(tries))
                    tries += 1
                continue
            tries, named, sure = 0, "", True
            for doc in reply.get("items") or []:
                self._begin(doc)
            if reply.get("should_drain"):
                self._drained()

    def _room(self) -> int:
        """Return how much to ask for: no less than the engine thinks is free, but for forgotten runs that go on. REQUIRES: the lock."""
        return self._slots - len(self._executing) if any(r._forgotten for r in self._executing) else self._slots

    def _drained(self) -> None:
        with self._cond:
            if not self._draining:
                log.info("the engine drains this worker")
            self._draining = True
            self._cond.notify_all()
            line = self._line
        if threading.current_thread().name != "streamwright-poll":
            line.hang_up()

    def _give_way(self) -> None:
        """Stop all runs, of which nothing is reported: another worker has the id. Then register, when the id is free or under another."""
        with self._cond:
            gone = list(self._runs.values())
            for r in gone:
                self._end_run(r, "lease_lost")
                self._forget(r)
        log.error("another worker has registered under the id %s: the runs of this one are stopped (%d)", self.id, len(gone))
        if self._own_id:
            self.id = _fresh_id()
        self._register()

    def _begin(self, doc: dict[str, Any]) -> None:
        """Begin the run of an item, or hand it back."""
        now = time.monotonic()
        timeout = doc.get("timeout_ms")
        until = now + timeout / 1000 if timeout else None
        deadline = datetime.now(timezone.utc) + timedelta(milliseconds=timeout) if timeout else None
        if doc.get("deadline"):
            deadline = datetime.fromisoformat(doc["deadline"])
            until = now + (deadline - datetime.now(timezone.utc)).total_seconds() if until is None else until
        continuation = doc.get("continuation")
        run = Run(
            doc["id"], doc["type"], doc["attempt"], doc.get("params"), doc.get("labels") or {}, doc.get("traceparent", ""), deadline,
            doc.get("checkpoint"), None if continuation is None else load(Continuation, continuation, "continuation"),
            None if doc.get("waited") is None else load(EndedWait, doc["waited"], "waited"),
        )
        run._worker, run._token, run._renewed, run._until = self, doc["token"], now, until
        run._lease = doc.get("lease_ms", 30_000) / 1000
        task = self._tasks.get(run.type)
        with self._cond:
            if run._token in self._runs:
                return  # it came twice
            self._runs[run._token] = run
            running = len(self._executing) + 1
            if not self._going() or running > self._slots or task is None:
                self._return(run)
                return
            self._executing.add(run)
            if self._beat_at == 0.0 or running == 1:
                self._beat_at = now + self._interval()
            self._cond.notify_all()
        if task.is_async and self._loop is not None:
            asyncio.run_coroutine_threadsafe(self._execute_async(run, task), self._loop)
            return
        try:
            threading.Thread(target=self._execute, args=(run, task), name=f"streamwright-{run.type}", daemon=True).start()
        except RuntimeError as err:  # there is no thread to be had
            log.warning("%s %s can't be begun, and goes back: %s", run.type, run.id, err)
            with self._cond:
                self._executing.discard(run)
                self._return(run)
            self._pause(1.0)  # it would come again at once

    def _return(self, run: Run) -> None:
        """Hand back an item whose run has not begun. REQUIRES: the lock."""
        run._running = False
        self._put(_Report(run, {"event": "release", "reason": "no_slot" if self._going() else "shutdown"}, b""))

    # Runs.

    def _execute(self, run: Run, task: Task[Any, Any]) -> None:
        """Run a task: a thread."""
        current.set(run)
        try:
            self._fetch(run)
            doc, body = {"event": "complete"}, self._stored(run, _document(task.function(*_arguments(task, run))))
        except BaseException as err:
            doc, body = self._raised(run, err), b""
        self._run_ended(run, doc, body)

    async def _execute_async(self, run: Run, task: Task[Any, Any]) -> None:
        """Run an async task: a task of the loop. What blocks goes to a thread."""
        current.set(run)
        with self._cond:
            run._task = asyncio.current_task()
        try:
            run.check()
            if _reference(run.params):
                await asyncio.to_thread(self._fetch, run)
            body = _document(await task.function(*_arguments(task, run)))
            with self._cond:
                run._task = None  # what follows is not to be broken off
            if len(body) > INLINE_BYTES:
                body = await asyncio.to_thread(self._stored, run, body)
            doc = {"event": "complete"}
        except BaseException as err:
            doc, body = self._raised(run, err), b""
        self._run_ended(run, doc, body)

    def _fetch(self, run: Run) -> None:
        """Get the params if they are but a reference."""
        if _reference(run.params):
            try:
                run.params = self.client.params(run.id)
            except StreamwrightError as err:
                raise _of_documents(err) from err

    def _stored(self, run: Run, document: bytes) -> bytes:
        """Return what is reported as result: a reference, if the document is large."""
        if len(document) <= INLINE_BYTES:
            return document
        try:
            return dump(self.client.put("result", run.id, document))
        except StreamwrightError as err:
            raise _of_documents(err) from err

    def _raised(self, run: Run, err: BaseException) -> dict[str, Any]:
        """Return the report of a run whose task has raised."""
        try:
            doc = outcome_of(err, run)
            if (size := len(dump(doc))) > MAX_REPORT_BYTES:
                raise ValueError(f"it has {size} bytes, at most {MAX_REPORT_BYTES} are taken: spawn items that spawn the rest")
        except Exception as bad:  # it has arguments of other types than it says, or what is no JSON
            what = type(err).__name__
            doc = outcome_of(Fail(f"the task has ended in a {what} that can't be reported: {bad}", "bad_spawn" if what == "Spawn" else "bad_outcome", retryable=False), run)
        if doc["event"] == "fail":
            log.warning("%s %s, attempt %d, has failed: %s", run.type, run.id, run.attempt, doc["error"], extra={"_streamwright": True})
            self._log(run, "error", traceback_of(err), time.time())
        return doc

    def _run_ended(self, run: Run, doc: dict[str, Any], body: bytes) -> None:
        with self._cond:
            run._running, run._task = False, None
            self._executing.discard(run)
            if run._let_go:
                doc, body = {"event": "release", "reason": run.reason}, b""
            if run._forgotten or run._token not in self._runs:
                self._forget(run)
            else:
                if run._latest is not None and doc["event"] != "complete" and not run._let_go:
                    self._put(_Report(run, run._latest, b""))
                run._latest = None
                self._put(_Report(run, doc, body))
            self._cond.notify_all()

    def _end_run(self, run: Run, reason: str, let_go: bool = False) -> None:
        """Have a run stop. let_go: the engine does not count it. REQUIRES: the lock."""
        run._let_go = run._let_go or let_go
        if run.cancelled.is_set() or not run._running:
            return
        run.reason = reason
        run.cancelled.set()
        saves, run._saves = run._saves, set()
        for saved in saves:
            _settle(saved, Cancelled(reason))
        if run._task is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(run._task.cancel)

    def _forget(self, run: Run) -> None:
        """Report nothing of a run any more. REQUIRES: the lock."""
        run._forgotten = True
        self._runs.pop(run._token, None)
        self._queue = [r for r in self._queue if r.run is not run]
        self._cond.notify_all()

    # Reports.

    def _put(self, report: _Report) -> None:
        """Queue a report. REQUIRES: the lock."""
        doc = {"id": report.run.id, "token": report.run._token, **report.doc}
        head = dump(doc)
        report.body = head[:-1] + b',"result":' + report.body + b"}" if report.body else head
        self._queue.append(report)
        self._cond.notify_all()

    def _save(self, run: Run, doc: Any) -> Future[None]:
        if (size := len(dump(doc))) > MAX_CHECKPOINT:
            raise error_of("too_large", f"the checkpoint has {size} bytes: at most {MAX_CHECKPOINT} are allowed; store it elsewhere and save a reference to it")
        return self._record(run, {"event": "checkpoint", "checkpoint": doc})

    def _record(self, run: Run, doc: dict[str, Any]) -> Future[None]:
        """Report a checkpoint or a token. The answer is the future's."""
        saved: Future[None] = Future()
        with self._cond:
            run.check()
            self._put(_Report(run, doc, b"", saved))
            run._saves.add(saved)
        return saved

    def _output(self, run: Run, written: str | bytes) -> None:
        """Store a part of a run's output, in chunks of which each is sent until it is answered."""
        data = written.encode() if isinstance(written, str) else written
        with run._writing:
            for at in range(0, max(len(data), 1), MAX_CHUNK):
                if run._full:
                    raise Fail("the item's output is full: what is beyond output_item_size is dropped", "output_full", retryable=False)
                self._write(run, data[at:at + MAX_CHUNK])

    def _write(self, run: Run, chunk: bytes) -> None:
        """Store a chunk. The engine knows by the offset what it has of one that is sent again."""
        body = {"id": run.id, "token": run._token, "offset": run._written}
        try:
            body["text"] = chunk.decode()
        except UnicodeDecodeError:
            body["base64"] = base64.b64encode(chunk).decode()
        tries = 0
        while True:
            run.check()
            try:
                stored = self._send("POST", "/output", {"session": self._session, **body})
            except StreamwrightError as err:
                if err.code in OVER:
                    with self._cond:
                        self._end_run(run, "lease_lost", let_go=True)
                    raise Cancelled(run.reason or "lease_lost") from err
                if err.code not in AGAIN:
                    raise Fail(f"the output can't be stored: {err}", "output_failed") from err
                run.cancelled.wait(wait_after(err, tries))
                tries += 1
                continue
            run._written, run._full = stored["bytes"], stored.get("cut", False)
            return

    def _progress(self, run: Run, doc: dict[str, Any]) -> None:
        with self._cond:
            run._latest = doc
            self._tell(run, time.monotonic())
            self._cond.notify_all()

    def _tell(self, run: Run, now: float) -> None:
        """Report progress if it is time. REQUIRES: the lock."""
        if run._latest is not None and now >= run._tell_at and run._running:
            run._tell_at = math.inf  # until it is answered: the engine drops what comes within a second of the one before
            self._put(_Report(run, run._latest, b""))
            run._latest = None

    def _log(self, run: Run, level: str, text: str, created: float) -> None:
        with self._cond:
            if len(self._logs) < MAX_LOGS and not run._forgotten:
                self._logs.append(log_line(run, level, text, created))
                self._cond.notify_all()

    def _reporting(self) -> None:
        """Send what there is to report, until the worker is closed: a thread."""
        tries = 0
        while True:
            with self._cond:
                self._cond.wait_for(lambda: self._closed or bool(self._session and (self._queue or self._logs)))
                if self._closed:
                    return
                lines, reports = self._take()
            answers: list[Any] = []
            try:
                # Records first: they are there before the end of their run is.
                if lines:
                    self._send_logs(lines)
                if reports:
                    body = b'{"session":' + dump(self._session) + b',"reports":[' + b",".join(r.body for r in reports) + b"]}"
                    answers = self._send("POST", "/report", body)["reports"]
            except StreamwrightError as err:
                self._unsent(err, reports, tries)
                tries += 1
                continue
            tries, self._most = 0, MAX_REPORTS
            with self._cond:
                again = [r for r, a in zip(reports, answers) if self._answered(r, a)]
                self._queue[:0] = [r for r in again if not r.run._forgotten]
                self._cond.notify_all()
                if again:
                    self._cond.wait_for(lambda: self._closed, backoff(max(r.tries for r in again)))

    def _take(self) -> tuple[list[dict[str, Any]], list[_Report]]:
        """Take what fits one request of each kind. REQUIRES: the lock."""
        lines, size = 0, 0
        while lines < len(self._logs) and lines < 500 and size < MAX_LOG_BYTES:
            size += len(dump(self._logs[lines]))
            lines += 1
        records, self._logs = self._logs[:lines], self._logs[lines:]
        waiting = {line["id"] for line in self._logs}  # reports wait for the records of their run
        taken: list[_Report] = []
        left: list[_Report] = []
        size, full = 0, False
        for r in self._queue:
            full = full or len(taken) >= self._most or bool(taken) and size + len(r.body) >= MAX_REPORT_BYTES
            if full or r.run.id in waiting:
                left.append(r)
            else:
                size += len(r.body)
                taken.append(r)
        self._queue = left
        return records, taken

    def _send_logs(self, lines: list[dict[str, Any]]) -> None:
        """Send log records. They are given up if the engine refuses them."""
        try:
            self._send("POST", "/log", {"session": self._session, "records": lines})
        except StreamwrightError as err:
            if isinstance(err, Unavailable):
                with self._cond:
                    self._logs[:0] = lines
                raise
            log.debug("log records are lost: %s", err)

    def _unsent(self, err: StreamwrightError, reports: list[_Report], tries: int) -> None:
        """Keep reports that got no answer for another try, and wait."""
        with self._cond:
            if isinstance(err, Invalid) and len(reports) == 1:
                self._answered(reports.pop(), {"error": {"code": err.code, "message": err.message}})
            self._most = 1 if isinstance(err, Invalid) else MAX_REPORTS  # to find the one that is refused
            self._queue[:0] = [r for r in reports if not r.run._forgotten]
            line = self._line
        if isinstance(err, (WorkerIdInUse, NotFound)):
            line.hang_up(socket.SHUT_RDWR)  # the next poll hears it, and sees to it
        elif not isinstance(err, Unavailable):
            log.warning("reports were refused, and are made again: %s", err)
        with self._cond:
            self._cond.wait_for(lambda: self._closed, wait_after(err, tries))

    def _answered(self, report: _Report, answer: Any) -> bool:
        """Act on the answer to a report, and return whether it must be made again. REQUIRES: the lock."""
        run, event = report.run, report.doc["event"]
        err = error_in(answer["error"]) if answer.get("error") else None
        ends = event not in ("progress", "checkpoint", "token")
        if err is not None and err.code in AGAIN:
            report.tries += 1
            return not (report.saved is not None and report.saved.done())
        refused = err is not None and err.code not in STALE and not (event == "complete" and err.code == "not_found")
        if refused and event in ("complete", "spawn", "snooze", "wait"):  # for what it says, not for what became of the item
            code = "bad_spawn" if event == "spawn" else "bad_result" if event == "complete" else "error"
            log.warning("the engine refused the outcome of %s %s, which fails: %s", run.type, run.id, err)
            self._put(_Report(run, {"event": "fail", "error": cut(str(err), 8192), "code": code, "retryable": False}, b""))
            return False
        if ends:
            if err is not None and not run.reason:
                log.warning("the end of %s %s was refused: %s", run.type, run.id, err)
            self._runs.pop(run._token, None)
            return False
        if event == "progress":
            run._tell_at = time.monotonic() + PROGRESS_EVERY
        if err is not None and err.code in OVER:
            self._end_run(run, "cancelled" if answer.get("state") == "cancelled" else "lease_lost", let_go=True)
        if report.saved is not None and report.saved in run._saves:
            run._saves.discard(report.saved)
            _settle(report.saved, err)
        return False

    # Heartbeats.

    def _interval(self) -> float:
        return min(self._every, self._least)

    def _beating(self) -> None:
        """Send heartbeats while anything runs: a thread."""
        while True:
            with self._cond:
                while not self._closed and (not self._runs or time.monotonic() < self._beat_at):
                    self._cond.wait(max(self._beat_at - time.monotonic(), 0.0) if self._runs else None)
                if self._closed:
                    return
                self._beat_at = time.monotonic() + self._interval()
            try:
                self._beat()
            except StreamwrightError as err:
                if isinstance(err, (WorkerIdInUse, NotFound)):
                    with self._cond:
                        line = self._line
                    line.hang_up(socket.SHUT_RDWR)  # the next poll hears it, and sees to it
                log.debug("a heartbeat has failed: %s", err)
                with self._cond:
                    self._beat_at = time.monotonic() + min(self._interval(), backoff(4))

    def _beat(self) -> None:
        """Name what runs, and follow what the engine says."""
        with self._cond:
            named = list(self._runs.values())
            session = self._session
        sent = time.monotonic()
        body = {"session": session, "in_flight": [{"id": r.id, "token": r._token} for r in named]}
        orders = self._send("POST", "/heartbeat", body, timeout=max(min(self._every, REQUEST), 1.0))
        gone = {r["token"] for r in orders.get("lost") or []}
        over = {r["token"] for r in orders.get("cancel") or []}
        with self._cond:
            self._every = orders["heartbeat_ms"] / 1000
            for r in named:
                if r._token in gone and r._running:
                    self._end_run(r, "lease_lost")
                    self._forget(r)
                elif r._token in over:
                    self._end_run(r, "cancelled", let_go=True)
                else:
                    r._renewed = sent
        if orders.get("should_drain"):
            self._drained()

    def _watching(self) -> None:
        """End the runs whose time or lease is over, and tell progress that was held back: a thread."""
        with self._cond:
            while not self._closed:
                now, due = time.monotonic(), []
                for r in self._runs.values():
                    if not r._running:
                        continue
                    if r._until is not None and now >= r._until:
                        self._end_run(r, "timeout")
                    elif now >= r._renewed + r._lease:
                        log.warning("%s %s: nothing has renewed its lease, and it is stopped", r.type, r.id)
                        self._end_run(r, "lease_lost")
                    if r._latest is not None:
                        self._tell(r, now)
                    if not r.cancelled.is_set():
                        due += [r._renewed + r._lease] + [t for t in (r._until, r._tell_at if r._latest is not None else None) if t is not None]
                self._cond.wait(max(min(due) - now, 0.001) if due else None)


def _arguments(task: Task[Any, Any], run: Run) -> list[Any]:
    """Return what a task is called with."""
    try:
        return task.arguments(run)
    except Unfit as err:
        raise Fail(f"the params do not fit the task: {err}", "bad_params", retryable=False) from err


def _document(result: Any) -> bytes:
    """Write a result as JSON."""
    try:
        document = dump(result)
    except (TypeError, ValueError, RecursionError) as err:
        raise Fail(f"the result can't be recorded: {err}", "bad_result", retryable=False) from err
    if len(document) > MAX_DOCUMENT:
        text = f"the result has {len(document)} bytes, at most {MAX_DOCUMENT} are kept: store it elsewhere and return where"
        raise Fail(text, "bad_result", retryable=False)
    return document


def _of_documents(err: StreamwrightError) -> Fail:
    """Return the failure of a run whose documents can't be fetched or stored."""
    if err.code in ("blob_gone", "blob_damaged", "bad_params", "too_large"):
        return Fail(str(err), err.code, retryable=False)
    return Fail(str(err), "blob_unavailable")


def _settle(saved: Future[None], err: BaseException | None) -> None:
    """Answer a checkpoint or a token, unless nobody waits for it any more."""
    with suppress(InvalidStateError):
        saved.set_result(None) if err is None else saved.set_exception(err)


def _reference(params: Any) -> bool:
    """Report whether params are a reference to the object store."""
    return isinstance(params, dict) and len(params) == 1 and "$blob" in params


def _fresh_id() -> str:
    """Return a worker's id that no other has."""
    host = "".join(c if c.isascii() and c.isalnum() or c == "-" else "-" for c in socket.gethostname())[:64].strip("-") or "worker"
    return f"{host}-{os.getpid()}-{secrets.token_hex(4)}"
