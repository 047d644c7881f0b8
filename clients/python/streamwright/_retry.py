"""Whether a request is made again, and when: the rule of the Go client (internal/repeat).

A refusal says either that nobody has taken the request: then it is made again, whatever it
asks for. Or that nobody knows what became of it: then it is made again only if asking twice
does no more than asking once.
"""

from __future__ import annotations

import random
import time

from .errors import StreamwrightError, Unavailable

FIRST_TRY = 2.0  # seconds for the reply to the first try; each further one has twice that
MIN_BACKOFF, MAX_BACKOFF, OWNER_WAIT, MAX_RETRY_AFTER = 0.025, 0.5, 0.25, 60.0


def backoff(tries: int, least: float = MIN_BACKOFF, most: float = MAX_BACKOFF) -> float:
    """Return the wait before the next try, in seconds, after so many: it doubles, with jitter."""
    full: float = min(least * 2 ** min(tries, 16), most)
    return full / 2 + random.uniform(0, full / 2)


def wait_after(err: StreamwrightError, tries: int) -> float:
    """Return the wait after a failed try: not before the time that the refusal names."""
    if err.code == "not_owner":
        return min(backoff(tries), OWNER_WAIT)
    named = err.retry_after.total_seconds() if err.retry_after else 0.0
    return max(backoff(tries), min(named, MAX_RETRY_AFTER))


def may_repeat(err: StreamwrightError, once: bool) -> bool:
    """Report whether a request may be made again. once: asking twice may do more than asking once."""
    return isinstance(err, Unavailable) and (not once or err.untaken or err.code == "not_owner")


class Tries:
    """The tries of one request, for as long as the caller's patience lasts (seconds)."""

    def __init__(self, patience: float, once: bool = False) -> None:
        self._until = time.monotonic() + patience
        self._once = once
        self._tries = 0

    def timeout(self) -> float:
        """Return how long the next try waits for its reply."""
        left = self._until - time.monotonic()
        return max(min(FIRST_TRY * 2.0 ** min(self._tries, 16), left), FIRST_TRY)

    def wait(self, err: StreamwrightError) -> float:
        """Return how long to wait before the next try. Raises err if that was the last."""
        wait = wait_after(err, self._tries)
        self._tries += 1
        if not may_repeat(err, self._once):
            if self._once and isinstance(err, Unavailable):
                err.message += "; it may have been done: look before you ask again"
                err.args = (err.message,)
            raise err
        if time.monotonic() + wait > self._until:
            raise err
        return wait
