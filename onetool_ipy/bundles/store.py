"""Bundles on disk: flat JSON files under `.onetool/bundles/`, named by ids; written whole, under one lock per store.

    bundles/<bundleID>/bundle.json, bundles/<bundleID>/<toolID>.json, bundles/builtins.json

The files are read into a `BundleSnapshot`, a value that is replaced as a whole; only changed files are read again. The
file system is asked for changes each time, so that writes of another process are seen at once. A file that is damaged,
misplaced or of a newer format costs only itself: it becomes a Problem and is never written to. Of two records that
claim one slug, or one version of a tool, the older one is served, so that nothing stops working when branches are
merged. Importing this module loads no pydantic.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from onetool_ipy.base.errors import Conflict, InvalidRequest
from onetool_ipy.base.files import Draft, Stamp, StoreError, is_young, locked, make_folder, stamp_from, stamp_of, sweep
from onetool_ipy.bundles.ids import is_id
from onetool_ipy.config.paths import Owners
from onetool_ipy.core.tool import Problem

if TYPE_CHECKING:
    from onetool_ipy.bundles.model import Bundle, Tool

__all__ = [
    "BUNDLE_FILE",
    "EMPTY",
    "FORMAT",
    "BundleSnapshot",
    "BundleStore",
    "RecordFile",
    "StoredBundle",
    "parse",
    "snapshot_of",
    "stored_slugs",
]

_MOST = 200
_MAX_BYTES = 200_000


def stored_slugs(root: Path) -> list[str]:
    """The slugs of the enabled bundles, sorted, for the names in a notebook. Skips files that it cannot read."""
    try:
        folders = sorted(os.listdir(root))[:_MOST]
    except OSError:
        return []
    import json

    found = []
    for folder in folders:
        try:
            with open(os.open(root / folder / "bundle.json", os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
                record = json.loads(file.read(_MAX_BYTES))
            if record["isEnabled"] and not record.get("softDeletedAt"):
                found.append(str(record["slug"]))
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            continue
    return sorted(found)


FORMAT = 1
"""The format of the files. A larger number was written by a later version of ours."""

_FIX = "Mend it, or delete it; the others are not touched."
_UPDATE = "Update onetool-ipy to use it; it is left as it is."


class RecordFile(NamedTuple):
    """One file: its stamp, its text (or why it cannot be read), its record or its fault.

    `claims` is the slug and version of a record in a newer format, which stay taken.
    """

    stamp: Stamp
    is_young: bool
    text: bytes | str
    record: Bundle | Tool | None = None
    fault: Problem | None = None
    claims: tuple[str, str] | None = None


class StoredBundle:
    """A bundle with its tools by slug and version. `claimed` are pairs taken by files of a newer format."""

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
        """The version that a slug alone stands for: the enabled one changed last, else the one changed last."""
        versions = self.versions(slug)
        return next((tool for tool in versions if tool.is_enabled), versions[0] if versions else None)


class BundleSnapshot(NamedTuple):
    """Bundles by id, the oldest first, also deleted ones; ids of live ones by slug; faults outside of records."""

    bundles: dict[str, StoredBundle]
    slugs: dict[str, str]
    problems: tuple[Problem, ...]
    outside: tuple[Problem, ...] = ()

    def live(self) -> Iterable[StoredBundle]:
        """The bundles that were not deleted."""
        return (held for held in self.bundles.values() if held.bundle.soft_deleted_at is None)

    def of_slug(self, slug: str) -> StoredBundle | None:
        """The live bundle of that slug."""
        found = self.slugs.get(slug)
        return None if found is None else self.bundles[found]


EMPTY = BundleSnapshot({}, {}, ())


def parse(path: str, text: bytes | str, stamp: Stamp, *, is_young: bool) -> RecordFile:
    """Make a record of a file's text, or a fault."""
    file = RecordFile(stamp, is_young, text)
    if isinstance(text, str):
        return file._replace(fault=Problem(path, text))
    import orjson

    try:
        data = orjson.loads(text)
    except ValueError as exc:
        return file._replace(fault=Problem(path, f"is damaged: {exc}.", _FIX))
    if not isinstance(data, dict):
        return file._replace(fault=Problem(path, "is damaged: it does not hold an object.", _FIX))
    number = data.pop("format", None)
    if isinstance(number, int) and number > FORMAT:
        fault = Problem(path, f"has format {number}, which is newer than this version knows.", _UPDATE)
        return file._replace(fault=fault, claims=_claims(data))
    if number != FORMAT:
        return file._replace(fault=Problem(path, f"is damaged: its format is {number!r}, not {FORMAT}.", _FIX))
    return _record(path, data, file)


