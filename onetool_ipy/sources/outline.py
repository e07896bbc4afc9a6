"""What the text of a pack file tells: its pack, its tools, their docs and arguments. Plain JSON, so it can be cached.

Reading the text is `outline_text`'s work; it is loaded only for files that are not in the cache.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from onetool_ipy.core.model import Dep

__all__ = ["Fault", "Outline", "ToolOutline"]


class ToolOutline(NamedTuple):
    """One tool as far as its text tells; `exact` says that importing the file will tell nothing else."""

    function: str
    name: str
    description: str
    documented: bool = True
    parameters: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}  # noqa: RUF012
    positional: tuple[str, ...] | None = None
    returns: str = ""
    example: str = ""
    tags: tuple[str, ...] = ()
    read_only: bool = False
    timeout_s: float | None = None
    is_async: bool = False
    exact: bool = True
    line: int = 1
    deps: tuple[Dep, ...] = ()


class Fault(NamedTuple):
    """Something wrong in one place of a file."""

    line: int
    message: str
    hint: str = ""


class Outline(NamedTuple):
    """One pack file as far as its text tells; `error` says why it has no tools at all."""

    pack: str
    tools: tuple[ToolOutline, ...] = ()
    faults: tuple[Fault, ...] = ()
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "pack": self.pack,
            "tools": [tool._asdict() for tool in self.tools],
            "faults": [list(fault) for fault in self.faults],
            "error": self.error,
        }

    @classmethod
    def from_json(cls, data: Any) -> Outline:
        """What `to_json` gave; TypeError, ValueError or KeyError for anything else."""
        tools = tuple(_tool(tool) for tool in data["tools"])
        faults = tuple(Fault(*fault) for fault in data["faults"])
        if not isinstance(data["pack"], str) or not isinstance(data["error"], str):
            raise TypeError("not an outline")
        return cls(data["pack"], tools, faults, data["error"])


def _tool(data: dict[str, Any]) -> ToolOutline:
    positional = data["positional"]
    fields = {**data, "tags": tuple(data["tags"]), "positional": None if positional is None else tuple(positional)}
    fields["deps"] = tuple(Dep(*dep) for dep in data["deps"])
    texts = (data["function"], data["name"], data["description"], *data["tags"])
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("not a tool's outline")
    if not isinstance(data["parameters"], dict) or not isinstance(data["line"], int):
        raise TypeError("not a tool's outline")
    return ToolOutline(**fields)
