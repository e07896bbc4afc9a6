"""Fixtures of the imports: a server of our own, and the tools of a document that names it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.bundles.importing.imported import ImportedTools
from tests.harness.project import Project
from tests.net.loopback import Loopback


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as running:
        yield running


@pytest.fixture
def imported(project: Project, server: Loopback) -> ImportedTools:
    return ImportedTools(project, server)
