"""What a task's function is given of its run, and how it ends a run otherwise than by its result."""

from __future__ import annotations

import asyncio
import logging
import threading
import traceback
from collections.abc import Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NoReturn

from ._ids import new_wait_token
from ._json import millis, reply, request
from .model import Answer, Continuation, EndedWait, Question, Signal, Work

if TYPE_CHECKING:
    from .client import Client
    from .worker import Worker

MAX_LOG_TEXT = 8 << 10
PROGRESS_EVERY = 1.0  # seconds between reports of progress


NOT_GIVEN: Any = object()


class Fail(Exception):
    """Raised by a task: the attempt has failed. `retryable=False` sends the item to the dead letters at once."""

    def __init__(self, message: str, code: str = "error", retryable: bool = True, retry_after: timedelta | None = None) -> None:
        super().__init__(message)
        self.code, self.retryable, self.retry_after = code, retryable, retry_after


class _Ends(BaseException):
    """No Exception: a task that catches those does not catch what ends its run."""


class Snooze(_Ends):
    """Raised by a task: not yet. The item is queued again, with no attempt used."""

    def __init__(self, delay: timedelta, reason: str = "") -> None:
        super().__init__(f"snoozed for {delay}")
        self.delay, self.reason = delay, reason


class Spawn(_Ends):
    """Raised by a task, or by `Run.spawn`: the run ends in children."""

    def __init__(self, children: Sequence[Work], continuation: str | None = None, child_policy: str | None = None) -> None:
        super().__init__(f"spawned {len(children)} children")
        self.children, self.continuation, self.child_policy = children, continuation, child_policy


class Wait(_Ends):
    """Raised by a task, or by `Run.wait`: the item waits for a signal of one of the names (`all`: of each), with no slot
    held and no attempt used. At the deadline, a time or so long from now, it runs again; or it is dead, with `fail` as
    its code; or it completes, with `complete` as its result (4 KiB). With `ask` it asks people, and the first name is the answer's."""

    def __init__(self, *names: str, until: datetime | timedelta, all: bool = False, fail: str | None = None, complete: Any = NOT_GIVEN, ask: Question | None = None) -> None:
        super().__init__(f"waits for {', '.join(names)}")
        if fail is not None and complete is not NOT_GIVEN:
            raise ValueError("a wait ends in fail or in complete, not in both")
        self.names, self.until, self.all, self.fail, self.complete, self.ask = names, until, all, fail, complete, ask


