"""`onetool-ipy mcp` on stdio, driven by lines of JSON: how it starts, and how it ends when its
client goes away."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.harness.patience import HANG_S, until
from tests.harness.servers import wait_until_gone

PACK = '''
"""A tool that waits."""
pack = "shop"
import time
from pathlib import Path


def wait(begun: str, seconds: float) -> str:
    """Wait.

    Args:
        begun: A file to write first.
        seconds: How long.
    """
    Path(begun).touch()
    time.sleep(seconds)
    return "x" * 100
'''
ABOUT = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "1"},
}
OFFER = r"Offering \d+ tools\.\n"
COMMAND = ("-m", "onetool_ipy.faces.cli", "mcp", "--tool-allow", "*")


class RawClient:
    """A server on pipes, and one line of JSON after the other."""

    def __init__(self, project: Path, *command: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *command],
            cwd=project,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def send(self, method: str, params: Any = None, number: int | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        self.stdin.write(
            json.dumps(message if number is None else {**message, "id": number}).encode() + b"\n"
        )
        self.stdin.flush()

    def begin(self) -> None:
        self.send("initialize", ABOUT, 1)
        assert json.loads(self.stdout.readline())["id"] == 1
        self.send("notifications/initialized")

    def end(self) -> tuple[int, str]:
        """Wait for its end; give the exit code, and what it said."""
        code = self.process.wait(HANG_S)
        assert self.process.stderr is not None
        return code, self.process.stderr.read().decode()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            # A pipe that nobody reads may hold what was never sent.
            with suppress(BrokenPipeError):
                stream.close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    tools = tmp_path / ".onetool" / "tools"
    tools.mkdir(parents=True)
    (tools / "shop.py").write_text(PACK, encoding="utf-8")
    (tmp_path / ".onetool" / "onetool.yaml").write_text(
        'tools_dir: ["tools/*.py"]\n', encoding="utf-8"
    )
    return tmp_path


@pytest.fixture
def client(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RawClient]:
    monkeypatch.setenv("ONETOOL_TRUST", str(project))
    raw = RawClient(project, *COMMAND)
    yield raw
    raw.close()


def _wait_in_a_call(client: RawClient, project: Path) -> None:
    begun = project / "begun"
    client.send(
        "tools/call", {"name": "shop_wait", "arguments": {"begun": str(begun), "seconds": 0.3}}, 2
    )
    until(begun.exists)


def _close_stdin(client: RawClient, _project: Path) -> None:
    client.stdin.close()


def _close_stdout(client: RawClient, _project: Path) -> None:
    """Standard input stays open: a program in between may hold it."""
    client.stdout.close()
    client.send("tools/list", number=2)


def _close_stdin_in_a_call(client: RawClient, project: Path) -> None:
    _wait_in_a_call(client, project)
    client.stdin.close()


def _close_stdout_in_a_call(client: RawClient, project: Path) -> None:
    _wait_in_a_call(client, project)
    client.stdout.close()


def _close_all_in_a_call(client: RawClient, project: Path) -> None:
    _wait_in_a_call(client, project)
    client.stdout.close()
    client.stdin.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "leave",
    [
        _close_stdin,
        _close_stdout,
        _close_stdin_in_a_call,
        _close_stdout_in_a_call,
        _close_all_in_a_call,
    ],
    ids=lambda leave: leave.__name__.strip("_"),
)
def test_server_ends_without_a_word_when_its_client_goes_away(
    client: RawClient, project: Path, leave: Callable[[RawClient, Path], None]
) -> None:
    client.begin()

    leave(client, project)

    code, said = client.end()
    assert code == 0
    assert re.fullmatch(OFFER, said)


@pytest.mark.slow
def test_stop_in_a_call_ends_the_server(client: RawClient, project: Path) -> None:
    client.begin()
    _wait_in_a_call(client, project)

    client.process.send_signal(signal.SIGINT)

    code, said = client.end()
    assert code == 130
    assert re.fullmatch(OFFER + r"Stopped\.\n", said)


KILLED = """
import subprocess, sys, time
server = subprocess.Popen([sys.executable, *sys.argv[2:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=open(sys.argv[1], "w"))
server.stdin.write(sys.stdin.buffer.readline())
server.stdin.flush()
server.stdout.readline()
print(server.pid, flush=True)
time.sleep(600)
"""


def test_server_of_a_client_that_is_killed_ends(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONETOOL_TRUST", str(project))
    said = project / "stderr.txt"
    killed = RawClient(project, "-c", KILLED, str(said), *COMMAND)
    try:
        killed.send("initialize", ABOUT, 1)
        server = int(killed.stdout.readline())
    finally:
        killed.close()

    assert wait_until_gone({server}) == {}
    assert re.fullmatch(OFFER, said.read_text(encoding="utf-8"))


@pytest.mark.slow
def test_closed_standard_input_is_said(project: Path) -> None:
    done = subprocess.run(
        f'exec "{sys.executable}" {" ".join(COMMAND[:3])} <&-',
        shell=True,
        cwd=project,
        env={**os.environ, "ONETOOL_TRUST": str(project)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr.splitlines()[-2:] == [
        "Standard input is closed: no client is there.",
        "Serve on a port with --http.",
    ]


BUILT = """
import sys
from onetool_ipy.faces.cli import main
code = main(["mcp"])
from pydantic import BaseModel

def below(model):
    for sub in model.__subclasses__():
        yield sub
        yield from below(sub)

models = set(below(BaseModel))
print(sum(model.__pydantic_complete__ for model in models), len(models), file=sys.stderr)
print(*sorted(sys.modules), file=sys.stderr)
"""
LATE = {
    "IPython",
    "dask",
    "duckdb",
    "ipywidgets",
    "jupyter_server",
    "matplotlib",
    "numpy",
    "pandas",
    "pyarrow",
}


@pytest.mark.slow
def test_start_builds_few_models_and_imports_nothing_large(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK defines some 700 models; to build them all takes longer than everything else until
    `initialize`."""
    monkeypatch.setenv("ONETOOL_TRUST", str(project))
    raw = RawClient(project, "-c", BUILT)
    try:
        raw.begin()
        raw.stdin.close()
        code, said = raw.end()
    finally:
        raw.close()

    counts, modules = said.splitlines()[-2:]
    built, count = map(int, counts.split())
    assert code == 0
    assert count > 400
    assert built < count / 3
    assert {name.partition(".")[0] for name in modules.split()}.isdisjoint(LATE)
