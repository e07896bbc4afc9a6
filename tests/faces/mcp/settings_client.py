# ruff: noqa: T201 - a program, not a part of the package
"""Other clients' own models read the file that we wrote for them, and an MCP client started from it
calls a tool.

Runs in .venv-clients:

    python settings_client.py jupyter-ai FILE TOOL
    python settings_client.py notebook-intelligence FILE TOOL

prints what the tool gave as JSON. Of each client one module is loaded, by its file: the rest of it
is not installed.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from langchain_client import listed_and_called
from langchain_mcp_adapters.client import MultiServerMCPClient  # type: ignore[import-not-found]  # in .venv-clients


def module_of(package: str, name: str) -> ModuleType:
    """Load one module of a package without the package."""
    home = next(Path(entry) / package for entry in sys.path if (Path(entry) / package).is_dir())
    spec = importlib.util.spec_from_file_location(name, home / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(client: str, document: Any) -> dict[str, Any]:
    """Return the first server of a document, as the client's own model has it."""
    if client == "jupyter-ai":
        models = module_of("jupyter_ai_persona_manager", "mcp_server_models")
        (server,) = models.McpSettings.model_validate(document).mcp_servers
        env = {variable.name: variable.value for variable in server.env}
        return {"command": server.command, "args": server.args, "env": env}
    module_of("notebook_intelligence", "mcp_config_validation").validate_mcp_config(document)
    (entry,) = document["mcpServers"].values()
    return {key: entry[key] for key in ("command", "args", "env") if key in entry}


async def main(server: dict[str, Any], tool: str) -> Any:
    async with MultiServerMCPClient({"ours": server}).session("ours") as session:
        return await listed_and_called(session, [{"name": tool, "args": {}}])


if __name__ == "__main__":
    client, file, tool = sys.argv[1:]
    server = {
        "transport": "stdio",
        **read(client, json.loads(Path(file).read_text(encoding="utf-8"))),
    }
    print(json.dumps(asyncio.run(main(server, tool))))
