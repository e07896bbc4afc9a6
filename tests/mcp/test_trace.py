"""`%tool server trace NAME`: every message to and from a server, as a table, bounded and without
secrets."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from onetool_ipy import Toolbox
from onetool_ipy.mcp.trace import MessageTrace
from tests.harness.servers import everything_over_http, hostile, real

Open = Callable[..., Toolbox]
TOKEN = "sesame-open-1234567890"


def test_every_message_of_a_call_is_traced(opened: Open) -> None:
    box = opened({"srv": hostile()})
    assert box.servers.trace("srv") == []
    box.call("srv.echo", {"text": "hello"}).unwrap()

    rows = box.servers.trace("srv")

    methods = [row["method"] for row in rows]
    assert methods[0] == "server/discover"
    assert {"initialize", "notifications/initialized", "tools/list", "tools/call"} <= set(methods)
    sent, received = [row for row in rows if row["method"] == "tools/call"]
    assert (sent["way"], received["way"]) == ("→", "←")
    assert sent["id"] == received["id"] != ""
    assert (sent["ms"], received["ms"] >= 0) == (None, True)
    assert '"text": "hello"' in sent["message"]
    assert sent["bytes"] > len("hello")
    whole = json.loads(box.servers.message("srv", sent["number"]) or "")
    assert (whole["method"], whole["params"]["arguments"]) == ("tools/call", {"text": "hello"})
    assert box.servers.message("srv", 10_000) is None


def test_a_whole_message_is_masked_and_a_huge_one_is_cut_without_half_a_secret() -> None:
    trace, mask = MessageTrace(), (lambda text: text.replace(TOKEN, "***"))
    trace.note(
        None,
        is_sent=True,
        data=json.dumps({"params": {"text": f"a {TOKEN} b", "long": "x" * 9_000}}).encode(),
    )
    trace.note(
        None, is_sent=True, data=b'{"params": "' + b"y" * (256 * 1024 - 20) + TOKEN.encode() + b'"}'
    )

    first, second = (trace.message(number, mask) or "" for number in (1, 2))
    assert json.loads(first)["params"] == {"text": "a *** b", "long": "x" * 9_000}
    assert second.endswith("bytes in all)")
    assert TOKEN[:8] not in second


def test_the_trace_of_large_messages_is_bounded() -> None:
    trace = MessageTrace()
    for _ in range(100):
        trace.note(None, is_sent=False, data=b"x" * 200_000)
    assert len(trace.rows(str)) == 41


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["stdio", "http"])
def test_trace_holds_no_secret_and_does_not_grow(opened: Open, kind: str) -> None:
    def use(definition: dict[str, Any]) -> None:
        box = opened({"every": definition}, env={"SHOP_TOKEN": TOKEN})
        box.config.secrets.get("SHOP_TOKEN")
        for text in (f"a {TOKEN} b", "x" * 140 + TOKEN, "y" * 4050 + TOKEN, "\x1b[31m\u202e"):
            box.call("every.echo", {"message": text}).unwrap()
        rows = box.servers.trace("every")
        shown = str(rows)
        assert "tools/call" in shown
        assert not [part for part in (TOKEN, TOKEN[:12], "\x1b", "\u202e") if part in shown]
        assert max(len(row["message"]) for row in rows) <= 200
        for _ in range(200 if kind == "stdio" else 0):
            box.call("every.echo", {"message": "again"}).unwrap()
        assert len(box.servers.trace("every")) <= 300

    if kind == "stdio":
        use(real("everything"))
    else:
        with everything_over_http() as url:
            use({"type": "http", "url": url})
