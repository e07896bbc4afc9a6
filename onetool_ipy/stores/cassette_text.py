"""The text of a cassette: YAML documents, one per answer, and back. Pure but for `read`, which opens the file.

Written to be read by people and compared by git: keys in one order, texts of several lines as blocks. A file that is
damaged in one place, or of a later format, is refused as a whole: it is never written to, so nothing is lost.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from onetool_ipy.core.errors import OneToolError
from onetool_ipy.stores.files import StoreError

__all__ = ["HEAD", "Damaged", "Entry", "in_force", "read", "write"]

_FORMAT = 1
HEAD = (
    f"# A cassette of onetool_ipy (ot.replay, format {_FORMAT}): what calls gave, in order."
    " Delete an answer to record it anew.\n"
)
_HEAD = re.compile(r"# A cassette of onetool_ipy \(ot\.replay, format ([0-9]{1,9})\)")
_END = "...\n"
_FIELDS = ("of", "key", "args", "version", "recorded", "ms", "replaces", "not_recorded", "failure", "result")


class Damaged(StoreError):
    """A cassette that cannot be read."""


class Entry(NamedTuple):
    """One recorded answer: of what, asked how, and what came. `note` says why there is none."""

    what: str
    key: str
    args: Any
    version: str
    recorded: str
    ms: float
    replaces: bool = False
    note: str = ""
    failure: Any = None
    result: Any = None
    line: int = 0


def write(entry: Entry) -> str:
    """The document of an entry, with its beginning and its end."""
    import yaml

    body: dict[str, Any] = {"of": entry.what, "key": entry.key, "args": entry.args, "version": entry.version}
    body |= {"recorded": entry.recorded, "ms": entry.ms}
    body |= {"replaces": True} if entry.replaces else {}
    if entry.note:
        body["not_recorded"] = entry.note
    elif entry.failure is not None:
        body["failure"] = entry.failure
    else:
        body["result"] = entry.result
    options: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 120, "default_flow_style": False}
    said = yaml.dump(body, Dumper=_dumper(), **options)
    return f"---\n{said}{_END}"


def read(path: Path) -> list[Entry]:
    """The entries in force, in their order. Raises Damaged, and StoreError for what cannot be opened."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as exc:
        raise _damaged(path, f"it is no UTF-8 text ({exc.reason} at byte {exc.start})") from exc
    except OSError as exc:
        raise StoreError.of(path, exc, doing="read") from exc
    _require_known(path, text)
    found: list[Entry] = []
    line, lines = 1, text.split("\n")
    while line <= len(lines):
        first = line
        while line <= len(lines) and lines[line - 1] != "...":
            line += 1
        document = "\n".join([*lines[first - 1 : line - 1], ""])
        is_last = line > len(lines)
        line += 1
        if not _has_data(document):
            continue
        if is_last:
            raise _damaged(path, f"the answer in line {first} has no end")
        found.append(_entry(path, first, document))
    return in_force(found)


def in_force(entries: Sequence[Entry]) -> list[Entry]:
    """Without those that a later answer replaces."""
    last = {entry.key: place for place, entry in enumerate(entries) if entry.replaces}
    kept = [e for place, e in enumerate(entries) if place >= last.get(e.key, 0)]
    return [entry._replace(replaces=False) for entry in kept]


def _require_known(path: Path, text: str) -> None:
    """Refuse what a later version wrote; a file without a number is of the first format."""
    found = _HEAD.match(text)
    if found is not None and int(found[1]) > _FORMAT:
        why = f"it has format {found[1]}, which is newer than this version knows"
        raise Damaged(path, why, doing="read the cassette", hint="Nothing was changed. Update onetool-ipy to use it.")


def _has_data(document: str) -> bool:
    return any(line.strip() and not line.startswith("#") for line in document.split("\n"))


def _entry(path: Path, line: int, document: str) -> Entry:
    import yaml

    try:
        found = yaml.load(document, Loader=_loader())  # noqa: S506 - a safe loader
    except yaml.YAMLError as exc:
        mark = getattr(exc, "problem_mark", None)
        at = line + (mark.line if mark is not None else 0)
        raise _damaged(path, f"line {at}: {getattr(exc, 'problem', None) or 'it is no YAML'}") from exc
    except (ValueError, OverflowError) as exc:
        raise _damaged(path, f"line {line}: {exc}") from exc
    if not isinstance(found, dict):
        raise _damaged(path, f"line {line}: an answer is an object, not a {type(found).__name__}")
    if odd := found.keys() - set(_FIELDS):
        raise _damaged(path, f"line {line}: '{min(map(str, odd))}' is no field of an answer")
    if not isinstance(found.get("of"), str) or not isinstance(found.get("key"), str):
        raise _damaged(path, f"line {line}: an answer has the fields 'of' and 'key'")
    if not found.keys() & {"result", "failure", "not_recorded"}:
        raise _damaged(path, f"line {line}: the answer has neither 'result' nor 'failure'")
    return Entry(
        what=found["of"],
        key=found["key"],
        args=found.get("args"),
        version=str(found.get("version") or ""),
        recorded=str(found.get("recorded", "")),
        ms=float(found.get("ms") or 0),
        replaces=bool(found.get("replaces")),
        note=str(found.get("not_recorded") or ""),
        failure=found.get("failure"),
        result=found.get("result"),
        line=line,
    )


def _damaged(path: Path, why: str) -> OneToolError:
    hint = "Nothing was changed. Mend the line or take out its answer, or move the file away to record it anew."
    return Damaged(path, why, doing="read the cassette", hint=hint)


@lru_cache(maxsize=1)
def _dumper() -> Any:
    """PyYAML's safe dumper in C where it is there; texts of several lines become blocks."""
    import yaml

    fast: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(fast):  # type: ignore[misc]  # the base is chosen at run time
        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML asks so
            return True

    def text(dumper: Any, value: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)

    Dumper.add_representer(str, text)
    return Dumper


@lru_cache(maxsize=1)
def _loader() -> Any:
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)
