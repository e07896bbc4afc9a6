"""Bundles on disk: JSON files that people can review and merge; written whole, under one lock per
store.

    bundles/<slug>/bundle.json, bundles/<slug>/<tool slug>@<version>.json, bundles/builtins.json

The ids inside say what a file is; its name is for people, and any other name works too. A name that
some file system cannot hold, or not tell from another, has a short hash behind it. A file that a
person wrote needs no ids: then it is the tool and the version of its name, in the bundle of its
folder, with or without a `bundle.json`.

The files are read into a `BundleSnapshot`, a value that is replaced as a whole. The stamps of the
folders and files say whether the snapshot is still true; they are compared at each listing, so that
writes of another process are seen at once, and only changed files are read again. A file that is
damaged, misplaced or of another format costs only itself: it becomes a Problem and is never written
to. Of two records that claim one slug, or one version of a tool, the older one is served, so that
nothing stops working when branches are merged.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
import stat
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from onetool_ipy.base.background import do_together
from onetool_ipy.base.errors import Conflict, InvalidRequest
from onetool_ipy.base.files import (
    AtomicFile,
    Stamp,
    StoreError,
    is_young,
    locked,
    make_folder,
    names_in,
    remove,
    remove_stale_temp_files,
    stamp_from,
    stamp_of,
)
from onetool_ipy.base.records import once
from onetool_ipy.base.values import Json
from onetool_ipy.bundles.validation import require_slug
from onetool_ipy.config.paths import Owners
from onetool_ipy.core.tool import Problem

if TYPE_CHECKING:
    from onetool_ipy.bundles.model import Bundle, Tool

BUNDLE_FILE = "bundle.json"
FORMAT = 1
"""The format of the files. A larger number was written by a later version of ours."""

_COPY = "A copy needs ids of its own: change toolID or bundleID in it."
_FIX = "Fix it, or delete it; the others are not touched."
_UPDATE = "Update onetool-ipy to use it; it is left as it is."
_MAX_BYTES = 4 * 1024 * 1024
_MAX_BUNDLES_NAMED = 200
_MAX_BYTES_NAMED = 200_000
_LOCK_WAIT_S = 30.0
_MAX_READS = 4
_MAX_OPEN = 200
"""How many files are open at most while many are written."""
_NEVER: Stamp = (0, 0, 0, 0)
"""A stamp that no file has."""
_RESERVED = frozenset(
    ("con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10)))
)
_MAX_NAME_BYTES = 150


class RecordFile(NamedTuple):
    """One file: its text (or why it cannot be read), and its record or its fault."""

    text: bytes | str
    record: Bundle | Tool | None = None
    fault: Problem | None = None


# `slugs` is kept in `__dict__`, so the class has no slots.
@dataclass(frozen=True, kw_only=True, eq=False)
class StoredBundle:
    """A bundle with its tools by slug and version, and where they are.

    `paths` are the files of its tools by tool id, also of those that are not served. `duplicate_of`
    is the id of an older bundle that has the same slug, or empty.
    """

    folder: str
    bundle: Bundle
    tools: Mapping[tuple[str, str], Tool]
    paths: Mapping[str, str]
    duplicate_of: str = ""
    _completed: dict[str, Tool] = field(default_factory=dict)

    @once
    def slugs(self) -> dict[str, list[Tool]]:
        """The tools of each slug, the one changed last first."""
        slugs: dict[str, list[Tool]] = {}
        for tool in sorted(
            self.tools.values(), key=lambda tool: (tool.modified_at, tool.tool_id), reverse=True
        ):
            slugs.setdefault(tool.slug, []).append(tool)
        return {slug: slugs[slug] for slug, _ in self.tools}

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
        """The version that a slug alone stands for: the enabled one changed last, else the one
        changed last."""
        versions = self.versions(slug)
        return next(
            (tool for tool in versions if tool.is_enabled), versions[0] if versions else None
        )


class BundleSnapshot(NamedTuple):
    """Bundles by id, the oldest first, also deleted ones; ids of live ones by slug; faults of
    files."""

    bundles: dict[str, StoredBundle]
    slugs: dict[str, str]
    problems: tuple[Problem, ...]

    def live(self) -> Iterable[StoredBundle]:
        """The bundles that were not deleted."""
        return (stored for stored in self.bundles.values() if stored.bundle.soft_deleted_at is None)

    def of_slug(self, slug: str) -> StoredBundle | None:
        """The live bundle of that slug."""
        bundle_id = self.slugs.get(slug)
        return None if bundle_id is None else self.bundles[bundle_id]


EMPTY = BundleSnapshot({}, {}, ())


class _State(NamedTuple):
    """What was read: the stamp of every folder and file, the files, and the snapshot made of
    them."""

    stamps: dict[str, Stamp | None]
    files: dict[str, RecordFile]
    faults: tuple[Problem, ...]
    snapshot: BundleSnapshot


def stored_slugs(root: Path) -> list[str]:
    """The slugs of the enabled bundles, sorted, for the names in a notebook. Skips files that it
    cannot read."""
    try:
        folders = sorted(os.listdir(root))[:_MAX_BUNDLES_NAMED]
    except OSError:
        return []
    slugs = []
    for folder in folders:
        try:
            # Opening a FIFO would wait for a writer.
            with open(
                os.open(root / folder / BUNDLE_FILE, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)),
                "rb",
            ) as file:
                record = json.loads(file.read(_MAX_BYTES_NAMED))
            if record["isEnabled"] and not record.get("softDeletedAt"):
                slugs.append(str(record["slug"]))
        except FileNotFoundError:
            # Tools that a person wrote need no bundle.json.
            if any("@" in name and name.endswith(".json") for name in names_in(root / folder)):
                slugs.append(folder)
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            continue
    return sorted(slugs)


class BundleStore:
    """The bundles of one project. Threads and processes may share it; the first write creates the
    folder.

    `is_found` says that the project's `.onetool` was there, and ours, when the configuration was
    read. One that appears later must be owned by this user. `on_made` is called when the first
    write creates a `.onetool`.
    """

    def __init__(
        self, root: Path, *, is_found: bool = True, on_made: Callable[[], None] = lambda: None
    ) -> None:
        self.root = root
        self._is_found = is_found
        self._on_made = on_made
        self._state = _State({str(root): None}, {}, (), EMPTY)
        self._written: dict[str, RecordFile] = {}

    def snapshot(self) -> BundleSnapshot:
        """Return what the files hold now: the same object as long as nothing changed."""
        before = self._state
        for _ in range(_MAX_READS):
            stamps, faults = self._scan()
            if stamps == before.stamps:
                return before.snapshot
            # A young file may change without a change of its stamp, so the next look reads it
            # again.
            sure = {
                path: _NEVER if stamp and is_young(stamp) else stamp
                for path, stamp in stamps.items()
            }
            files = {
                path: self._file(path, stamp)
                for path, stamp in stamps.items()
                if path.endswith(".json")
            }
            # Another process may rename a file between the listing and the reading: then it is
            # under neither name.
            if all(map(os.path.lexists, files)):
                break
        is_same = faults == before.faults and files == before.files
        snapshot = before.snapshot if is_same else _snapshot(files, faults)
        self._state, self._written = _State(sure, files, faults, snapshot), {}
        return snapshot

    def snapshot_for(self, bundle: str, slug: str) -> BundleSnapshot:
        """Return a snapshot that is true for one slug of a bundle: a few system calls, however many
        tools there are."""
        state = self._state
        stored = state.snapshot.of_slug(bundle)
        if stored is not None and stored.versions(slug):
            paths = [stored.paths[tool.tool_id] for tool in stored.versions(slug)]
            paths += [str(self.root), stored.folder, os.path.join(stored.folder, BUNDLE_FILE)]
            if all(stamp_of(path) == state.stamps.get(path) for path in paths):
                return state.snapshot
        return self.snapshot()

    def problems(self) -> tuple[Problem, ...]:
        """The files that cannot be used, and why."""
        return self.snapshot().problems

    @contextmanager
    def writing(self) -> Iterator[BundleSnapshot]:
        """Hold the store's lock: nobody else writes, and the snapshot stays true until the end."""
        self._require_own()
        is_new = not os.path.lexists(self.root.parent)
        make_folder(self.root)
        if is_new:
            self._on_made()
        with locked(self.root / ".store", _LOCK_WAIT_S):
            yield self.snapshot()

    def save_bundle(self, bundle: Bundle, before: StoredBundle | None) -> None:
        """Write a bundle into the folder of its slug, which moves with a new slug. Needs the
        lock."""
        old = None if before is None else Path(before.folder)
        names = {_folded(name) for name in os.listdir(self.root) if old is None or name != old.name}
        own = self.root / free_name(bundle.slug, bundle.bundle_id, names)
        folder = old or own
        make_folder(folder)
        remove_stale_temp_files(folder)
        self._write({folder / BUNDLE_FILE: (bundle, bundle.to_dict())})
        # A folder that cannot be renamed keeps its name: it is read under any name.
        with suppress(OSError):
            os.rename(folder, own)

    def save_tools(self, stored: StoredBundle, tools: Iterable[Tool]) -> None:
        """Write tools of a bundle. Needs the lock."""
        folder = Path(stored.folder)
        remove_stale_temp_files(folder)
        if not (folder / BUNDLE_FILE).exists():
            self._write({folder / BUNDLE_FILE: (stored.bundle, stored.bundle.to_dict())})
        names = set(map(_folded, os.listdir(folder)))
        records: dict[Path, tuple[Bundle | Tool, Json]] = {}
        for tool in tools:
            name = os.path.basename(stored.paths.get(tool.tool_id) or tool_file(tool, names))
            names.add(_folded(name))
            records[folder / name] = tool, tool.stored()
        self._write(records)

    def remove_tool(self, stored: StoredBundle, tool: Tool) -> None:
        """Delete a tool's file. Needs the lock."""
        _unlink(Path(stored.paths[tool.tool_id]))

    def require_sound(self, bundle_id: str) -> None:
        """Raise Conflict if the file of that bundle exists and cannot be read: its content would be
        lost."""
        # A damaged file, and the tools beside it, may still name the bundle that they belong to.
        pattern = re.compile(rb'"bundleID":\s*"%s"' % re.escape(bundle_id.encode()))
        files = self._state.files
        for path, file in files.items():
            if isinstance(file.text, bytes) and pattern.search(file.text):
                beside = os.path.join(os.path.dirname(path), BUNDLE_FILE)
                if beside in files and (fault := files[beside].fault) is not None:
                    raise Conflict(f"'{beside}' {fault.message}", hint=fault.hint)

    def is_bare(self, stored: StoredBundle) -> bool:
        """Whether a bundle's folder holds nothing but the bundle itself."""
        remove_stale_temp_files(Path(stored.folder))
        try:
            return set(os.listdir(stored.folder)) <= {BUNDLE_FILE}
        except OSError:
            return False

    def remove_bundle(self, stored: StoredBundle) -> None:
        """Delete a bundle without tools, with its folder. Needs the lock."""
        folder = Path(stored.folder)
        _unlink(folder / BUNDLE_FILE)
        try:
            os.rmdir(folder)
        except OSError as exc:
            raise StoreError.of(folder, exc, doing="delete") from exc

    def _file(self, path: str, stamp: Stamp | None) -> RecordFile:
        """Read a file, unless it is certainly the same; parse its text, unless it is as it was read
        or written."""
        before = self._state.files.get(path)
        if before is not None and stamp is not None and stamp == self._state.stamps.get(path):
            return before
        text = _read(path)
        for candidate in (self._written.get(path), before):
            if candidate is not None and candidate.text == text:
                return candidate
        return _parse(path, text)

    def _write(self, records: Mapping[Path, tuple[Bundle | Tool, Json]]) -> None:
        """Write files of one folder: all, or if one cannot be written none of the new ones."""
        import orjson

        texts = []
        for path, (_, data) in records.items():
            whole = {"format": FORMAT, **data}
            try:
                text = orjson.dumps(whole, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
            except TypeError:  # a number of more than 64 bits
                text = (
                    json.dumps(whole, ensure_ascii=False, indent=2, allow_nan=False).encode()
                    + b"\n"
                )
            texts.append((path, text))
        try:
            for start in range(0, len(texts), _MAX_OPEN):
                _write_some(
                    texts[start : start + _MAX_OPEN], is_last=start + _MAX_OPEN >= len(texts)
                )
        except BaseException:  # also an interrupt
            for path in records:
                if str(path) not in self._state.files:
                    with suppress(OSError):
                        remove(path)
            raise
        # The next snapshot reads the texts, and parses none of those that are as they were written.
        self._written |= {
            str(path): RecordFile(text=text, record=records[path][0]) for path, text in texts
        }

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

    def _scan(self) -> tuple[dict[str, Stamp | None], tuple[Problem, ...]]:
        """Return the stamp of every folder and record file, None for one that was just deleted; and
        other faults."""
        root = str(self.root)
        stamps: dict[str, Stamp | None] = {root: stamp_of(root)}
        faults: list[Problem] = []
        if stamps[root] is None:
            return stamps, ()
        try:
            self._require_own()
            folders = sorted(_entries(root), key=lambda entry: entry.name)
        except (OSError, StoreError) as exc:
            return {root: stamps[root]}, (_fault(root, exc),)
        for folder in folders:
            try:
                if folder.is_dir(follow_symlinks=False):
                    stamps |= _stamps_in(folder.path, faults)
                elif folder.is_dir():
                    faults.append(Problem(folder.path, "is not a folder, and is not read."))
            except OSError as exc:
                faults.append(_fault(folder.path, exc))
        return stamps, tuple(faults)


def free_name(name: str, own_id: str, taken: Collection[str], suffix: str = "") -> str:
    """A name that every file system can hold and tell from those taken: as it is, or with a short
    hash behind it.

    The names that are taken are given as `_folded` makes them.
    """
    is_odd = name.partition(".")[0].casefold() in _RESERVED or len(name.encode()) > _MAX_NAME_BYTES
    if not is_odd and _folded(name + suffix) not in taken:
        return name + suffix
    short = name.encode()[:_MAX_NAME_BYTES].decode("utf-8", "ignore")
    return f"{short}-{hashlib.sha256(own_id.encode()).hexdigest()[:8]}{suffix}"


def tool_file(tool: Tool, taken: Collection[str]) -> str:
    """The name of a tool's file."""
    return free_name(f"{tool.slug}@{tool.version}", tool.tool_id, taken, ".json")


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """The visible entries of a folder; none if it was removed meanwhile."""
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not entry.name.startswith(".")]
    except FileNotFoundError:
        return []


