"""Errors, as classes by the engine's stable codes (docs/reference/ERRORS.md)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any


class StreamwrightError(Exception):
    """A request that failed. `code` is stable, the text is for people.

    `retry_after` is when trying again may help, if the engine says so.
    """

    def __init__(self, code: str, message: str, retry_after: timedelta | None = None, *, untaken: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retry_after = retry_after
        self.untaken = untaken  # it has reached nobody

    def __str__(self) -> str:
        return f"{self.message} [{self.code}]"


class Unavailable(StreamwrightError):
    """No engine can decide now, or none has answered: it may have been done all the same."""


class NotFound(StreamwrightError):
    """No such item, type, schedule or worker."""


class Conflict(StreamwrightError):
    """The item's state, or what has the id, does not allow it."""


class Busy(StreamwrightError):
    """A queue is full, or a rate limit or quota is reached: see `retry_after`."""


class Invalid(StreamwrightError):
    """The request is wrong: made again it is refused again."""


class Denied(StreamwrightError):
    """The token or certificate is missing, unknown, or lacks the role."""


class WorkerIdInUse(StreamwrightError):
    """Another worker has this worker's id."""


_classes: dict[str, type[StreamwrightError]] = {
    "unavailable": Unavailable, "not_owner": Unavailable, "timeout": Unavailable,
    "not_found": NotFound, "blob_gone": NotFound, "unknown_worker": NotFound,
    "wrong_state": Conflict, "ended": Conflict, "already_completed": Conflict, "id_conflict": Conflict, "set_in_file": Conflict, "position_ahead": Conflict,
    "queue_full": Busy, "rate_limited": Busy, "quota_exceeded": Busy,
    "too_large": Invalid, "type_not_allowed": Invalid, "too_many_types": Invalid,
    "unauthenticated": Denied, "forbidden": Denied,
    "worker_id_in_use": WorkerIdInUse,
}


def error_of(code: str, message: str, retry_after: timedelta | None = None, *, untaken: bool = False) -> StreamwrightError:
    """Return the error of a code, in its class."""
    kind = _classes.get(code, StreamwrightError)
    if code.startswith("bad_"):
        kind = Invalid
    return kind(code, message, retry_after, untaken=untaken)


def error_in(doc: Any) -> StreamwrightError:
    """Return the error that a reply carries: a problem document, or an element's `error`."""
    if not isinstance(doc, dict):
        doc = {}
    ms = doc.get("retry_after_ms")
    text = str(doc.get("detail") or doc.get("message") or "the engine gives no reason")
    return error_of(str(doc.get("code") or "internal"), text, timedelta(milliseconds=ms) if isinstance(ms, int) and ms > 0 else None)
