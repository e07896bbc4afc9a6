"""A project with packs, aliases, snippets, instructions and an MCP server's tools, for the
catalog's tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from onetool_ipy import Toolbox, ToolSpec
from onetool_ipy.core.tool import ServerFacts
from tests.harness.project import Project
from tests.harness.surroundings import ROOT

CONFIG = """
version: 1
aliases: {ws: brave.web_search, alias_f: fs.list_dir}
snippets:
  brv_research:
    description: Search web and extract structured findings
    params:
      topic: {description: "Topic to research", example: Python}
      count: {default: 5, description: "Number of sources"}
    body: |
      results = brave.search(query="{{ topic }}", count={{ count }})
      llm.transform(input=results, prompt="Extract key findings")
  pkg_size: {description: Size of a package, body: "1"}
"""
BRAVE = '''
def search(query: str, count: int = 5) -> str:
    """Search the web.

    Args:
        query: What to look for.
        count: How many results.

    Returns:
        The findings as text.

    Example:
        brave.search(query="x")
    """
    return query

def web_search(query: str) -> str:
    """Fetch results of a web search."""
    return query
'''
EXCEL = '''
def read_sheet(path: str) -> list:
    """Read a sheet."""
    return []
'''


@dataclass(frozen=True)
class Server:
    """Tools as an MCP server gives them, as a source."""

    name: str
    file: str

    def tools(self) -> Iterator[ToolSpec]:
        """One spec per tool of the recorded listing."""
        found = json.loads(
            (ROOT / "tests" / "data" / "mcp_schemas" / self.file).read_text(encoding="utf-8")
        )
        for tool in found if isinstance(found, list) else found["tools"]:
            yield ToolSpec(
                name=f"{self.name}.{tool['name']}",
                description=tool.get("description") or tool["name"],
                parameters=tool["inputSchema"],
                run=lambda args: args,
                origin="mcp",
                server_facts=ServerFacts(server=self.name),
            )


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Toolbox]:
    """The toolbox of that project."""
    with Project(tmp_path) as project:
        project.write("prompts.yaml", "packs: {excel: Always name the sheet.}\n")
        box = project.open(CONFIG, packs={"brave": BRAVE, "excel": EXCEL}, clock=None)
        for spec in Server("github", "git.json").tools():
            box.registry.register(spec)
        yield box
