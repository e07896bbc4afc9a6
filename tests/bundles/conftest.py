"""Fixtures of this room."""

from __future__ import annotations

import pytest

from tests.bundles.aids import Shelf
from tests.core.support import Project, project

__all__ = ["project", "shelf"]


@pytest.fixture
def shelf(project: Project) -> Shelf:
    """The bundles of an empty project."""
    return Shelf(project)
