"""Streamwright for Python: a client (threads or asyncio) and a worker, over HTTP, with the standard library alone.

    from streamwright import App, Client, Worker

    app = App()

    @app.task("email", retries=4)
    def email(to: str) -> dict:
        return {"sent": to}

    email.submit("ann@example.org")     # here, or elsewhere
    Worker(app).run()                   # there
"""

from .aclient import AsyncClient
from .client import Client
from .errors import Busy, Conflict, Denied, Invalid, NotFound, StreamwrightError, Unavailable, WorkerIdInUse
from .model import (
    Answer, Answered, Approval, Batch, BatchCounts, Cancellation, ChildCounts, Continuation, EndedWait, Event, FirstSignal, Item, ItemError, LogRecord, Outcome, OutputChunk, Page, Progress, Question, Schedule, Signal, SignalError,
    Signalled, Submitted, Waited, Work,
)
from .run import Cancelled, Fail, ItemLogHandler, Run, Snooze, Spawn, Wait
from .tasks import App, Task
from .worker import Worker
from ._ids import new_id
from ._json import Unfit, dump, load

__all__ = [
    "Answer", "Answered", "App", "Approval", "AsyncClient", "Batch", "BatchCounts", "Busy", "Cancellation", "Cancelled", "ChildCounts", "Client", "Conflict", "Continuation", "Denied",
    "EndedWait", "Event", "Fail", "FirstSignal", "Invalid", "Item", "ItemError", "ItemLogHandler", "LogRecord", "NotFound", "Outcome", "OutputChunk", "Page", "Progress", "Question", "Run", "Schedule", "Signal",
    "SignalError", "Signalled", "Snooze", "Spawn", "StreamwrightError", "Submitted", "Task", "Unavailable", "Unfit", "Wait", "Waited", "Work", "Worker", "WorkerIdInUse", "dump",
    "load", "new_id",
]
