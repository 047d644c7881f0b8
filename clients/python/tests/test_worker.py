from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
import time
import unittest.mock
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from streamwright import (
    App, AsyncClient, Cancelled, Conflict, Fail, FirstSignal, Invalid, ItemLogHandler, NotFound, OutputChunk, Question, Run, SignalError, Snooze, Spawn, StreamwrightError, Submitted, Wait, Work, Worker,
    WorkerIdInUse, new_id,
)
from streamwright._json import load
from streamwright.errors import error_of

from .harness import PATIENCE, Case

logging.getLogger("streamwright").propagate = False


@dataclass
class Email:
    to: str
    at: datetime | None = None


class WorkerTest(Case):
    def setUp(self) -> None:
        super().setUp()
        self.app = App(self.client)

    def submit(self, type: str, params: Any = None, **options: Any) -> str:
        return self.client.submit(type, params, **options).id

    def test_runs_and_completes(self) -> None:
        runs: list[Run] = []

        @self.app.task("email", retries=4, timeout=timedelta(minutes=1))
        def email(email: Email, run: Run) -> dict[str, Any]:
            runs.append(run)
            run.log.info("sending to %s", email.to)
            run.log.warning("slow server")
            run.progress(50, "half")
            run.checkpoint({"connected": True})  # so that the progress is told before the end
            return {"sent": email.to, "at": email.at}

        w = self.work(self.app)
        at = datetime(2030, 1, 31, tzinfo=timezone.utc)
        id = email.submit(Email("ann", at), labels={"a": "1"}, traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").id
        item = self.wait(id)
        self.assertEqual((item.state, item.result, item.worker), ("completed", {"sent": "ann", "at": "2030-01-31T00:00:00+00:00"}, w.id))
        self.assertEqual((item.max_attempts, item.timeout), (5, timedelta(minutes=1)))
        run = runs[0]
        self.assertEqual((run.attempt, run.labels), (1, {"a": "1"}))
        self.assertTrue(run.traceparent.startswith("00-4bf9"))
        assert run.deadline is not None
        self.assertGreater(run.deadline, datetime.now(timezone.utc))
        self.assertEqual([(r.level, r.message, r.attempt, r.worker) for r in self.logged(id, 2)], [("info", "sending to ann", 1, w.id), ("warn", "slow server", 1, w.id)])
        self.assertIn("progressed", [e.kind for e in self.client.history(id)])
        self.assertEqual([r.message for r in self.client.follow_logs(id)], ["sending to ann", "slow server"])

    def test_takes_functions_of_every_form(self) -> None:
        seen: dict[str, Any] = {}

        @self.app.task("none")
        def none() -> None:
            seen["none"] = True

        @self.app.task("raw")
        def raw(params: Any) -> None:
            seen["raw"] = params

        @self.app.task("of_run")
        def of_run(run: Run) -> None:
            seen["of_run"] = run.params

        @self.app.task("both")
        async def both(email: Email, run: Run) -> str:
            seen["both"] = (email, run.params)
            return run.type

        self.work(self.app)
        ids = [self.submit(t, {"to": "ann"}) for t in ("none", "raw", "of_run", "both")]
        self.assertEqual([self.wait(id).state for id in ids], ["completed"] * 4)
        self.assertEqual(seen, {"none": True, "raw": {"to": "ann"}, "of_run": {"to": "ann"}, "both": (Email("ann"), {"to": "ann"})})
        self.assertEqual(self.client.get(ids[3]).result, "both")
        with self.assertRaises(TypeError):
            self.app.task("wrong")(lambda a, b, c: None)
        with self.assertRaises(ValueError):
            self.app.task("none")(none.function)
        with self.assertRaises(TypeError):
            self.app.task("options", nonsense=1)

    def test_runs_no_more_than_its_concurrency_and_gets_through_many(self) -> None:
        lock, now, most = threading.Lock(), 0, 0

        @self.app.task("many")
        def many(n: int) -> int:
            nonlocal now, most
            with lock:
                now += 1
                most = max(most, now)
            time.sleep(0.001)
            with lock:
                now -= 1
            return n

        self.work(self.app, concurrency=5)
        out = self.client.submit_many([many.work(n) for n in range(500)])
        self.assertEqual([self.wait(s.id).result for s in out if isinstance(s, Submitted)], list(range(500)))
        self.assertTrue(2 <= most <= 5, f"{most} at once")

    def test_keeps_the_lease_over_several_of_its_lengths(self) -> None:
        @self.app.task("short")
        def block() -> str:
            time.sleep(3.5)
            return "done"

        @self.app.task("short_async")
        async def rest() -> str:
            await asyncio.sleep(3.5)
            return "done"

        self.work(self.app, heartbeat=timedelta(minutes=1))
        for id in [self.submit("short"), self.submit("short_async")]:
            item = self.wait(id)
            self.assertEqual((item.state, item.attempt, item.leases_lost), ("completed", 1, 0))

    def test_is_retried_after_a_failure_by_the_task_s_word_and_with_its_wait(self) -> None:
        @self.app.task("retried")
        def retried(run: Run) -> int:
            if run.attempt == 1:
                raise KeyError("first")
            if run.attempt == 2:
                raise Fail("second", "busy", retry_after=timedelta(milliseconds=20))
            return run.attempt

        self.work(self.app)
        id = self.submit("retried")
        self.assertEqual(self.wait(id).result, 3)
        failed = [(e.data["code"], e.data["error"]) for e in self.client.history(id) if e.kind == "failed"]
        self.assertEqual(failed, [("error", "KeyError: 'first'"), ("busy", "second")])
        self.assertIn("in retried", self.logged(id, 1)[0].message)  # the traceback

    def test_is_dead_at_once_after_a_failure_that_is_not_retryable(self) -> None:
        @self.app.task("fatal")
        def fatal() -> None:
            raise Fail("no such account", "no_account", retryable=False)

        @self.app.task("unwritable")
        def unwritable() -> object:
            return object()

        @self.app.task("typed")
        def typed(email: Email) -> None:
            pass

        @self.app.task("unwritable_children")
        def children(run: Run) -> None:
            run.spawn([Work("a", object())])

        @self.app.task("after_nothing")
        def after_nothing(run: Run) -> None:
            run.spawn([Work("a", after=["01JD3V6YB2M4C9W8ZK5T7QXRNE"])])

        @self.app.task("misreads")
        def misreads() -> None:
            load(int, "no params of this task")

        @self.app.task("no_children")
        async def no_children(run: Run) -> None:
            run.spawn([])

        ends: dict[str, BaseException] = {
            "bad_fail": Fail("busy", retry_after=30),  # type: ignore[arg-type]
            "bad_snooze": Snooze(300),  # type: ignore[arg-type]
            "bad_wait": Wait("x", until=3600),  # type: ignore[arg-type]
            "bad_completion": Wait("x", until=timedelta(hours=1), complete=object()),
            "bad_child": Spawn([{"type": "a"}]),  # type: ignore[list-item]
        }

        def raising(end: BaseException) -> Callable[[], None]:
            def task() -> None:
                raise end
            return task

        for name, end in ends.items():
            self.app.task(name)(raising(end))

        self.work(self.app)
        item = self.wait(self.submit("fatal"))
        self.assertEqual((item.state, item.error.message, item.error.code, item.error.retryable), ("dead", "no such account", "no_account", False))
        for type, params, code in [
            ("unwritable", None, "bad_result"), ("typed", {"from": 1}, "bad_params"), ("unwritable_children", None, "bad_spawn"), ("no_children", None, "bad_spawn"),
            ("after_nothing", None, "bad_spawn"),
            ("bad_fail", None, "bad_outcome"), ("bad_snooze", None, "bad_outcome"), ("bad_wait", None, "bad_outcome"), ("bad_completion", None, "bad_outcome"),
            ("bad_child", None, "bad_spawn"),
        ]:
            item = self.wait(self.submit(type, params))
            self.assertEqual((item.state, item.error.code), ("dead", code))
        self.assertIn("params.to is missing", self.wait(self.submit("typed", {})).error.message)
        id = self.submit("misreads")
        error = self.eventually("its first attempt has failed", lambda: self.client.get(id).error)
        self.assertEqual(error.code, "error")  # it is tried again

    def test_stops_a_run_that_is_cancelled(self) -> None:
        started, reasons = threading.Semaphore(0), []

        @self.app.task("long")
        def long(run: Run) -> None:
            started.release()
            run.cancelled.wait()
            try:
                run.progress(1)
            except Exception:
                reasons.append("caught as an Exception")
            except Cancelled as err:
                reasons.append(err.reason)
                raise

        @self.app.task("long_async")
        async def long_async(run: Run) -> None:
            started.release()
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                reasons.append(run.reason)
                raise

        w = self.work(self.app, concurrency=1)
        for type in ("long", "long_async"):
            id = self.submit(type)
            started.acquire()
            self.assertTrue(self.client.cancel(id).was_running)
            self.eventually("the run has ended, and its slot is free", lambda: not w._runs)
            self.assertEqual(self.client.get(id).state, "cancelled")
        self.assertEqual(reasons, ["cancelled", "cancelled"])
        id = self.submit("long")  # a slot is free
        started.acquire()
        self.client.cancel(id)

    def test_stops_a_run_when_the_attempt_s_time_is_over(self) -> None:
        @self.app.task("brief")
        async def brief(run: Run) -> str:
            if run.attempt == 1:
                await asyncio.sleep(600)
            if run.attempt == 2:
                await asyncio.to_thread(run.cancelled.wait)
                run.check()
            return "in time"

        self.work(self.app)
        id = self.submit("brief")
        self.assertEqual(self.wait(id).result, "in time")
        self.assertEqual([e.data["code"] for e in self.client.history(id) if e.kind == "failed"], ["timeout", "timeout"])

    def test_does_not_record_what_a_run_reports_under_a_stale_token(self) -> None:
        started, go = threading.Event(), threading.Event()
        answers: list[BaseException] = []

        @self.app.task("stale")
        def stale(run: Run) -> str:
            if started.is_set():
                return "second"
            started.set()
            go.wait()
            try:
                run.token("paid") if run.params == "token" else run.checkpoint({"at": 1})
            except BaseException as err:
                answers.append(err)
            return "first"

        self.work(self.app, concurrency=2, heartbeat=timedelta(minutes=1))
        for what in ("checkpoint", "token"):
            id = self.submit("stale", what)
            self.set(started)
            self.client.cancel(id)
            self.client.replay(id)
            self.assertEqual(self.wait(id).result, "second")
            go.set()
            self.eventually(f"the {what} is answered", lambda: answers)
            self.assertIsInstance(answers.pop(), Cancelled)
            self.assertEqual(self.client.get(id).result, "second")
            started.clear()
            go.clear()

    def test_resumes_from_a_checkpoint(self) -> None:
        @self.app.task("retried")
        async def retried(run: Run) -> int:
            if run.saved is None:
                await run.save({"page": 1})
                await run.save({"page": 2})
                with self.assertRaises(RuntimeError):
                    run.checkpoint({})
                try:
                    await run.save("x" * 70_000)
                except StreamwrightError as err:
                    self.assertEqual(err.code, "too_large")
                raise Fail("in the midst")
            return int(run.saved["page"])

        self.work(self.app)
        self.assertEqual(self.wait(self.submit("retried")).result, 2)

    def test_tells_progress_at_most_once_a_second_and_the_latest(self) -> None:
        go = threading.Event()

        @self.app.task("progress")
        def progress(run: Run) -> None:
            for n in range(100):
                run.progress(n, f"page {n}")
            go.wait()
            run.progress(100)
            raise Fail("at the end", retryable=False)

        self.work(self.app)
        id = self.submit("progress")
        self.eventually("the latest is told", lambda: (p := self.client.get(id).progress) and p.percent == 99)
        go.set()
        self.wait(id)
        told = [e.data["percent"] for e in self.client.history(id) if e.kind == "progressed"]
        self.assertEqual(told, [0, 99, 100])

    def test_snoozes_with_no_attempt_used(self) -> None:
        runs = 0

        @self.app.task("sleepy")
        def sleepy(run: Run) -> int:
            nonlocal runs
            runs += 1
            if runs == 1:
                raise Snooze(timedelta(milliseconds=20), "not yet")
            return run.attempt

        self.work(self.app)
        self.assertEqual((self.wait(self.submit("sleepy")).result, runs), (1, 2))

    def test_waits_for_a_signal_which_a_failure_leaves_to_the_next_run(self) -> None:
        runs = 0

        @self.app.task("pay", retries=4)
        def pay(run: Run) -> Any:
            nonlocal runs
            runs += 1
            if runs == 1:
                run.wait("paid", until=timedelta(minutes=1))
            if runs == 2:
                raise Fail("in the midst", retry_after=timedelta(milliseconds=1))
            paid = run.signal("paid")
            return [paid and paid.payload, run.waited and run.waited.timed_out]

        @self.app.task("late")
        def late(run: Run) -> Any:
            if run.waited is None:
                raise Wait("a", "b", all=True, until=timedelta(milliseconds=1))
            return run.waited.timed_out

        @self.app.task("given")
        def given(run: Run) -> None:
            run.wait("never", until=datetime.now(timezone.utc) + timedelta(milliseconds=5), complete="by default")

        self.work(self.app)
        id = self.submit("pay")
        self.assertFalse(self.client.signal(id, "paid", {"sum": 3}, msg_id="hook-1").repeat)
        self.assertTrue(self.client.signal(id, "paid", {"sum": 3}, msg_id="hook-1").repeat)
        self.assertEqual(self.wait(id).result, [{"sum": 3}, False])
        self.assertEqual(self.wait(self.submit("late")).result, True)
        self.assertEqual(self.wait(self.submit("given")).result, "by default")
        with self.assertRaises(StreamwrightError) as got:
            self.client.signal(id, "paid")
        self.assertEqual(got.exception.code, "ended")

    def test_starts_or_wakes_an_item_by_a_submission_with_a_signal(self) -> None:
        @self.app.task("pay")
        def pay(run: Run) -> Any:
            if run.waited is None:
                run.wait("paid", "refused", all=True, until=timedelta(minutes=1))
            return sorted(s.name for s in run.waited.signals)

        self.work(self.app)
        first = self.client.submit("pay", dedup_key="order-4711", signal=FirstSignal("paid", {"sum": 3}))
        again = self.client.submit("pay", dedup_key="order-4711", signal=FirstSignal("refused", msg_id="hook-1"))
        self.assertEqual(again.merged_into, first.id)
        self.assertEqual(self.wait(first.id).result, ["paid", "refused"])

    def test_asks_people_by_who_may_answer_a_form_and_a_link(self) -> None:
        links: dict[str, str] = {}

        @self.app.task("expense")
        def expense(run: Run) -> Any:
            answer = run.answer("ok")
            if answer is not None:
                return [answer.choice, answer.value, answer.comment, answer.by, answer.approved]
            links[run.id] = run.token("ok", for_="bob")
            run.ask("ok", Question("Pay?", choices=["approve", "edit"], proposal={"sum": 80}, form={"type": "object", "properties": {"sum": {"type": "integer"}}},
                                   users=["ada"], roles=["operate"], remind="remind", remind_every=timedelta(minutes=1), remind_most=2), until=timedelta(minutes=1))

        def asked() -> str:
            id = self.client.submit("expense").id
            self.eventually("the question is asked", lambda: any(a.id == id for a in self.client.approvals(type="expense")))
            return id

        self.work(self.app)
        id = asked()

        def refused(kind: type[StreamwrightError], code: str, *answer: Any, **more: Any) -> None:
            with self.assertRaises(kind) as raised:
                self.client.answer(id, *answer, **more)
            self.assertEqual(raised.exception.code, code)

        question = self.client.approval(id)
        self.assertEqual((question.title, question.proposal, question.number, question.answered), ("Pay?", {"sum": 80}, 1, None))
        refused(Invalid, "bad_request", "edit", {"sum": "x"}, by="ada")
        self.assertEqual([self.client.answer(id, "edit", {"sum": 40}, "half", number=1, by="ada") for _ in range(2)], [True, False])
        refused(Conflict, "already_completed", "approve", by="ada")
        choice, value, comment, by, approved = self.client.wait(id).result
        self.assertEqual((choice, value, comment, approved), ("edit", {"sum": 40}, "half", True))
        self.assertTrue(by)  # with users the login's name, whatever was said
        by_link = asked()
        self.client.present_token(links[by_link], {"choice": "approve"})
        self.assertEqual(self.client.wait(by_link).result, ["approve", {"sum": 80}, "", "bob", True])

    def test_makes_tokens_of_which_each_is_answered_once_with_a_result_or_an_error(self) -> None:
        made: dict[str, str] = {}

        def paid(run: Run) -> Any:
            signal = run.signal("paid")
            if signal is None:
                return None
            if signal.error is not None:
                raise Fail(signal.error.message, signal.error.code, retryable=False)
            return [signal.payload, signal.token]

        @self.app.task("order")
        def order(run: Run) -> Any:
            if run.waited is None:
                with self.assertRaises(Invalid):
                    run.token("")
                made[run.id] = run.token("paid")
                run.wait("paid", until=timedelta(minutes=1))
            return paid(run)

        @self.app.task("order_async")
        async def order_async(run: Run) -> Any:
            if run.waited is None:
                with self.assertRaises(RuntimeError):
                    run.token("paid")
                made[run.id] = await run.make_token("paid")
                run.wait("paid", until=timedelta(minutes=1))
            return paid(run)

        def token_of(id: str) -> str:
            self.eventually("the token is made", lambda: id in made)
            return made[id]

        def refused(kind: type[StreamwrightError], code: str, token: str, **answer: Any) -> None:
            with self.assertRaises(kind) as got:
                self.client.present_token(token, **answer)
            self.assertEqual(got.exception.code, code)

        self.work(self.app)
        declined = SignalError("declined", "no money")
        for type_ in ("order", "order_async"):
            id = self.submit(type_)
            token = token_of(id)
            self.assertRegex(token, f"^{id}-[A-Z2-7]{{32}}$")
            for unknown in (f"{id}-{'A' * 32}", "no token"):
                refused(NotFound, "not_found", unknown, result=1)
            with self.assertRaises(ValueError):
                self.client.present_token(token, {"sum": 3}, declined)
            for _ in range(2):
                self.assertEqual(self.client.present_token(token, {"sum": 3}), id)
            refused(Conflict, "already_completed", token, result={"sum": 4})
            refused(Conflict, "already_completed", token, error=declined)
            self.assertEqual(self.wait(id).result, [{"sum": 3}, True])
            given = [e.data for e in self.client.history(id) if e.kind == "token_given"]
            self.assertEqual(given, [{"name": "paid", "hash": hashlib.sha256(token.encode()).hexdigest()}])
            self.assertEqual(self.client.present_token(token, {"sum": 3}), id)  # also after the end
        id = self.submit("order")

        async def decline() -> str:
            async with AsyncClient(self.engine.url) as client:
                return await client.present_token(token_of(id), error=declined)

        self.assertEqual(asyncio.run(decline()), id)
        item = self.wait(id)
        self.assertEqual((item.state, item.error.code, item.error.message), ("dead", "declined", "no money"))
        id = self.submit("order")
        token_of(id)
        self.client.cancel(id)
        refused(Conflict, "ended", made[id])

    def test_writes_output_that_is_followed(self) -> None:
        text = "größer €\n" * 10_000
        begun, go_on = threading.Event(), threading.Event()

        @self.app.task("answer", retries=1)
        def answer(run: Run) -> None:
            if run.attempt == 1:
                run.output("of the first run")
                begun.set()
                go_on.wait(30)
                raise Fail("again", retry_after=timedelta(milliseconds=1))
            run.output(text[:1])
            run.output(text[1:])
            run.output(b"\xff\x00")

        @self.app.task("tell")
        async def tell(run: Run) -> None:
            await run.write("a")
            with self.assertRaises(RuntimeError):
                run.output("blocks")
            await run.write("b")

        def read(chunks: list[OutputChunk]) -> bytes:
            got = b""
            for chunk in chunks:
                got = b"" if chunk.reset else got
                self.assertEqual(chunk.offset, len(got))
                got += chunk.data
            return got

        self.work(self.app)
        whole = text.encode() + b"\xff\x00"
        id = self.submit("answer")
        self.assertTrue(begun.wait(30))
        self.assertEqual(self.client.output(id), b"of the first run")
        chunks = []
        for chunk in self.client.follow_output(id):
            chunks.append(chunk)
            go_on.set()
        self.assertEqual((chunks[0].data, chunks[0].reset, chunks[0].attempt), (b"of the first run", True, 1))
        self.assertEqual([c.attempt for c in chunks if c.reset], [1, 2])
        self.assertEqual(read(chunks), whole)
        self.assertEqual(self.client.output(id), whole)
        self.assertEqual(list(self.client.follow_output(id, after=chunks[-2].seq)), chunks[-1:])
        self.assertEqual(list(self.client.follow_output(id, after=chunks[-1].seq)), [])  # there is nothing left to tell

        async def again() -> tuple[bytes, bytes, list[OutputChunk]]:
            async with AsyncClient(self.engine.url) as client:
                got = read([c async for c in client.follow_output(id)])
                return got, await client.output(id), [c async for c in client.follow_output(id, after=chunks[-1].seq)]

        self.assertEqual(asyncio.run(again()), (whole, whole, []))
        told = self.submit("tell")
        self.wait(told)
        self.assertEqual(self.client.output(told), b"ab")

    def test_a_run_that_has_lost_its_item_writes_no_more_output(self) -> None:
        ended: list[BaseException] = []
        begun = threading.Event()

        @self.app.task("long")
        def long(run: Run) -> None:
            run.output("begun")
            begun.set()
            try:
                for _ in range(3000):
                    run.output("more")
                    time.sleep(0.01)
            except BaseException as err:
                ended.append(err)
                raise

        self.work(self.app)
        id = self.submit("long")
        self.assertTrue(begun.wait(30))
        self.client.cancel(id, "enough")
        self.assertEqual(self.client.wait(id).state, "cancelled")
        self.eventually("the run has ended", lambda: ended)
        self.assertIsInstance(ended[0], Cancelled)

    def test_a_run_that_has_ended_writes_no_more_output(self) -> None:
        late: list[BaseException] = []

        @self.app.task("pumps")
        def pumps(run: Run) -> None:
            def pump() -> None:
                self.client.wait(run.id)
                try:
                    run.output("too late")
                except BaseException as err:
                    late.append(err)

            threading.Thread(target=pump, daemon=True).start()

        self.work(self.app)
        self.wait(self.submit("pumps"))
        self.eventually("the write has ended", lambda: late)
        self.assertIsInstance(late[0], Cancelled)

    def test_spawns_children_and_continues_when_they_have_ended(self) -> None:
        @self.app.task("page")
        def page(n: int) -> int:
            return n * 10

        @self.app.task("book")
        def book(pages: int, run: Run) -> list[Any]:
            if run.continuation is not None and run.continuation.name == "bind":
                return [c.result for c in run.continuation.children]
            run.spawn([page.work(n) for n in range(pages)], continuation="bind")

        self.work(self.app, concurrency=20)
        for n in (3, 1000):
            item = self.wait(self.submit("book", n))
            self.assertEqual(item.result, [i * 10 for i in range(n)])

    def test_takes_large_params_and_gives_a_large_result(self) -> None:
        @self.app.task("large")
        def large(text: str) -> dict[str, str]:
            return {"echo": text}

        @self.app.task("large_async")
        async def large_async(text: str) -> dict[str, str]:
            return {"echo": text}

        self.work(self.app)
        for type in ("large", "large_async"):
            for size in (400_000, 9_000_000):
                item = self.wait(self.submit(type, "x" * size))
                self.assertEqual(item.state, "completed")
                self.assertEqual(self.client.result(item), {"echo": "x" * size})

    def test_tries_again_when_large_params_can_not_be_had_for_a_moment(self) -> None:
        @self.app.task("retried")
        def retried(text: str) -> int:
            return len(text)

        send = self.client.transport.send
        refused: list[Any] = []

        def refusing(call: Any, *args: Any) -> Any:
            if call.path.endswith("/params") and not refused:
                refused.append(call)
                raise error_of("quota_exceeded", "too many at once")
            return send(call, *args)

        self.enterContext(unittest.mock.patch.object(self.client.transport, "send", refusing))
        id = self.submit("retried", "x" * 400_000)
        self.work(self.app)
        self.assertEqual(self.wait(id).result, 400_000)
        self.assertEqual(len(refused), 1)

    def test_logs_while_a_program_s_handlers_are_slow(self) -> None:
        # The worker logs under its lock, and a handler of the program's waits for that lock.
        class Slow(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                time.sleep(0.02)

        logger, slow, handler = logging.getLogger("streamwright"), Slow(), ItemLogHandler()
        for h in (slow, handler):
            logger.addHandler(h)
            self.addCleanup(logger.removeHandler, h)
        before = logger.level
        logger.setLevel(logging.DEBUG)
        self.addCleanup(logger.setLevel, before)

        @self.app.task("chatty")
        def chatty() -> None:
            for n in range(5):
                logger.warning("line %d", n)
            raise Fail("no more", retryable=False)

        w = self.work(self.app, concurrency=4)
        for id in [self.submit("chatty") for _ in range(12)]:
            self.assertEqual(self.wait(id).state, "dead")
        w.stop(timedelta(seconds=PATIENCE))

    def test_counts_a_forgotten_run_until_it_ends(self) -> None:
        started, go, at_once, most = threading.Event(), threading.Event(), [], []

        @self.app.task("stubborn")
        def stubborn(run: Run) -> None:
            at_once.append(run)
            most.append(len(at_once))
            started.set()
            go.wait()  # it does not look whether it is cancelled
            at_once.remove(run)

        w = self.work(self.app, id="stubborn", concurrency=1)
        ids = [self.submit("stubborn") for _ in range(2)]
        self.set(started)
        with w._cond:
            for run in list(w._runs.values()):
                w._end_run(run, "lease_lost")
                w._forget(run)
        self.client.cancel(ids[0])
        self.eventually("the slot is free for the engine", lambda: self.client.get(ids[0]).state == "cancelled")
        time.sleep(0.5)  # in which it would be given the other
        go.set()
        self.wait(ids[1])
        self.assertEqual(max(most), 1)

    def test_writes_what_a_program_logs_to_the_item_s_log(self) -> None:
        logger = logging.getLogger("some.library")
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        handler = ItemLogHandler()
        logger.addHandler(handler)
        self.addCleanup(logger.removeHandler, handler)

        @self.app.task("logging")
        async def task(n: int) -> None:
            logger.debug("%s of async", n)
            await asyncio.to_thread(logger.error, "of a thread")

        @self.app.task("much")
        def much() -> None:
            for n in range(2000):
                logger.info("line %d %s", n, "x" * 100)
            logger.info("é" * 8000)

        self.work(self.app)
        logger.info("of nobody")
        ids = [self.submit("logging", n) for n in range(2)]
        for n, id in enumerate(ids):
            self.wait(id)
            self.assertEqual([(r.level, r.message) for r in self.logged(id, 2)], [("debug", f"{n} of async"), ("error", "of a thread")])
        id = self.submit("much")
        self.wait(id)
        logs = self.logged(id, 2001)
        self.assertEqual([r.message.split()[1] for r in logs[:-1]], [str(n) for n in range(2000)])
        self.assertEqual(logs[-1].message, "é" * 4096)

    def test_refuses_a_second_worker_of_the_same_id(self) -> None:
        @self.app.task("twin")
        def task() -> None:
            pass

        self.work(self.app, id="twin")
        self.eventually("it is registered", lambda: self.workers("twin"))
        with self.assertRaises(WorkerIdInUse):
            Worker(self.app, id="twin").run(signals=())

    def workers(self, id: str) -> list[Any]:
        return [w for w in self.client.request("GET", "/workers")["workers"] if w["worker"] == id and w["status"] != "dead"]

    def test_stops_its_runs_at_once_when_another_session_takes_its_id(self) -> None:
        started, reasons = threading.Event(), []

        @self.app.task("short")
        def short(run: Run) -> str:
            if started.is_set():
                return "again"
            started.set()
            run.cancelled.wait()
            reasons.append(run.reason)
            run.check()
            return "first"

        w = self.work(self.app, id="taken")
        id = self.submit("short")
        self.set(started)
        session = ""

        def take() -> bool:
            nonlocal session
            self.client.transport.send(self.delete("taken", w._session), 5)  # its heartbeat may have brought it back
            try:
                session = self.client.request("POST", "/workers", {"worker": "taken", "types": ["other"], "slots": 1})["session"]
            except WorkerIdInUse:
                return False
            return True

        self.eventually("the id is taken", take)
        self.eventually("the run is stopped", lambda: reasons)
        self.assertEqual(reasons, ["lease_lost"])
        self.client.transport.send(self.delete("taken", session), 5)
        item = self.wait(id)  # the worker works again
        self.assertEqual((item.result, item.worker), ("again", "taken"))

    def delete(self, worker: str, session: str) -> Any:
        from dataclasses import replace
        return replace(self.client._api.call("DELETE", f"/workers/{worker}", lambda d: d), headers={"Work-Session": session})

    def test_ends_when_the_engine_drains_it_after_what_it_runs(self) -> None:
        started, go = threading.Event(), threading.Event()

        @self.app.task("drained")
        def task() -> int:
            started.set()
            go.wait()
            return 1

        w = Worker(self.app, id="drained", concurrency=1, heartbeat=timedelta(seconds=0.1), drain_timeout=timedelta())  # the drain has no end
        ran = threading.Thread(target=w.run)
        ran.start()
        first = self.submit("drained")
        self.set(started)
        second = self.submit("drained")
        self.client.request("POST", "/workers/drained/drain")
        self.eventually("it knows", lambda: w._draining)
        go.set()
        ran.join(30)
        self.assertFalse(ran.is_alive())
        self.assertEqual(self.wait(first).state, "completed")
        self.assertEqual(self.client.get(second).state, "queued")
        self.assertEqual(self.workers("drained"), [])

    def test_hands_back_what_does_not_end_within_the_drain(self) -> None:
        started, reasons = threading.Event(), []

        @self.app.task("slow")
        def slow(run: Run) -> None:
            started.set()
            run.cancelled.wait()
            reasons.append(run.reason)
            run.check()

        w = self.work(self.app, drain_timeout=timedelta(seconds=0.05))
        id = self.submit("slow")
        self.set(started)
        w.stop()
        item = self.client.get(id)
        self.assertEqual((reasons, item.state, item.attempt), (["shutdown"], "queued", 0))

    def test_ends_a_poll_that_waits_without_losing_what_comes(self) -> None:
        # Workers come and go while items come that have begun when they are handed out, since an
        # earlier run has left something: one that is lost on its way costs its attempt.
        runs = 0

        @self.app.task("coming")
        def coming(run: Run) -> int:
            nonlocal runs
            runs += 1
            n = run.saved or 0
            if n < 60:
                run.checkpoint(n + 1)
                raise Snooze(timedelta(milliseconds=1))
            return int(n)

        out = self.client.submit_many([coming.work() for _ in range(10)])
        for _ in range(12):
            w = Worker(self.app, concurrency=10)
            w.start()
            n = runs
            self.eventually("it works", lambda: runs > n + 10 or runs >= 600)
            w.stop()
        self.work(self.app, concurrency=10)
        items = [self.wait(s.id) for s in out if isinstance(s, Submitted)]
        self.assertEqual([(i.result, i.attempt, i.leases_lost) for i in items], [(60, 1, 0)] * 10)
        self.assertEqual(runs, 610)

    def test_runs_on_the_program_s_loop(self) -> None:
        async def main() -> None:
            loops = []

            @self.app.task("loop")
            async def task() -> None:
                loops.append(asyncio.get_running_loop())

            w = Worker(self.app, loop=asyncio.get_running_loop())
            w.start()
            id = await asyncio.to_thread(self.submit, "loop")
            await asyncio.to_thread(self.wait, id)
            await asyncio.to_thread(w.stop)
            self.assertEqual(loops, [asyncio.get_running_loop()])
        asyncio.run(main())

    def test_runs_only_what_its_capabilities_allow(self) -> None:
        @self.app.task("picture")
        def picture() -> str:
            return "done"

        self.work(self.app, capabilities=["gpu"])
        id, other = self.submit("picture", capabilities=["gpu"]), self.submit("picture", capabilities=["tape"])
        self.assertEqual(self.wait(id).state, "completed")
        self.assertEqual(self.client.get(other).state, "queued")

    def test_says_what_is_wrong_with_its_options(self) -> None:
        with self.assertRaises(ValueError):
            Worker(App(self.client))
        self.app.task("No Type")(lambda: None)
        for n in (0, 1001):
            with self.assertRaises(ValueError):
                Worker(self.app, concurrency=n)
        self.refused("bad_type", Worker(self.app).run)
        self.refused("bad_id", lambda: self.client.get("x"))
        self.assertEqual(len(new_id()), 26)
