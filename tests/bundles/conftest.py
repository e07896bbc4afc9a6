"""Fixtures of this room."""

from __future__ import annotations

import pytest

from tests.bundles.aids import ProjectBundles
from tests.harness.project import Project

__all__ = ["project_bundles"]


@pytest.fixture
def project_bundles(project: Project) -> ProjectBundles:
    """The bundles of an empty project."""
    return ProjectBundles(project)
