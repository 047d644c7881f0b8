from __future__ import annotations

import asyncio
import inspect
import multiprocessing
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from streamwright import (
    AsyncClient, Client, Conflict, Denied, Event, Invalid, NotFound, Schedule, Submitted, Unavailable, Work, new_id,
)

from .harness import PATIENCE, SECURED, Case, Engine


@dataclass
class Address:
    to: str
    at: datetime


class ClientTest(Case):
    def test_submits_an_item_and_reads_its_own_write(self) -> None:
        out = self.client.submit("plain", {"to": "ann"}, labels={"team": "a"}, priority=0, timeout=timedelta(seconds=90))
        self.assertEqual(out.state, "queued")
        item = self.client.get(out.id)
        self.assertEqual((item.params, item.priority, item.labels, item.timeout), ({"to": "ann"}, 0, {"team": "a"}, timedelta(seconds=90)))
        assert item.created_at is not None
        self.assertLess(abs(datetime.now(timezone.utc) - item.created_at), timedelta(minutes=1))
        self.assertEqual([i.id for i in self.client.list(type="plain", label="team=a").items], [out.id])

    def test_lets_another_client_see_what_this_one_was_told(self) -> None:
        out = self.client.submit("seen")
        other = self.new_client()
        other.saw(out.position)
        self.assertEqual(other.get(out.id).id, out.id)
        self.assertEqual(other.position, self.client.position)

    def test_submits_the_same_id_once(self) -> None:
        id = new_id()
        first, second = self.client.submit(Work("plain", 1, id=id)), self.client.submit(Work("plain", 1, id=id))
        self.assertEqual((first.repeat, second.repeat, second.id), (False, True, id))
        with self.assertRaises(Conflict):
            self.client.submit(Work("plain", 2, id=id))

    def test_submits_dataclasses_and_times(self) -> None:
        at = datetime(2030, 1, 31, 8, tzinfo=timezone.utc)
        out = self.client.submit(Work("typed", Address("ann", at), available_at=at, expires_at=at + timedelta(days=1)))
        item = self.client.get(out.id)
        self.assertEqual(item.params, {"to": "ann", "at": "2030-01-31T08:00:00+00:00"})
        self.assertEqual((item.available_at, item.expires_at), (at, at + timedelta(days=1)))

    def test_submits_many_each_on_its_own(self) -> None:
        works = [Work("many", 1), Work("No Type"), *(Work("many", n) for n in range(1_500))]
        out = self.client.submit_many(works)
        self.assertEqual(len(out), 1_502)
        self.assertIsInstance(out[0], Submitted)
        assert isinstance(out[1], Invalid)
        self.assertEqual(out[1].code, "bad_type")
        self.assertEqual(sum(1 for i in self.client.all(type="many", limit=500) if i.state == "queued"), 1_501)

    def test_tells_refusals_by_their_code(self) -> None:
        self.refused("bad_priority", lambda: self.client.submit("plain", priority=99))
        self.refused("bad_request", lambda: self.client.request("POST", "/work", {"type": "plain", "nonsense": 1}))
        with self.assertRaises(NotFound):
            self.client.get(new_id())
        with self.assertRaises(TypeError):
            self.client.submit("plain", nonsense=1)
        with self.assertRaises(TypeError):
            self.client.submit("plain", object())
        with self.assertRaises(ValueError):
            self.client.submit("plain", float("nan"))

    def test_cancels_and_waits_for_the_end(self) -> None:
        id = self.client.submit("never").id
        ended: list[Any] = []
        waiting = threading.Thread(target=lambda: ended.append(self.wait(id)))
        waiting.start()
        out = self.client.cancel(id, "not needed")
        self.assertEqual((out.state, out.was_running), ("cancelled", False))
        waiting.join(PATIENCE)
        self.assertEqual((ended[0].state, ended[0].reason), ("cancelled", "not needed"))
        self.assertEqual([e.kind for e in self.client.history(id)], ["created", "queued", "cancelled"])
        self.assertEqual(self.client.logs(id), [])
        self.client.replay(id, priority=9)
        self.assertEqual(self.client.get(id).state, "queued")
        self.client.cancel(id)

    def test_waits_for_the_item_that_another_was_merged_into(self) -> None:
        first, second = (self.client.submit(Work("merging", dedup_key="k")) for _ in range(2))
        self.assertEqual(second.merged_into, first.id)
        self.client.cancel(first.id)
        self.assertEqual(self.wait(second.id).id, first.id)

    def test_waits_for_any_and_for_all_of_many(self) -> None:
        ids = [s.id for s in self.client.submit_many(Work("never") for _ in range(3)) if isinstance(s, Submitted)]
        self.client.cancel(ids[1])
        out = self.client.wait_any(ids, timedelta(seconds=PATIENCE))
        self.assertEqual(([i.id for i in out.ended], out.pending), ([ids[1]], [ids[0], ids[2]]))
        out = self.client.wait_all(ids, timedelta(milliseconds=20))
        self.assertEqual(([i.id for i in out.ended], out.pending), ([ids[1]], [ids[0], ids[2]]))
        got: list[Any] = []
        waiting = threading.Thread(target=lambda: got.append(self.client.wait_all(reversed(ids), timedelta(seconds=PATIENCE))))
        waiting.start()
        for id in (ids[0], ids[2]):
            self.client.cancel(id)
        waiting.join(PATIENCE)
        self.assertEqual(([i.id for i in got[0].ended], got[0].pending), (ids[::-1], []))
        with self.assertRaises(NotFound):
            self.client.wait_any([*ids, new_id()], timedelta(seconds=PATIENCE))

        async def same() -> list[str]:
            async with AsyncClient(self.engine.url) as client:
                return [i.id for i in (await client.wait_all(ids, timedelta(seconds=PATIENCE))).ended]

        self.assertEqual(asyncio.run(same()), ids)

    def test_tells_who_did_what(self) -> None:
        id = self.client.submit("audited").id
        self.client.cancel(id, "not needed")
        acts = [a for a in self.client.audit(action="cancelled", type="audited") if a.id == id]
        self.assertEqual([a.kind for a in acts], ["cancelled"])
        self.assertNotEqual(acts[0].by, "")
        self.assertIn(acts[0], list(self.client.audit(by=acts[0].by)))
        self.assertEqual(list(self.client.audit(by="nobody", since=acts[0].at)), [])

        async def same() -> list[Event]:
            async with AsyncClient(self.engine.url) as client:
                return [a async for a in client.audit(action="cancelled", type="audited") if a.id == id]

        self.assertEqual(asyncio.run(same()), acts)

    def test_ends_a_wait_when_its_time_is_over(self) -> None:
        id = self.client.submit("never").id
        with self.assertRaises(Unavailable) as caught:
            self.client.wait(id, timedelta(seconds=0.05))
        with self.assertRaises(Unavailable):
            self.client.wait(id, timedelta(0))
        self.assertEqual(self.client.wait_all([id.lower()], timedelta(0)).pending, [id])
        self.assertEqual(caught.exception.code, "timeout")
        self.assertIn(f"item {id} has not ended in the time given for it", str(caught.exception))

    def test_has_batches_and_schedules(self) -> None:
        batch = self.client.open_batch("nightly", callback=Work("done", 1))
        self.client.submit_many([Work("part", n, batch=batch.id) for n in range(3)])
        sealed = self.client.seal_batch(batch.id)
        self.assertEqual((sealed.batch.declared, sealed.batch.name, sealed.batch.sealed), (3, "nightly", True))
        made = self.client.schedule(Schedule("hourly", "tick", every=timedelta(hours=1), params={"n": 1}))
        self.assertEqual((made.every, made.params, made.paused), (timedelta(hours=1), {"n": 1}, False))
        assert made.next is not None
        fired = self.client.fire("hourly")
        self.assertEqual(self.client.get(fired.id).params, {"n": 1})
        self.assertEqual([s.name for s in self.client.schedules()], ["hourly"])
        self.client.remove_schedule("hourly")
        self.refused("not_found", lambda: self.client.fire("hourly"))

    def test_puts_large_params_into_the_object_store_and_gets_them_back(self) -> None:
        for text in ("ü" * 300_000, "x" * 9_000_000):
            id = self.client.submit("large", {"text": text}).id
            item = self.client.get(id)
            self.assertIn("$blob", item.params)
            self.assertEqual(self.client.params(item), {"text": text})
        self.refused("too_large", lambda: self.client.submit("large", "x" * (65 << 20)))
        looks_like_a_reply = {"position": "999999999", "items": 5}
        id = self.client.submit("large", looks_like_a_reply).id
        self.assertEqual(self.client.params(id), looks_like_a_reply)
        self.assertEqual(self.client.get(id).params, looks_like_a_reply)

    def test_tells_the_events_of_an_item_live_and_all_again_from_a_position(self) -> None:
        out = self.client.submit(Work("watched", tenant="acme", labels={"region": "eu"}))
        first = self.client.history(out.id)[0]
        kinds = []
        for e in self.client.events(id=[out.id], tenant="acme", label="region=eu", after=first.seq - 1):
            kinds.append(e.kind)
            if e.kind == "queued":
                self.client.cancel(out.id)
            if e.kind == "cancelled":
                break
        self.assertEqual(kinds, ["created", "queued", "cancelled"])
        self.refused("bad_type", lambda: next(self.client.events(type=["No Type"])))
        self.refused("bad_id", lambda: next(self.client.events(id=["1"])))

    def test_tells_what_comes_after_the_call(self) -> None:
        before = self.client.submit("live")
        feed = self.client.events(type=["live"], kind=["created"])
        after = self.client.submit("live")
        self.assertEqual(next(feed).id, after.id)
        since = self.client.events(type=["live"], kind=["created"], since=datetime.now(timezone.utc) - timedelta(minutes=5))
        self.assertEqual(next(since).id, before.id)

    def test_works_on_in_a_forked_process(self) -> None:
        ids = [s.id for s in self.client.submit_many([Work("forked", n) for n in range(50)]) if isinstance(s, Submitted)]

        def get_all() -> None:
            for n, id in enumerate(ids):
                if self.client.get(id).params != n:
                    raise SystemExit(1)

        children = [multiprocessing.get_context("fork").Process(target=get_all) for _ in range(2)]
        for c in children:
            c.start()
        get_all()
        for c in children:
            c.join(PATIENCE)
            self.assertEqual(c.exitcode, 0)

    def test_says_what_is_wrong_when_it_cannot_connect(self) -> None:
        short: dict[str, Any] = {"patience": timedelta(seconds=0.1)}
        self.refused("unavailable", lambda: Client("http://127.0.0.1:1", **short).get(new_id()))
        self.refused("unavailable", lambda: Client("http://nowhere.invalid", **short).get(new_id()))
        for wrong in ("127.0.0.1", "ftp://a", "http://a:b@c"):
            with self.assertRaises(ValueError):
                Client(wrong)
        if SECURED:
            with self.assertRaises(Denied):
                Client(self.engine.url, token="").get(new_id())
            with self.assertRaises(Denied):
                Client(self.engine.url, ca="/etc/ssl/certs/ca-certificates.crt", **short).get(new_id())


