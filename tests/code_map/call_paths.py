"""Count the modules that run code during a call, by running five calls in a real IPython shell and
one by REST.

Each line runs until it is warm, then once more while a profile function notes the file of every
Python function that is entered, in every thread. Code that only an import runs is not counted. The
HTTP tool asks a server on the loopback address, the MCP tool a server of the SDK on stdio, and
`%ask` a scripted model.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from tests.code_map.recorder import Recorder
from tests.harness import surroundings
from tests.harness.stub import Stub

LINES = {
    "%tool fs.read_file": "%tool fs.read_file path=notes.txt",
    "ot.stats()": "ot.stats()",
    "HTTP tool": "%tool demo.get id=3",
    "MCP tool": "%tool calc.add a=1 b=2",
    "%ask with one call": "%ask --model model What time is it?",
}
"""The measured lines, by the names under which their figures are printed."""

_WARM = 3
_SERVER = """\
from mcp.server.mcpserver import MCPServer

server = MCPServer("calc")


@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b


server.run()
"""


def measure(package: Path) -> dict[str, list[str]]:
    """The modules that each line of LINES passes through. Call it once, before a thread of the
    package is started."""
    api = Stub(lambda _: (200, {"name": "Ada"}))
    with tempfile.TemporaryDirectory(prefix="code-map-") as folder, api:
        recorder = Recorder(package)
        # Threads cannot be given one later before Python 3.12, so it is always there.
        threading.setprofile(recorder)
        try:
            return _run(Path(folder).resolve(), api.port, recorder)
        finally:
            threading.setprofile(None)


def _run(folder: Path, port: int, recorder: Recorder) -> dict[str, list[str]]:
    surroundings.enter(folder / "home")
    _write_project(folder / "project", port)
    os.chdir(folder / "project")
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    from onetool_ipy.llm import ScriptedModel

    shell: Any = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    shell.user_ns["model"] = ScriptedModel([("time.now", {}), "It is noon."] * (_WARM + 1))
    _cell(shell, "%load_ext onetool_ipy")
    _cell(
        shell,
        f"%tool new http demo.get --url http://127.0.0.1:{port}/users/${{id}} --arg id:integer",
    )
    found = {}
    try:
        for name, line in LINES.items():
            for _ in range(_WARM):
                _cell(shell, line)
            recorder.files = set()
            recorder.is_on = True
            sys.setprofile(recorder)
            try:
                _cell(shell, line)
            finally:
                sys.setprofile(None)
                recorder.is_on = False
            found[name] = sorted(recorder.files)
        found["REST invoke"] = _rest_call(folder / "project")
    finally:
        _cell(shell, "%unload_ext onetool_ipy")
        InteractiveShell.clear_instance()
        os.chdir(surroundings.ROOT)
        surroundings.leave()
    return found


def _rest_call(project: Path) -> list[str]:
    """Invoke the HTTP tool by REST, in a server of its own."""
    (path,) = (project / ".onetool" / "bundles" / "demo").glob("get@*.json")
    record = json.loads(path.read_text(encoding="utf-8"))
    tool = f"bundles/{record['bundleID']}/tools/{record['slug']}/version/{record['version']}"
    command = [sys.executable, "-m", "tests.code_map.rest_call", str(project), tool]
    done = subprocess.run(
        command, cwd=surroundings.ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode or "Traceback" in done.stderr:
        raise RuntimeError(f"The REST call failed:\n{done.stderr}")
    files: list[str] = json.loads(done.stdout)
    return files


def _cell(shell: Any, code: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        result = shell.run_cell(code)
    if not result.success:
        raise RuntimeError(f"'{code}' failed:\n{shown.getvalue()}")


def _write_project(project: Path, port: int) -> None:
    (project / ".onetool").mkdir(parents=True)
    (project / "notes.txt").write_text("some notes\n", encoding="utf-8")
    (project / "server.py").write_text(_SERVER, encoding="utf-8")
    (project / ".onetool" / "onetool.yaml").write_text(
        f'http: {{allowed_hosts: ["127.0.0.1:{port}"]}}\n'
        f'servers: {{calc: {{command: "{sys.executable}", args: [server.py]}}}}\n',
        encoding="utf-8",
    )
