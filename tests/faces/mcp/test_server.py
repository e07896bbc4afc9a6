"""The toolbox as an MCP server: `onetool-ipy mcp` and `%tool serve`, driven by clients that others
wrote."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from onetool_ipy import Toolbox, open_toolbox
from onetool_ipy.core.tool import ToolSpec
from onetool_ipy.faces.mcp.http import MAX_SESSIONS
from onetool_ipy.faces.mcp.server import ToolboxServer
from tests.faces.mcp.conftest import Connect
from tests.harness import servers
from tests.harness.kernel import Kernel
from tests.harness.patience import HANG_S
from tests.harness.servers import others_python
from tests.harness.surroundings import ROOT
from tests.harness.systems import has_mode

CLIENT = ROOT / "tests" / "node" / "client.mjs"
LANGCHAIN = Path(__file__).with_name("langchain_client.py")
SECRET = "s3cr3t-of-the-tests"
PACK = '''
"""Tools for the tests of serving."""
pack = "shop"
__all__ = ["count", "tell", "slow", "rows", "leak", "odd_one", "half", "prints"]
import asyncio
import time
from pathlib import Path
from onetool_ipy.sdk import get_secret, progress


def count(upto: int) -> int:
    """Count, telling of it.

    Args:
        upto: How far.
    """
    for done in range(1, upto + 1):
        progress(done, upto, f"at {done}")
    return upto


async def tell(heard: str) -> int:
    """Tell how far it is until somebody has heard of it.

    Args:
        heard: A file that is written then.
    """
    for done in range(1, 1000):
        progress(done, 1000, f"at {done}")
        await asyncio.sleep(0.05)
        if Path(heard).exists():
            return done
    return 0


async def slow(marker: str) -> str:
    """Wait for long.

    Args:
        marker: A file to write when it is stopped.
    """
    Path(marker + ".begun").touch()
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        Path(marker).write_text("stopped")
        raise
    return "never"


def rows(n: int) -> list[dict]:
    """Many rows."""
    return [{"id": i, "name": f"row {i}"} for i in range(n)]


def leak() -> str:
    """Say a secret."""
    return "it is " + get_secret("TOKEN_OF_TESTS")


def odd_one(value):
    """Give back something JSON does not know."""
    return {1, 2, 3}


# From 3.13 on Python compiles no docstring with half a character.
def half(name: str = "\\udcfe"):
    """Read a file whose name is not UTF-8.

    Args:
        name: What begins it.
    """
    return open(name + "\\udcff")


def prints() -> str:
    """Print, which must not reach the protocol."""
    print("printed on purpose")
    return "done"
'''


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    onetool = folder / ".onetool"
    (onetool / "tools").mkdir(parents=True)
    (onetool / "tools" / "shop.py").write_text(PACK)
    (onetool / "onetool.yaml").write_text(
        'version: 1\ntools_dir: ["tools/*.py"]\noutput: {max_inline_bytes: 2000}\n'
    )
    secrets = onetool / "secrets.yaml"
    secrets.write_text(f"TOKEN_OF_TESTS: {SECRET}\n")
    secrets.chmod(0o600)
    return folder


ALL = ("--tool-allow", "*")
ANY: dict[str, Any] = {"type": "object"}


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "onetool_ipy.faces.cli", "mcp", *args]


def stdio(project: Path, *args: str) -> Any:
    program, *rest = command(*args)
    given = StdioServerParameters(
        command=program, args=rest, cwd=str(project), env=dict(os.environ)
    )
    return Client(stdio_client(given), mode="auto", read_timeout_seconds=HANG_S)


class Served:
    """`onetool-ipy mcp --http` in a process of its own."""

    def __init__(self, project: Path, *args: str) -> None:
        self.process = subprocess.Popen(
            command("--http", *args),
            cwd=project,
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        self.url = self._after("Serving on ")
        self.token = "" if "--no-token" in args else self._after("Authorization: Bearer ")

    def _after(self, start: str) -> str:
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        assert line.startswith(start), line
        return line.removeprefix(start).strip()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def served(project: Path) -> Iterator[Served]:
    server = Served(project, *ALL)
    yield server
    server.close()


@pytest.fixture(scope="module")
def box(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolbox]:
    env = {**os.environ, "ONETOOL_STATE": str(tmp_path_factory.mktemp("state"))}
    with open_toolbox(project, env=env) as opened:
        yield opened


@asynccontextmanager
async def connected(box: Toolbox, *allow: str, **options: Any) -> AsyncIterator[Client]:
    """Connect a client within this process, for what is the same over stdio and HTTP."""
    server = ToolboxServer(box, allow=allow or None)
    try:
        async with Client(server.server, read_timeout_seconds=HANG_S, **options) as client:
            yield client
    finally:
        server.close()


def over_http(server: Served) -> Any:
    http = _http_client({"Authorization": f"Bearer {server.token}"})
    return Client(streamable_http_client(server.url, http_client=http), read_timeout_seconds=HANG_S)


def _http_client(headers: dict[str, str]) -> Any:
    import httpx2  # the SDK's own

    return httpx2.AsyncClient(headers=headers, timeout=HANG_S)


def text_of(result: CallToolResult) -> str:
    return "".join(getattr(each, "text", "") for each in result.content)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_a_python_client_lists_and_calls(project: Path, served: Served, way: str) -> None:
    """The same registry, with schemas untouched and names that clients accept."""
    async with stdio(project, *ALL) if way == "stdio" else over_http(served) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"shop_count", "tools_echo", "ot_result", "time_now"} <= set(tools)
        assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", name) for name in tools)
        assert tools["shop_count"].input_schema["properties"]["upto"]["type"] == "integer"
        assert tools["shop_count"].input_schema["required"] == ["upto"]
        assert tools["time_now"].annotations.read_only_hint is True
        echoed = await client.call_tool("tools_echo", {"message": {"a": [1, None, "ü"]}})
        assert echoed.structured_content == {"a": [1, None, "ü"]}
        assert json.loads(text_of(echoed)) == {"a": [1, None, "ü"]}
        listed = await client.call_tool("shop_rows", {"n": 2})
        assert listed.structured_content == {
            "result": [{"id": 0, "name": "row 0"}, {"id": 1, "name": "row 1"}]
        }
        assert text_of(await client.call_tool("shop_prints", {})) == "done"


@pytest.mark.slow
async def test_arguments_are_checked_by_us_and_failures_are_results(served: Served) -> None:
    """Bad arguments, unknown tools and failing tools are `isError` with our code; the connection
    stays good."""
    async with over_http(served) as client:
        bad = await client.call_tool("shop_count", {"upto": "three", "more": 1})
        assert bad.is_error
        assert bad.structured_content["error"]["code"] == "invalid_args"
        unknown = await client.call_tool("shop_cuont", {})
        assert unknown.is_error
        assert unknown.structured_content["error"]["code"] == "tool_not_found"
        assert "shop.count" in text_of(unknown)
        odd = await client.call_tool("shop_odd_one", {"value": 1})
        assert odd.structured_content == {"result": [1, 2, 3]}
        page = await client.list_tools()
        listed = {tool.name: tool for tool in page.tools}
        while page.next_cursor:
            page = await client.list_tools(cursor=page.next_cursor)
            listed |= {tool.name: tool for tool in page.tools}
        assert listed["shop_half"].input_schema["properties"]["name"]["default"] == r"\udcfe"
        assert "FileNotFoundError" in text_of(await client.call_tool("shop_half", {"name": "no"}))
        with pytest.raises(MCPError, match="cursor"):
            await client.list_tools(cursor="'; drop")


@pytest.mark.slow
async def test_secrets_are_masked_and_large_results_go_as_handles(served: Served) -> None:
    """What leaves is masked; over `max_inline_bytes` it is a handle that the client can read on."""
    async with over_http(served) as client:
        assert SECRET not in text_of(await client.call_tool("shop_leak", {}))
        large = await client.call_tool("shop_rows", {"n": 500})
        assert set(large.structured_content) == {"handle", "total_lines", "preview"}
        assert large.structured_content["total_lines"] == 500
        handle = large.structured_content["handle"]
        page = await client.call_tool("ot_result", {"handle": handle, "offset": 500, "limit": 5})
        assert [json.loads(line)["id"] for line in page.structured_content["lines"]] == [499]
        assert page.structured_content["has_more"] is False


@pytest.mark.slow
async def test_progress_reaches_the_client(served: Served) -> None:
    """`sdk.progress` becomes the protocol's progress; the last word always arrives."""
    told: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async with over_http(served) as client:
        result = await client.call_tool("shop_count", {"upto": 40}, progress_callback=hear)
    assert result.structured_content == {"result": 40}
    assert told[-1] == (40, 40, "at 40")


