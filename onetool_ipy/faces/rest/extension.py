"""`_load_jupyter_server_extension`: put the routes into a running Jupyter Server, and close everything with it."""

from __future__ import annotations

import atexit
from pathlib import Path
from typing import Any

__all__ = ["load"]


def load(server: Any) -> None:
    """Add our routes to a server."""
    from onetool_ipy.faces.rest.handlers import rules
    from onetool_ipy.faces.rest.projects import Projects

    projects = Projects(Path(server.root_dir))
    atexit.register(projects.close)
    server.web_app.add_handlers(".*$", rules(server.web_app.settings["base_url"], projects))
    server.log.info("onetool_ipy: the REST API is at onetool/tools, its description at onetool/openapi.json")
