from __future__ import annotations

import http.client
import json
import os
import select
import socket
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from unittest import mock

from streamwright import App, AsyncClient, Client, NotFound, Run, Submitted, Unavailable

from .harness import SECURED, Case, Engine


class Host(ThreadingHTTPServer):
    """Serves an engine as the namespace acme, and nothing else. It stands for an engine whose namespaces are default and acme."""

    daemon_threads = True

    def __init__(self, engine: str) -> None:
        self.engine = engine.removeprefix("http://")
        self.paths: list[str] = []
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Host

    def log_message(self, *_: Any) -> None:
        pass

    def _pass(self) -> None:
        self.server.paths.append(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self.path.startswith("/ns/acme/"):
            refusal = json.dumps({"status": 404, "code": "not_found", "detail": "there is no such namespace"}).encode()
            self.send_response(404)
            self.send_header("Content-Type", "application/problem+json")
            self.send_header("Content-Length", str(len(refusal)))
            self.end_headers()
            self.wfile.write(refusal)
            return
        conn = http.client.HTTPConnection(self.server.engine)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "content-length")}
        conn.request(self.command, self.path.removeprefix("/ns/acme"), body or None, headers)
        assert conn.sock is not None
        if self.connection in select.select([conn.sock, self.connection], [], [])[0]:
            conn.sock.shutdown(socket.SHUT_WR)  # the client has hung up, as a worker does that ends
        reply = conn.getresponse()
        self.send_response(reply.status)
        self.send_header("Connection", "close")
        self.end_headers()
        while part := reply.read1(1 << 16):
            self.wfile.write(part)
            self.wfile.flush()
        conn.close()

    do_GET = do_POST = do_DELETE = do_PUT = _pass


@unittest.skipIf(SECURED, "the host of this test speaks plain HTTP")
class NamespaceTest(Case):
    def setUp(self) -> None:
        super().setUp()
        self.host = Host(self.engine.url)
        threading.Thread(target=self.host.serve_forever, daemon=True).start()
        self.addCleanup(self.host.server_close)
        self.addCleanup(self.host.shutdown)

    def test_a_client_and_a_worker_of_a_namespace(self) -> None:
        acme = self.new_client(self.host.url, namespace="acme")
        app = App(acme)

        @app.task("where")
        def where(_: None, run: Run) -> str:
            run.log.info("here")
            assert run.client is acme
            return run.namespace

        self.work(app, acme)
        id = where.submit().id
        self.assertEqual(acme.wait(id).result, "acme")
        self.assertEqual(self.client.get(id).worker, acme.get(id).worker)
        self.assertTrue(self.host.paths and all(p.startswith("/ns/acme/api/v1/") for p in self.host.paths), self.host.paths)
        with self.assertRaises(NotFound):
            self.new_client(self.host.url, namespace="other").get(id)

    def test_the_environment(self) -> None:
        with mock.patch.dict(os.environ, {"WORK_NAMESPACE": "acme"}):
            acme, plain = self.new_client(self.host.url), self.new_client(namespace="default")
        self.assertEqual((acme.namespace, plain.namespace), ("acme", "default"))
        id = acme.submit("elsewhere").id
        self.assertEqual(plain.get(id).id, id)  # the default namespace has no path of its own

    def test_names(self) -> None:
        for bad in ("", "A", "a_b", "a.b", "a--b", "x" * 33, "a/b", "a\n"):
            for make in (Client, AsyncClient):
                with self.assertRaises(ValueError, msg=bad):
                    make(namespace=bad)
        for good in ("a", "team-2", "x" * 32):
            self.assertEqual(Client(namespace=good).namespace, good)


@unittest.skipIf(SECURED, "it is as without logins")
class HandedTest(Case):
    """An engine that has the namespaces default, open and closed."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.engine = Engine('[namespaces.open]\naccept = ["default"]\n[namespaces.closed]\n').start()
        cls.addClassCleanup(cls.engine.close)

    def test_hands_an_item_to_a_namespace_that_accepts_it(self) -> None:
        to = self.new_client(namespace="open")

        def hand() -> Submitted | None:
            try:
                return self.client.submit("letter", "hello", namespace="open")
            except (NotFound, Unavailable):  # it starts
                return None

        out = self.eventually("it is handed", hand)
        self.assertEqual((out.namespace, out.position), ("open", ""))
        self.assertEqual(to.get(out.id).params, "hello")
        with self.assertRaises(NotFound):
            self.client.get(out.id)
        for name in ("closed", "gone"):
            with self.assertRaisesRegex(NotFound, "accepts work"):
                self.client.submit("letter", namespace=name)
