"""A project of a test's own: pack files, settings, secrets, and the toolbox that opens it."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import Toolbox, open_toolbox
from tests.net.loopback import Loopback


class Project:
    """A folder with `.onetool/`; `open()` gives its toolbox, closed at the end of the test."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self.root = root
        self.folder = root / ".onetool"
        self._stack = stack
        (self.folder / "tools").mkdir(parents=True)

    def pack(self, name: str, text: str) -> Path:
        file = self.folder / "tools" / f"{name}.py"
        file.write_text(f'pack = "{name}"\n' + textwrap.dedent(text), encoding="utf-8")
        return file

    def settings(self, **sections: Any) -> None:
        (self.folder / "onetool.yaml").write_text(json.dumps({"version": 1, **sections}), encoding="utf-8")

    def secrets(self, **values: str) -> None:
        file = self.folder / "secrets.yaml"
        file.write_text(json.dumps(values), encoding="utf-8")
        file.chmod(0o600)

    def open(self, *, transport: Any = None) -> Toolbox:
        if not (self.folder / "onetool.yaml").exists():
            self.settings()
        env = {**os.environ, "ONETOOL_STATE": str(self.root / "state")}
        return self._stack.enter_context(open_toolbox(self.root, env=env, transport=transport))


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with ExitStack() as stack:
        yield Project(tmp_path, stack)


@pytest.fixture
def box(project: Project) -> Toolbox:
    """The toolbox of an empty project."""
    return project.open()


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as running:
        yield running
