"""Fixtures of this room."""

from __future__ import annotations

from tests.core.support import bench

__all__ = ["bench"]