def _stamps_in(folder: str, faults: list[Problem]) -> dict[str, Stamp | None]:
    """Return the stamps of a folder and its record files; add what is no file to the faults."""
    stamps: dict[str, Stamp | None] = {folder: stamp_of(folder)}
    for entry in _entries(folder):
        if not entry.name.endswith(".json"):
            continue
        if entry.is_file(follow_symlinks=False):
            # A file that was just deleted, or replaced by something else, has no stamp.
            stamps[entry.path] = None
            with suppress(FileNotFoundError):
                status = os.lstat(entry.path)
                if stat.S_ISREG(status.st_mode):
                    stamps[entry.path] = stamp_from(status)
        else:
            faults.append(Problem(entry.path, "is not a plain file, and is not read."))
    return stamps


def _fault(path: str, exc: OSError | StoreError) -> Problem:
    error = exc if isinstance(exc, StoreError) else StoreError.of(path, exc, doing="read")
    return Problem(path, error.message, error.hint)


def _read(path: str) -> bytes | str:
    """Return the content of a file, or why it cannot be read."""
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if status.st_size > _MAX_BYTES:
                return f"It has {status.st_size:,} bytes; a file has at most {_MAX_BYTES:,}."
            if fault := Owners().fault(status, path):
                return f"It {fault.message} {fault.hint}"
            return file.read(_MAX_BYTES)
    except OSError as exc:
        return StoreError.of(path, exc, doing="read").message


