"""Snapshot: what the files of a store hold at one moment, as a value. Pure but for pydantic's import.

Owns how a file becomes a record, and which of two records that claim one place is served: the older one, so that
nothing that worked stops working when a branch with its twin is merged. The other is a Problem.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from onetool_ipy.core.model import Problem
from onetool_ipy.stores.stamps import Stamp

if TYPE_CHECKING:
    from onetool_ipy.bundles.model import Bundle, Tool

__all__ = ["EMPTY", "FORMAT", "File", "Held", "Snapshot", "parse", "snapshot_of"]

FORMAT = 1
"""The format of the files; one with a larger number was written by a later version of ours."""

_FIX = "Mend it, or delete it; the others are not touched."
_UPDATE = "Update onetool-ipy to use it; it is left as it is."


class File(NamedTuple):
    """One file: its stamp, its text (or why it cannot be read), its record or its fault.

    `claims` is the slug and version of a record that is not ours to read but that takes up its place.
    """

    stamp: Stamp
    is_young: bool
    text: bytes | str
    record: Bundle | Tool | None = None
    fault: Problem | None = None
    claims: tuple[str, str] | None = None


class Held:
    """A bundle with its tools by slug and version. `claimed` are pairs that files of a newer format take up."""

    __slots__ = ("bundle", "claimed", "slugs", "tools", "twin")

    def __init__(
        self, bundle: Bundle, tools: Mapping[tuple[str, str], Tool], claimed: frozenset[tuple[str, str]]
    ) -> None:
        self.bundle = bundle
        self.tools = tools
        self.claimed = claimed
        self.twin = ""
        self.slugs: dict[str, list[Tool]] = {}
        for tool in tools.values():
            self.slugs.setdefault(tool.slug, []).append(tool)
        for versions in self.slugs.values():
            versions.sort(key=_newest_first, reverse=True)

    def versions(self, slug: str) -> list[Tool]:
        """The tools of a slug, the one changed last first."""
        return self.slugs.get(slug, [])

    def chosen(self, slug: str) -> Tool | None:
        """What a slug without a version stands for: the enabled version changed last, else the one changed last."""
        versions = self.versions(slug)
        return next((tool for tool in versions if tool.is_enabled), versions[0] if versions else None)


class Snapshot(NamedTuple):
    """Bundles by id, the oldest first, also deleted ones; ids of live ones by slug. `outside`: no record's faults."""

    bundles: dict[str, Held]
    slugs: dict[str, str]
    problems: tuple[Problem, ...]
    outside: tuple[Problem, ...] = ()

    def live(self) -> Iterable[Held]:
        """The bundles that were not deleted."""
        return (held for held in self.bundles.values() if held.bundle.soft_deleted_at is None)

    def of_slug(self, slug: str) -> Held | None:
        """The live bundle of that slug."""
        found = self.slugs.get(slug)
        return None if found is None else self.bundles[found]


EMPTY = Snapshot({}, {}, ())


def parse(path: str, text: bytes | str, stamp: Stamp, *, is_young: bool) -> File:
    """Make a record of a file's text, or say what is wrong with it."""
    file = File(stamp, is_young, text)
    if isinstance(text, str):
        return file._replace(fault=Problem(path, text))
    import orjson

    try:
        data = orjson.loads(text)
    except ValueError as exc:
        return file._replace(fault=Problem(path, f"is damaged: {exc}.", _FIX))
    if not isinstance(data, dict):
        return file._replace(fault=Problem(path, "is damaged: it holds no object.", _FIX))
    number = data.pop("format", None)
    if isinstance(number, int) and number > FORMAT:
        fault = Problem(path, f"has format {number}, which is newer than this version knows.", _UPDATE)
        return file._replace(fault=fault, claims=_claims(data))
    if number != FORMAT:
        return file._replace(fault=Problem(path, f"is damaged: its format is {number!r}, not {FORMAT}.", _FIX))
    return _record(path, data, file)


