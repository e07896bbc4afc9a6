"""`onetool-ipy mcp --attach` finds the running kernel of a project that serves nothing yet."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from onetool_ipy.base.errors import UsageProblem
from onetool_ipy.faces.mcp.attach import note_of_kernel
from tests.faces.rest.serving import Server
from tests.harness import surroundings
from tests.harness.kernel import CONTEXT
from tests.harness.patience import HANG_S, until
from tests.harness.ports import is_open

CELL = """
from onetool_ipy import tool
basket = ["tea"]
@tool(read_only=True)
def in_basket() -> list:
    "What is in it."
    return basket
@tool
def put(item: str) -> None:
    "Keep it."
    basket.append(item)
"""
COMMAND = [sys.executable, "-m", "onetool_ipy.faces.cli", "mcp", "--attach"]


class Site:
    """A Jupyter Server with our extension, and a project in it."""

    def __init__(self, folder: Path) -> None:
        self.env = {
            **os.environ,
            **surroundings.private(folder / "home"),
            "PYTHONPATH": str(surroundings.ROOT),
        }
        self.runtime = Path(self.env["JUPYTER_RUNTIME_DIR"])
        self.state = Path(self.env["ONETOOL_STATE"])
        self.server = Server(folder)
        self.project = self.server.root / "shop"
        (self.project / ".onetool").mkdir(parents=True)
        (self.project / ".onetool" / "onetool.yaml").write_text("version: 1\n", encoding="utf-8")

    def start_kernel(self) -> BlockingKernelClient:
        """Start a kernel in the project, as a new notebook there does."""
        started = self.server.client.post("api/kernels", json={"name": "python3", "path": "shop"})
        assert started.status_code == 201, started.text
        kernel = BlockingKernelClient(
            context=CONTEXT,
            connection_file=str(self.runtime / f"kernel-{started.json()['id']}.json"),
        )
        kernel.load_connection_file()
        kernel.start_channels(hb=False)
        kernel.execute("", reply=True, timeout=HANG_S)
        return kernel

    def refused(self) -> str:
        done = subprocess.run(
            [*COMMAND, str(self.project)],
            env=self.env,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=HANG_S,
            check=False,
        )
        assert (done.returncode != 0, done.stdout) == (True, "")
        return done.stderr


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path)
    yield found
    found.server.close()


def attached(folder: Path, env: Mapping[str, str], said: Any) -> Client:
    given = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], str(folder)], env=dict(env)
    )
    return Client(stdio_client(given, errlog=said), read_timeout_seconds=HANG_S)


@pytest.mark.slow
async def test_a_notebook_of_jupyter_server_that_serves_nothing(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its live tools are handed on, those that only read; what was opened for it ends with the
    client."""
    kernel = site.start_kernel()
    words = site.refused()
    assert f"No running notebook has the tools of '{site.project}'." in words
    assert f"at {site.server.address}, run: %load_ext onetool_ipy" in words

    kernel.execute("%load_ext onetool_ipy", reply=True, timeout=HANG_S)
    kernel.execute(CELL, reply=True, timeout=HANG_S)
    said = tmp_path / "said"
    with said.open("w", encoding="utf-8") as file:
        async with attached(site.project, site.env, file) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert "nb_in_basket" in names
            assert "nb_put" not in names, "as with %tool serve"
            kernel.execute("basket.append('pear')", reply=True, timeout=HANG_S)
            result = await client.call_tool("nb_in_basket", {})
            assert result.structured_content == {"result": ["tea", "pear"]}
            (port,) = map(
                int,
                re.findall(r"Attached to http://127\.0\.0\.1:(\d+)/mcp", said.read_text("utf-8")),
            )
            assert is_open(port)
    assert until(lambda: not is_open(port)), "nothing is served any more"
    assert not list(site.state.rglob("serving/*.json")), "no token on the disk"

    (file_of_it,) = site.runtime.glob("kernel-*.json")
    shutil.copy(file_of_it, site.runtime / "kernel-other.json")
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(site.runtime))
    with pytest.raises(UsageProblem, match=r"2 notebooks of .* are running") as caught:
        note_of_kernel(site.project)
    assert caught.value.hint == "In the one that you mean, run: %tool serve"
    kernel.stop_channels()


ODD = {
    "not JSON": "{",
    "another machine": '{"transport": "tcp", "ip": "192.0.2.1", "shell_port": 1, "key": "x"}',
    "nobody listens": '{"transport": "tcp", "ip": "127.0.0.1", "shell_port": 1, "key": "x"}',
    "no key": '{"transport": "ipc", "ip": "/", "shell_port": 1, "key": ""}',
    "another shape": "[]",
}


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_a_file_that_is_no_kernel_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    for kind in ("kernel", "jpserver"):
        (tmp_path / f"{kind}-1.json").write_text(text)

    with pytest.raises(UsageProblem, match="No running notebook has the tools of") as caught:
        note_of_kernel(tmp_path)

    assert caught.value.hint.startswith("In a notebook of it, run: %load_ext onetool_ipy")
