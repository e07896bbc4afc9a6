"""What the configuration says of one MCP server, as a value; and what of the kernel's environment its process may see.

Made from an entry of `servers:` that `config` has checked, with every `${NAME}` filled. Holds secrets, so nothing here
prints its values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

__all__ = ["INHERITED", "ServerDefinition", "read_server"]

INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
"""What a server's process always gets of the environment, as with the official SDK."""


class ServerDefinition(NamedTuple):
    """One server. `timeout_s` is the limit of a call and of a start, `idle_s` that of a call's silence.

    `is_allowed` says that the user's trust covers it; else it is never started.
    """

    name: str
    where: str
    type: Literal["stdio", "http"]
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str = ""
    inherit: tuple[str, ...] = ()
    url: str = ""
    headers: Mapping[str, str] = {}
    enabled: bool = True
    trusted: bool = False
    timeout_s: float = 30
    idle_s: float | None = None
    is_allowed: bool = True

    def fingerprint(self, mask: Callable[[str], str]) -> str:
        """A key for what is remembered of the server: other definitions have another; secrets have no part in it."""
        import hashlib
        import json

        parts = [self.type, self.command, self.args, sorted(self.env.items()), self.cwd, self.url]
        parts.append(sorted(self.headers.items()))
        return hashlib.sha256(mask(json.dumps([self.name, *parts])).encode("utf-8", "replace")).hexdigest()[:32]

    def runs_like(self, other: ServerDefinition) -> bool:
        """Whether a running server of the other definition would do for this one."""
        return self._replace(where="") == other._replace(where="")

    def environment(self, surroundings: Mapping[str, str]) -> dict[str, str]:
        """The variables of the server's process: the safe few, those named in `inherit`, and `env`."""
        names = dict.fromkeys((*INHERITED, *self.inherit))
        kept = {name: surroundings[name] for name in names if name in surroundings}
        safe = {name: value for name, value in kept.items() if not value.startswith("()")}  # an exported function
        return {**safe, **self.env}

    def __repr__(self) -> str:
        return f"ServerDefinition({self.name!r}, {self.type})"


def read_server(name: str, data: Mapping[str, Any], where: str, *, folder: Path, timeout_s: float) -> ServerDefinition:
    """The definition in a checked entry; relative folders start at `folder`, `timeout_s` is the default limit."""
    return ServerDefinition(
        name=name,
        where=where,
        type=data["type"],
        command=data.get("command") or "",
        args=tuple(data.get("args") or ()),
        env=dict(data.get("env") or {}),
        cwd=str(folder / Path(data.get("cwd") or ".").expanduser()),
        inherit=tuple(data.get("inherit") or ()),
        url=data.get("url") or "",
        headers=dict(data.get("headers") or {}),
        enabled=data.get("enabled", True),
        trusted=data.get("trusted", False),
        timeout_s=data.get("timeout_s") or timeout_s,
        idle_s=data.get("idle_s"),
    )
