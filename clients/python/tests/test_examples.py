from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import subprocess
import sys
import unittest.mock
from typing import Any

from .harness import PACKAGE, PATIENCE, REPOSITORY, Case

EXAMPLES = REPOSITORY / "examples/python"


class ExamplesTest(Case):
    def said(self, name: str, *args: str) -> list[str]:
        env = {**os.environ, "STREAMWRIGHT_URL": self.engine.url, "PYTHONPATH": str(PACKAGE)}
        done = subprocess.run([sys.executable, str(EXAMPLES / name), *args], capture_output=True, text=True, env=env, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def test_the_script_does_what_the_readme_says(self) -> None:
        readme = (PACKAGE / "README.md").read_text()
        self.assertIn("```python\n" + (EXAMPLES / "script.py").read_text().split('"""\n\n', 1)[1] + "```", readme)
        lines = self.said("script.py")
        self.assertIn("$ python3 script.py\n" + "\n".join(lines) + "\n```", readme)

    def test_the_model_s_answer_is_streamed_and_resumed(self) -> None:
        lines = self.said("llm.py", "Who", "are", "you?")
        self.assertEqual(lines, ["You ask: Who are you? I am a fake model and do not know. ", "completed, attempt 2: 14 tokens"])

    def test_the_web_service_submits_and_waits(self) -> None:
        spec = importlib.util.spec_from_file_location("web", EXAMPLES / "web.py")
        assert spec is not None and spec.loader is not None
        with unittest.mock.patch.dict(os.environ, STREAMWRIGHT_URL=self.engine.url):
            web = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(web)
            asyncio.run(self.served(web))

    async def served(self, web: Any) -> None:
        events: asyncio.Queue[str] = asyncio.Queue()
        done: asyncio.Queue[str] = asyncio.Queue()

        async def receive() -> dict[str, str]:
            return {"type": await events.get()}

        async def send(message: dict[str, str]) -> None:
            await done.put(message["type"])

        async def ask(method: str, path: str, body: Any = None, query: str = "") -> tuple[int, Any]:
            replies: list[Any] = []

            async def request() -> dict[str, Any]:
                return {"type": "http.request", "body": b"" if body is None else json.dumps(body).encode()}

            async def reply(message: Any) -> None:
                replies.append(message)

            await web.service({"type": "http", "method": method, "path": path, "query_string": query.encode()}, request, reply)
            return replies[0]["status"], json.loads(replies[1]["body"])

        async with asyncio.timeout(PATIENCE):
            lifespan = asyncio.create_task(web.service({"type": "lifespan"}, receive, send))
            await events.put("lifespan.startup")
            self.assertEqual(await done.get(), "lifespan.startup.complete")
            order = {"number": 7, "lines": ["a", "b"]}
            status, made = await ask("POST", "/orders", order)
            self.assertEqual((status, made["repeat"]), (202, False))
            again = await ask("POST", "/orders", order)
            self.assertEqual(again, (202, {"id": made["id"], "repeat": True}))
            status, shown = await ask("GET", f"/orders/{made['id']}", query="wait=30")
            self.assertEqual((status, shown["state"], shown["result"]), (200, "completed", {"shipped": 7}))
            self.assertEqual((await ask("POST", "/orders", {"number": "7"}))[0], 400)
            self.assertEqual((await ask("GET", "/orders/1"))[0], 400)
            self.assertEqual((await ask("GET", "/nothing"))[0], 404)
            long = (await ask("POST", "/orders", {"number": 8, "lines": ["x"] * 10_000}))[1]["id"]
            self.assertEqual((await ask("GET", f"/orders/{long}", query="wait=0.1"))[0], 200)
            self.assertEqual((await ask("DELETE", f"/orders/{long}"))[0], 200)
            await events.put("lifespan.shutdown")
            self.assertEqual(await done.get(), "lifespan.shutdown.complete")
            await lifespan


class ReadmeTest(unittest.TestCase):
    def test_names_every_public_name(self) -> None:
        import streamwright

        readme = (PACKAGE / "README.md").read_text()
        missing = [n for n in streamwright.__all__ if not re.search(rf"\b{n}\b", readme)]
        self.assertEqual(missing, [])
