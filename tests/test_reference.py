"""docs/reference.md is what the code says: nothing new is left out of it."""

from __future__ import annotations

import onetool_ipy
from docs.make_reference import FILE, reference
from onetool_ipy import sdk
from onetool_ipy.config.settings import Settings
from onetool_ipy.faces.rest.routes import ROUTES


def test_the_reference_is_what_the_code_says() -> None:
    """Make it anew with `make docs`."""
    assert FILE.read_text(encoding="utf-8") == reference()


def test_it_names_everything() -> None:
    """The generator itself leaves nothing out: keys, functions, routes, commands, errors."""
    text = reference()
    for key in Settings._fields:
        assert f"| `{key}` |" in text
    for name in sdk.__all__:
        assert f"`{name}" in text
    for name in onetool_ipy.__all__:
        assert f"| `{name}" in text
    for route in ROUTES:
        assert f"`{route.verb} {route.path}`" in text
    for command in (
        "tools list",
        "tools info",
        "tools invoke",
        "mcp",
        "init",
        "stubs",
        "health",
        "export",
    ):
        assert f"`onetool-ipy {command}" in text
    for word in (
        "list",
        "info",
        "search",
        "history",
        "stats",
        "results",
        "history why",
        "browse",
        "check",
        "reload",
    ):
        assert f"%tool {word}" in text
    for name in ("ToolNotFound", "InvalidArgs", "InvalidConfig", "HandleExpired", "StoreError"):
        assert f"| `{name}` |" in text
