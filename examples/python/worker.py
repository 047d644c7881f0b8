"""A worker with nothing but the standard library: see docs/guides/HTTPWORKERS.md.

    engine serve &
    python3 worker.py http://127.0.0.1:8484
"""
import http.client, json, os, signal, sys, threading, time, urllib.error
from concurrent.futures import ThreadPoolExecutor
from urllib.request import Request, urlopen

TYPES, SLOTS = ["email"], 4
url = (sys.argv[1:] or ["http://127.0.0.1:8484"])[0] + "/api/v1/workers"
headers = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ.get("STREAMWRIGHT_TOKEN", "")}


def handle(item, stop):
    """Handle runs one item. It returns the result, and should return soon after stop is set."""
    stop.wait(item["params"].get("takes_ms", 0) / 1000)  # stands for the work
    if "to" not in item["params"]:
        raise ValueError("nobody to send it to")
    return {"sent": item["params"]["to"], "resumed": item.get("checkpoint")}


def ask(path, body, method="POST", **more):
    """Ask asks until the engine answers, and returns the answer: with a code if it refuses."""
    while True:
        try:
            with urlopen(Request(url + path, json.dumps(body).encode(), {**headers, **more}, method=method), timeout=90) as r:
                return json.load(r)
        except urllib.error.HTTPError as err:
            if err.code < 500 and err.code != 429:
                return json.load(err)
        except (OSError, http.client.HTTPException):
            pass  # no engine answers just now
        time.sleep(0.5)


me = ask("", {"types": TYPES, "slots": SLOTS, "host": os.uname().nodename})
if "code" in me:
    sys.exit(me["detail"])
path, session = "/" + me["worker"], {"session": me["session"]}
runs = {}  # item id and stop event, by token
freed, done = threading.Event(), threading.Event()
draining = polling = False


def run(item, stop):
    try:
        outcome = {"event": "complete", "result": handle(item, stop)}
    except Exception as err:
        outcome = {"event": "fail", "error": str(err), "code": "python_error"}
    outcome.update(id=item["id"], token=item["token"])
    print(item["id"], outcome["event"], ask(path + "/report", {**session, "reports": [outcome]}), flush=True)
    del runs[item["token"]]
    freed.set()


def beat():
    """Beat renews the leases of what runs, and stops what is not this worker's any more."""
    global draining
    every = me["heartbeat_ms"]
    while not done.wait(every / 1000):
        named = list(runs.items())
        orders = ask(path + "/heartbeat", {**session, "in_flight": [{"id": r[0], "token": t} for t, r in named]})
        every, draining = orders.get("heartbeat_ms", every), draining or orders.get("should_drain", False)
        gone = {r["token"] for r in orders.get("cancel", []) + orders.get("lost", [])}
        for token, (_, stop) in named:
            if token in gone or "code" in orders:
                stop.set()


def drain(*_):
    global draining
    draining = True
    if polling:
        raise KeyboardInterrupt  # the engine takes back what the poll would have returned


signal.signal(signal.SIGTERM, drain)
signal.signal(signal.SIGINT, drain)
threading.Thread(target=beat, daemon=True).start()
with ThreadPoolExecutor(SLOTS) as pool:
    while not draining:
        freed.clear()
        if len(runs) == SLOTS:
            freed.wait()
            continue
        try:
            polling = True
            reply = ask(path + "/poll", {**session, "max": SLOTS - len(runs)})
            polling = False
        except KeyboardInterrupt:
            break
        draining = draining or reply.get("should_drain", False) or "code" in reply
        for item in reply.get("items", []):
            runs[item["token"]] = item["id"], threading.Event()
            pool.submit(run, item, runs[item["token"]][1])
done.set()
ask(path, {}, "DELETE", **{"Work-Session": me["session"]})