@pytest.mark.slow
async def test_cancel_stops_the_tool(served: Served, tmp_path: Path) -> None:
    """A client that gives up sends a cancel; the tool's own code sees it."""
    marker = tmp_path / "stopped"
    async with over_http(served) as client:
        call = asyncio.ensure_future(client.call_tool("shop_slow", {"marker": str(marker)}))
        await _until(lambda: Path(f"{marker}.begun").exists())
        call.cancel()
        await _until(marker.exists)
        assert (
            text_of(await client.call_tool("tools_echo", {"message": "still here"})) == "still here"
        )


async def test_without_an_allow_list_only_what_reads_is_offered(box: Toolbox) -> None:
    """Listed, run, and counted; how to offer others is said."""
    async with connected(box) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"tools_echo", "time_now", "fs_read_file", "ot_result"} <= names
        assert not names & {"shop_count", "shop_rows", "ot_reload", "ot_notify"}
        assert {name for name in names if name.startswith("ot_")} == {"ot_result", "ot_results"}
        refused = await client.call_tool("shop_rows", {"n": 1})
        assert refused.structured_content["error"]["reason"] == "not_allowed"
        refused = await client.call_tool("ot.notify", {"topic": "a", "message": "b"})
        assert refused.structured_content["error"]["reason"] == "not_allowed"
        read_only = [tool.annotations.read_only_hint for tool in (await client.list_tools()).tools]
        assert all(read_only)


