"""`onetool-ipy mcp --attach`: an agent in a terminal uses what is in the running notebook."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.faces.mcp.attach import choose_note
from tests.harness.kernel import Kernel, private_kernel
from tests.harness.patience import HANG_S

CELL = """
from onetool_ipy import tool
from onetool_ipy.sdk import ask_user, progress
basket = []
@tool
def put(item: str) -> int:
    "Keep it."
    basket.append(item)
    progress(1, 2, "kept")
    return len(basket)
@tool
def choose() -> str:
    "Ask."
    form = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
    return ask_user(form, "Which?")["item"]
@tool(resource="shop://basket")
def in_basket() -> list:
    "What is in it."
    return basket
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attached")
    (folder / ".onetool").mkdir()
    (folder / ".onetool" / "onetool.yaml").write_text("version: 1\n")
    (folder / "inside").mkdir()
    return folder


@pytest.fixture(scope="module")
def kernel(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    state = {"ONETOOL_STATE": os.environ["ONETOOL_STATE"]} if "ONETOOL_STATE" in os.environ else {}
    with private_kernel(tmp_path_factory.mktemp("kernel"), env=state) as kernel:
        kernel.execute(f"import os; os.chdir({str(project)!r})")
        kernel.execute("%load_ext onetool_ipy")
        kernel.execute(CELL)
        yield kernel


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "onetool_ipy.faces.cli", "mcp", "--attach", *args]


def attached(folder: Path, mode: str, *args: str, **callbacks: Any) -> Client:
    program, *rest = command(str(folder), *args)
    given = StdioServerParameters(command=program, args=rest, env=dict(os.environ))
    return Client(stdio_client(given), mode=mode, read_timeout_seconds=HANG_S, **callbacks)


def refused(*args: str, cwd: Path | None = None) -> str:
    done = subprocess.run(
        command(*args),
        cwd=cwd,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode != 0
    assert done.stdout == ""
    return done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_terminal_uses_the_live_tools_of_the_notebook(
    kernel: Kernel, project: Path, mode: str
) -> None:
    """Calls, progress, questions and resources, of either era; found from a folder inside the
    project."""
    kernel.execute("basket.clear()")
    kernel.execute("%tool serve --allow *")
    told: list[Any] = []

    async def hear(*progress: Any) -> None:
        told.append(progress)

    async def elicit(_context: Any, params: Any) -> types.ElicitResult:
        assert params.message == "Which?"
        return types.ElicitResult(action="accept", content={"item": "pear"})

    try:
        async with attached(project / "inside", mode, elicitation_callback=elicit) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            assert {"nb_put", "nb_choose", "time_now"} <= tools
            result = await client.call_tool("nb_put", {"item": "apple"}, progress_callback=hear)
            assert result.structured_content == {"result": 1}
            assert told == [(1, 2, "kept")]
            assert (await client.call_tool("nb_choose", {})).structured_content == {
                "result": "pear"
            }
            assert json.loads((await client.read_resource("shop://basket")).contents[0].text) == [
                "apple"
            ]
        assert kernel.evaluate("basket") == "['apple']"
    finally:
        kernel.execute("%tool serve stop")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("nowhere",), "'nowhere' is not a folder"),
        ((".", "--http"), "--http"),
        ((".", "--tool-allow", "*"), "--tool-allow"),
    ],
)
def test_wrong_words(tmp_path: Path, args: tuple[str, ...], said: str) -> None:
    assert said in refused(*args, cwd=tmp_path)


def note(state: Path, port: int, url: str = "") -> Path:
    file = state / "serving" / f"{port}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        json.dumps({"mcpServers": {"onetool": {"url": url or f"http://127.0.0.1:{port}/mcp"}}})
    )
    return file


def test_several_that_serve_are_named_and_dead_ones_forgotten(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
    ):
        ports = sorted((one.getsockname()[1], two.getsockname()[1]))
        with socket.create_server(("127.0.0.1", 0)) as gone:
            dead = note(tmp_path, gone.getsockname()[1])
        for port in ports:
            note(tmp_path, port)
        with pytest.raises(UsageProblem, match=f"Several serve.*{ports[0]}") as caught:
            choose_note(tmp_path, tmp_path, 0)
        assert str(ports[1]) in caught.value.message
        assert "--port" in caught.value.hint
        assert not dead.exists()
        chosen = choose_note(tmp_path, tmp_path, ports[1])
        assert chosen is not None
        assert chosen.url == f"http://127.0.0.1:{ports[1]}/mcp"
        with pytest.raises(UsageProblem, match="on port 7"):
            choose_note(tmp_path, tmp_path, 7)


NOTES = {
    "another machine": '{"mcpServers": {"onetool": {"url": "http://192.0.2.1:80/mcp"}}}',
    "not an address": '{"mcpServers": {"onetool": {"url": "http://[::1"}}}',
    "not JSON": "{",
    "another shape": '{"mcpServers": []}',
}


@pytest.mark.parametrize("text", NOTES.values(), ids=NOTES)
def test_a_note_that_is_not_one_does_not_count(tmp_path: Path, text: str) -> None:
    note(tmp_path, 1).write_text(text)
    assert choose_note(tmp_path, tmp_path, 0) is None
    with pytest.raises(UsageProblem, match=r"Nothing serves .* on port 7; ports: none"):
        choose_note(tmp_path, tmp_path, 7)
