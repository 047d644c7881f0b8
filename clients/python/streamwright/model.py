"""What a program says to the engine and hears from it: dataclasses, with timedeltas and datetimes.

Every reply may get further fields; readers ignore what they do not know.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

ENDED = frozenset({"completed", "dead", "cancelled", "merged"})


@dataclass(frozen=True)
class FirstSignal:
    """A signal that goes with a submission. A `msg_id` that is left out is chosen by the client."""

    name: str
    payload: Any = None
    msg_id: str = ""


@dataclass
class Work:
    """An item to submit. `params` is any JSON, also as dataclasses; `id` a ULID, chosen by the client if it is None."""

    type: str
    params: Any = None
    id: str | None = None
    priority: int | str | None = None
    """0 to 9, higher first; or low, medium, high."""
    dedup_key: str | None = None
    dedup_policy: str | None = None
    """merge, distinct, supersede or defer."""
    dedup_window: timedelta | None = None
    idempotency_key: str | None = None
    delay: timedelta | None = None
    available_at: datetime | None = None
    expires_at: datetime | None = None
    max_attempts: int | None = None
    timeout: timedelta | None = None
    """Of one attempt."""
    capabilities: Sequence[str] = ()
    after: Sequence[str] = ()
    """Ids of items that must have ended first."""
    after_policy: str | None = None
    """What a bad end of one of them does: cancel, dead or run."""
    batch: str | None = None
    namespace: str | None = None
    """Another namespace that it is handed to, and which must accept that."""
    tenant: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    source: str | None = None
    trigger: str | None = None
    traceparent: str | None = None
    estimated_duration: timedelta | None = None
    signal: FirstSignal | None = None
    """Goes to the item, or to the one that this repeats or is merged into."""


@dataclass(frozen=True)
class Submitted:
    """What became of a submission, durably."""

    id: str
    state: str = ""
    merged_into: str = ""
    raised: bool = False
    not_raised: str = ""
    repeat: bool = False
    """It was already there."""
    content_differs: bool = False
    ahead: int | None = None
    """Items of its type that go first; None: not known, or not queued."""
    estimated_wait: timedelta | None = None
    position: str = ""
    namespace: str = ""
    """Where it is, if it was handed to another namespace; then there is no position."""


@dataclass(frozen=True)
class ItemError:
    """An item's last failure."""

    message: str
    code: str
    retryable: bool = True


@dataclass(frozen=True)
class Progress:
    percent: int = 0
    message: str = ""
    at: datetime | None = None


@dataclass(frozen=True)
class ChildCounts:
    """What an item has spawned the last time."""

    total: int = 0
    live: int = 0
    failed: int = 0
    spawns: int = 0
    declared: int = 0


@dataclass(frozen=True)
class BatchCounts:
    """How far a batch has come."""

    name: str = ""
    total: int = 0
    declared: int = 0
    sealed: bool = False
    done: int = 0
    completed: int = 0
    dead: int = 0
    cancelled: int = 0


@dataclass(frozen=True)
class Item:
    """An item, as it is. A page has items without params and result.

    Large params and results are references: `Client.params` and `Client.result` return the document.
    """

    id: str
    type: str
    state: str
    """queued, waiting, claimed, running, failed (before its next attempt), completed, dead, cancelled or merged."""
    priority: int = 0
    attempt: int = 0
    max_attempts: int = 0
    timeout: timedelta = timedelta()
    params: Any = None
    result: Any = None
    error: ItemError | None = None
    reason: str = ""
    cause: str = ""
    worker: str = ""
    dedup_key: str = ""
    idempotency_key: str = ""
    capabilities: list[str] = field(default_factory=list)
    tenant: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    provenance: dict[str, str] = field(default_factory=dict)
    merged_count: int = 0
    merged_into: str = ""
    parent: str = ""
    waits: list[str] = field(default_factory=list)
    waits_left: int = 0
    by: str = ""
    children: ChildCounts | None = None
    batch: BatchCounts | None = None
    progress: Progress | None = None
    continuation: str = ""
    has_checkpoint: bool = False
    leases_lost: int = 0
    created_at: datetime | None = None
    queued_at: datetime | None = None
    available_at: datetime | None = None
    claimed_at: datetime | None = None
    started_at: datetime | None = None
    deadline: datetime | None = None
    expires_at: datetime | None = None
    finished_at: datetime | None = None
    position: str = ""

    @property
    def ended(self) -> bool:
        """Whether it will not run again by itself."""
        return self.state in ENDED


@dataclass(frozen=True)
class Waited:
    """The items of a wait that have ended, in the order asked, and the ids of those that have not.

    `merged` says into which item of `ended` one that was asked for was merged.
    """

    ended: list[Item]
    pending: list[str]
    merged: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Page:
    """Some of the items that were asked for. `stale` says why it may lack some; empty: it does not."""

    items: list[Item]
    next_cursor: str = ""
    stale: str = ""


@dataclass(frozen=True)
class Cancellation:
    """The answer to a cancel. `worker_told`: its worker was sent the cancel at once."""

    id: str
    state: str
    was_running: bool = False
    worker_told: bool = False
    position: str = ""


@dataclass(frozen=True)
class Batch:
    """A batch, and the answer to its callback's submission."""

    id: str
    state: str
    batch: BatchCounts
    repeat: bool = False
    callback: Submitted | None = None
    position: str = ""