def snapshot_of(files: Mapping[str, RecordFile], outside: tuple[Problem, ...]) -> BundleSnapshot:
    """Put the records together. Of two that claim one place, the older one is served."""
    problems = [*outside, *(file.fault for file in files.values() if file.fault is not None)]
    folders: dict[str, list[tuple[str, RecordFile]]] = {}
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
    return BundleSnapshot({held.bundle.bundle_id: held for held in found}, slugs, tuple(problems), outside)


def _record(path: str, data: dict[str, Any], file: RecordFile) -> RecordFile:
    from onetool_ipy.bundles.model import Bundle, Tool, read

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


def _held(folder: str, inside: list[tuple[str, RecordFile]], problems: list[Problem]) -> StoredBundle | None:
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
    return StoredBundle(bundle, tools, frozenset(file.claims for _, file in inside if file.claims is not None))


def _claims(data: Mapping[str, Any]) -> tuple[str, str] | None:
    slug, version = data.get("slug"), data.get("version")
    return (slug, version) if isinstance(slug, str) and isinstance(version, str) else None


def _age(file: RecordFile) -> tuple[Any, ...]:
    from onetool_ipy.bundles.model import Tool

    record = file.record
    return (1, record.created_at, record.tool_id) if isinstance(record, Tool) else (0,)


def _newest_first(tool: Tool) -> tuple[Any, ...]:
    return (tool.modified_at, tool.tool_id)


BUNDLE_FILE = "bundle.json"
_MAX_BYTES_STORE = 4 * 1024 * 1024
_LOCK_WAIT_S = 30.0
_AT_ONCE = 200
"""How many files are open at most while many are written."""
_NEVER: Stamp = (0, 0, 0, 0)
"""A stamp that no file has."""

Item = TypeVar("Item")


class _Listed(NamedTuple):
    """The record files in a folder, and the faults of the others."""

    paths: list[str]
    faults: list[Problem]


class _Seen(NamedTuple):
    """The result of one look: every folder and file with its stamp, and their content.

    `listed` are the record files of a folder; they are valid while the folder has the same stamp.
    """

    stamps: dict[str, Stamp | None]
    files: dict[str, RecordFile]
    snapshot: BundleSnapshot
    is_young: bool
    listed: dict[str, _Listed]


