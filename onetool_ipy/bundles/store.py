"""Bundles on disk: flat JSON files under `.onetool/bundles/`, named by ids; written whole, under one lock per store.

    bundles/<bundleID>/bundle.json, bundles/<bundleID>/<toolID>.json, bundles/builtins.json

What the files hold is read into a Snapshot, a value that is replaced as a whole; only changed files are read again.
A file that is damaged, misplaced or of a newer format costs only itself: it is a Problem, and is never written to.
Whether anything changed is asked of the file system each time, so that what another process wrote is seen at once.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from onetool_ipy.bundles.ids import is_id
from onetool_ipy.bundles.snapshot import EMPTY, FORMAT, File, Held, Snapshot, parse, snapshot_of
from onetool_ipy.config.ownership import Owners
from onetool_ipy.core.errors import Conflict
from onetool_ipy.core.model import Problem
from onetool_ipy.stores.files import Draft, StoreError, locked, make_folder, sweep
from onetool_ipy.stores.stamps import Stamp, is_young, stamp_from, stamp_of

if TYPE_CHECKING:
    from onetool_ipy.bundles.model import Bundle, Tool

__all__ = ["BUNDLE_FILE", "BundleStore"]

BUNDLE_FILE = "bundle.json"
_MAX_BYTES = 4 * 1024 * 1024
_LOCK_WAIT_S = 30.0
_AT_ONCE = 200
"""How many files are open at most while many are written."""
_NEVER: Stamp = (0, 0, 0, 0)
"""No file has it."""

Item = TypeVar("Item")


class _Listed(NamedTuple):
    """The files in a folder that are records, and what else is wrong in it."""

    paths: list[str]
    faults: list[Problem]


class _Seen(NamedTuple):
    """What was found at one look: every folder and file with its stamp, and what they say.

    `listed` are the files in a folder, and what is wrong in it; it holds while the folder has the same stamp.
    """

    stamps: dict[str, Stamp | None]
    files: dict[str, File]
    snapshot: Snapshot
    is_young: bool
    listed: dict[str, _Listed]


class BundleStore:
    """The bundles of one project. Threads and processes may share it; nothing is made before something is written.

    `is_found` says that the project's `.onetool` was there and is ours when the configuration was read. One that
    appears later must be owned by this user. `on_made` hears of a `.onetool` that the first write makes.
    """

    def __init__(self, root: Path, *, is_found: bool = True, on_made: Callable[[], None] = lambda: None) -> None:
        self.root = root
        self._is_found = is_found
        self._on_made = on_made
        self._seen = _Seen({str(root): None}, {}, EMPTY, is_young=False, listed={})
        self._written: dict[str, File] = {}

    def is_empty(self) -> bool:
        """Whether there certainly is no bundle; says so without reading any."""
        return not self._seen.files and not os.path.isdir(self.root)

    def look(self) -> Snapshot:
        """What the files hold now."""
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

    def glance(self, bundle: str, slug: str) -> Snapshot:
        """What the files hold now, as far as one slug goes; a few system calls, however many tools there are."""
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
    def writing(self) -> Iterator[Snapshot]:
        """Hold the store's lock: nobody else writes, and what is seen inside stays true until the end."""
        self._require_own()
        is_new = not os.path.lexists(self.root.parent)
        make_folder(self.root)
        if is_new:
            self._on_made()
        with locked(self.root / ".store", _LOCK_WAIT_S):
            yield self.look()

    def save_bundle(self, bundle: Bundle) -> None:
        """Write a bundle; only while `writing`."""
        folder = self.root / bundle.bundle_id
        make_folder(folder)
        sweep(folder)
        self._write({folder / BUNDLE_FILE: (bundle, bundle.to_dict())})

    def save_tools(self, bundle_id: str, tools: Iterable[Tool]) -> None:
        """Write tools of a bundle; only while `writing`."""
        folder = self.root / bundle_id
        sweep(folder)
        self._write({folder / f"{tool.tool_id}.json": (tool, tool.stored()) for tool in tools})

    def remove_tool(self, tool: Tool) -> None:
        """Delete a tool's file; only while `writing`."""
        _unlink(self.root / tool.bundle_id / f"{tool.tool_id}.json")

    def require_sound(self, bundle_id: str) -> None:
        """Refuse where there is a bundle of that id whose own file cannot be read."""
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
        """Delete a bundle that has no tools, with its folder; only while `writing`."""
        folder = self.root / bundle_id
        _unlink(folder / BUNDLE_FILE)
        try:
            os.rmdir(folder)
        except OSError as exc:
            raise StoreError.of(folder, exc, doing="delete") from exc

    def require_readable(self, path: Path) -> None:
        """Refuse to go on with a file that could not be read: what is in it would be lost."""
        held = self._seen.files.get(str(path))
        if held is not None and held.fault is not None:
            raise Conflict(f"'{path}' {held.fault.message}", hint=held.fault.hint)

    def _write(self, records: Mapping[Path, tuple[Bundle | Tool, Mapping[str, Any]]]) -> None:
        """Write files of one folder: all, or where one cannot be written none of the new ones."""
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
        self._written = {str(path): File(_NEVER, True, text, record) for path, (record, text) in texts.items()}

    def _require_own(self) -> None:
        """A `.onetool` that another user made is not ours to use."""
        if self._is_found or not hasattr(os, "geteuid"):
            return
        try:
            owners = {os.lstat(self.root.parent).st_uid, os.stat(self.root.parent).st_uid}
        except FileNotFoundError:
            return
        if owners != {os.geteuid()}:
            raise StoreError(self.root.parent, "another user owns it", doing="use")

    def _listed(self, before: _Seen) -> tuple[dict[str, Stamp | None], dict[str, _Listed], tuple[Problem, ...]]:
        """Every folder and file with its stamp; the folders' lists; and what is wrong outside the records."""
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

    def _file(self, path: str, stamp: Stamp, before: File | None) -> File:
        if before is not None and before.stamp == stamp and not before.is_young:
            return before
        text = _read(path, stamp)
        for known in (before, self._written.get(path)):  # what we wrote need not be parsed
            if known is not None and known.text == text:
                return known._replace(stamp=stamp, is_young=is_young(stamp))
        return parse(path, text, stamp, is_young=is_young(stamp))

    def _places(self, held: Held | None, slug: str) -> list[str] | None:
        """The folders and files that decide what a slug of a bundle stands for."""
        if held is None:
            return None
        root = str(self.root)
        folder = os.path.join(root, held.bundle.bundle_id)
        tools = [os.path.join(folder, f"{tool.tool_id}.json") for tool in held.versions(slug)]
        return [root, folder, os.path.join(folder, BUNDLE_FILE), *tools]


