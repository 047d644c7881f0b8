"""Submit work, wait for it, and run it, in one program.

    engine serve &
    python3 script.py
"""

from dataclasses import dataclass
from datetime import timedelta

from streamwright import App, Fail, Run, Submitted, Worker

app = App()  # the engine at STREAMWRIGHT_URL, else on this machine


@dataclass
class Email:
    to: str
    subject: str = "hello"


@app.task("email", retries=4, timeout=timedelta(seconds=30))
def email(email: Email, run: Run) -> dict[str, str]:
    if "@" not in email.to:
        raise Fail(f"{email.to} is no address", code="bad_address", retryable=False)
    run.log.info("sending to %s", email.to)
    return {"sent": email.to}


if __name__ == "__main__":
    worker = Worker(app, concurrency=8)
    worker.start()
    one = email.submit(Email("ann@example.org"), priority=9)
    item = app.client.wait(one.id, timedelta(minutes=1))
    print(item.state, item.result)
    many = app.client.submit_many([email.work(Email(to)) for to in ("bob@example.org", "nobody")])
    for answer in many:
        if isinstance(answer, Submitted):
            item = app.client.wait(answer.id)
            print(item.state, item.result or (item.error and item.error.code))
    for record in app.client.logs(one.id):
        print(record.level, record.message)
    worker.stop()
