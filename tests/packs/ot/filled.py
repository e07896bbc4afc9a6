"""A project with everything that the catalog lists: a pack of each kind, aliases, snippets,
servers, instructions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from onetool_ipy import Toolbox
from onetool_ipy.core.tool import ServerFacts, ToolSpec
from tests.harness.project import Project

__all__ = ["CONFIG", "RESEARCH", "filled", "proxy_tools"]

_SCHEMAS = Path(__file__).resolve().parents[2] / "data" / "mcp_schemas"

CONFIG = """
version: 1
aliases: {ws: brave.web_search, alias_f: brave.search, chain: ws}
snippets:
  brv_research:
    description: Search web and extract structured findings
    params:
      topic: {description: "Topic to research", example: Python}
      count: {default: 5, description: "Number of sources"}
    body: |
      results = brave.search(query="{{ topic }}", count={{ count }})
      llm.transform(input=results, prompt="Extract key findings")
  b_q: {description: Quick question, params: {q: {}}, body: "brave.search(query={{ q }})"}
  pkg_versions: {description: Versions of packages, body: "package.version()"}
"""
BRAVE = '''
pack = "brave"
__all__ = ["search", "web_search"]


def search(query: str, count: int = 5) -> list:
    """Search the web.

    Looks at news and pages alike.

    Args:
        query: What to look for.
        count: How many results.

    Returns:
        Rows with title and url.

    Example:
        brave.search(query="coffee")
    """
    return [{"title": query, "url": "https://example.com"}] * count


def web_search(query: str) -> str:
    """Fetch pages of the web that answer a query."""
    return query
'''
EXCEL = '''
pack = "excel"


def load(path: str) -> str:
    """Load a workbook."""
    return path
'''
RESEARCH = """\
name: brv_research
description: Search web and extract structured findings
params:
  topic: {description: "Topic to research"}
  count: {default: 5, description: "Number of sources"}
body: |
  results = brave.search(query="{{ topic }}", count={{ count }})
  llm.transform(input=results, prompt="Extract key findings")

# Example with defaults:
# $brv_research topic=Python
# Expands to:
results = brave.search(query="Python", count=5)
llm.transform(input=results, prompt="Extract key findings")"""


def filled(project: Project, config: str = CONFIG) -> Toolbox:
    """Open the project with all of it, and the tools of two MCP servers as they would be known."""
    project.write("tools/brave.py", BRAVE)
    project.write("tools/excel.py", EXCEL)
    project.write("prompts.yaml", 'packs: {excel: "Close the workbook\\nwhen you are done."}')
    box = project.open(config)
    for spec in proxy_tools():
        box.registry.register(spec)
    return box


def proxy_tools() -> list[ToolSpec]:
    """A server `github`, and the real tools of the git server."""
    search = {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to search for"},
            "repo": {"type": "string", "description": "Repository to search in"},
            "limit": {"type": "integer", "default": 10},
        },
        "required": ["query"],
    }
    git = json.loads((_SCHEMAS / "git.json").read_text(encoding="utf-8"))
    others = (_proxy("git", tool["name"], tool["description"], tool["inputSchema"]) for tool in git)
    return [_proxy("github", "search", "Search code.", search), *others]


def _proxy(server: str, name: str, description: str, schema: dict[str, Any]) -> ToolSpec:
    return ToolSpec(
        name=f"{server}.{name}",
        description=description,
        parameters=schema,
        run=lambda args: args,
        server_facts=ServerFacts(server=server),
        origin="mcp",
    )
