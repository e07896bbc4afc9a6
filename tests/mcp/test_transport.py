"""A server at an address that does not work: each kind has its state, one sentence and a hint, in
our own words."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from onetool_ipy import Toolbox
from tests.harness.stub import Asked, Stub

Open = Callable[..., Toolbox]

# By path: status, content type, body.
ANSWERS = {
    "json": (200, "application/json", b'{"ok": true}'),
    "html": (200, "text/html", b"<html>hello</html>"),
    "empty": (200, "application/json", b""),
    "404": (404, "text/plain", b"no"),
    "405": (405, "text/plain", b"no"),
    "403": (403, "text/plain", b"no"),
    "500": (500, "text/plain", b"no"),
    "moved": (302, "text/plain", b""),
}
LIBRARY_WORDS = (
    "ValidationError",
    "validation error",
    "pydantic",
    "ExceptionGroup",
    "httpx",
    "ConnectError",
    "Errno",
)


def answer(asked: Asked) -> tuple[int, bytes, dict[str, str]]:
    """What a server of something else says."""
    status, kind, body = ANSWERS[asked.path.strip("/")]
    moved = {"Location": "https://other.example/mcp?token=abc"} if status == 302 else {}
    return status, body, {"Content-Type": kind, **moved}


@pytest.fixture(scope="module")
def other() -> Iterator[str]:
    with Stub(answer) as stub:
        yield stub.host


@pytest.mark.slow
def test_each_way_to_fail_has_its_own_state_and_words(opened: Open, other: str) -> None:
    servers: dict[str, Any] = {
        f"w{path}": {"type": "http", "url": f"http://{other}/{path}"} for path in ANSWERS
    }
    servers |= {
        "closed": {"type": "http", "url": "http://127.0.0.1:9/mcp"},
        "typo": {"type": "http", "url": "https://no-such-host.invalid/mcp"},
        "tls": {"type": "http", "url": f"https://{other}/mcp"},
        "old": {"type": "sse", "url": f"http://{other}/html"},
        "dies": {"command": sys.executable, "args": ["-c", "raise ValueError('no key')"]},
    }
    box = opened(servers)

    states = box.servers.check()
    found = {name: (state, box.servers.reason(name)) for name, state in states.items()}

    nothing = f"http://{other}/{{}} answers, but not as an MCP server{{}}."
    assert found == {
        "wjson": ("wrong address", nothing.format("json", "")),
        "whtml": ("wrong address", nothing.format("html", "")),
        "wempty": ("wrong address", nothing.format("empty", "")),
        "w404": ("wrong address", nothing.format("404", " (HTTP 404)")),
        "w405": ("wrong address", nothing.format("405", " (HTTP 405)")),
        "w403": ("refused", "It refuses access (HTTP 403)."),
        "w500": ("failed", "It reports an internal error (HTTP 500)."),
        "wmoved": (
            "wrong address",
            f"http://{other}/moved redirects to https://other.example/mcp.",
        ),
        "closed": ("unreachable", "Nothing answers at http://127.0.0.1:9/mcp."),
        "typo": ("unreachable", "There is no host 'no-such-host.invalid'."),
        "tls": ("unreachable", f"https://{other}/mcp does not speak https."),
        "old": ("wrong address", nothing.format("html", "")),
        "dies": ("failed", "It ended with status 1: ValueError: no key."),
    }
    told = [str(problem) for problem in box.servers.problems()] + [
        str(box.call(f"{name}.x").error) for name in servers
    ]
    assert not [text for text in told if any(word in text for word in LIBRARY_WORDS)]


def test_call_to_a_wrong_address_says_so_in_one_line(opened: Open, other: str) -> None:
    box = opened({"web": {"type": "http", "url": f"http://{other}/json"}})

    error = box.call("web.search").error

    assert error is not None
    assert error.message == (
        f"No tool 'web.search'. The server 'web' has a wrong address. "
        f"http://{other}/json answers, but not as an MCP server."
    )
    assert error.hint.startswith("Is the path right? It often ends in /mcp.")