def _parse(path: str, text: bytes | str) -> RecordFile:
    """Make a record of a file's text, or a fault."""
    import orjson

    from onetool_ipy.bundles.model import Bundle, Tool, read

    def faulty(message: str, hint: str = _FIX) -> RecordFile:
        return RecordFile(text=text, fault=Problem(path, message, hint))

    if isinstance(text, str):
        return faulty(text, "")
    try:
        data = orjson.loads(text)
    except ValueError as exc:
        return faulty(f"is damaged: {exc}.")
    if not isinstance(data, dict):
        return faulty("is damaged: it does not hold an object.")
    if _is_hand_written(path, data):
        data = {**_own_fields(path), "format": FORMAT, **data}
    number = data.pop("format", None)
    if number != FORMAT:
        is_newer = isinstance(number, int) and number > FORMAT
        return faulty(
            f"has format {number!r}; this version reads {FORMAT}.", _UPDATE if is_newer else _FIX
        )
    try:
        record = read(Bundle, data) if os.path.basename(path) == BUNDLE_FILE else read(Tool, data)
    except InvalidRequest as exc:
        return faulty(f"is damaged: {exc.message}")
    if record.is_built_in:
        return faulty("holds a built-in, which has no file.")
    return RecordFile(text=text, record=record)


def _is_hand_written(path: str, data: Mapping[str, object]) -> bool:
    """Whether a file is a tool without ids, as the documentation shows it, named
    `TOOL@VERSION.json`."""
    name = os.path.basename(path).removesuffix(".json")
    return "@" in name and name != "@" and not {"toolID", "bundleID", "createdAt"} & data.keys()


