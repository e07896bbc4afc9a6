"""MCP servers for tests: those that others wrote, as `make test` installs them, and one of our own
that misbehaves.

Each is given as an entry of `servers:`. What is missing is said in one sentence, never skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from onetool_ipy.base.processes import is_running, kill
from tests.harness.patience import HANG_S, until
from tests.harness.ports import reserved_port
from tests.harness.surroundings import OUTSIDE, ROOT

__all__ = [
    "HOSTILE",
    "REAL",
    "alive",
    "below",
    "everything_over_http",
    "hostile",
    "node",
    "others_python",
    "real",
    "tasks_over_http",
    "wait_until_gone",
    "write_project",
]

HOSTILE = ROOT / "tests" / "mcp" / "hostile.py"
REAL = ("time", "git", "fetch", "everything", "filesystem", "memory", "sequential-thinking")
"""The servers that work; `sqlite` is the one that does not start."""

_NODE = ROOT / "tests" / "node" / "node_modules" / "@modelcontextprotocol"


def real(name: str, *args: str, **keys: Any) -> dict[str, Any]:
    """The definition of a server that others wrote; `args` are handed to it, `keys` go into the
    definition."""
    if name in ("time", "git", "fetch", "sqlite"):
        python = Path(others_python("servers"))
        command = python.with_name(f"mcp-server-{name}{python.suffix}")
        assert command.exists(), f"There is no {command}: run `make test`, which installs it."
        return {"type": "stdio", "command": str(command), "args": list(args), **keys}
    return {"type": "stdio", "command": node(), "args": [str(_script(name)), *args], **keys}


def others_python(what: Literal["servers", "clients", "frameworks"]) -> str:
    """The Python that has the servers, the clients or the frameworks that others wrote."""
    inside = Path("Scripts", "python.exe") if os.name == "nt" else Path("bin", "python")
    found = ROOT / f".venv-{what}" / inside
    assert found.exists(), f"There is no {found}: run `make test`, which installs it."
    return str(found)


def hostile(*flags: str, **keys: Any) -> dict[str, Any]:
    """The definition of our own misbehaving server; see its docstring for the flags."""
    return {
        "type": "stdio",
        "command": sys.executable,
        "args": ["-S", str(HOSTILE), *flags],
        **keys,
    }


def write_project(folder: Path, servers: Mapping[str, Any], more: str = "") -> Path:
    """A project with these servers; JSON is YAML."""
    home = folder / ".onetool"
    home.mkdir(parents=True, exist_ok=True)
    text = f"version: 1\nservers: {json.dumps(servers)}\n{more}"
    (home / "onetool.yaml").write_text(text, encoding="utf-8")
    return folder


@contextmanager
def everything_over_http(port: int = 0) -> Iterator[str]:
    """server-everything on streamable HTTP, on loopback, on this port or a free one; gives its
    address."""
    command = [node(), str(_script("everything")), "streamableHttp"]
    with reserved_port() as free, _over_http(command, port or free) as url:
        yield url


@contextmanager
def tasks_over_http(port: int = 0) -> Iterator[str]:
    """A server whose tasks outlive the session that began them: see tests/node/tasks_server.mjs."""
    script = str(ROOT / "tests" / "node" / "tasks_server.mjs")
    with (
        reserved_port() as free,
        _over_http([node(), script, str(port or free)], port or free) as url,
    ):
        yield url


@contextmanager
def _over_http(command: list[str], port: int) -> Iterator[str]:
    process = subprocess.Popen(
        command,
        env={**os.environ, "PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_until_up(f"http://127.0.0.1:{port}/mcp", process)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


def below(pid: int) -> set[int]:
    """The processes below a process, by the parents that the system knows."""
    if not Path("/proc").is_dir():
        import psutil  # type: ignore[import-untyped]  # it ships no stubs

        return {child.pid for child in psutil.Process(pid).children(recursive=True)}
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                after = (
                    (entry / "stat")
                    .read_text(encoding="utf-8", errors="replace")
                    .rpartition(")")[2]
                    .split()
                )
            except OSError:
                continue
            parents[int(entry.name)] = int(after[1])
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        above = waiting.pop()
        children = {child for child, parent in parents.items() if parent == above} - found
        found |= children
        waiting += children
    return found


def alive(pids: set[int]) -> dict[int, str]:
    """Those that still run, with their command line; a zombie runs no more."""
    if not Path("/proc").is_dir():
        return {pid: "" for pid in pids if is_running(pid)}
    found = {}
    for pid in pids:
        try:
            state = (
                Path(f"/proc/{pid}/stat")
                .read_text(encoding="utf-8", errors="replace")
                .rpartition(")")[2]
                .split()[0]
            )
            command = (
                Path(f"/proc/{pid}/cmdline")
                .read_bytes()
                .replace(b"\0", b" ")
                .decode("utf-8", "replace")
            )
        except OSError:
            continue
        if state != "Z":
            found[pid] = command
    return found


def wait_until_gone(pids: set[int]) -> dict[int, str]:
    """Wait until none of them runs, they are no children of ours; those that never end."""
    until(lambda: not alive(pids))
    left = alive(pids)
    for pid in left:
        kill(pid)
    return left


def node() -> str:
    """The Node that `make test` uses."""
    found = shutil.which("node", path=OUTSIDE.get("PATH")) or shutil.which(
        "node", path=str(Path(sys.executable).parent)
    )
    assert found is not None, "There is no node: run `make test`, which installs it."
    return found


def _script(name: str) -> Path:
    script = _NODE / f"server-{name}" / "dist" / "index.js"
    assert script.exists(), f"There is no {script}: run `make test`, which installs it."
    return script


def _wait_until_up(url: str, process: subprocess.Popen[bytes]) -> None:
    def answers() -> bool:
        try:
            urllib.request.urlopen(url, timeout=HANG_S)
        except urllib.error.HTTPError:
            return True
        except OSError:
            pass
        return False

    until(lambda: answers() or process.poll() is not None)  # it does not say when it listens
    assert process.poll() is None, "the server did not start over HTTP"
