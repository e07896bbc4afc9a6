"""Bundles on disk: JSON files that people can review and merge; written whole, under one lock per store.

    bundles/<slug>/bundle.json, bundles/<slug>/<tool slug>@<version>.json, bundles/builtins.json

The ids inside say what a file is; its name is for people. A name that some file system cannot hold, or not tell from
another, has a short hash behind it. Files under other names, such as the ids of an earlier version, are read as well,
and renamed at the next write: one rename for each, so that a kill at any moment loses nothing.

The files are read into a `BundleSnapshot`, a value that is replaced as a whole; only changed files are read again. The
file system is asked for changes each time, so that writes of another process are seen at once. A file that is damaged,
misplaced or of a newer format costs only itself: it becomes a Problem and is never written to. Of two records that
claim one slug, or one version of a tool, the older one is served, so that nothing stops working when branches are
merged. Importing this module loads no pydantic.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from onetool_ipy.base.background import do_together
from onetool_ipy.base.errors import Conflict, InvalidRequest
from onetool_ipy.base.files import (
    AtomicFile,
    Stamp,
    StoreError,
    is_young,
    locked,
    make_folder,
    remove_stale_temp_files,
    stamp_from,
    stamp_of,
)
from onetool_ipy.bundles.validation import is_id
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


BUNDLE_FILE = "bundle.json"
FORMAT = 1
"""The format of the files. A larger number was written by a later version of ours."""

_COPY = "A copy needs ids of its own: change toolID or bundleID in it."
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
    """A bundle with its tools by slug and version, and where they are.

    `paths` are the files of its tools by tool id, also of those that are not served. `claimed` are pairs taken by files
    of a newer format.
    """

    __slots__ = ("_completed", "bundle", "claimed", "folder", "paths", "slugs", "tools", "twin")

    def __init__(
        self,
        folder: str,
        bundle: Bundle,
        tools: Mapping[tuple[str, str], Tool],
        paths: Mapping[str, str],
        claimed: frozenset[tuple[str, str]],
    ) -> None:
        self.folder = folder
        self.paths = paths
        self.bundle = bundle
        self.tools = tools
        self.claimed = claimed
        self.twin = ""
        self._completed: dict[str, Tool] = {}
        self.slugs: dict[str, list[Tool]] = {}
        for tool in tools.values():
            self.slugs.setdefault(tool.slug, []).append(tool)
        for versions in self.slugs.values():
            versions.sort(key=_newest_first, reverse=True)

    def completed(self, tool: Tool) -> Tool:
        """A tool of it with the base URL and the auth of the bundle: the same object each time."""
        if tool.http is None or self.bundle.base_url is None:
            return tool
        if tool.tool_id not in self._completed:
            self._completed[tool.tool_id] = tool.within(self.bundle)
        return self._completed[tool.tool_id]

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
    found.sort(key=lambda held: (held.bundle.created_at, held.bundle.bundle_id, held.folder))
    found = _each_once(found, problems)
    slugs: dict[str, str] = {}
    for held in found:
        bundle = held.bundle
        if bundle.soft_deleted_at is not None:
            continue
        held.twin = slugs.get(bundle.slug, "")
        if held.twin:
            said = f"the name '{bundle.slug}' is that of the bundle '{held.twin}', which is older."
            problems.append(
                Problem(f"bundle {bundle.bundle_id}", said, "Its tools are not offered. Give it another name.")
            )
        slugs.setdefault(bundle.slug, bundle.bundle_id)
    return BundleSnapshot({held.bundle.bundle_id: held for held in found}, slugs, tuple(problems), outside)


def _record(path: str, data: dict[str, Any], file: RecordFile) -> RecordFile:
    from onetool_ipy.bundles.model import Bundle, Tool, read

    try:
        record = read(Bundle, data) if os.path.basename(path) == BUNDLE_FILE else read(Tool, data)
    except InvalidRequest as exc:
        return file._replace(fault=Problem(path, f"is damaged: {exc.message}", _FIX))
    if record.is_built_in:
        return file._replace(fault=Problem(path, "holds a built-in, which has no file.", _FIX))
    return file._replace(record=record)


def _each_once(found: Sequence[StoredBundle], problems: list[Problem]) -> list[StoredBundle]:
    """The bundles without copies of a whole folder, which would have the same ids."""
    folders: dict[str, str] = {}
    kept = []
    for held in found:
        first = folders.setdefault(held.bundle.bundle_id, held.folder)
        if first == held.folder:
            kept.append(held)
        else:
            said = f"holds the bundle '{held.bundle.bundle_id}', which is in '{os.path.basename(first)}' too."
            problems.append(Problem(held.folder, said, _COPY))
    return kept


def _held(folder: str, inside: list[tuple[str, RecordFile]], problems: list[Problem]) -> StoredBundle | None:
    from onetool_ipy.bundles.model import Bundle, Tool

    bundle = next((file.record for _, file in inside if isinstance(file.record, Bundle)), None)
    if bundle is None:
        if not any(path.endswith(BUNDLE_FILE) for path, _ in inside):
            problems.append(Problem(folder, "has tools and no 'bundle.json'; they are not offered.", _FIX))
        return None
    tools: dict[tuple[str, str], Tool] = {}
    paths: dict[str, str] = {}
    found = [(path, file.record) for path, file in inside if isinstance(file.record, Tool)]
    for path, tool in sorted(found, key=_oldest_first):
        if tool.bundle_id != bundle.bundle_id or tool.tool_id in paths:
            said = f"holds the tool '{tool.tool_id}' of the bundle '{tool.bundle_id}', which is not its own."
            problems.append(Problem(path, said, _COPY))
            continue
        paths[tool.tool_id] = path
        first = tools.setdefault(tool.pair, tool)
        if first is not tool:
            known = os.path.basename(paths[first.tool_id])
            said = f"version '{tool.version}' of '{tool.slug}' is in '{known}' too, which is older."
            problems.append(Problem(path, said, "It is not offered. Delete it, or give it another version."))
    claimed = frozenset(file.claims for _, file in inside if file.claims is not None)
    return StoredBundle(folder, bundle, tools, paths, claimed)


def _claims(data: Mapping[str, Any]) -> tuple[str, str] | None:
    slug, version = data.get("slug"), data.get("version")
    return (slug, version) if isinstance(slug, str) and isinstance(version, str) else None


def _oldest_first(one: tuple[str, Tool]) -> tuple[Any, ...]:
    """The order in which files are served: of a file and its copy, the one that is named by its slug comes first."""
    path, tool = one
    return (tool.created_at, tool.tool_id, os.path.basename(path) != tool_file(tool, ()), path)


def _newest_first(tool: Tool) -> tuple[Any, ...]:
    return (tool.modified_at, tool.tool_id)


_MAX_BYTES_STORE = 4 * 1024 * 1024
_LOCK_WAIT_S = 30.0
_MAX_LOOKS = 4
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
        self._made: dict[str, Path] = {}

    def is_empty(self) -> bool:
        """Whether there certainly is no bundle; reads no file."""
        return not self._seen.files and not os.path.isdir(self.root)

    def look(self) -> BundleSnapshot:
        """Return what the files hold now."""
        before = self._seen
        for _ in range(_MAX_LOOKS):
            stamps, listed, faults = self._listed(before)
            if stamps == before.stamps and not before.is_young:
                return before.snapshot
            found = {path: stamp for path, stamp in stamps.items() if path.endswith(".json") and stamp is not None}
            files = {path: self._file(path, stamp, before.files.get(path)) for path, stamp in found.items()}
            if len(found) == sum(path.endswith(".json") for path in stamps) and all(map(os.path.lexists, found)):
                break  # else another process renames or deletes files in this moment
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
            self._made = {}
            snapshot = self.look()
            yield self.look() if rename_to_slugs(snapshot) else snapshot

    def save_bundle(self, bundle: Bundle) -> None:
        """Write a bundle. Needs the lock."""
        folder = self._folder(bundle.bundle_id)
        if folder is None:
            name = free_name(bundle.slug, bundle.bundle_id, set(map(_folded, os.listdir(self.root))))
            folder = self._made[bundle.bundle_id] = self.root / name
        make_folder(folder)
        remove_stale_temp_files(folder)
        self._write({folder / BUNDLE_FILE: (bundle, bundle.to_dict())})

    def save_tools(self, bundle_id: str, tools: Iterable[Tool]) -> None:
        """Write tools of a bundle. Needs the lock."""
        folder, held = self._folder(bundle_id), self._seen.snapshot.bundles.get(bundle_id)
        if folder is None:
            raise StoreError(self.root, f"the bundle '{bundle_id}' is gone", doing="write")
        remove_stale_temp_files(folder)
        taken = set(map(_folded, os.listdir(folder)))
        records: dict[Path, tuple[Bundle | Tool, Mapping[str, Any]]] = {}
        for tool in tools:
            known = None if held is None else held.paths.get(tool.tool_id)
            name = tool_file(tool, taken) if known is None else os.path.basename(known)
            taken.add(_folded(name))
            records[folder / name] = tool, tool.stored()
        self._write(records)

    def remove_tool(self, tool: Tool) -> None:
        """Delete a tool's file. Needs the lock."""
        held = self._seen.snapshot.bundles.get(tool.bundle_id)
        path = None if held is None else held.paths.get(tool.tool_id)
        if path is not None:
            _unlink(Path(path))

    def require_sound(self, bundle_id: str) -> None:
        """Raise Conflict if the file of that bundle exists and cannot be read."""
        for path, file in self._seen.files.items():
            if file.fault is None or not path.endswith(BUNDLE_FILE):
                continue
            folder = os.path.dirname(path)
            inside = (text.text for place, text in self._seen.files.items() if os.path.dirname(place) == folder)
            if os.path.basename(folder) == bundle_id or any(_names(text, bundle_id) for text in inside):
                self.require_readable(Path(path))

    def _folder(self, bundle_id: str) -> Path | None:
        held = self._seen.snapshot.bundles.get(bundle_id)
        return self._made.get(bundle_id) if held is None else Path(held.folder)

    def is_bare(self, bundle_id: str) -> bool:
        """Whether a bundle's folder holds nothing but the bundle itself."""
        folder = self._folder(bundle_id)
        if folder is None:
            return False
        remove_stale_temp_files(folder)
        try:
            return set(os.listdir(folder)) <= {BUNDLE_FILE}
        except OSError:
            return False

    def remove_bundle(self, bundle_id: str) -> None:
        """Delete a bundle without tools, with its folder. Needs the lock."""
        folder = self._folder(bundle_id)
        if folder is None:
            return
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
        tools = [held.paths[tool.tool_id] for tool in held.versions(slug)]
        return [str(self.root), held.folder, os.path.join(held.folder, BUNDLE_FILE), *tools]