def _write_some(texts: Sequence[tuple[Path, bytes]], *, is_last: bool) -> None:
    """Write files of one folder. All are on their way before the first is waited for, which is far quicker."""
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
                    faults.append(Problem(entry.path, "is no bundle's folder.", "Those are named by UUIDv7 ids."))
            elif entry.is_dir(follow_symlinks=False):
                found.append(entry.path)
            else:
                faults.append(Problem(entry.path, "is not a folder, and is not read."))
    return sorted(found)


def _records(folder: str) -> _Listed | None:
    """The records in a bundle's folder: plain files that are named as such. None where it was removed meanwhile."""
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
                found.faults.append(Problem(entry.path, "is no bundle's file.", "Those are named by UUIDv7 ids."))
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
    """The content, or why there is none."""
    if stamp[2] > _MAX_BYTES:
        return f"It has {stamp[2]:,} bytes; a record has at most {_MAX_BYTES:,}."
    try:
        with open(path, "rb") as file:
            if fault := Owners().fault(os.fstat(file.fileno()), path):
                return f"It {fault.message} {fault.hint}"
            return file.read(_MAX_BYTES)
    except OSError as exc:
        return StoreError.of(path, exc, doing="read").message


def _unlink(path: Path) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as exc:
        raise StoreError.of(path, exc, doing="delete") from exc
