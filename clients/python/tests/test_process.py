from __future__ import annotations

import signal
import tempfile
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

from streamwright import App, Run, Work, Worker

from .harness import Case, Engine, Process


class ProcessTest(Case):
    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.until = Path(folder.name, "go")

    def child(self, id: str, **env: str) -> Process:
        return Process(self, self.engine.url, "-m", "tests.child", WORKER_ID=id, **env)

    def heir(self) -> Process:
        """A second worker, which is registered before the first one can lose its item again."""
        other = self.child("heir")
        other.line("registered as heir")
        return other

    def submit(self, type: str) -> str:
        return self.client.submit(type, {"until": str(self.until)}).id

    def test_finishes_what_runs_on_sigterm_and_takes_no_more(self) -> None:
        w = self.child("polite")
        first = self.submit("held")
        w.line(f"started {first} 1")
        second = self.submit("held")
        w.send(signal.SIGTERM)
        w.line("stopping: 1 runs")
        self.until.touch()
        self.assertEqual(w.wait(), 0)
        self.assertIn("left", w.lines)
        self.assertFalse(any(second in line for line in w.lines), "it has taken another item")
        item = self.wait(first)
        self.assertEqual((item.state, item.result, item.attempt), ("completed", {"by": "polite"}, 1))
        self.assertEqual(self.client.get(second).state, "queued")
        self.assertEqual([w for w in self.client.request("GET", "/workers")["workers"] if w["worker"] == "polite"], [])
        self.client.cancel(second)

    def test_hands_back_what_runs_after_its_drain_or_at_a_second_signal(self) -> None:
        for drain, signals in (("0.1", 1), ("60", 2)):
            w = self.child("hasty" + drain.replace(".", "-"), DRAIN=drain)
            id = self.submit("held")
            w.line(f"started {id} 1")
            for _ in range(signals):
                w.send(signal.SIGTERM)
                w.line("stopping: 1 runs")
            w.line("stopped by shutdown")
            self.assertEqual(w.wait(), 0)
            item = self.client.get(id)
            self.assertEqual((item.state, item.attempt), ("queued", 0))
            self.client.cancel(id)

    def test_has_its_item_run_elsewhere_when_it_is_killed(self) -> None:
        w = self.child("killed")
        id = self.submit("short")
        w.line(f"started {id} 1")
        other = self.heir()
        w.send(signal.SIGKILL)
        w.wait()
        other.line(f"started {id} 2")
        self.until.touch()
        item = self.wait(id)
        self.assertEqual((item.result, item.leases_lost), ({"by": "heir"}, 1))
        other.send(signal.SIGTERM)
        self.assertEqual(other.wait(), 0)

    def test_stops_a_run_whose_lease_was_lost_and_does_not_record_its_result(self) -> None:
        w = self.child("suspended")
        id = self.submit("short")
        w.line(f"started {id} 1")
        other = self.heir()
        w.send(signal.SIGSTOP)
        other.line(f"started {id} 2")
        w.send(signal.SIGCONT)
        w.line("stopped by lease_lost")
        self.until.touch()
        item = self.wait(id)
        self.assertEqual((item.result, item.attempt, item.leases_lost), ({"by": "heir"}, 2, 1))
        for p in (w, other):
            p.send(signal.SIGTERM)
            self.assertEqual(p.wait(), 0)

    def test_ends_although_no_engine_answers(self) -> None:
        w = Process(self, "http://127.0.0.1:1", "-m", "tests.child", WORKER_ID="lonely")
        w.line("ready")
        w.line("not registered")
        w.send(signal.SIGTERM)
        self.assertEqual(w.wait(), 0)


class RestartTest(Case):
    """Each test has an engine of its own."""

    @classmethod
    def setUpClass(cls) -> None:
        pass

    def setUp(self) -> None:
        self.engine = Engine()
        self.addCleanup(self.engine.close)

    def begin(self) -> App:
        self.engine.start()
        self.client = self.new_client()
        return App(self.client)

    def test_goes_on_what_runs_is_completed_once_and_new_items_are_taken(self) -> None:
        app = self.begin()
        started, go, runs = threading.Semaphore(0), threading.Event(), []

        @app.task("held")
        def held(n: int, run: Run) -> int:
            runs.append(n)
            started.release()
            go.wait()
            return n

        self.work(app)
        for sig in (signal.SIGTERM, signal.SIGKILL):
            go.clear()
            id = self.client.submit("held", len(runs)).id
            started.acquire()
            self.engine.stop(sig)
            go.set()  # it reports while no engine is there
            self.engine.start()
            item = self.wait(id)
            self.assertEqual((item.result, item.attempt), (len(runs) - 1, 1))
            self.assertEqual(self.wait(self.client.submit("held", len(runs)).id).state, "completed")
        self.assertEqual(runs, [0, 1, 2, 3])

    def test_runs_each_item_once_while_engines_are_killed(self) -> None:
        app = self.begin()
        runs: dict[int, int] = {}
        lock = threading.Lock()

        @app.task("step")
        def step(n: int, run: Run) -> int:
            with lock:
                runs[n] = runs.get(n, 0) + 1
            run.cancelled.wait(0.002)
            return n

        self.work(app, concurrency=8)
        out = self.client.submit_many([Work("step", n) for n in range(1200)])
        for n in (100, 400, 700):
            self.eventually("items run", lambda: len(runs) > n)
            self.engine.stop(signal.SIGKILL)
            self.engine.start()
        self.eventually("all are completed", lambda: len([i for i in self.client.all(type="step", state="completed", limit=1000)]) == len(out))
        self.assertEqual({i.attempt for i in self.client.all(type="step", limit=1000)}, {1})
        again = [n for n, count in runs.items() if count > 1]
        self.assertLessEqual(len(again), 3 * 8, f"ran twice: {again}")  # those of a poll whose answer was lost

    def test_waits_for_an_engine_that_is_absent_at_first(self) -> None:
        app = self.begin()
        self.engine.stop()

        @app.task("patient")
        def patient() -> str:
            return "at last"

        w = self.work(app)
        answer: list[Any] = []
        t = threading.Thread(target=lambda: answer.append(self.wait(self.client.submit("patient").id)))
        t.start()
        self.assertEqual(w._session, "")
        self.engine.start()
        t.join(60)
        self.assertEqual(answer[0].result, "at last")

    def test_takes_its_runs_for_lost_after_a_whole_lease_without_a_connection(self) -> None:
        app = self.begin()
        started, reasons = threading.Event(), []

        @app.task("short")
        def short(run: Run) -> int:
            if started.is_set():
                return run.attempt
            started.set()
            run.cancelled.wait()
            reasons.append(run.reason)
            run.check()
            return 0

        self.work(app)
        id = self.client.submit("short").id
        self.set(started)
        self.engine.stop(signal.SIGKILL)
        self.eventually("the run is stopped", lambda: reasons)
        self.assertEqual(reasons, ["lease_lost"])
        self.engine.start()
        self.assertEqual(self.wait(id).state, "completed")

    def test_registers_anew_with_an_engine_that_knows_nothing_of_it(self) -> None:
        app = self.begin()

        @app.task("a")
        def a() -> str:
            return "done"

        w = Worker(app, id="faithful")
        w.start()
        self.addCleanup(w.stop)
        self.assertEqual(self.wait(self.client.submit("a").id).result, "done")
        self.engine.stop()
        fresh = Engine()
        fresh._listen = self.engine._listen
        self.addCleanup(fresh.close)
        fresh.start()
        client = self.new_client(fresh.url)
        self.assertEqual(client.wait(client.submit("a").id, timedelta(seconds=60)).worker, "faithful")
