"""The servers screen's requests, with a real server: listed, started, looked at, stopped,
removed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from onetool_ipy import open_toolbox
from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.base.processes import quoted
from onetool_ipy.faces import cli
from onetool_ipy.faces.widgets.http_requests import HttpToolRequests
from onetool_ipy.faces.widgets.server_requests import ServerRequests
from onetool_ipy.faces.widgets.viewer import ResultViewer
from onetool_ipy.toolbox import Toolbox

PLUS = (
    "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 9 9'>"
    "<path d='M4 1h1v3h3v1H5v3H4V5H1V4h3z'/></svg>"
)
SERVER = f"""
import sys
from mcp.server import MCPServer
from mcp_types import Icon, ToolAnnotations
print("ready <b>", file=sys.stderr, flush=True)
server = MCPServer("adder", icons=[Icon(src="https://x.example/a.png"), Icon(src={PLUS!r})])

@server.tool(annotations=ToolAnnotations(destructive_hint=True, open_world_hint=True))
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

server.run()
"""


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Toolbox]:
    folder = tmp_path / ".onetool"
    folder.mkdir()
    (folder / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")
    (tmp_path / "adder.py").write_text(SERVER, encoding="utf-8")
    opened = open_toolbox(tmp_path)
    yield opened
    opened.close()


@pytest.mark.slow
def test_the_life_of_a_server_on_the_screen(box: Toolbox, tmp_path: Path) -> None:
    servers = ServerRequests(box)
    assert servers.list({}) == {"items": []}

    said = servers.add({"text": f"{sys.executable} {tmp_path / 'adder.py'}"})["said"]
    assert said == "adder: added for this session."
    (item,) = servers.list({})["items"]
    assert (item["name"], item["state"], item["isSaved"], item["tools"]) == (
        "adder",
        "not started",
        False,
        [],
    )
    assert item["address"].endswith("adder.py")

    assert servers.act({"name": "adder", "action": "start"}) == {"said": "adder was started."}
    (item,) = servers.list({})["items"]
    assert (item["state"], item["tools"], item["icon"]) == ("connected", ["adder.add"], PLUS)
    assert box.call("adder.add", {"a": 1, "b": 2}).data == 3
    page = servers.page({"name": "adder"})
    assert (page["server"]["state"], [tool["name"] for tool in page["tools"]]) == (
        "connected",
        ["add"],
    )
    rows = servers.messages({"name": "adder", "after": 0})["rows"]
    call = next(row for row in rows if row["method"] == "tools/call")
    assert json.loads(servers.message({"name": "adder", "number": call["number"]})["text"])[
        "params"
    ]["arguments"] == {
        "a": 1,
        "b": 2,
    }
    assert servers.messages({"name": "adder", "after": rows[-1]["number"]}) == {"rows": []}
    with pytest.raises(UsageProblem, match="no longer kept"):
        servers.message({"name": "adder", "number": 9999})
    assert "ready <b>" in servers.logs({"name": "adder"})["text"]
    assert servers.act({"name": "adder", "action": "restart"}) == {"said": "adder was restarted."}
    assert servers.list({})["items"][0]["state"] == "connected"
    assert servers.act({"name": "adder", "action": "stop"}) == {"said": "adder was stopped."}
    assert servers.list({})["items"][0]["state"] == "stopped"
    assert servers.act({"name": "adder", "action": "remove"}) == {"said": "adder is removed."}
    assert servers.list({}) == {"items": []}


def test_a_saved_server_is_in_the_file_until_it_is_removed(box: Toolbox, tmp_path: Path) -> None:
    servers = ServerRequests(box)
    file = tmp_path / ".onetool" / "onetool.yaml"
    pasted = json.dumps(
        {
            "mcpServers": {
                "notes": {"command": sys.executable, "env": {"NOTES_TOKEN": "abc-secret"}},
                "gone": {"command": "no-such-program"},
            }
        }
    )
    said = servers.add({"text": pasted, "isSaved": True})["said"]
    secrets = (tmp_path / ".onetool" / "secrets.yaml").read_text(encoding="utf-8")
    assert secrets == 'NOTES_NOTES_TOKEN: "abc-secret"\n'
    assert "Without 1: There is no program 'no-such-program' on your PATH." in said
    assert "gone" not in file.read_text(encoding="utf-8")
    assert "notes" in file.read_text(encoding="utf-8")
    assert "abc-secret" not in file.read_text(encoding="utf-8")
    assert servers.list({})["items"][0]["isSaved"] is True
    servers.act({"name": "notes", "action": "remove"})
    assert "notes" not in file.read_text(encoding="utf-8")


def test_wrong_requests_say_what_is_wrong(box: Toolbox) -> None:
    servers = ServerRequests(box)
    with pytest.raises(UsageProblem, match="No server 'nope'"):
        servers.act({"name": "nope", "action": "start"})
    servers.add({"text": sys.executable, "name": "x"})
    with pytest.raises(UsageProblem, match="cannot 'explode'"):
        servers.act({"name": "x", "action": "explode"})
    with pytest.raises(UsageProblem, match="There is a server 'x'"):
        servers.add({"text": sys.executable, "name": "x"})
    with pytest.raises(UsageProblem, match="There is no program"):
        servers.add({"text": "no-such-program --flag"})


def test_what_a_readme_leaves_open_is_filled_in_and_kept_as_a_secret(
    box: Toolbox, tmp_path: Path
) -> None:
    """A server for this session too: its configuration names the secret, and never has it."""
    servers = ServerRequests(box)
    definition = {"command": sys.executable, "env": {"API_TOKEN": "<your token>"}}
    text = json.dumps({"y": definition})
    shown = servers.pasted({"text": text})
    assert [field["name"] for field in shown["fields"]] == ["API_TOKEN"]
    assert shown["runs"] == [f"y: {quoted(sys.executable)}", "sets API_TOKEN=${API_TOKEN}"]
    with pytest.raises(UsageProblem, match="Fill in API_TOKEN"):
        servers.add({"text": text})

    assert servers.add({"text": text, "values": {"API_TOKEN": "abc"}})["names"] == ["y"]

    secrets = (tmp_path / ".onetool" / "secrets.yaml").read_text(encoding="utf-8")
    assert secrets == 'API_TOKEN: "abc"\n'
    assert dict(box.servers.definition("y").env) == {"API_TOKEN": "abc"}
    assert servers.pasted({"text": text.replace('"y"', '"z"')})["fields"] == []


def test_a_server_that_lacks_a_secret_is_listed_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A clone of somebody's project: its secrets.yaml is not there. With the secret it is a server
    as any."""
    config = "version: 1\nservers:\n  maps: {command: 'true', env: {A: '${MAPS_KEY}', B: '${MAPS_ID}'}}\n"
    (tmp_path / ".onetool").mkdir()
    (tmp_path / ".onetool" / "onetool.yaml").write_text(config, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with open_toolbox(tmp_path) as box:
        servers = ServerRequests(box)
        assert servers.list({}) == {"items": [{"name": "maps", "lacks": ["MAPS_KEY", "MAPS_ID"]}]}
        assert cli.main(["server", "list"]) == 0
        assert "Add MAPS_KEY and MAPS_ID to secrets.yaml" in capsys.readouterr().out

        keep = HttpToolRequests(box, ResultViewer(box)).keep_secret
        keep({"name": "MAPS_KEY", "value": "abc"})
        assert servers.list({}) == {"items": [{"name": "maps", "lacks": ["MAPS_ID"]}]}
        keep({"name": "MAPS_ID", "value": "7"})

        assert [item["state"] for item in servers.list({})["items"]] == ["not started"]


def test_an_untrusted_server_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "ran"
    folder = tmp_path / "theirs" / ".onetool"
    folder.mkdir(parents=True)
    config = (
        f"version: 1\nservers:\n  bad:\n    type: stdio\n    command: touch\n    args: [{marker}]\n"
    )
    (folder / "onetool.yaml").write_text(config, encoding="utf-8")
    monkeypatch.chdir(folder.parent)
    monkeypatch.delenv("ONETOOL_TRUST", raising=False)
    box = open_toolbox()
    servers = ServerRequests(box)
    assert servers.list({})["items"][0]["state"] == "untrusted"
    for action in ("start", "restart", "signIn"):
        with pytest.raises(UsageProblem, match="not trusted yet"):
            servers.act({"name": "bad", "action": action})
    box.close()
    assert not marker.exists()