@pytest.mark.parametrize(
    ("allow", "message"),
    [
        (
            None,
            (
                r"Offering \d+ tools that only read. Left out, since they may change something:"
                r" \d+. .* --tool-allow;"
            ),
        ),
        (["shop.rows", "no.such"], r"Offering 1 tool. No tool is named 'no.such'.$"),
        (["shop.rows", "$*", "$greet"], r"Offering 1 tool. No tool is named '\$greet'.$"),
    ],
    ids=["default", "named", "snippets"],
)
def test_how_many_tools_are_offered_is_said(
    box: Toolbox, allow: list[str] | None, message: str
) -> None:
    server = ToolboxServer(box, allow=allow)
    server.close()

    assert re.search(message, server.offer("--tool-allow"))


@pytest.mark.slow
def test_the_command_says_how_many_tools_it_offers(project: Path) -> None:
    ran = subprocess.run(
        command("--tool-allow", "shop.rows,no.such"), cwd=project, input="", capture_output=True, text=True,
        timeout=HANG_S, check=False,
    )  # fmt: skip

    assert ran.stderr.strip().endswith("Offering 1 tool. No tool is named 'no.such'.")


async def test_a_listing_starts_no_server_and_says_whose_tools_are_missing(tmp_path: Path) -> None:
    (tmp_path / ".onetool").mkdir()
    (tmp_path / ".onetool" / "onetool.yaml").write_text(
        "version: 1\nservers: " + json.dumps({"srv": servers.hostile()}), encoding="utf-8"
    )
    with open_toolbox(tmp_path, env={"ONETOOL_STATE": str(tmp_path / "state")}) as box:
        server = ToolboxServer(box, allow=["srv.*", "time.*"])
        async with Client(server.server, read_timeout_seconds=HANG_S) as client:
            before = [tool.name for tool in (await client.list_tools()).tools]
            box.formats("openai")
            state, offer = box.servers["srv"], server.offer("--allow")
            await asyncio.to_thread(box.servers.start, "srv")
            after = [tool.name for tool in (await client.list_tools()).tools]
        server.close()

    assert state == "not started"
    assert not any("srv" in name for name in before)
    assert any("time" in name for name in before)
    assert any("srv" in name for name in after)
    assert offer.endswith(
        "The tools of the server 'srv' are not offered: it has not been started yet. "
        "Start it with: %tool server start srv"
    )


