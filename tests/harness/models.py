"""A double of the model APIs, run by Node: npm's aimock, which speaks OpenAI, Ollama, Gemini and
Anthropic.

`ModelDouble` owns the process. What it answers (`say`), how badly it behaves (`misbehave`) and what
it was sent (`journal`) are told and asked over its own HTTP interface, so that one process serves a
whole session of tests.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from tests.harness.surroundings import OUTSIDE, ROOT

__all__ = ["ModelDouble"]

START_TIMEOUT_S = 90.0

_PROGRAM = ROOT / "tests" / "node" / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"
_ADDRESS = re.compile(r"listening on (http://127\.0\.0\.1:\d+)")


class ModelDouble:
    """The running double. `url` is its root; it has no fixtures until it is told what to say."""

    def __init__(self, home: Path) -> None:
        if not _PROGRAM.exists():
            raise RuntimeError(
                "The double of the model APIs is not installed. Run: make test (it calls npm ci)."
            )
        home.mkdir(parents=True, exist_ok=True)
        seed = home / "fixtures.json"
        seed.write_text(
            json.dumps({"fixtures": [_fixture("a seed that nobody says", {"content": "yes"})]})
        )
        self.url = ""
        self._started = threading.Event()
        self._said: list[str] = []
        self._process = subprocess.Popen(
            ["node", str(_PROGRAM), "-p", "0", "-f", str(seed), "--strict"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**OUTSIDE, "HOME": str(home)},
        )
        threading.Thread(target=self._listen, daemon=True).start()
        if not self._started.wait(START_TIMEOUT_S) or not self.url:
            self.close()
            raise RuntimeError(
                "The double of the model APIs did not start:\n" + "".join(self._said)
            )

    def say(self, fixtures: Sequence[dict[str, Any]]) -> None:
        """Answer these, and forget what was there: answers, misbehaviour, journal."""
        self._ask("POST", "/reset")
        self._ask("DELETE", "/fixtures")
        self._ask("POST", "/fixtures", {"fixtures": list(fixtures)})

    def misbehave(self, **rates: float) -> None:
        """`dropRate=1`, `malformedRate=1`, `disconnectRate=1`, `rateLimitRate=1`,
        `latencyMs=50`."""
        self._ask("POST", "/chaos", rates)

    def behave(self) -> None:
        """Undo `misbehave`."""
        self._ask("DELETE", "/chaos")

    def journal(self) -> list[dict[str, Any]]:
        """The requests that came since the last `say`."""
        found = self._ask("GET", "/journal")
        return list(found)

    def close(self) -> None:
        """End the process; may be called twice."""
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                self._said.append(line)
                if match := _ADDRESS.search(line):
                    self.url = match[1]
                    self._started.set()
        except ValueError:  # it was closed
            pass
        self._started.set()

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.url}/__aimock{path}",
            data=data,
            method=method,
            headers={"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=START_TIMEOUT_S) as reply:
            return json.loads(reply.read() or b"null")


def _fixture(message: str, response: dict[str, Any]) -> dict[str, Any]:
    return {"match": {"userMessage": message}, "response": response}
