"""A project of a test's own: a folder with `.onetool/` in it, and the toolboxes on it.

`project.open(config=..., secrets=..., packs=..., tools=..., replies=...)` writes what it is given
and opens a toolbox. It is closed with the project, after the test. The toolbox sees no variable of
the environment but those that the project is made with.
"""

from __future__ import annotations

import datetime
import json
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from onetool_ipy import Toolbox, open_toolbox
from onetool_ipy.config.paths import home_at

__all__ = ["NOON", "Project", "project"]

NOON = datetime.datetime(2026, 1, 2, 12, 0, tzinfo=datetime.UTC)
"""The time of a project's toolboxes, which stands still."""

Replies = Callable[[httpx.Request], httpx.Response]


class Project:
    """A folder with `.onetool/`, which is made. Use it in `with`, or as the fixture `project`."""

    def __init__(self, root: Path, *, env: Mapping[str, str] | None = None) -> None:
        self.root = root
        self.home = root / ".onetool"
        self.env = {
            **(env or {}),
            **home_at(root / "home"),
            "ONETOOL_STATE": str(root / "state"),
        }
        self.boxes: list[Toolbox] = []
        self.home.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Project:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def write(self, name: str, text: str, *, mode: int | None = None) -> Path:
        """Write a file; `name` is relative to `.onetool/`."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        if mode is not None:
            path.chmod(mode)
        return path

    def pack(self, name: str, text: str) -> Path:
        """Write a pack file, `pack = NAME` before its text."""
        return self.write(f"tools/{name}.py", f'pack = "{name}"\n' + textwrap.dedent(text))

    def secrets(self, **values: str) -> Path:
        """Write `secrets.yaml`, readable by its owner alone."""
        return self.write("secrets.yaml", json.dumps(values), mode=0o600)

    def settings(self, **sections: Any) -> Path:
        """Write `onetool.yaml` with these sections."""
        return self.write("onetool.yaml", json.dumps({"version": 1, **sections}))

    def open(
        self,
        config: str | Mapping[str, Any] | None = None,
        *,
        secrets: Mapping[str, str] | None = None,
        packs: Mapping[str, str] | None = None,
        tools: Sequence[Callable[..., Any]] = (),
        replies: Replies | None = None,
        **options: Any,
    ) -> Toolbox:
        """Open a toolbox on this project, with functions adopted as tools.

        Without `config`, `onetool.yaml` stays as it is; a project without one gets an empty one.
        `replies` answers every request that goes out. `options` are those of `open_toolbox`.
        """
        if isinstance(config, str):
            self.write("onetool.yaml", config)
        elif config is not None or not (self.home / "onetool.yaml").exists():
            self.settings(**(config or {}))
        if secrets is not None:
            self.secrets(**secrets)
        for name, text in (packs or {}).items():
            self.pack(name, text)
        if replies is not None:
            options["transport"] = httpx.MockTransport(replies)
        box = open_toolbox(
            self.home / "onetool.yaml", **{"env": self.env, "clock": lambda: NOON, **options}
        )
        self.boxes.append(box)
        for function in tools:
            box.adopt(function)
        return box

    def close(self) -> None:
        """Close the toolboxes."""
        for box in self.boxes:
            box.close()


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """An empty project; its toolboxes are closed after the test."""
    with Project(tmp_path / "project") as made:
        yield made