class Cancelled(_Ends):
    """Raised by `progress`, `checkpoint`, `token` and `check` once the run must stop; `reason` as of the Run."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the run must stop: {reason}")
        self.reason = reason


@dataclass(eq=False)
class Run:
    """One run of one item."""

    id: str
    type: str
    attempt: int
    params: Any
    """As submitted; the function's argument has them in its type."""
    labels: dict[str, str]
    traceparent: str
    deadline: datetime | None
    """When the attempt's time is over; None: never."""
    saved: Any
    """The last checkpoint that an earlier attempt has saved; None: none."""
    continuation: Continuation | None
    """How the children have ended, if an earlier run has spawned some."""
    waited: EndedWait | None = None
    """How the wait has ended, if an earlier run has ended in one."""
    cancelled: threading.Event = field(default_factory=threading.Event, repr=False)
    """Set once the run must stop, whatever the reason: wait on it in place of sleeping."""
    reason: str = ""
    """Why it must stop: cancelled, lease_lost, timeout or shutdown."""

    _worker: Worker = field(init=False, repr=False)
    _token: str = field(init=False, repr=False, default="")
    _lease: float = field(init=False, repr=False, default=30.0)
    _renewed: float = field(init=False, repr=False, default=0.0)  # monotonic
    _until: float | None = field(init=False, repr=False, default=None)  # monotonic, of the deadline
    _running: bool = field(init=False, repr=False, default=True)  # its function has not ended
    _let_go: bool = field(init=False, repr=False, default=False)  # the engine does not count it
    _forgotten: bool = field(init=False, repr=False, default=False)  # nothing is reported of it
    _task: asyncio.Task[Any] | None = field(init=False, repr=False, default=None)
    _saves: set[Future[None]] = field(init=False, repr=False, default_factory=set)  # checkpoints and tokens without an answer
    _latest: dict[str, Any] | None = field(init=False, repr=False, default=None)  # progress that is not told
    _tell_at: float = field(init=False, repr=False, default=0.0)
    _writing: threading.Lock = field(init=False, repr=False, default_factory=threading.Lock)  # guards what follows
    _written: int = field(init=False, repr=False, default=0)  # bytes of output that are stored
    _full: bool = field(init=False, repr=False, default=False)  # no more output is taken

    @property
    def client(self) -> Client:
        """The worker's client, which speaks to the namespace of the item."""
        return self._worker.client

    @property
    def namespace(self) -> str:
        """The namespace that the item belongs to."""
        return self._worker.client.namespace

    @property
    def log(self) -> logging.Logger:
        """A logger that writes to the item's log, and passes on to the program's handlers."""
        return _item_logger

    def check(self) -> None:
        """Raise Cancelled if the run must stop."""
        if self.cancelled.is_set():
            raise Cancelled(self.reason)

    def progress(self, percent: float, message: str = "") -> None:
        """Tell how far the run has come, 0 to 100. It returns at once, and tells at most once a second; the latest counts."""
        self.check()
        self._worker._progress(self, {"event": "progress", "percent": int(min(max(percent, 0), 100)), "message": cut(message, 256)})

    def checkpoint(self, doc: Any) -> None:
        """Save a document (64 KiB) for the next attempt, durably on return."""
        _may_block("checkpoint", "save(doc)")
        self._saving(doc).result()

    async def save(self, doc: Any) -> None:
        """Save a checkpoint, in an async task."""
        await asyncio.wrap_future(self._saving(doc))

    def _saving(self, doc: Any) -> Future[None]:
        self.check()
        return self._worker._save(self, doc)

    def token(self, name: str, for_: str = "") -> str:
        """Make a token for somebody outside, which the engine knows on return. Who presents it, with no login, sends the item
        the signal of this name, once, with a result or an error: `Client.present_token`.

        With for_ the token is a link, by which he answers the question of that name, at BASE/#/answer/TOKEN: see `ask`.

        The token outlives the run. Give it away, then `wait` for the name. The engine refuses it with the code
        `mailbox_full` while the item has 100 that nobody has presented.
        """
        _may_block("token", "make_token(name)")
        text, recorded = self._making(name, for_)
        recorded.result()
        return text

    async def make_token(self, name: str, for_: str = "") -> str:
        """Make a token, in an async task."""
        text, recorded = self._making(name, for_)
        await asyncio.wrap_future(recorded)
        return text

    def _making(self, name: str, to: str) -> tuple[str, Future[None]]:
        text, hash = new_wait_token(self.id)
        return text, self._worker._record(self, {"event": "token", "wait_token": {"name": name, "hash": hash, **({"for": to} if to else {})}})

    def output(self, data: str | bytes) -> None:
        """Write to the item's output, which others follow while the run goes on; it is stored on return.

        Each call is a request at least: gather what comes in small pieces. Raises Fail with the code `output_full`
        beyond the engine's bound (`output_item_size`), and with `output_failed` if the engine refuses it.
        """
        _may_block("output", "write(data)")
        self._worker._output(self, data)

    async def write(self, data: str | bytes) -> None:
        """Write to the item's output, in an async task. Await each: they are in order then."""
        await asyncio.to_thread(self._worker._output, self, data)

    def spawn(self, children: Sequence[Work], continuation: str | None = None, child_policy: str | None = None) -> NoReturn:
        """End the run in children. With a continuation the item runs again when they have ended, and finds `continuation`."""
        raise Spawn(children, continuation, child_policy)

    def signal(self, name: str) -> Signal | None:
        """Return the signal of a name that the item's last wait has taken."""
        return next((s for s in self.waited.signals if s.name == name), None) if self.waited else None

    def wait(self, *names: str, until: datetime | timedelta, all: bool = False, fail: str | None = None, complete: Any = NOT_GIVEN) -> NoReturn:
        """End the run in a wait for signals: see Wait. The run that follows finds `waited`."""
        raise Wait(*names, until=until, all=all, fail=fail, complete=complete)

    def ask(self, name: str, question: Question, *, until: datetime | timedelta, fail: str | None = None, complete: Any = NOT_GIVEN) -> NoReturn:
        """End the run in a question to people: see Question, and Wait for the deadline. The run that follows reads the `answer`."""
        raise Wait(name, until=until, fail=fail, complete=complete, ask=question)

    def answer(self, name: str) -> Answer | None:
        """Return the answer to the question of this name that the item's last wait has asked, None if nobody has answered."""
        for s in self.waited.signals if self.waited else []:
            if s.name == name and s.answer:
                return reply(Answer, s.payload)
        return None


