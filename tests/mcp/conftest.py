"""Toolboxes with servers: those that others wrote, once for all tests of this folder, and fresh
ones on request."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from onetool_ipy import Toolbox, open_toolbox
from tests.harness import servers as harness

Open = Callable[..., Toolbox]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """`opened({name: definition}, more="timeouts: ...", env={...})`: a toolbox in a project of its
    own."""
    boxes: list[Toolbox] = []

    def start(
        servers: Mapping[str, Any], more: str = "", env: Mapping[str, str] | None = None
    ) -> Toolbox:
        harness.write_project(tmp_path, servers, more)
        boxes.append(open_toolbox(tmp_path, env=env))
        return boxes[-1]

    yield start
    for box in boxes:
        box.close()


@pytest.fixture(scope="session")
def real_box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolbox]:
    """All servers that others wrote, started by the first who lists."""
    folder = tmp_path_factory.mktemp("real")
    # This folder is not in the project: what the server's command line names is what the server
    # opens.
    files = tmp_path_factory.mktemp("files")
    (files / "hello.txt").write_text("hello, world\n", encoding="utf-8")
    memory = {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
    special = {
        "everything": harness.real("everything", roots=["."]),
        "clock": harness.real("time", "--local-timezone", "UTC"),
        "fetch": harness.real("fetch", "--allow-private-ips"),
        "filesystem": harness.real("filesystem", str(files)),
        "memory": harness.real("memory", env=memory),
        "sqlite": harness.real("sqlite"),
    }
    definitions = {name: harness.real(name) for name in harness.REAL if name != "time"} | special
    harness.write_project(folder, definitions)
    with open_toolbox(folder, env={**os.environ, "ONETOOL_STATE": str(folder / "state")}) as box:
        yield box
