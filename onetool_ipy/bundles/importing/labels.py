"""Names made of other people's words: slugs, versions, arguments, secrets. Pure text.

A name of a document never becomes part of a template: `literal` escapes it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from onetool_ipy.bundles.validation import MAX_RUNES

_LETTERS = ("Lu", "Ll", "Lt", "Lm", "Lo", "Nd")
_MAX_ARGUMENT = 100
_MAX_WORD = 32
FILE_SCHEMA = {
    "anyOf": [
        {"type": "string", "description": "The content, where it is text."},
        {
            "type": "object",
            "properties": {name: {"type": "string"} for name in ("base64", "filename", "mime")},
            "required": ["base64"],
        },
    ]
}
"""The schema of an argument that is a file."""


class UniqueNames:
    """Hands out each name once; a second one gets a number."""

    def __init__(
        self, *, mark: str = "-", longest: int = MAX_RUNES, taken: Iterable[str] = ()
    ) -> None:
        self._taken: set[str] = set(taken)
        self._next: dict[str, int] = {}
        self._mark = mark
        self._longest = longest

    def take(self, name: str) -> str:
        """Return the name, or the nearest free one."""
        label, count = name[: self._longest], self._next.get(name, 2)
        while label in self._taken:
            tail = f"{self._mark}{count}"
            label, count = name[: self._longest - len(tail)] + tail, count + 1
        self._taken.add(label)
        self._next[name] = count
        return label


def slug(text: str, default: str) -> str:
    """Letters, digits and single dashes, at most 64 of them."""
    return _label(text, "-").strip("-")[:MAX_RUNES].strip("-") or default


def version(text: str) -> str:
    """A version label; dots are kept."""
    return _label(text, "-.").strip("-.")[:MAX_RUNES].strip("-.") or "1"


def argument(text: str) -> str:
    """A name that can stand in `${...}`."""
    return re.sub(r"[{}|\x00-\x1f\x7f]", "_", text.strip())[:_MAX_ARGUMENT] or "arg"


def literal(text: str) -> str:
    """A text of the document inside a template, with every `${` escaped."""
    return text.replace("${", "$${")


def secret(*parts: str) -> str:
    """The name of a secret, such as `PETSTORE_API_KEY`, from its owner and its own name."""
    words: list[str] = []
    for part in parts:
        split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", unicodedata.normalize("NFKD", part))
        word = re.sub(r"[^A-Za-z0-9]+", "_", split)[:_MAX_WORD].strip("_").upper()
        if words and (word == words[-1] or word.startswith(words[-1] + "_")):
            words.pop()
        words += [word] if word else []
    name = "_".join(words) or "SECRET"
    return f"_{name}" if name[0].isdigit() else name


def _label(text: str, allowed: str) -> str:
    plain = unicodedata.normalize("NFC", text)
    label = "".join(
        c if c in allowed or unicodedata.category(c) in _LETTERS else "-" for c in plain
    )
    return re.sub(r"-{2,}", "-", label)


def common_prefix(paths: list[str]) -> str:
    """The folders that all paths begin with, such as `/lab/api`, which say nothing in the name of a
    tool."""
    if len(paths) < 2:
        return ""
    shared = []
    for parts in zip(*(path.split("/")[:-1] for path in paths), strict=False):
        if len(set(parts)) > 1 or "{" in parts[0]:
            break
        shared.append(parts[0])
    return "/".join(shared)