class BundleStore:
    """The bundles of one project. Threads and processes may share it; the first write creates the folder.

    `is_found` says that the project's `.onetool` was there, and ours, when the configuration was read. One that appears
    later must be owned by this user. `on_made` is called when the first write creates a `.onetool`.
    """

    def __init__(self, root: Path, *, is_found: bool = True, on_made: Callable[[], None] = lambda: None) -> None:
        self.root = root
        self._is_found = is_found
        self._on_made = on_made
        self._seen = _Seen({str(root): None}, {}, EMPTY, is_young=False, listed={})
        self._written: dict[str, RecordFile] = {}

    def is_empty(self) -> bool:
        """Whether there certainly is no bundle; reads no file."""
        return not self._seen.files and not os.path.isdir(self.root)

    def look(self) -> BundleSnapshot:
        """Return what the files hold now."""
        before = self._seen
        stamps, listed, faults = self._listed(before)
        if stamps == before.stamps and not before.is_young:
            return before.snapshot
        found = {path: stamp for path, stamp in stamps.items() if path.endswith(".json") and stamp is not None}
        files = {path: self._file(path, stamp, before.files.get(path)) for path, stamp in found.items()}
        young = any(stamp is not None and is_young(stamp) for stamp in stamps.values())
        same = files.keys() == before.files.keys() and all(files[p].text == before.files[p].text for p in files)
        same = same and faults == before.snapshot.outside
        snapshot = before.snapshot if same else snapshot_of(files, faults)
        self._seen = _Seen(stamps, files, snapshot, young, listed)
        self._written = {}
        return snapshot

    def glance(self, bundle: str, slug: str) -> BundleSnapshot:
        """`look` at the files that one slug depends on: a few system calls, however many tools there are."""
        seen = self._seen
        if not seen.is_young:
            places = self._places(seen.snapshot.of_slug(bundle), slug)
            if places is not None and all(stamp_of(place) == seen.stamps.get(place) for place in places):
                return seen.snapshot
        return self.look()

    def problems(self) -> tuple[Problem, ...]:
        """The files that cannot be used, and why."""
        return self.look().problems

    @contextmanager
    def writing(self) -> Iterator[BundleSnapshot]:
        """Hold the store's lock: nobody else writes, and the snapshot stays true until the end."""
        self._require_own()
        is_new = not os.path.lexists(self.root.parent)
        make_folder(self.root)
        if is_new:
            self._on_made()
        with locked(self.root / ".store", _LOCK_WAIT_S):
            yield self.look()

    def save_bundle(self, bundle: Bundle) -> None:
        """Write a bundle. Needs the lock."""
        folder = self.root / bundle.bundle_id
        make_folder(folder)
        sweep(folder)
        self._write({folder / BUNDLE_FILE: (bundle, bundle.to_dict())})

    def save_tools(self, bundle_id: str, tools: Iterable[Tool]) -> None:
        """Write tools of a bundle. Needs the lock."""
        folder = self.root / bundle_id
        sweep(folder)
        self._write({folder / f"{tool.tool_id}.json": (tool, tool.stored()) for tool in tools})

    def remove_tool(self, tool: Tool) -> None:
        """Delete a tool's file. Needs the lock."""
        _unlink(self.root / tool.bundle_id / f"{tool.tool_id}.json")

    def require_sound(self, bundle_id: str) -> None:
        """Raise Conflict if the file of that bundle exists and cannot be read."""
        self.require_readable(self.root / bundle_id / BUNDLE_FILE)

    def is_bare(self, bundle_id: str) -> bool:
        """Whether a bundle's folder holds nothing but the bundle itself."""
        folder = self.root / bundle_id
        sweep(folder)
        try:
            return set(os.listdir(folder)) <= {BUNDLE_FILE}
        except OSError:
            return False

    def remove_bundle(self, bundle_id: str) -> None:
        """Delete a bundle without tools, with its folder. Needs the lock."""
        folder = self.root / bundle_id
        _unlink(folder / BUNDLE_FILE)
        try:
            os.rmdir(folder)
        except OSError as exc:
            raise StoreError.of(folder, exc, doing="delete") from exc

    def require_readable(self, path: Path) -> None:
        """Raise Conflict for a file that could not be read: its content would be lost."""
        held = self._seen.files.get(str(path))
        if held is not None and held.fault is not None:
            raise Conflict(f"'{path}' {held.fault.message}", hint=held.fault.hint)

    def _write(self, records: Mapping[Path, tuple[Bundle | Tool, Mapping[str, Any]]]) -> None:
        """Write files of one folder: all, or if one cannot be written none of the new ones."""
        for path in records:
            self.require_readable(path)
        texts = {path: (record, _text(data)) for path, (record, data) in records.items()}
        try:
            chunks = list(_chunks([(path, text) for path, (_, text) in texts.items()], _AT_ONCE))
            for some in chunks:
                _write_some(some, is_last=some is chunks[-1])
        except BaseException:  # also an interrupt
            for path in records:
                if str(path) not in self._seen.files:
                    with suppress(OSError):
                        os.unlink(path)
            raise
        self._written = {str(path): RecordFile(_NEVER, True, text, record) for path, (record, text) in texts.items()}

    def _require_own(self) -> None:
        """Refuse a `.onetool` that another user made."""
        if self._is_found or not hasattr(os, "geteuid"):
            return
        try:
            owners = {os.lstat(self.root.parent).st_uid, os.stat(self.root.parent).st_uid}
        except FileNotFoundError:
            return
        if owners != {os.geteuid()}:
            raise StoreError(self.root.parent, "another user owns it", doing="use")

    def _listed(self, before: _Seen) -> tuple[dict[str, Stamp | None], dict[str, _Listed], tuple[Problem, ...]]:
        """Every folder and file with its stamp, the record files of each folder, and the faults outside of records."""
        root = str(self.root)
        stamps: dict[str, Stamp | None] = {root: stamp_of(root)}
        listed: dict[str, _Listed] = {}
        faults: list[Problem] = []
        if stamps[root] is None:
            return stamps, listed, ()
        try:
            self._require_own()
            for folder in _folders(root, faults):
                stamp = stamps[folder] = stamp_of(folder)
                known = None if before.is_young or before.stamps.get(folder) != stamp else before.listed.get(folder)
                inside = known or _records(folder)
                if inside is None:
                    continue
                listed[folder] = inside
                faults += inside.faults
                for path in inside.paths:
                    stamps[path] = _plain_stamp(path)
        except (OSError, StoreError) as exc:
            said = exc if isinstance(exc, StoreError) else StoreError.of(root, exc, doing="read")
            return {root: stamps[root]}, {}, (Problem(root, said.message, said.hint),)
        return stamps, listed, tuple(faults)

    def _file(self, path: str, stamp: Stamp, before: RecordFile | None) -> RecordFile:
        if before is not None and before.stamp == stamp and not before.is_young:
            return before
        text = _read(path, stamp)
        for known in (before, self._written.get(path)):  # what we wrote need not be parsed
            if known is not None and known.text == text:
                return known._replace(stamp=stamp, is_young=is_young(stamp))
        return parse(path, text, stamp, is_young=is_young(stamp))

    def _places(self, held: StoredBundle | None, slug: str) -> list[str] | None:
        """The folders and files that a slug of a bundle depends on."""
        if held is None:
            return None
        root = str(self.root)
        folder = os.path.join(root, held.bundle.bundle_id)
        tools = [os.path.join(folder, f"{tool.tool_id}.json") for tool in held.versions(slug)]
        return [root, folder, os.path.join(folder, BUNDLE_FILE), *tools]


