"""A real Jupyter Server with our extension, and a real API on loopback for its HTTP tools to
call."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any

import httpx

from tests.harness import surroundings
from tests.harness.patience import until
from tests.harness.ports import is_open, reserve

_OTHERS = ("jupyter_lsp", "jupyter_server_terminals", "jupyterlab", "notebook_shim")
_ONLY_OURS = {"onetool_ipy": True, **dict.fromkeys(_OTHERS, False)}
START_TIMEOUT_S = 90.0
HANG_S = 90.0


class Server:
    """Jupyter Server as a process of its own; `client` is signed in by token, `browser` by
    cookie."""

    def __init__(
        self,
        folder: Path,
        *flags: str,
        env: Mapping[str, str] | None = None,
        root: Path | None = None,
        python: Sequence[str] = ("-X", "dev", "-W", "default"),
    ) -> None:
        self.root = root or folder / "root"
        self.root.mkdir(parents=True, exist_ok=root is not None)
        self.token = secrets.token_hex(16)
        self.base_url = "/some/base/"
        self._log: list[str] = []
        self._announced = threading.Event()
        self._held, self._port = reserve()
        self._process = subprocess.Popen(
            [
                *(sys.executable, *python, "-m", "jupyter_server"),
                f"--ServerApp.jpserver_extensions={_ONLY_OURS}",
                "--no-browser",
                "--allow-root",
                "--ServerApp.ip=127.0.0.1",
                f"--ServerApp.port={self._port}",
                f"--ServerApp.base_url={self.base_url}",
                f"--ServerApp.root_dir={self.root}",
                f"--IdentityProvider.token={self.token}",
                *(flags or ("--ServerApp.allow_unauthenticated_access=False",)),
            ],
            cwd=folder,
            env={
                **os.environ,
                **surroundings.private(folder / "home"),
                "PYTHONPATH": f"{surroundings.ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
                **(env or {}),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._process.stdout is not None
        self._reader = threading.Thread(
            target=self._read, args=(self._process.stdout,), daemon=True
        )
        self._reader.start()
        # It prints its address a moment before it listens.
        self._announced.wait(START_TIMEOUT_S)
        if not until(lambda: is_open(self._port) or not self._reader.is_alive()):
            self.close()
            raise AssertionError(f"the server did not start:\n{self.log}")
        self.client = self.anyone(headers={"Authorization": f"token {self.token}"})

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._port}{self.base_url}"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        return "".join(self._log)

    def anyone(self, **options: Any) -> httpx.Client:
        """A client that nobody knows yet."""
        return httpx.Client(base_url=self.address, timeout=HANG_S, trust_env=False, **options)

    def browser(self) -> httpx.Client:
        """A client that is signed in as a browser is: by cookie, with the `_xsrf` cookie beside
        it."""
        client = self.anyone()
        page = client.get("login")
        xsrf = client.cookies["_xsrf"]
        done = client.post("login", data={"password": self.token, "_xsrf": xsrf})
        assert page.status_code == 200
        assert done.status_code == 302, done.text
        return client

    def close(self) -> int:
        """Stop the server as Ctrl-C does, once and again; gives its exit code."""
        self._process.terminate()
        try:
            code = self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._reader.join(5)
        self._held.close()
        return code

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            self._log.append(line)
            if self.address in line:
                self._announced.set()
        self._announced.set()


class Upstream:
    """An API on loopback. `hold` makes `/slow` wait; `gone` counts clients that left before they
    had their answer."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []
        self.waiting = threading.Semaphore(0)
        self.release = threading.Event()
        self.gone = threading.Event()
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: object) -> None:
                pass

            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                upstream.seen.append(
                    (self.command, self.path, dict(self.headers), self.rfile.read(length))
                )
                upstream.serve(self)

            do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = answer  # noqa: N815 - as http.server names them

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    def serve(self, at: Any) -> None:
        path = at.path.partition("?")[0]
        if path.startswith("/users/"):
            _send(at, 200, {"id": int(path.rpartition("/")[2]), "name": "Ada"})
        elif path == "/slow":
            self._hold(at)
        elif path == "/big":
            _send(at, 200, {"rows": ["x" * 100] * 2000})
        elif path == "/echo":
            _send(at, 200, {"headers": dict(at.headers), "path": at.path})
        elif path == "/openapi.json":
            _send(at, 200, document(f"http://{self.host}"))
        elif path == "/text":
            _send(at, 200, "no JSON", raw=True)
        else:
            _send(at, 500, {"error": "broken"})

    def _hold(self, at: Any) -> None:
        self.waiting.release()
        at.connection.settimeout(0.2)
        until = time.monotonic() + HANG_S
        while not self.release.is_set() and time.monotonic() < until:
            try:
                if at.connection.recv(1) == b"":
                    self.gone.set()
                    return
            except TimeoutError:
                continue
        _send(at, 200, {"slow": True})

    def close(self) -> None:
        self.release.set()
        self._server.shutdown()
        self._server.server_close()


def document(address: str) -> dict[str, Any]:
    """A small OpenAPI document of the API."""
    number = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Users", "version": "1"},
        "servers": [{"url": address}],
        "paths": {
            "/users/{id}": {
                "get": {
                    "operationId": "getUser",
                    "parameters": [number],
                    "responses": {"200": {"description": "ok"}},
                }
            },
            "/text": {
                "get": {"operationId": "getText", "responses": {"200": {"description": "ok"}}}
            },
        },
    }


def http_tool(url: str, **request: Any) -> dict[str, Any]:
    """A tool that GETs an address; `${id}` in it is an argument."""
    takes = {"id": {"type": "integer"}} if "${id}" in url else {}
    return {
        "type": "http",
        "description": f"GET {url}",
        "argSchema": {
            "type": "object",
            "properties": takes,
            "required": list(takes),
            "additionalProperties": False,
        },
        "http": {"request": {"method": "GET", "urlTemplate": url, **request}},
    }


def _send(at: Any, status: int, data: Any, *, raw: bool = False) -> None:
    body = data.encode() if raw else json.dumps(data).encode()
    at.send_response(status)
    at.send_header("Content-Type", "text/plain" if raw else "application/json")
    at.send_header("Content-Length", str(len(body)))
    at.end_headers()
    at.wfile.write(body)