# --- names of files -------------------------------------------------------------------------------

_RESERVED = frozenset(("con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))))
_MAX_NAME_BYTES = 150


def free_name(wanted: str, own_id: str, taken: Collection[str], suffix: str = "") -> str:
    """A name that every file system can hold and tell from those taken: as wanted, or with a short hash behind it.

    The names that are taken are given as `_folded` makes them.
    """
    is_odd = wanted.partition(".")[0].casefold() in _RESERVED or len(wanted.encode()) > _MAX_NAME_BYTES
    if not is_odd and _folded(wanted + suffix) not in taken:
        return wanted + suffix
    short = wanted.encode()[:_MAX_NAME_BYTES].decode("utf-8", "ignore")
    return f"{short}-{hashlib.sha256(own_id.encode()).hexdigest()[:8]}{suffix}"


def tool_file(tool: Tool, taken: Collection[str]) -> str:
    """The name of a tool's file."""
    return free_name(f"{tool.slug}@{tool.version}", tool.tool_id, taken, ".json")


def rename_to_slugs(snapshot: BundleSnapshot) -> bool:
    """Rename files and folders that are not named by slugs; True if one was. Needs the lock.

    What cannot be renamed keeps its name, under which it is read as well.
    """
    renamed = False
    for held in snapshot.bundles.values():
        tools = {tool.tool_id: tool for tool in held.tools.values()}
        for tool_id, path in held.paths.items():
            if tool_id in tools:
                renamed |= _renamed(path, partial(tool_file, tools[tool_id]))
        renamed |= _renamed(held.folder, partial(free_name, held.bundle.slug, held.bundle.bundle_id))
    return renamed


def _renamed(path: str, name_among: Callable[[Collection[str]], str]) -> bool:
    folder, name = os.path.split(path)
    if name == name_among(()):
        return False
    try:
        wanted = name_among({_folded(other) for other in os.listdir(folder) if other != name})
        if name == wanted:
            return False
        os.rename(path, os.path.join(folder, wanted))
    except OSError:
        return False
    return True


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _names(text: bytes | str, bundle_id: str) -> bool:
    """Whether a file, damaged or not, says that it belongs to a bundle."""
    return isinstance(text, bytes) and re.search(rb'"bundleID":\s*"%s"' % bundle_id.encode(), text) is not None


def _write_some(texts: Sequence[tuple[Path, bytes]], *, is_last: bool) -> None:
    """Write files of one folder. All are synced at the same time: one after the other, each waits for the disk."""
    with ExitStack() as stack:
        files = [stack.enter_context(AtomicFile(path, mode=_mode(path))) for path, _ in texts]
        for file, (_, text) in zip(files, texts, strict=True):
            file.write(text)
        do_together(AtomicFile.sync, files)
        for file in files:
            file.commit(sync_folder=is_last and file is files[-1])


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
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                found.append(entry.path)
            elif entry.is_dir() or is_id(entry.name):
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
            if not entry.is_file(follow_symlinks=False):
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
        return f"It has {stamp[2]:,} bytes; a file has at most {_MAX_BYTES_STORE:,}."
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