class AsyncClientTest(Case):
    def run_async(self, main: Any) -> Any:
        async def whole() -> Any:
            async with AsyncClient(self.engine.url) as client, asyncio.timeout(PATIENCE):
                return await main(client)
        return asyncio.run(whole())

    def test_has_what_the_client_has(self) -> None:
        def public(cls: type) -> Iterator[tuple[str, list[str]]]:
            for name, member in inspect.getmembers(cls, inspect.isfunction):
                if not name.startswith("_"):
                    yield name, [str(p) for p in inspect.signature(member).parameters.values()]
        self.assertEqual(dict(public(Client)), dict(public(AsyncClient)))

    def test_submits_waits_and_follows(self) -> None:
        async def main(client: AsyncClient) -> None:
            out = await client.submit("plain", {"to": "ann"})
            many = await client.submit_many([Work("plain", n) for n in range(3)])
            self.assertTrue(all(isinstance(m, Submitted) for m in many))
            self.assertEqual((await client.get(out.id)).params, {"to": "ann"})
            waiting = asyncio.create_task(client.wait(out.id))
            async for e in client.events(id=[out.id], after=0):
                if e.kind == "queued":
                    await client.cancel(out.id)
                if e.kind == "cancelled":
                    break
            self.assertEqual((await waiting).state, "cancelled")
            self.assertEqual(len([i async for i in client.all(type="plain", limit=2)]), 4)
            self.assertEqual([r async for r in client.follow_logs(out.id)], [])
            with self.assertRaises(NotFound):
                await client.get(new_id())
        self.run_async(main)

    def test_waits_for_many_at_once(self) -> None:
        async def main(client: AsyncClient) -> None:
            ids = [s.id for s in await client.submit_many([Work("crowd", n) for n in range(300)]) if isinstance(s, Submitted)]
            threads = threading.active_count()
            waits = [asyncio.create_task(client.wait(id)) for id in ids]
            await client.get(ids[0])
            await asyncio.gather(*(client.cancel(id) for id in ids))
            self.assertEqual({i.state for i in await asyncio.gather(*waits)}, {"cancelled"})
            self.assertLessEqual(threading.active_count(), threads + 8)  # those that look names up
        self.run_async(main)

    def test_ends_a_request_with_its_task(self) -> None:
        async def main(client: AsyncClient) -> None:
            id = (await client.submit("never")).id
            waiting = asyncio.create_task(client.wait(id))
            while not (open := [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]):
                await asyncio.sleep(0)
            self.assertEqual(open, [waiting])
            await client.get(id)
            waiting.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await waiting
            self.assertEqual((await client.get(id)).state, "queued")
        self.run_async(main)

    def test_takes_and_gives_large_documents(self) -> None:
        async def main(client: AsyncClient) -> None:
            for size in (300_000, 9_000_000):
                id = (await client.submit("large", "x" * size)).id
                self.assertEqual(await client.params(id), "x" * size)
        self.run_async(main)


