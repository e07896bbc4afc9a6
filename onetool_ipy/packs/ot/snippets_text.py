"""Snippets as 001 prints them: definition, example invocation and what it expands to."""

from __future__ import annotations

import json

from onetool_ipy.core.errors import OneToolError
from onetool_ipy.core.snippets import MISSING, Param, Snippet, example_of
from onetool_ipy.render.flow import flow, inline

__all__ = ["page"]


def page(snippet: Snippet) -> str:
    """One snippet, to the letter of 001."""
    lines = [f"name: {flow(snippet.name)}", f"description: {flow(snippet.description)}"]
    lines += ["params:", *(f"  {p.name}: {_param(p)}" for p in snippet.params)] if snippet.params else ["params: {}"]
    lines += ["body: |", *(f"  {line}".rstrip() for line in snippet.body.rstrip("\n").split("\n"))]
    return "\n".join([*lines, "", *_example(snippet)])


def _example(snippet: Snippet) -> list[str]:
    try:
        line, expansion = example_of(snippet)
    except OneToolError as exc:
        return [f"# No example: {exc.message}"]
    return ["# Example with defaults:", f"# {line}", "# Expands to:", *expansion.rstrip("\n").split("\n")]


def _param(param: Param) -> str:
    said = {
        "type": param.declared or None,
        "default": param.default,
        "description": param.description or None,
    }
    parts = []
    for key, value in said.items():
        if value is MISSING or (value is None and key != "default"):
            continue
        shown = json.dumps(value, ensure_ascii=False) if isinstance(value, str) and key != "type" else inline(value)
        parts.append(f"{key}: {shown}")
    return "{" + ", ".join(parts) + "}"
