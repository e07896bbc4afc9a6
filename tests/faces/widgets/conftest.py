"""A screen without a browser: what its page asks, over a real toolbox."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import open_toolbox
from onetool_ipy.config.paths import home_at
from onetool_ipy.faces.widgets.requests import ScreenRequests
from tests.harness.patience import HANG_S

SECRET = "s3cr3t-in-widgets"


class Side:
    """The page's side of a desk."""

    def __init__(self, folder: Path) -> None:
        onetool = folder / ".onetool"
        onetool.mkdir(parents=True)
        (onetool / "onetool.yaml").write_text("version: 1\n")
        (onetool / "secrets.yaml").write_text(f"KEY: {SECRET}\n")
        (onetool / "secrets.yaml").chmod(0o600)
        env = {"ONETOOL_STATE": str(folder / "state"), **home_at(folder / "home")}
        self.box = open_toolbox(folder, env=env)
        self.names: dict[str, Any] = {}
        self.sent: queue.Queue[dict[str, Any]] = queue.Queue()
        self.unread: list[dict[str, Any]] = []
        self.everything: list[str] = []
        self.desk = ScreenRequests(
            self.box,
            send=self._sent,
            namespace=lambda: self.names,
        )

    def _sent(self, message: dict[str, Any]) -> None:
        self.everything.append(json.dumps(message))  # what cannot be sent fails here
        self.sent.put(message)

    def raw(self, kind: str, **payload: Any) -> dict[str, Any]:
        self.desk.receive({"id": 1, "kind": kind, "payload": payload})
        return self.wait(lambda message: message.get("id") == 1)

    def ask(self, kind: str, **payload: Any) -> Any:
        message = self.raw(kind, **payload)
        assert "error" not in message, message
        return message["value"]

    def wait(self, fits: Any) -> dict[str, Any]:
        """The next message that fits; the others are kept for who waits for them."""
        for message in self.unread:
            if fits(message):
                self.unread.remove(message)
                return message
        while True:
            message = self.sent.get(timeout=HANG_S)
            if fits(message):
                return message
            self.unread.append(message)

    def run(self, name: str, **args: Any) -> dict[str, Any]:
        job = self.ask("run", name=name, args=args)["job"]
        shown: dict[str, Any] = self.wait(lambda m: m.get("job") == job and "result" in m)["result"]
        return shown


@pytest.fixture
def side(tmp_path: Path) -> Iterator[Side]:
    side = Side(tmp_path / "project")
    yield side
    side.desk.close()
    side.box.close()
    assert not any(SECRET in text for text in side.everything)