class WithoutEngineTest(Case):
    """Each test has an engine of its own."""

    @classmethod
    def setUpClass(cls) -> None:
        pass

    def setUp(self) -> None:
        self.engine = Engine().start()
        self.addCleanup(self.engine.close)
        self.client = self.new_client()

    def test_tries_a_submission_until_an_engine_answers_and_makes_one_item(self) -> None:
        self.engine.stop()
        answers: list[Any] = []
        works = [Work("patient", 1), Work("patient", 2)]
        threads = [threading.Thread(target=lambda w=w: answers.append(self.client.submit(w))) for w in works]
        for t in threads:
            t.start()
        impatient = self.new_client(patience=timedelta(seconds=0.1))
        self.refused("unavailable", impatient.list)
        self.engine.start()
        for t in threads:
            t.join(PATIENCE)
        self.assertEqual(sorted(i.id for i in self.client.list(type="patient").items), sorted(a.id for a in answers))

    def test_makes_one_item_when_the_answer_is_lost(self) -> None:
        # The engine is killed while it is asked: what it had made is there when it is back.
        stop = threading.Event()
        ids: list[str] = []

        def submit() -> None:
            while not stop.is_set():
                ids.append(self.client.submit("once", len(ids)).id)

        t = threading.Thread(target=submit)
        t.start()
        for _ in range(3):
            n = len(ids)
            self.eventually("submissions are made", lambda: len(ids) > n + 20)
            self.engine.stop(signal.SIGKILL)
            self.engine.start()
        stop.set()
        t.join(PATIENCE)
        self.assertEqual(sorted(i.id for i in self.client.all(type="once", limit=1000)), sorted(ids))

    def test_follows_on_after_a_restart_with_nothing_left_out(self) -> None:
        feed = self.client.events(type=["kept"], kind=["created"], after=0)
        seen = []
        for n in range(4):
            self.client.submit("kept", n)
            seen.append(next(feed))
            if n % 2 == 0:
                self.engine.stop(signal.SIGKILL)
                self.engine.start()
        self.assertEqual([e.data["params"] for e in seen], [0, 1, 2, 3])

        async def follow() -> list[int]:
            async with AsyncClient(self.engine.url) as client, asyncio.timeout(PATIENCE):
                told: list[int] = []
                async for e in client.events(type=["kept"], kind=["created"], after=0):
                    told.append(e.data["params"])
                    if len(told) == 2:
                        await asyncio.to_thread(self.engine.stop, signal.SIGKILL)
                        await asyncio.to_thread(self.engine.start)
                    if len(told) == 4:
                        break
                return told
        self.assertEqual(asyncio.run(follow()), [0, 1, 2, 3])

    def test_uses_no_kept_connection_that_the_engine_has_closed(self) -> None:
        id = self.client.submit("dead").id
        self.client.cancel(id)
        self.assertEqual(len(self.client.transport._kept), 1)
        self.engine.stop()
        self.engine.start()
        self.client.replay(id)  # which is not tried twice
        self.assertEqual(self.client.get(id).state, "queued")
