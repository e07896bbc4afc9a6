"""Servers over streamable HTTP, on loopback: calls, headers by secret, an address that is dead,
lost sessions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import Toolbox
from onetool_ipy.render.media import Image
from tests.harness.patience import HANG_S, until
from tests.harness.ports import is_open, reserve, reserved_port
from tests.harness.servers import everything_over_http

Open = Callable[..., Toolbox]
ASKING = Path(__file__).with_name("asking_server.py")
TOKEN = "a-token-that-nobody-guesses"


@pytest.fixture(scope="module")
def everything() -> Iterator[str]:
    with everything_over_http() as url:
        yield url


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`onetool-ipy mcp --http` of another project, which asks for a token and speaks the newest
    protocol."""
    folder = tmp_path_factory.mktemp("served")
    command = [sys.executable, "-m", "onetool_ipy.faces.cli", "mcp", "--http"]
    env = {**os.environ, "ONETOOL_MCP_TOKEN": TOKEN}
    process = subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        yield process.stderr.readline().rpartition(" ")[2].strip()
    finally:
        process.terminate()
        process.wait(HANG_S)
        process.stderr.close()


@pytest.mark.slow
def test_calls_over_http(opened: Open, everything: str) -> None:
    box = opened({"web": {"type": "http", "url": everything}})

    assert len(box.registry.packs()["web"]) == 15
    assert box.call("web.get-sum", {"a": 1, "b": 2}).data == "The sum of 1 and 2 is 3."
    assert isinstance(box.pack("web").get_tiny_image()[1], Image)
    assert set(box.call("web.get-structured-content", {"location": "Chicago"}).unwrap()) >= {
        "temperature"
    }
    assert box.ot.health()["proxy"]["servers"] == {"web": "connected"}
    heard: list[float] = []
    job = box.start(
        "web.trigger-long-running-operation",
        {"duration": 0.4, "steps": 4},
        notify=lambda job: heard.append(job.progress.done),
    )
    assert job.result(HANG_S).ok
    assert 2.0 in heard
    error = box.call("web.trigger-long-running-operation", {"duration": 60}, timeout=0.5).error
    assert error is not None
    assert error.reason == "timeout"


@pytest.mark.slow
def test_headers_hold_secrets_by_name(opened: Open, ours: str, tmp_path: Path) -> None:
    (tmp_path / ".onetool").mkdir()
    secrets = tmp_path / ".onetool" / "secrets.yaml"
    secrets.write_text(f"DOOR: {TOKEN}\n", encoding="utf-8")
    secrets.chmod(0o600)
    served = {"type": "http", "url": ours, "headers": {"Authorization": "Bearer ${DOOR}"}}
    box = opened({"kernel": served, "locked": {"type": "http", "url": ours}})
    box.servers.check()

    health = box.ot.health()

    assert health["proxy"]["states"] == {"kernel": "connected", "locked": "signed out"}
    (problem,) = health["problems"]
    assert problem["message"] == "The server 'locked': It wants you to sign in."
    assert problem["hint"] == "Sign in with: %tool server login locked"
    assert TOKEN not in str(health)
    names = [spec.short_name for spec in box.registry.packs()["kernel"]]
    echo = next(name for name in names if name.endswith("echo"))
    assert box.call(f"kernel.{echo}", {"message": "there and back"}).data is not None


def test_an_address_where_nobody_is(opened: Open) -> None:
    box = opened({"dead": {"type": "http", "url": "http://127.0.0.1:9/mcp"}})

    assert box.servers.check() == {"dead": "unreachable"}
    assert box.servers.reason("dead") == "Nothing answers at http://127.0.0.1:9/mcp."


def test_what_is_no_mcp_server_says_so(opened: Open, misbehaving: str) -> None:
    box = opened(
        {
            name: {"type": "http", "url": f"{misbehaving}/{name}", "timeout_s": 3}
            for name in ("page", "huge", "packed")
        }
    )

    states = box.servers.check()

    assert set(states.values()) <= {"failed", "wrong address"}
    assert all(box.servers.reason(name) for name in states)


@pytest.mark.slow
def test_a_server_that_was_started_anew_has_forgotten_us(opened: Open) -> None:
    """Its session is gone, so the call was not taken: it is sent once more, in a new session."""
    with reserved_port() as port:
        with everything_over_http(port) as url:
            box = opened({"web": {"type": "http", "url": url}})
            assert box.call("web.get-sum", {"a": 1, "b": 2}).ok
        assert box.servers.check() == {"web": "disconnected"}
        error = box.call("web.get-sum", {"a": 1, "b": 2}).error
        assert error is not None
        assert error.reason == "unavailable"
        with everything_over_http(port):
            assert box.call("web.get-sum", {"a": 1, "b": 2}).ok
        with everything_over_http(port):
            assert box.call("web.get-sum", {"a": 2, "b": 2}).data == "The sum of 2 and 2 is 4."


@pytest.fixture(scope="module")
def misbehaving() -> Iterator[str]:
    """A web server that is no MCP server."""

    class Pages(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.send_header(
                "Content-Type", "text/html" if self.path == "/page" else "application/json"
            )
            if self.path == "/packed":
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            try:
                self.wfile.write(
                    b"<h1>hello</h1>" if self.path == "/page" else json.dumps({"a": 1}).encode()
                )
                while self.path == "/huge":
                    self.wfile.write(b" " * 1_000_000)
            except OSError:
                return

        def log_message(self, *_args: Any) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_server_of_the_older_http_with_two_addresses(opened: Open) -> None:
    """`type: sse`: an event stream to read, and an address that the server names to send to."""
    held, port = reserve()
    process = subprocess.Popen(
        [sys.executable, str(ASKING), "--sse", str(port)], stderr=subprocess.DEVNULL
    )
    try:
        assert until(lambda: is_open(port) or process.poll() is not None)
        box = opened({"shop": {"type": "sse", "url": f"http://127.0.0.1:{port}/sse"}})

        assert box.call("shop.log", {"text": "hello"}).unwrap() == "logged"
        assert box.servers["shop"] == "connected"
        assert box.servers.test("shop")["protocol"] == "2025-11-25"
        assert "[warning] shop: hello" in box.servers.logs("shop")
    finally:
        process.kill()
        process.wait(HANG_S)
        held.close()