def _own_fields(path: str) -> Json:
    """What a file without ids is: the names that its path says, ids made of them, and the time when
    it was saved."""
    slug, _, version = os.path.basename(path).removesuffix(".json").rpartition("@")
    folder = os.path.basename(os.path.dirname(path))
    try:
        saved = os.stat(path).st_mtime
    except OSError:
        saved = 0.0
    moment = datetime.datetime.fromtimestamp(saved, datetime.UTC).isoformat()
    return {
        "toolID": _made_id(folder, slug, version),
        "bundleID": _made_id(folder),
        "slug": slug,
        "version": version,
        "createdAt": moment,
        "modifiedAt": moment,
    }


def _made_id(*names: str) -> str:
    """An id that is always the same for these names, in the form of a UUIDv7 of the year 1970."""
    digest = hashlib.sha256(json.dumps(names).encode()).hexdigest()
    return f"00000000-0000-7{digest[:3]}-8{digest[3:6]}-{digest[6:18]}"


def _snapshot(files: Mapping[str, RecordFile], faults: tuple[Problem, ...]) -> BundleSnapshot:
    """Put the records together. Of two that claim one place, the older one is served."""
    problems = [*faults, *(file.fault for file in files.values() if file.fault is not None)]
    folders: dict[str, dict[str, RecordFile]] = {}
    for path, file in files.items():
        folders.setdefault(os.path.dirname(path), {})[path] = file
    read = [
        stored
        for folder, inside in folders.items()
        if (stored := _bundle(folder, inside, problems)) is not None
    ]
    bundles: dict[str, StoredBundle] = {}
    slugs: dict[str, str] = {}
    duplicates: dict[str, str] = {}
    for stored in sorted(
        read, key=lambda one: (one.bundle.created_at, one.bundle.bundle_id, one.folder)
    ):
        bundle = stored.bundle
        if bundle.bundle_id in bundles:
            first = os.path.basename(bundles[bundle.bundle_id].folder)
            message = f"holds the bundle '{bundle.bundle_id}', which is in '{first}' too."
            problems.append(Problem(stored.folder, message, _COPY))
            continue
        if bundle.soft_deleted_at is None:
            older = slugs.setdefault(bundle.slug, bundle.bundle_id)
            if older != bundle.bundle_id:
                duplicates[bundle.bundle_id] = older
                message = (
                    f"the name '{bundle.slug}' is that of the bundle '{older}', which is older."
                )
                hint = "Its tools are not offered. Give it another name."
                problems.append(Problem(f"bundle {bundle.bundle_id}", message, hint))
        bundles[bundle.bundle_id] = stored
    bundles |= {own: replace(bundles[own], duplicate_of=older) for own, older in duplicates.items()}
    return BundleSnapshot(bundles, slugs, tuple(problems))