async def test_a_narrow_client_reads_the_handles_that_it_was_given(
    project: Path, box: Toolbox
) -> None:
    """The example of docs/mcp.md: only `fs.*` and `time.now`, and a file that is too large to go
    whole."""
    (project / "long.txt").write_bytes(b"".join(b"line %d\n" % n for n in range(5000)))
    async with connected(box, "*") as client:
        foreign = (await client.call_tool("shop_rows", {"n": 500})).structured_content["handle"]
    changed = asyncio.Event()

    async def hear(message: Any) -> None:
        if "ListChanged" in type(message).__name__:
            changed.set()

    async with connected(box, "fs.*", "time.now", mode="legacy", message_handler=hear) as client:
        assert {t.name for t in (await client.list_tools()).tools} == {
            "fs_list_dir",
            "fs_read_file",
            "time_now",
        }
        refused = await client.call_tool("ot_result", {"handle": foreign})
        assert refused.structured_content["error"]["reason"] == "not_allowed"
        large = (
            await client.call_tool("fs_read_file", {"path": str(project / "long.txt")})
        ).structured_content
        assert set(large) == {"handle", "total_lines", "preview"}
        await asyncio.wait_for(changed.wait(), HANG_S)
        assert "ot_result" in {t.name for t in (await client.list_tools()).tools}
        page = await client.call_tool(
            "ot_result", {"handle": large["handle"], "search": "line 4999"}
        )
        assert page.structured_content["lines"] == ["line 4999"]
        for other in (foreign, [large["handle"]], None):
            refused = await client.call_tool("ot_result", {"handle": other})
            assert refused.structured_content["error"]["reason"] == "not_allowed"


@pytest.mark.slow
async def test_sessions_are_bounded(project: Path) -> None:
    """One too many is refused, and there is room again when one ends. A newer client needs no
    session."""
    server = Served(project)
    headers = {
        "Authorization": f"Bearer {server.token}",
        "Accept": "application/json, text/event-stream",
    }
    about = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "greedy", "version": "1"},
    }
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    try:
        async with httpx.AsyncClient(headers=headers, timeout=30) as http:
            responses = [await http.post(server.url, json=hello) for _ in range(MAX_SESSIONS + 1)]
            assert [response.status_code for response in responses] == [200] * MAX_SESSIONS + [503]
            async with over_http(server) as client:
                assert text_of(await client.call_tool("tools_echo", {"message": "in"})) == "in"
            session = {"Mcp-Session-Id": responses[0].headers["mcp-session-id"]}
            assert (await http.delete(server.url, headers=session)).status_code == 200
            assert (await http.post(server.url, json=hello)).status_code == 200
    finally:
        server.close()


