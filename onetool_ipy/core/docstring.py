"""Read a Google-style docstring: summary, Args, Returns, Example. Pure text; whatever it cannot read is description."""

from __future__ import annotations

import inspect
import re
from typing import NamedTuple

__all__ = ["Docstring", "read"]

_SECTIONS = {
    "args": "args",
    "arguments": "args",
    "parameters": "args",
    "params": "args",
    "returns": "returns",
    "return": "returns",
    "yields": "returns",
    "example": "example",
    "examples": "example",
}
_OTHER = {"raises", "note", "notes", "see also", "todo", "warning", "warnings", "attributes", "references"}
_HEADER = re.compile(r"^(\w[\w ]*)::?\s*$")
_INLINE = re.compile(r"^(returns|return|yields|example|examples):\s+(\S.*)$", re.IGNORECASE)
_ARG = re.compile(r"^(\*{0,2}[\w.-]+)\s*(?:\(.*?\))?\s*:(?:\s+(.*))?$")
_KEPT = re.compile(r"^(\s|[-*+] |\d+[.)] )")


class Docstring(NamedTuple):
    """What a docstring says, by section."""

    description: str
    args: dict[str, str]
    returns: str
    example: str


def read(text: str | None) -> Docstring:
    """Split a docstring into its sections."""
    sections: dict[str, list[str]] = {"": []}
    current = ""
    for line in inspect.cleandoc(text or "").splitlines():
        header, inline = _HEADER.match(line), _INLINE.match(line)
        word = header.group(1).lower() if header else ""
        if word in _SECTIONS or word in _OTHER:
            current = _SECTIONS.get(word, word)
            sections.setdefault(current, [])
        elif inline:
            current = _SECTIONS[inline.group(1).lower()]
            sections.setdefault(current, []).append(inline.group(2))
        else:
            sections[current].append(line)
    return Docstring(
        description=_paragraphs(sections[""]),
        args=_arguments(sections.get("args", [])),
        returns=_paragraphs(_dedent(sections.get("returns", []))),
        example="\n".join(_dedent(sections.get("example", []))).strip("\n"),
    )


def _paragraphs(lines: list[str]) -> str:
    blocks = re.split(r"\n\s*\n", "\n".join(lines).strip("\n"))
    return "\n\n".join(_joined(block) for block in blocks if block.strip())


def _joined(block: str) -> str:
    """A paragraph on one line; points of a list and indented lines keep their own."""
    text = ""
    for line in block.split("\n"):
        text += (("\n" if _KEPT.match(line) else " ") if text else "") + line.rstrip()
    return text


def _arguments(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    name = ""
    for line in _dedent(lines):
        match = _ARG.match(line)
        if match:
            name = match.group(1).lstrip("*")
            found[name] = (match.group(2) or "").strip()
        elif name and line.strip():
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found


def _dedent(lines: list[str]) -> list[str]:
    widths = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    margin = min(widths, default=0)
    return [line[margin:].rstrip() for line in lines]
