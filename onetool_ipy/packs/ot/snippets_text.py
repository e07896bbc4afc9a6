"""Snippets as 001 prints them: definition, example invocation and what it expands to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onetool_ipy.packs.ot.desk import Desk

__all__ = ["known", "page"]


def known(desk: Desk) -> list[tuple[str, Mapping[str, Any]]]:
    """All snippets by name: those of the files and those of this session."""
    found = {name: definition.data for name, definition in desk.config.settings.snippets.items()}
    return sorted(found.items())


def page(name: str, data: Mapping[str, Any]) -> str:
    """One snippet, to the letter of 001."""
    raise NotImplementedError(name, data)