async def test_what_calls_any_tool_is_not_offered_and_what_only_reads_does_not_write(
    project: Path, box: Toolbox
) -> None:
    """`ot.map` would go past the allow-list; `ot.stats` writes a report where it is told to."""
    async with connected(box, "ot.*", "time.now") as client:
        offered = {tool.title for tool in (await client.list_tools()).tools}
        mapped = await client.call_tool("ot_map", {"tool": "time.now", "data": [{}]})
    async with connected(box) as client:
        read = await client.call_tool("ot_stats", {"period": "day"})
        written = await client.call_tool("ot_stats", {"output": str(project / "report.html")})

    assert "ot.stats" in offered
    assert "ot.map" not in offered
    assert mapped.is_error
    assert not read.is_error
    assert written.is_error
    assert not (project / "report.html").exists()


@pytest.mark.slow
async def test_allow_lists_hold_when_listing_and_when_calling(project: Path) -> None:
    """What is not allowed is neither listed nor run."""
    async with stdio(project, "--tool-allow", "tools.*,shop.count") as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert names == {"tools_echo", "shop_count"}
        refused = await client.call_tool("fs_list_dir", {"path": "."})
        assert refused.is_error
        assert refused.structured_content["error"]["reason"] == "not_allowed"
        assert text_of(await client.call_tool("tools_echo", {"message": "x"})) == "x"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "is_written"), [((), False), (("--tool-allow", "desk.look"), True)]
)
async def test_a_tool_that_only_reads_writes_through_another_only_if_an_allow_list_names_it(
    tmp_path: Path, flags: tuple[str, ...], is_written: bool
) -> None:
    """The client sees one tool, which says that it reads, and calls another one that writes."""
    tools = tmp_path / ".onetool" / "tools"
    tools.mkdir(parents=True)
    (tools.parent / "onetool.yaml").write_text(
        'version: 1\ntools_dir: ["tools/*.py"]\n', encoding="utf-8"
    )
    (tools / "desk.py").write_text(
        """
pack = "desk"
__all__ = ["look", "write"]
from pathlib import Path
from onetool_ipy import tool
from onetool_ipy.sdk import call_tool

@tool(read_only=True)
def look() -> str:
    \"\"\"Look.\"\"\"
    return str(call_tool("desk.write"))

@tool()
def write() -> str:
    \"\"\"Write.\"\"\"
    Path("written.txt").touch()
    return "written"
""",
        encoding="utf-8",
    )
    async with stdio(tmp_path, *flags) as client:
        result = await client.call_tool("desk_look", {})
    assert (tmp_path / "written.txt").exists() is is_written
    assert is_written or "nobody allowed that" in text_of(result)


@pytest.mark.slow
def test_http_asks_for_the_token_before_anything_else(served: Served) -> None:
    """Without the right bearer token every verb and path is 401, and a foreign Host or Origin is
    refused."""
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
    accept = {"Accept": "application/json, text/event-stream"}
    good = {**accept, "Authorization": f"Bearer {served.token}"}
    with httpx.Client() as http:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": served.token}):
            for verb in ("GET", "POST", "DELETE", "PUT", "OPTIONS"):
                for path in ("", "/x"):
                    answer = http.request(
                        verb, served.url + path, headers={**accept, **headers}, json=hello
                    )
                    assert answer.status_code == 401, (verb, path, headers)
        assert (
            http.post(
                served.url, headers={**good, "Origin": "http://evil.example"}, json=hello
            ).status_code
            == 403
        )
        assert (
            http.post(served.url, headers={**good, "Host": "evil.example"}, json=hello).status_code
            == 421
        )
        assert http.post(served.url, headers=good, content=b"{").status_code == 400


