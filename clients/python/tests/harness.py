"""Real engines, worker processes, and ways to wait, for the tests."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from streamwright import App, Client, LogRecord, Worker

PACKAGE = Path(__file__).resolve().parent.parent
REPOSITORY = PACKAGE.parent.parent
ENGINE = os.environ.get("STREAMWRIGHT_ENGINE", "")
# Of a secured engine: a part of its configuration. The token and the CA are in the environment.
SECURED = os.environ.get("STREAMWRIGHT_TEST_TOML", "")
PATIENCE = float(os.environ.get("PATIENCE", "60"))  # seconds; it only ends a test that fails

CONFIG = """
[types.short]
lease = "1s"

[types.short_async]
lease = "1s"

[types.brief]
timeout = "400ms"
  [types.brief.backoff]
  initial = "10ms"
  jitter = 0.0

[types.retried]
max_attempts = 3
  [types.retried.backoff]
  initial = "10ms"
  jitter = 0.0
"""


class Engine:
    """A real `engine serve`, with a folder and a port of its own."""

    def __init__(self, more: str = "") -> None:
        self.dir = tempfile.mkdtemp(prefix="streamwright-python-")
        Path(self.dir, "engine.toml").write_text(CONFIG + more + SECURED)
        self._listen = "127.0.0.1:0"
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def start(self) -> Engine:
        self._log = open(f"{self.dir}/log", "a")
        self._process = subprocess.Popen(
            [ENGINE, "serve", "--json", "--config", f"{self.dir}/engine.toml", "--dir", f"{self.dir}/data", "--nats-listen", "off",
             "--http", self._listen, "--durability", "interval"],
            stdout=subprocess.PIPE, stderr=self._log, text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("engine serve has ended: " + Path(self.dir, "log").read_text()[-4000:])
        self._listen = json.loads(line)["http"]
        self.url = ("https://" if SECURED else "http://") + self._listen
        return self

    def stop(self, sig: signal.Signals = signal.SIGTERM) -> None:
        """End the process, and wait for its end."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(sig)
            process.wait()
            self._log.close()
            assert process.stdout is not None
            process.stdout.close()

    def close(self) -> None:
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.dir, ignore_errors=True)


class Case(unittest.TestCase):
    """A test with an engine that all tests of the class share."""

    engine: Engine

    @classmethod
    def setUpClass(cls) -> None:
        cls.engine = Engine().start()
        cls.addClassCleanup(cls.engine.close)

    def setUp(self) -> None:
        self.client = self.new_client()

    def new_client(self, url: str | None = None, **options: Any) -> Client:
        client = Client(url or self.engine.url, **options)
        self.addCleanup(client.close)
        return client

    def work(self, app: App, client: Client | None = None, **options: Any) -> Worker:
        """Start a worker, which the end of the test stops."""
        options.setdefault("heartbeat", timedelta(seconds=0.1))
        w = Worker(app, client or self.client, **options)
        w.start()
        self.addCleanup(w.stop)
        return w

    def wait(self, id: str) -> Any:
        return self.client.wait(id, timedelta(seconds=PATIENCE))

    def logged(self, id: str, n: int) -> list[LogRecord]:
        """Wait for so many records of an item's log: they may be stored a moment after its end."""
        self.eventually("the records are there", lambda: len(self.client.logs(id, 10_000)) >= n)
        return self.client.logs(id, 10_000)

    def eventually(self, what: str, is_so: Callable[[], Any]) -> Any:
        """Wait for what nothing signals."""
        end = time.monotonic() + PATIENCE
        while not (found := is_so()):
            if time.monotonic() > end:
                self.fail(f"waited in vain for: {what}")
            time.sleep(0.01)
        return found

    def set(self, event: threading.Event) -> None:
        """Wait for an event."""
        self.assertTrue(event.wait(PATIENCE), "waited in vain for an event")

    def refused(self, code: str, call: Callable[[], Any]) -> None:
        from streamwright import StreamwrightError

        with self.assertRaises(StreamwrightError) as caught:
            call()
        self.assertEqual(caught.exception.code, code)


class Process:
    """A Python program, whose output is read line by line."""

    def __init__(self, test: unittest.TestCase, url: str, *args: str, **env: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=PACKAGE,
            env={**os.environ, "STREAMWRIGHT_URL": url, "PYTHONPATH": str(PACKAGE), "PYTHONUNBUFFERED": "1", **env},
        )
        self.lines: list[str] = []
        self._cond = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        test.addCleanup(self.end)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._cond:
                self.lines.append(line.rstrip("\n"))
                self._cond.notify_all()
        with self._cond:
            self.lines.append("(it has ended)")
            self._cond.notify_all()

    def line(self, text: str) -> str:
        """Wait for a line with a text in it."""
        def found() -> str | None:
            return next((line for line in self.lines if text in line), None)

        with self._cond:
            self._cond.wait_for(lambda: found() or "(it has ended)" in self.lines, PATIENCE)
            line = found()
        if line is None:
            raise AssertionError(f"the program has not said {text!r}: {self.lines}")
        return line

    def send(self, sig: signal.Signals) -> None:
        self._process.send_signal(sig)

    def wait(self) -> int:
        code = self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