def _write_some(texts: Sequence[tuple[Path, bytes]], *, is_last: bool) -> None:
    """Write files of one folder. All are written before the first is synced, which is far quicker."""
    drafts: list[Draft] = []
    try:
        for path, text in texts:
            drafts.append(Draft(path, mode=_mode(path)))
            drafts[-1].open()
            drafts[-1].write(text)
        for draft in drafts:
            draft.publish(sync_folder=is_last and draft is drafts[-1])
    except BaseException:  # also an interrupt: nothing half may stay
        for draft in drafts:
            draft.discard()
        raise


def _chunks(items: list[Item], size: int) -> Iterator[list[Item]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _mode(path: Path) -> int:
    try:
        return stat.S_IMODE(os.lstat(path).st_mode)
    except OSError:
        return 0o600


def _text(record: Mapping[str, Any]) -> bytes:
    import json

    import orjson

    whole = {"format": FORMAT, **record}
    try:
        return orjson.dumps(whole, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # a number of more than 64 bits
        return json.dumps(whole, ensure_ascii=False, indent=2, allow_nan=False).encode() + b"\n"


def _folders(root: str, faults: list[Problem]) -> list[str]:
    found = []
    with os.scandir(root) as entries:
        for entry in entries:
            if not is_id(entry.name):
                if not entry.name.startswith(".") and entry.is_dir():
                    faults.append(Problem(entry.path, "is not a bundle's folder.", "Those are named by UUIDv7 ids."))
            elif entry.is_dir(follow_symlinks=False):
                found.append(entry.path)
            else:
                faults.append(Problem(entry.path, "is not a folder, and is not read."))
    return sorted(found)


def _records(folder: str) -> _Listed | None:
    """The record files of a bundle's folder, or None if it was removed meanwhile."""
    found = _Listed([], [])
    try:
        inside = os.scandir(folder)
    except FileNotFoundError:
        return None
    with inside:
        for entry in inside:
            name = entry.name
            if name.startswith(".") or not name.endswith(".json"):
                continue
            if name != BUNDLE_FILE and not is_id(name.removesuffix(".json")):
                found.faults.append(Problem(entry.path, "is not a bundle's file.", "Those are named by UUIDv7 ids."))
            elif not entry.is_file(follow_symlinks=False):
                found.faults.append(Problem(entry.path, "is not a plain file, and is not read."))
            else:
                found.paths.append(entry.path)
    return found


def _plain_stamp(path: str) -> Stamp | None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:  # deleted in this moment
        return None
    return stamp_from(found) if stat.S_ISREG(found.st_mode) else None


def _read(path: str, stamp: Stamp) -> bytes | str:
    """Return the content of a file, or why it cannot be read."""
    if stamp[2] > _MAX_BYTES_STORE:
        return f"It has {stamp[2]:,} bytes; a record has at most {_MAX_BYTES_STORE:,}."
    try:
        with open(path, "rb") as file:
            if fault := Owners().fault(os.fstat(file.fileno()), path):
                return f"It {fault.message} {fault.hint}"
            return file.read(_MAX_BYTES_STORE)
    except OSError as exc:
        return StoreError.of(path, exc, doing="read").message


def _unlink(path: Path) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as exc:
        raise StoreError.of(path, exc, doing="delete") from exc
