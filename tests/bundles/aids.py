"""A project's bundles under a clock that a test can turn, and records to put into them."""

from __future__ import annotations

import datetime
from typing import Any

from onetool_ipy import Toolbox
from onetool_ipy.bundles.model import Bundle, Tool
from tests.harness.project import NOON, Project

ECHO_SCHEMA = {
    "type": "object",
    "properties": {"message": {"type": "string"}},
    "required": ["message"],
}


class Clock:
    """Stands still until it is turned."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime.datetime:
        return self.now

    def turn(self, **by: float) -> datetime.datetime:
        self.now += datetime.timedelta(**by)
        return self.now


class ProjectBundles:
    """A toolbox of a project, and short ways to fill its bundles."""

    def __init__(self, project: Project, **options: Any) -> None:
        self.project = project
        self.clock = Clock()
        self.root = project.home / "bundles"
        self.box: Toolbox = project.open(**{"clock": self.clock, **options})
        self.bundles = self.box.bundles

    def another(self, **options: Any) -> Toolbox:
        """Another toolbox on the same project, as another process has."""
        return self.project.open(**{"clock": self.clock, **options})

    def bundle(self, slug: str = "my-api", **more: Any) -> Bundle:
        return self.bundles.put_bundle(
            self.bundles.new_id(), slug=slug, **{"display_name": "My API", **more}
        )

    def tool(self, bundle: Bundle, slug: str = "say", version: str = "1", **more: Any) -> Tool:
        return self.bundles.put_tool(bundle.bundle_id, slug, version, go(**more))


def go(func: str = "tools.echo", **more: Any) -> dict[str, Any]:
    """A tool that calls a local function."""
    return {
        "type": "go",
        "goTool": {"func": func},
        "argSchema": ECHO_SCHEMA,
        "description": "Say it.",
        **more,
    }


def http(url: str = "https://api.example.com/things", **more: Any) -> dict[str, Any]:
    """A tool that sends a request."""
    return {"type": "http", "http": {"request": {"method": "GET", "urlTemplate": url}}, **more}
