"""Tools to search in, and typos to search with. Deterministic; knows nothing of how the search
works.

The real ones are the 58 tools of public MCP servers (whole schemas) and some 500 names of others;
the many are put together from their words, with descriptions of the same length and vocabulary.
"""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable, Iterator
from pathlib import Path

from onetool_ipy.base.search import Entry

__all__ = ["EDITS", "many_tools", "mistype", "real_tools"]

_DATA = Path(__file__).resolve().parents[1] / "data"


def real_tools() -> list[Entry]:
    """The tools of real servers; those of which only the name is known are described by its
    words."""
    found = {entry.name: entry for entry in _schemas()}
    for line in (_DATA / "tool_names.txt").read_text(encoding="utf-8").splitlines():
        pack, _, tools = line.partition(": ")
        if line.startswith("#"):
            continue
        for tool in tools.split():
            name = f"{pack}.{tool}"
            words = tool.replace("_", " ")
            found.setdefault(name, Entry(name, f"{words.capitalize()} with {pack.title()}."))
    return list(found.values())


def many_tools(count: int, *, seed: int = 7) -> list[Entry]:
    """So many different tools, each with a description and arguments, in packs of about 25."""
    chance = random.Random(seed)
    real = real_tools()
    sentences = [e.description for e in _schemas()]
    text = " ".join(sentences).split()
    verbs = sorted({e.name.partition(".")[2].split("_")[0] for e in real})
    nouns = sorted({w for e in real for w in e.name.partition(".")[2].split("_")[1:]})
    packs = sorted({e.name.partition(".")[0] for e in real})
    arguments = sorted({a for e in real for a in e.arguments})
    found: dict[str, Entry] = {e.name: e for e in real[:count]}
    while len(found) < count:
        pack = (
            f"{chance.choice(packs)}_{chance.choice(nouns)}"
            if chance.random() < 0.9
            else chance.choice(packs)
        )
        for _ in range(25):
            name = f"{pack}.{chance.choice(verbs)}_{'_'.join(chance.sample(nouns, chance.choice((1, 1, 2))))}"
            start = chance.randrange(len(text) - 60)
            words = text[start : start + chance.randint(6, 40)]
            entry = Entry(
                name, " ".join(words), tuple(chance.sample(arguments, chance.randint(0, 5)))
            )
            if len(found) < count:
                found.setdefault(name, entry)
    return list(found.values())


def mistype(word: str, edit: str, chance: random.Random) -> str:
    """The word with one edit of this kind, never the word itself."""
    while True:
        typed = EDITS[edit](word, chance)
        if typed != word:
            return typed
        if edit == "transpose" and len(set(word)) == 1:
            return EDITS["substitute"](word, chance)


def _insert(word: str, chance: random.Random) -> str:
    at = chance.randint(0, len(word))
    return word[:at] + chance.choice(string.ascii_lowercase) + word[at:]


def _delete(word: str, chance: random.Random) -> str:
    at = chance.randrange(len(word))
    return word[:at] + word[at + 1 :]


def _substitute(word: str, chance: random.Random) -> str:
    at = chance.randrange(len(word))
    return word[:at] + chance.choice(string.ascii_lowercase) + word[at + 1 :]


def _transpose(word: str, chance: random.Random) -> str:
    at = chance.randrange(max(1, len(word) - 1))
    return word[:at] + word[at : at + 2][::-1] + word[at + 2 :]


EDITS: dict[str, Callable[[str, random.Random], str]] = {
    "insert": _insert,
    "delete": _delete,
    "substitute": _substitute,
    "transpose": _transpose,
}


def _schemas() -> Iterator[Entry]:
    for path in sorted((_DATA / "mcp_schemas").glob("*.json")):
        for tool in json.loads(path.read_text(encoding="utf-8")):
            arguments = tuple(tool["inputSchema"].get("properties", {}))
            yield Entry(f"{path.stem}.{tool['name']}", tool.get("description", ""), arguments)
