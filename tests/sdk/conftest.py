"""A project of a test's own, the toolbox that opens it, and a server to talk to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from onetool_ipy import Toolbox
from tests.harness.project import Project
from tests.net.loopback import Loopback


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """An empty project that sees the environment: packs look for programs on the PATH."""
    with Project(tmp_path, env=os.environ) as made:
        yield made


@pytest.fixture
def box(project: Project) -> Toolbox:
    """The toolbox of an empty project."""
    return project.open()


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as running:
        yield running