@dataclass
class Schedule:
    """Periodic work: `cron` (five fields, or @hourly and the like) or `every`. From `source` on it is what the engine says."""

    name: str
    type: str
    cron: str = ""
    every: timedelta | None = None
    anchor: datetime | None = None
    zone: str = ""
    missed: str = ""
    """What becomes of ticks while no engine ran: skip, one or all."""
    overlap: str = ""
    """distinct, merge, defer or supersede."""
    params: Any = None
    priority: int | str | None = None
    tenant: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    max_attempts: int | None = None
    timeout: timedelta | None = None
    paused: bool = False
    source: str = ""
    next: datetime | None = None
    last_tick: datetime | None = None
    last_item: str = ""
    last_state: str = ""


SCHEDULE_READ_ONLY = ("name", "source", "next", "last_tick", "last_item", "last_state")


@dataclass(frozen=True)
class Event:
    """An event of the log. Kind `gap` says that retention has cut what `data` names, `from` and `to`."""

    seq: int
    kind: str
    id: str = ""
    type: str = ""
    at: datetime | None = None
    attempt: int = 0
    worker: str = ""
    by: str = ""
    """Who asked for it, as the access layer knew."""
    data: Any = None


@dataclass(frozen=True)
class LogRecord:
    """A record of an item's log."""

    message: str
    level: str = "info"
    at: datetime | None = None
    attempt: int = 0
    worker: str = ""
    seq: int = 0


@dataclass(frozen=True)
class OutputChunk:
    """A part of what one run of an item has written. With `reset` it is the first of a run: drop what an earlier run has
    written. `offset` is the number of bytes that the run has written before; if it is more than you have, those between
    are no longer kept. `cut`: the output has reached its bound here. `seq` is its position, to go on behind."""

    seq: int
    attempt: int
    offset: int
    data: bytes
    reset: bool = False
    cut: bool = False


@dataclass(frozen=True)
class Outcome:
    """How a child has ended. `result_omitted`: get it by the id."""

    id: str
    type: str
    state: str = ""
    result: Any = None
    result_omitted: bool = False
    error: str = ""
    code: str = ""
    reason: str = ""


@dataclass(frozen=True)
class SignalError:
    """What somebody who presents a token says instead of a result."""

    code: str = ""
    """At most 256 bytes."""
    message: str = ""
    """Cut to 4 KiB."""


@dataclass(frozen=True)
class Signal:
    """A signal that has come to an item. With an `error`, which only one that came by a token may have, it has no payload."""

    number: int
    name: str
    at: datetime
    payload: Any = None
    msg_id: str = ""
    by: str = ""
    error: SignalError | None = None
    token: bool = False
    """Somebody has presented a token."""
    answer: int = 0
    """The number of the question that it answers: see Run.answer."""


@dataclass(frozen=True)
class Answer:
    """An answer to a question."""

    choice: str
    """approve, edit (with changes), reject or answer (in words)"""
    value: Any = None
    """The form as it was filled in, or the proposal, changed or not."""
    comment: str = ""
    """With answer: the answer."""
    by: str = ""
    """The name of the login, or of whom the link was for; where nobody logs in, who he says he is."""

    @property
    def approved(self) -> bool:
        return self.choice in ("approve", "edit")


@dataclass(frozen=True)
class Answered:
    """How a question was answered."""

    choice: str
    at: datetime
    by: str = ""


@dataclass(frozen=True)
class Approval:
    """A question that an item asks. In lists it has no text, form and proposal."""

    id: str
    type: str
    number: int
    title: str
    name: str = ""
    """Of the signal that the answer becomes."""
    choices: list[str] = field(default_factory=list)
    since: datetime | None = None
    until: datetime | None = None
    then: str = ""
    submitted_by: str = ""
    tenant: str = ""
    reminded: int = 0
    may_answer: bool = False
    why_not: str = ""
    answered: Answered | None = None
    text: str = ""
    """Markdown."""
    form: Any = None
    """A JSON schema."""
    proposal: Any = None


@dataclass(frozen=True)
class Question:
    """What a run asks people: docs/guides/APPROVALS.md."""

    title: str
    """In a line of plain text."""
    text: str = ""
    """More of it, in Markdown."""
    choices: Sequence[str] = ()
    """None: approve and reject."""
    form: Mapping[str, Any] | None = None
    """A JSON schema of an object: the value that an answer has."""
    proposal: Any = None
    """What is to be approved, and the form's first values."""
    users: Sequence[str] = ()
    roles: Sequence[str] = ()
    """Who may answer: users, and those with one of the roles; everybody if there are neither."""
    not_submitter: bool = False
    remind_every: timedelta | None = None
    """Between two items of the type `remind`, which remind of it."""
    remind: str = ""
    remind_params: Any = None
    remind_most: int = 0

    def document(self) -> dict[str, Any]:
        """Return it as the engine reads it."""
        doc: dict[str, Any] = {"title": self.title, "text": self.text, "choices": list(self.choices), "form": self.form, "proposal": self.proposal}
        doc["who"] = {"users": list(self.users), "roles": list(self.roles), "not_submitter": self.not_submitter}
        if self.remind_every is not None:
            doc["remind"] = {"every_ms": math.ceil(self.remind_every / timedelta(milliseconds=1)), "type": self.remind, "params": self.remind_params, "most": self.remind_most}
        return doc


@dataclass(frozen=True)
class EndedWait:
    """How an item's wait has ended, for each run until one ends in an outcome: completed, another wait, children."""

    ended: str
    """signalled or timed_out"""
    signals: list[Signal] = field(default_factory=list)
    """Those that the wait has taken, in the order in which they came."""

    @property
    def timed_out(self) -> bool:
        return self.ended == "timed_out"


@dataclass(frozen=True)
class Signalled:
    """The answer to a signal. `repeat`: it had come before."""

    id: str
    state: str
    repeat: bool = False
    position: str = ""


@dataclass(frozen=True)
class Continuation:
    """How the children of an earlier run have ended, in the order of their spawn."""

    children: list[Outcome]
    name: str = ""