@pytest.mark.slow
def test_no_token_only_on_loopback(project: Path) -> None:
    """An open server that other machines reach is refused."""
    asked = subprocess.run(
        command("--http", "--host", "0.0.0.0", "--no-token"),
        cwd=project,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert asked.returncode == 1
    assert "token" in asked.stderr
    server = Served(project, "--no-token")
    try:
        assert httpx.get(server.url).status_code == 400  # not 401: who it is was not asked
    finally:
        server.close()


@pytest.mark.slow
def test_a_taken_port_is_said(project: Path, served: Served) -> None:
    port = served.url.rpartition(":")[2].partition("/")[0]
    asked = subprocess.run(
        command("--http", "--port", port),
        cwd=project,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert asked.returncode == 1
    assert f"port {port}" in asked.stderr


@pytest.mark.slow
def test_stop_ends_the_http_server(project: Path) -> None:
    """Ctrl-C ends it in good order."""
    server = Served(project)
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(HANG_S) == 130
    server.close()


def typescript(asked: dict[str, Any]) -> dict[str, Any]:
    ran = subprocess.run(
        ["node", str(CLIENT), json.dumps(asked)],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    return json.loads(ran.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("way", ["stdio", "http"])
def test_the_typescript_sdk_lists_and_calls(
    project: Path, served: Served, way: str, tmp_path: Path
) -> None:
    """The official TypeScript SDK: handshake, tools, a call with progress, a failed call.

    That SDK forgets whom to tell of progress once the result is there; so the tool goes on until it
    was heard.
    """
    heard = str(tmp_path / "heard")
    program, *args = command(*ALL)
    place = (
        {"command": program, "args": args, "cwd": str(project)}
        if way == "stdio"
        else {"url": served.url, "token": served.token}
    )
    calls = [
        {"name": "shop_tell", "arguments": {"heard": heard}},
        {"name": "shop_count", "arguments": {}},
        {"name": "shop_rows", "arguments": {"n": 1}},
    ]
    seen = typescript({**place, "calls": calls, "heard": heard})
    assert "error" not in seen, seen
    assert seen["server"]["name"] == "onetool_ipy"
    assert "ot_result" in seen["instructions"]
    assert "shop_count" in {tool["name"] for tool in seen["tools"]}
    told, bad, rows = seen["calls"]
    assert not told.get("isError"), told
    assert told["structuredContent"]["result"] > 0
    assert bad["isError"] is True
    assert rows["structuredContent"] == {"result": [{"id": 0, "name": "row 0"}]}
    steps = [word["progress"] for word in seen["progress"]]
    assert steps
    assert steps == sorted(steps)
    assert seen["progress"][0]["total"] == 1000


@pytest.mark.slow
def test_the_typescript_sdk_is_refused_without_the_token(served: Served) -> None:
    seen = typescript({"url": served.url, "token": "wrong"})
    assert "401" in seen["error"] or "nauthorized" in seen["error"] or "bearer" in seen["error"], (
        seen
    )


@pytest.fixture(scope="module")
def langchain(project: Path, served: Served) -> dict[str, Any]:
    """What a client with an older version of the SDK, in an environment of its own, was told over
    stdio and HTTP."""
    program, *args = command(*ALL)
    servers = {
        "stdio": {
            "transport": "stdio",
            "command": program,
            "args": args,
            "cwd": str(project),
            "env": dict(os.environ),
        },
        "http": {
            "transport": "streamable_http",
            "url": served.url,
            "headers": {"Authorization": f"Bearer {served.token}"},
        },
    }
    calls = [
        {"name": "tools_echo", "args": {"message": "there and back"}},
        {"name": "shop_rows", "args": {"n": 1}},
        {"name": "shop_rows", "args": {"n": 500}},
        {"name": "shop_count", "args": {"upto": "three"}},
    ]
    ran = subprocess.run(
        [others_python("clients"), str(LANGCHAIN), json.dumps({"servers": servers, "calls": calls})],
        capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-4000:]
    return dict(json.loads(ran.stdout.splitlines()[-1]))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["stdio", "http"])
def test_langchain_mcp_adapters_list_and_call(langchain: dict[str, Any], way: str) -> None:
    seen = langchain[way]

    assert {"shop_count", "fs_read_file", "ot_result"} <= set(seen["tools"])
    assert seen["tools"]["shop_count"]["upto"]["type"] == "integer"
    echoed, rows, large, bad = seen["calls"]
    assert (echoed["status"], echoed["content"]) == ("success", "there and back")
    assert rows["artifact"]["structured_content"] == {"result": [{"id": 0, "name": "row 0"}]}
    assert set(json.loads(large["content"])) == {"handle", "total_lines", "preview"}
    assert bad["status"] == "error"
    assert "'three' is not a whole number" in bad["content"]


@pytest.fixture(scope="module")
def serving_kernel(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    from tests.harness.kernel import private_kernel

    with private_kernel(tmp_path_factory.mktemp("serving")) as kernel:
        kernel.execute(f"import os; os.chdir({str(project)!r})")
        kernel.execute("%load_ext onetool_ipy")
        yield kernel


def _served_by(kernel: Kernel, line: str = "%tool serve") -> tuple[str, str, str]:
    shown = kernel.execute(line).text
    url = re.search(r"http://\S+", shown)
    file = re.search(r"is in (\S+)", shown)
    assert url is not None, shown
    assert file is not None, shown
    given = json.loads(Path(file[1]).read_text())["mcpServers"]["onetool"]
    token = given["headers"]["Authorization"].removeprefix("Bearer ")
    assert token not in shown
    assert has_mode(Path(file[1]), 0o600)
    assert given["url"] == url[0]
    return url[0], token, file[1]


@pytest.mark.slow
def test_serve_from_the_live_kernel(serving_kernel: Kernel) -> None:
    """`%tool serve`: a cell's tool reaches another client, also while a cell runs; later cells add
    tools."""
    kernel = serving_kernel
    kernel.execute(
        "from onetool_ipy import tool\nbasket = []\n@tool\ndef put(item: str) -> int:\n    'Keep"
        " it.'\n    basket.append(item)\n    return len(basket)"
    )
    url, token, file = _served_by(kernel, "%tool serve --allow *")

    async def drive() -> None:
        changed = asyncio.Event()

        async def hear(message: Any) -> None:
            if (
                "list_changed" in str(getattr(message, "method", ""))
                or "ListChanged" in type(message).__name__
            ):
                changed.set()

        http = _http_client({"Authorization": f"Bearer {token}"})
        async with Client(
            streamable_http_client(url, http_client=http), mode="legacy", message_handler=hear
        ) as client:
            result = await client.call_tool("nb_put", {"item": "apple"})
            assert result.structured_content == {"result": 1}
            waiting = (
                "import time\nprint('busy', flush=True)\nwhile len(basket) < 2: time.sleep(0.01)"
            )
            busy = kernel.start_execute(waiting)
            await asyncio.to_thread(busy.wait_for_output, "busy")
            assert (await client.call_tool("nb_put", {"item": "pear"})).structured_content == {
                "result": 2
            }
            await asyncio.to_thread(busy.wait)
            await asyncio.to_thread(
                kernel.execute,
                "@tool\ndef peel(item: str) -> str:\n    'Peel it.'\n    return item[1:]",
            )
            await asyncio.wait_for(changed.wait(), HANG_S)
            assert "nb_peel" in {tool.name for tool in (await client.list_tools()).tools}
            assert (await client.call_tool("nb_peel", {"item": "plum"})).structured_content == {
                "result": "lum"
            }

    asyncio.run(drive())
    assert kernel.evaluate("basket") == "['apple', 'pear']"
    assert "already" in kernel.execute("%tool serve", allow_errors=True).text
    assert kernel.execute("%tool history 3").text.count("mcp") >= 2
    assert "No longer" in kernel.execute("%tool serve stop").text
    assert not Path(file).exists()
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)
    assert "Nothing" in kernel.execute("%tool serve stop", allow_errors=True).text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%tool serve --port abc", "not a port"),
        ("%tool serve --port 70000", "not a port"),
        ("%tool serve --host 0.0.0.0 --no-token", "token"),
        ("%tool serve --host 999.1.1.1", "Cannot listen"),
        ("%tool serve sotp", "sotp"),
        ("%tool serve --prot 3", "--prot"),
    ],
)
def test_wrong_words_to_serve(serving_kernel: Kernel, line: str, said: str) -> None:
    outcome = serving_kernel.execute(line, allow_errors=True)
    assert outcome.error is not None
    assert said in outcome.error.text
    assert outcome.error.text.count("\n") < 5


@pytest.mark.slow
def test_unload_stops_serving(kernel: Kernel) -> None:
    kernel.execute("%load_ext onetool_ipy")
    url, _, file = _served_by(kernel)
    kernel.execute("%unload_ext onetool_ipy")
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)
    assert not Path(file).exists()