def _bundle(
    folder: str, files: Mapping[str, RecordFile], problems: list[Problem]
) -> StoredBundle | None:
    """Put the files of one folder together; None, with a problem, if it has no bundle that can be
    read."""
    from onetool_ipy.bundles.model import Bundle, Tool

    bundle = next((file.record for file in files.values() if isinstance(file.record, Bundle)), None)
    made_id = _made_id(os.path.basename(folder))
    if bundle is None and os.path.join(folder, BUNDLE_FILE) not in files:
        bundle = _bundle_of_folder(folder, made_id, files)
        if bundle is None:
            problems.append(
                Problem(folder, "has tools and no 'bundle.json'; they are not offered.", _FIX)
            )
    if bundle is None:
        return None

    def age(path: str, tool: Tool) -> tuple[object, ...]:
        # Of a file and its copy, the one that is named by its slug is served.
        return (tool.created_at, tool.tool_id, os.path.basename(path) != tool_file(tool, ()), path)

    tools: dict[tuple[str, str], Tool] = {}
    paths: dict[str, str] = {}
    records = [
        # A file without ids is a tool of the bundle that is beside it.
        (path, _within(file.record, bundle) if file.record.bundle_id == made_id else file.record)
        for path, file in files.items()
        if isinstance(file.record, Tool)
    ]
    for path, tool in sorted(records, key=lambda pair: age(*pair)):
        if tool.bundle_id != bundle.bundle_id or tool.tool_id in paths:
            message = (
                f"holds the tool '{tool.tool_id}' of the bundle '{tool.bundle_id}', which is not"
                " its own."
            )
            problems.append(Problem(path, message, _COPY))
            continue
        paths[tool.tool_id] = path
        first = tools.setdefault(tool.pair, tool)
        if first is not tool:
            name = os.path.basename(paths[first.tool_id])
            message = (
                f"version '{tool.version}' of '{tool.slug}' is in '{name}' too, which is older."
            )
            problems.append(
                Problem(path, message, "It is not offered. Delete it, or give it another version.")
            )
    return StoredBundle(folder=folder, bundle=bundle, tools=tools, paths=paths)


