"""A worker process for tests: it says what it does. Its items wait until a file of their params exists, or they must stop."""

import logging
import os
import sys
from datetime import timedelta
from pathlib import Path

from streamwright import App, Run, Worker

app = App()


def hold(params: dict[str, str], run: Run) -> dict[str, str]:
    print("started", run.id, run.attempt)
    while not Path(params["until"]).exists():
        if run.cancelled.wait(0.02):
            print("stopped by", run.reason)
            run.check()
    print("finished", run.id)
    return {"by": os.environ["WORKER_ID"]}


app.task("short")(hold)
app.task("held")(hold)
logging.basicConfig(level=logging.INFO, stream=sys.stdout)
print("ready")
Worker(
    app, id=os.environ["WORKER_ID"], concurrency=1, heartbeat=timedelta(seconds=0.2),
    drain_timeout=timedelta(seconds=float(os.environ.get("DRAIN", "30"))),
).run()
print("left")