async def _until(condition: Any, timeout_s: float = HANG_S) -> None:
    deadline = asyncio.get_running_loop().time() + timeout_s
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "it never came"
        await asyncio.sleep(0.01)


TYPED_PACK = '''
from typing import TypedDict
from onetool_ipy import tool

class Item(TypedDict):
    name: str
    count: int

@tool(read_only=True)
def total(items: list[Item]) -> int:
    """Add up."""
    return sum(item["count"] for item in items)
'''


async def test_a_listing_has_the_schemas_of_the_code(shop: Toolbox, connect: Connect) -> None:
    """A class of the pack file's own as an argument's type, which the text alone does not tell."""
    folder = shop.config.paths.onetool_dir
    assert folder is not None
    (folder / "tools" / "till.py").write_text(TYPED_PACK)
    async with connect(allow=["till.*"]) as client:
        (listed,) = (await client.list_tools()).tools

    assert set(listed.input_schema["$defs"]["Item"]["properties"]) == {"name", "count"}


@pytest.mark.parametrize("is_listed_before", [False, True], ids=["first call", "after a list"])
async def test_call_that_imports_a_pack_is_not_told_as_a_change(
    shop: Toolbox, connect: Connect, *, is_listed_before: bool
) -> None:
    """Every list has the schemas of the code, so its import changes no list. A change of the file
    does."""
    heard: list[str] = []
    changed = asyncio.Event()

    async def hear(message: Any) -> None:
        if "ListChanged" in type(message).__name__:
            heard.append(type(message).__name__)
            changed.set()

    folder = shop.config.paths.onetool_dir
    assert folder is not None
    (folder / "tools" / "till.py").write_text(TYPED_PACK)
    shop.registry.refresh()
    async with connect(mode="legacy", allow=["till.*"], message_handler=hear) as client:
        if is_listed_before:
            await client.list_tools()
        result = await client.call_tool("till_total", {"items": [{"name": "pear", "count": 2}]})
        # A notification would come before this answer.
        await client.list_prompts()
        before = list(heard)
        (folder / "tools" / "till.py").write_text(TYPED_PACK.replace("Add up.", "Add all up."))
        await client.list_tools()
        await asyncio.wait_for(changed.wait(), HANG_S)

    assert result.structured_content == {"result": 2}
    assert (before, heard) == ([], ["ToolListChangedNotification"])


@pytest.mark.slow
async def test_lists_hold_while_other_threads_change_the_tools(
    shop: Toolbox, connect: Connect
) -> None:
    """A tool and its wire name are of the same moment: no list fails, and the last one has all."""

    def change(first: str) -> None:
        for count in range(1, 401):
            shop.registry.register(
                ToolSpec(name=f"{first}.t{count % 40}", description="x", parameters=ANY, run=len)
            )
            shop.registry.session.specs.pop(f"{first}.t{(count + 20) % 40}", None)
            shop.registry.rebuild()

    threads = [threading.Thread(target=change, args=(first,)) for first in ("left", "right")]
    async with connect(allow=["left.*", "right.*"]) as client:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            await client.list_tools()
        tools = {tool.title for tool in (await client.list_tools()).tools}

    assert tools == {spec.name for spec in shop.registry.known() if spec.pack in ("left", "right")}