def snapshot_of(files: Mapping[str, File], outside: tuple[Problem, ...]) -> Snapshot:
    """Put the records together; of two that claim one place, the older one is served."""
    problems = [*outside, *(file.fault for file in files.values() if file.fault is not None)]
    folders: dict[str, list[tuple[str, File]]] = {}
    for path, file in files.items():
        folders.setdefault(os.path.dirname(path), []).append((path, file))
    found = [held for folder, inside in folders.items() if (held := _held(folder, inside, problems)) is not None]
    found.sort(key=lambda held: (held.bundle.created_at, held.bundle.bundle_id))
    slugs: dict[str, str] = {}
    for held in found:
        bundle = held.bundle
        if bundle.soft_deleted_at is not None:
            continue
        held.twin = slugs.get(bundle.slug, "")
        if held.twin:
            said = f"the slug '{bundle.slug}' is that of the bundle '{held.twin}', which is older."
            problems.append(
                Problem(f"bundle {bundle.bundle_id}", said, "Its tools are not offered. Give it another slug.")
            )
        slugs.setdefault(bundle.slug, bundle.bundle_id)
    return Snapshot({held.bundle.bundle_id: held for held in found}, slugs, tuple(problems), outside)


def _record(path: str, data: dict[str, Any], file: File) -> File:
    from onetool_ipy.bundles.model import Bundle, Tool, read
    from onetool_ipy.core.errors import InvalidRequest

    folder, name = os.path.split(path)
    is_bundle = name == "bundle.json"
    try:
        record = read(Bundle, data) if is_bundle else read(Tool, data)
    except InvalidRequest as exc:
        return file._replace(fault=Problem(path, f"is damaged: {exc.message}", _FIX))
    own = record.bundle_id if isinstance(record, Bundle) else record.tool_id
    place = os.path.basename(folder) if is_bundle else name.removesuffix(".json")
    if own != place or record.bundle_id != os.path.basename(folder) or record.is_built_in:
        said = f"holds the record '{own}' of the bundle '{record.bundle_id}', and is not named so."
        return file._replace(fault=Problem(path, said, "A copy needs ids of its own."))
    return file._replace(record=record)


def _held(folder: str, inside: list[tuple[str, File]], problems: list[Problem]) -> Held | None:
    from onetool_ipy.bundles.model import Bundle, Tool

    bundle: Bundle | None = None
    tools: dict[tuple[str, str], Tool] = {}
    twins: list[tuple[str, Tool]] = []
    for path, file in sorted(inside, key=lambda one: _age(one[1])):
        if isinstance(file.record, Bundle):
            bundle = file.record
        elif isinstance(file.record, Tool) and tools.setdefault(file.record.pair, file.record) is not file.record:
            twins.append((path, file.record))
    if bundle is None:
        if not any(path.endswith("bundle.json") for path, _ in inside):
            problems.append(Problem(folder, "has tools and no 'bundle.json'; they are not offered.", _FIX))
        return None
    for path, tool in twins:
        said = f"version '{tool.version}' of '{tool.slug}' is in '{tools[tool.pair].tool_id}.json' too, which is older."
        problems.append(Problem(path, said, "It is not offered. Delete it, or give it another version."))
    return Held(bundle, tools, frozenset(file.claims for _, file in inside if file.claims is not None))


def _claims(data: Mapping[str, Any]) -> tuple[str, str] | None:
    slug, version = data.get("slug"), data.get("version")
    return (slug, version) if isinstance(slug, str) and isinstance(version, str) else None


def _age(file: File) -> tuple[Any, ...]:
    from onetool_ipy.bundles.model import Tool

    record = file.record
    return (1, record.created_at, record.tool_id) if isinstance(record, Tool) else (0,)


def _newest_first(tool: Tool) -> tuple[Any, ...]:
    return (tool.modified_at, tool.tool_id)
