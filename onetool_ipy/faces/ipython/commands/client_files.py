"""The MCP servers in another client's configuration file: JSON with `mcpServers` (or `servers`). Read only.

Comments and trailing commas, which some clients allow, are taken. What of an entry looks secret is told apart, so that
it can go into `secrets.yaml` and not into a file that one commits.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from onetool_ipy.core.errors import UsageProblem

__all__ = ["Found", "read_client_file", "without_secrets"]

_SECRET = re.compile(r"key|token|secret|passw|auth|credential|cookie|\bpat\b", re.IGNORECASE)
_TAKEN = ("command", "args", "env", "cwd", "url", "headers")
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', re.DOTALL)
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")
_MOST_BYTES = 5_000_000


class Found(NamedTuple):
    """A server as it was found: its name, and its entry in our words."""

    name: str
    data: dict[str, Any]


def read_client_file(path: Path) -> list[Found]:
    """The servers of a file. Raises UsageProblem where it cannot be read or holds none."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UsageProblem(f"'{path}' is too large for a configuration.")
        text = path.expanduser().read_text(encoding="utf-8-sig")
    except (OSError, UnicodeError, ValueError) as exc:
        reason = getattr(exc, "strerror", None) or exc
        raise UsageProblem(f"'{path}' cannot be read: {reason}.") from exc
    plain = _COMMA.sub(_kept, _COMMENT.sub(_kept, text))
    try:
        document = json.loads(plain)
    except (ValueError, RecursionError) as exc:
        raise UsageProblem(f"'{path}' is not JSON: {exc}.") from exc
    servers = _servers(document)
    if not servers:
        raise UsageProblem(f"'{path}' has no servers.", hint='It should hold {"mcpServers": {"name": {...}}}.')
    return [Found(name, _entry(data)) for name, data in servers.items()]


def without_secrets(found: Found) -> tuple[dict[str, Any], dict[str, str]]:
    """The entry with `${NAME}` for what looks secret, and those secrets by name."""
    data = dict(found.data)
    secrets: dict[str, str] = {}
    for section in ("env", "headers"):
        given = data.get(section)
        if not isinstance(given, dict):
            continue
        kept = dict(given)
        for key, value in given.items():
            if isinstance(value, str) and "${" not in value and value and _SECRET.search(key):
                name = re.sub(r"\W+", "_", f"{found.name}_{key}").upper()
                secrets[name] = value
                kept[key] = f"${{{name}}}"
        data[section] = kept
    return data, secrets


def _servers(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        return {}
    for key in ("mcpServers", "servers"):
        found = document.get(key)
        if isinstance(found, dict):
            return found
    inner = document.get("mcp")
    return _servers(inner) if isinstance(inner, dict) else {}


def _entry(data: Any) -> dict[str, Any]:
    """An entry in our words: other clients name the type differently, or not at all."""
    if not isinstance(data, dict):
        return {"type": "stdio", "command": data}
    url = data.get("url") or data.get("serverUrl") or data.get("httpUrl")
    kept = {key: _filled(data[key]) for key in _TAKEN if data.get(key) not in (None, {}, [])}
    if data.get("disabled") is True or data.get("enabled") is False:
        kept["enabled"] = False
    if url:
        return {"type": "http", **kept, "url": url}
    return {"type": "stdio", **kept}


def _filled(value: Any) -> Any:
    """Other clients write `${env:NAME}` for what is `${NAME}` here."""
    if isinstance(value, str):
        return _VARIABLE.sub(r"${\1}", value)
    if isinstance(value, dict):
        return {key: _filled(each) for key, each in value.items()}
    return [_filled(each) for each in value] if isinstance(value, list) else value


def _kept(found: re.Match[str]) -> str:
    return found[1] or ""