def _may_block(name: str, instead: str) -> None:
    """Raise if this is the event loop's thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"{name} would block the event loop: use `await run.{instead}`")


def cut(text: str, most: int) -> str:
    """Cut a text to so many bytes."""
    data = text.encode("utf-8", "replace")
    return data.decode() if len(data) <= most else data[:most].decode("utf-8", "ignore")


def outcome_of(err: BaseException, run: Run) -> dict[str, Any]:
    """Return the report of a run whose function has raised err."""
    if isinstance(err, Snooze):
        return {"event": "snooze", "delay_ms": max(millis(err.delay), 0), "reason": cut(err.reason, 256)}
    if isinstance(err, Wait):
        wait: dict[str, Any] = {"names": list(err.names), "then": "continue"}
        if err.all:
            wait["all"] = True
        if err.ask is not None:
            wait["ask"] = err.ask.document()
        if isinstance(err.until, timedelta):
            wait["for_ms"] = max(millis(err.until), 1)
        else:
            wait["until"] = err.until.astimezone(timezone.utc).isoformat()
        if err.fail is not None:
            wait.update(then="fail", code=cut(err.fail, 256))
        elif err.complete is not NOT_GIVEN:
            wait.update(then="complete", result=err.complete)
        return {"event": "wait", "wait": wait}
    if isinstance(err, Spawn):
        doc: dict[str, Any] = {"event": "spawn", "children": [request(c) for c in err.children]}
        if err.continuation is not None:
            doc["continuation"] = {"name": err.continuation}
        if err.child_policy is not None:
            doc["child_policy"] = err.child_policy
        return doc
    if run.reason in ("shutdown", "lease_lost", "cancelled"):
        return {"event": "release", "reason": run.reason}
    text = str(err) if isinstance(err, Fail) else f"{type(err).__name__}: {err}".removesuffix(": ")
    doc = {"event": "fail", "error": cut(text, 8192), "code": "error"}
    if run.reason == "timeout":
        doc.update(error="the attempt took longer than its timeout", code="timeout")
    elif isinstance(err, Fail):
        doc.update(code=cut(err.code, 256), retryable=err.retryable)
        if err.retryable and err.retry_after is not None:
            doc["retry_after_ms"] = max(millis(err.retry_after), 1)
    return doc


# The log of items.

current: ContextVar[Run | None] = ContextVar("streamwright_run", default=None)


class ItemLogHandler(logging.Handler):
    """Writes what a program logs during a run to the log of the run's item: `logging.getLogger().addHandler(ItemLogHandler())`.

    It goes by the context: threads that a task starts itself are not known, `asyncio.to_thread` is.
    """

    def handle(self, record: logging.LogRecord) -> bool:
        # Not under the handler's lock: who has it would wait for the worker's, under which the worker logs.
        passed = self.filter(record)
        if passed:
            self.emit(passed if isinstance(passed, logging.LogRecord) else record)
        return bool(passed)

    def emit(self, record: logging.LogRecord) -> None:
        run = current.get()
        if run is None or getattr(record, "_streamwright", False):
            return
        record._streamwright = True
        try:
            text = self.format(record)
        except Exception:
            self.handleError(record)
            return
        level = "error" if record.levelno >= logging.ERROR else "warn" if record.levelno >= logging.WARNING else "info" if record.levelno >= logging.INFO else "debug"
        run._worker._log(run, level, text, record.created)


_item_logger = logging.getLogger("streamwright.item")
_item_logger.setLevel(logging.DEBUG)
_item_logger.addHandler(ItemLogHandler())


def log_line(run: Run, level: str, text: str, created: float) -> dict[str, Any]:
    """Return the request of a record."""
    at = datetime.fromtimestamp(created, timezone.utc)
    return {"id": run.id, "type": run.type, "attempt": run.attempt, "level": level, "at": at, "message": cut(text, MAX_LOG_TEXT)}


def traceback_of(err: BaseException) -> str:
    """Return the end of a traceback, which says most."""
    text = "".join(traceback.format_exception(err))
    return text if len(text) < MAX_LOG_TEXT // 2 else "…" + text[-MAX_LOG_TEXT // 2:]


