"""A recording as a server: its tools over MCP, and the requests of its HTTP tools as a REST server.

A call gets the answer that was recorded for the same tool and arguments; the same call again gets
the next one, and the last one for ever. Anything else is "not recorded". Nothing is sent anywhere,
and no tool runs. A recording that holds a secret of the project is refused.
"""

from __future__ import annotations

import json
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from onetool_ipy.assemble import open_toolbox
from onetool_ipy.base import values
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.files import bytes_of
from onetool_ipy.base.foreign_json import NotJson, parse_json
from onetool_ipy.base.masking import MASK
from onetool_ipy.config.paths import home_at
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.stores.cassettes import MAX_FILE, Cassette, RecordedCall, read_calls
from onetool_ipy.stores.encoding import decode
from onetool_ipy.toolbox import Toolbox

Route = tuple[str, str, tuple[tuple[str, str], ...]]
"""Method, path and query of a request."""


def read_recording(path: Path, mask: Callable[[str], str]) -> list[RecordedCall]:
    """Read a recording. Raises UsageProblem if it is missing or holds a secret."""
    content = bytes_of(path, MAX_FILE)
    if content is None:
        raise UsageProblem(
            f"There is no recording '{path}'.",
            hint="Record one in a notebook: %tool replay calls.jsonl",
        )
    for number, line in enumerate(content.decode(errors="replace").split("\n"), start=1):
        if holds_secret(line, mask):
            hint = "Record it again: what is recorded now has no secrets in it."
            raise UsageProblem(
                f"Line {number} of '{path}' holds a secret of this project.", hint=hint
            )
    return read_calls(path)


def holds_secret(text: str, mask: Callable[[str], str]) -> bool:
    """Whether a text of a file holds a secret, also in a text that is JSON there: code quotes what
    it holds, and JSON quotes the code."""
    if mask(text) != text:
        return True
    try:
        value = parse_json(text)
    except NotJson:
        return False
    return bool(values.map_text(value, mask) != value)


@contextmanager
def mock_toolbox(
    path: Path, calls: list[RecordedCall], mask: Callable[[str], str]
) -> Iterator[tuple[Toolbox, list[str]]]:
    """Open a toolbox of its own whose tools are those of a recording; also their names.

    `mask` is the project's: a secret is masked in the recording, so it is in what callers send.
    """
    names = list(dict.fromkeys(call.tool for call in calls if "." in call.tool))
    schemas = {call.tool: call.input_schema for call in calls if call.input_schema}
    with tempfile.TemporaryDirectory(prefix="onetool-mock-") as folder:
        env = {**home_at(Path(folder)), "ONETOOL_STATE": str(Path(folder) / "state")}
        with open_toolbox(folder, env=env) as box:
            for name in names:
                if box.registry.find(name) is None:
                    schema = schemas.get(name) or {"type": "object"}
                    about = f"A recorded answer of '{name}'."
                    spec = ToolSpec(
                        name=name, description=about, parameters=schema, run=_never, read_only=True
                    )
                    box.registry.register(spec)
            box.replays.begin(Cassette(path.absolute(), mode="replay", mask=mask, repeats=True))
            yield box, names


def _never(_args: object) -> None:
    raise UsageProblem("This call is not recorded.")


class RestMock:
    """An ASGI application that answers the recorded requests of HTTP tools."""

    def __init__(self, calls: list[RecordedCall]) -> None:
        self._answers: dict[Route, deque[RecordedCall]] = {}
        for call in calls:
            # Of a tool that sends several requests the result belongs to the last one.
            if call.requests and not call.not_recorded:
                last = call.requests[-1]
                url = urlsplit(str(last["url"]))
                route = _route(str(last.get("method", "GET")), url.path, url.query)
                self._answers.setdefault(route, deque()).append(call)
        # A secret is masked in the recording. Callers send their own: its place fits any value.
        self._masked = [route for route in self._answers if MASK in f"{route}"]

    def __len__(self) -> int:
        return len(self._answers)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        del receive
        if scope["type"] != "http":
            return
        path, query = (scope[name].decode("latin-1") for name in ("raw_path", "query_string"))
        status, kind, body = self._answer(_route(scope["method"], path, query))
        headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send(
            {"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body}
        )

    def _answer(self, route: Route) -> tuple[int, bytes, bytes]:
        calls = self._answers.get(route)
        if calls is None:
            masked = next((each for each in self._masked if _fits(each, route)), None)
            calls = None if masked is None else self._answers[masked]
        if calls is None:
            return 404, b"application/json", json.dumps({"error": "not recorded"}).encode()
        call = calls.popleft() if len(calls) > 1 else calls[0]
        if call.failure is not None:
            code = call.failure.get("status")
            status = code if isinstance(code, int) and 400 <= code <= 599 else 502
            return (
                status,
                b"application/json",
                json.dumps({"error": call.failure.get("message", "")}).encode(),
            )
        value = values.to_json(decode(call.result))
        if isinstance(value, str):
            return 200, b"text/plain; charset=utf-8", value.encode()
        return 200, b"application/json", json.dumps(value, ensure_ascii=False).encode()


def _route(method: str, path: str, query: str) -> Route:
    pairs = parse_qsl(query, keep_blank_values=True)
    return method.upper(), path or "/", tuple(sorted(pairs))


def _fits(recorded: Route, request: Route) -> bool:
    """Whether a request is the recorded one, with anything in the place of each masked secret."""
    if recorded[0] != request[0] or not _is_like(recorded[1], request[1]):
        return False
    if len(recorded[2]) != len(request[2]):
        return False
    left = list(request[2])
    # What is not masked is matched first: a pattern would take the place of another value.
    for pair in sorted(recorded[2], key=lambda pair: MASK in "".join(pair)):
        match = next(
            (one for one in left if _is_like(pair[0], one[0]) and _is_like(pair[1], one[1])), None
        )
        if match is None:
            return False
        left.remove(match)
    return True


def _is_like(masked: str, text: str) -> bool:
    """Whether a text is the masked one with something in each masked place. Takes time by the
    length of the text."""
    first, *rest = masked.split(MASK)
    if not rest:
        return masked == text
    *middle, last = rest
    if not text.startswith(first) or not text.endswith(last):
        return False
    end = len(first)
    for part in middle:
        start = text.find(part, end + 1)
        if start < 0:
            return False
        end = start + len(part)
    return end < len(text) - len(last)
