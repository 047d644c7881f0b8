"""A web service that hands its work to an engine: an ASGI app, as FastAPI and Starlette are, without either.

    POST /orders        submits an order, and answers 202 with its id at once
    GET  /orders/ID     how far it has come; ?wait=10 waits for its end so long
    DELETE /orders/ID   cancels it

Its worker runs in the same process, on the service's loop. With FastAPI the lifespan, and each
handler's body, are the same:

    @api.post("/orders", status_code=202)
    async def order(order: Order): return {"id": (await client.submit(ship.work(order))).id}

    uvicorn web:service            # any ASGI server
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs

from streamwright import App, AsyncClient, Run, StreamwrightError, Unavailable, Unfit, Worker, load

tasks = App()


@dataclass
class Order:
    number: int
    lines: list[str]


@tasks.task("ship", retries=2)
async def ship(order: Order, run: Run) -> dict[str, Any]:
    for n, line in enumerate(order.lines):
        await asyncio.sleep(0.05)  # stands for the work
        run.progress(100 * (n + 1) / len(order.lines), line)
    return {"shipped": order.number}


class Service:
    """The ASGI app."""

    def __init__(self) -> None:
        self.client = AsyncClient()

    async def start(self) -> None:
        self.worker = Worker(tasks, loop=asyncio.get_running_loop())
        self.worker.start()

    async def stop(self) -> None:
        await asyncio.to_thread(self.worker.stop)
        tasks.client.close()
        await self.client.close()

    async def answer(self, method: str, path: str, query: dict[str, list[str]], body: bytes) -> tuple[int, Any]:
        match method, path.strip("/").split("/"):
            case "POST", ["orders"]:
                order = load(Order, json.loads(body), "order")
                out = await self.client.submit(ship.work(order, idempotency_key=f"order-{order.number}"))
                return 202, {"id": out.id, "repeat": out.repeat}
            case "GET", ["orders", id]:
                item = await self.client.get(id)
                if query.get("wait") and not item.ended:
                    try:
                        item = await self.client.wait(id, timedelta(seconds=float(query["wait"][0])))
                    except Unavailable as err:
                        if err.code != "timeout":
                            raise
                return 200, {"state": item.state, "result": item.result, "percent": item.progress and item.progress.percent}
            case "DELETE", ["orders", id]:
                return 200, {"was_running": (await self.client.cancel(id, "by the customer")).was_running}
        return 404, {"error": "no such page"}

    async def __call__(self, scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]) -> None:
        if scope["type"] == "lifespan":
            while True:
                event = (await receive())["type"]
                await (self.start() if event == "lifespan.startup" else self.stop())
                await send({"type": event + ".complete"})
                if event == "lifespan.shutdown":
                    return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        try:
            status, doc = await self.answer(scope["method"], scope["path"], parse_qs(scope["query_string"].decode()), body)
        except (Unfit, json.JSONDecodeError) as err:
            status, doc = 400, {"error": str(err)}
        except StreamwrightError as err:
            status, doc = {"not_found": 404, "bad_id": 400, "queue_full": 429}.get(err.code, 503), {"error": err.message, "code": err.code}
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": json.dumps(doc).encode()})


service = Service()