def _bundle_of_folder(folder: str, made_id: str, files: Mapping[str, RecordFile]) -> Bundle | None:
    """The bundle of a folder that has only files without ids; None for any other folder."""
    from onetool_ipy.bundles.model import Bundle, Tool

    tools = [file.record for file in files.values() if isinstance(file.record, Tool)]
    own = [tool for tool in tools if tool.bundle_id == made_id]
    name = os.path.basename(folder)
    if not own or len(own) < len(tools) or not _is_slug(name):
        return None
    first = min(tool.created_at for tool in own)
    return Bundle(
        bundle_id=made_id, slug=name, display_name=name, created_at=first, modified_at=first
    )


def _is_slug(name: str) -> bool:
    try:
        return require_slug(name) == name
    except InvalidRequest:
        return False


def _within(tool: Tool, bundle: Bundle) -> Tool:
    """A tool without ids of its own as one of a bundle; the same object if it is one already."""
    if tool.bundle_id == bundle.bundle_id:
        return tool
    made_id = _made_id(bundle.bundle_id, tool.slug, tool.version)
    return tool.model_copy(update={"bundle_id": bundle.bundle_id, "tool_id": made_id})


def _write_some(texts: Collection[tuple[Path, bytes]], *, is_last: bool) -> None:
    """Write files of one folder. All are synced at the same time: one after the other, each waits
    for the disk."""
    with ExitStack() as stack:
        files = []
        for path, text in texts:
            mode = 0o600
            with suppress(OSError):
                mode = stat.S_IMODE(os.lstat(path).st_mode)
            files.append(stack.enter_context(AtomicFile(path, mode=mode)))
            files[-1].write(text)
        do_together(AtomicFile.sync, files)
        for file in files:
            file.commit(sync_folder=is_last and file is files[-1])


def _unlink(path: Path) -> None:
    try:
        remove(path)
    except FileNotFoundError:
        return
    except OSError as exc:
        raise StoreError.of(path, exc, doing="delete") from exc
