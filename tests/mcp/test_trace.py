"""`%tool server trace NAME`: every message to and from a server, as a table, bounded and without secrets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onetool_ipy import Toolbox
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
    assert (sent["way"], received["way"]) == ("to the server", "from the server")
    assert sent["id"] == received["id"] != ""
    assert (sent["ms"], received["ms"] >= 0) == (None, True)
    assert '"text": "hello"' in sent["message"]
    assert sent["bytes"] > len("hello")


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
