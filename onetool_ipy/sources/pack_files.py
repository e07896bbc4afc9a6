"""Pack files: found by the patterns of `tools_dir`, outlined as text, imported at the first call
and after edits.

The search stays inside the folder of the configuration. A pattern or link that leads outside, a
file that another user may have written, and too many files are problems; the search is bounded,
whatever the patterns are.

A broken file is a Problem and stops no other. Every call checks whether the file changed, by its
times, size and inode. A file that changed a moment ago is compared by its text, because the clock
of some file systems ticks in seconds.

`EntryPoints` are the packs that installed distributions offer in the entry point group
`onetool_ipy.packs`: name = module. They are pack files too, imported at first use by their own
module name. A quick scan first checks whether any distribution offers a pack, because
`importlib.metadata` takes ten times as long. The working directory is on `sys.path` in a kernel and
under `python -m`; a distribution found there came with the folder and was not installed by the
user, so it does not count.
"""

from __future__ import annotations

import fnmatch
import hashlib
import logging
import os
import stat
import sys
import threading
import types
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from onetool_ipy.base import forks, values
from onetool_ipy.base.errors import InvalidTool, ToolNotFound, Unavailable
from onetool_ipy.base.files import Stamp, Unreadable, is_young, read, stamp_from, stamp_of
from onetool_ipy.base.printable import printable
from onetool_ipy.base.records import collector_paused
from onetool_ipy.config.paths import Owners
from onetool_ipy.core import current
from onetool_ipy.core.tool import FunctionFacts, GuardFacts, Origin, Problem, ToolSpec
from onetool_ipy.sources.outline import OutlineCache, PackOutline, ToolOutline
from onetool_ipy.sources.pack_code import PackCode

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "onetool_ipy.packs"
MAX_FILES = 2_000
_MAX_ENTRIES = 20_000
_MAX_DEPTH = 20
_MAGIC = frozenset("*?[")
_SUFFIXES = (".dist-info", ".egg-info")
_MAX_BYTES = 1_000_000
_log = logging.getLogger("onetool_ipy.sources")


class _TooManyEntries(Exception):
    """The search has seen as many entries as it may."""


class PackFileSearch:
    """One search for the pack files of a project. `problems` lists what does not count, `looked`
    the folders that were read and the places that were looked at."""

    def __init__(self, root: Path) -> None:
        self.problems: list[Problem] = []
        self.looked: dict[str, None] = {}
        self._root = root
        self._owners = Owners(root)
        self._left = _MAX_ENTRIES
        self._real = os.path.realpath(root)
        self._folders: dict[str, bool] = {str(root): True, self._real: True}

    def files(self, patterns: Sequence[str]) -> dict[str, Stamp]:
        """Return the files with their stamps, in the order of the patterns, then by name."""
        paths: dict[str, None] = {}
        for pattern in patterns:
            parts = [
                part for part in pattern.replace(os.sep, "/").split("/") if part not in ("", ".")
            ]
            is_outside = (
                os.path.isabs(pattern)
                or pattern.startswith(("/", "~"))
                or os.path.splitdrive(pattern)[0]
            )
            if is_outside or ".." in parts or "\0" in pattern:
                self._report(
                    "tools_dir",
                    f"'{pattern}' leads out of '{self._root.name}/', so it is ignored.",
                    f"Put pack files into {self._root.name}/tools/ and name them from there, e.g."
                    ' "tools/*.py".',
                )
                continue
            try:
                # In the order that `Path` has, folder by folder, without making one.
                paths.update(
                    dict.fromkeys(
                        sorted(self._matching(parts), key=lambda path: path.split(os.sep))
                    )
                )
            except _TooManyEntries:
                message = f"'{pattern}' leads through more than {_MAX_ENTRIES:,} files and folders."
                self._report(
                    "tools_dir", message, "Name the folder of the pack files more precisely."
                )
                break
        chosen = [
            (path, stamp_from(status))
            for path in paths
            if (status := self._counting(path)) is not None
        ]
        if len(chosen) > MAX_FILES:
            excess = f"finds {len(chosen):,} pack files; only the first {MAX_FILES:,} count."
            self._report("tools_dir", excess, "Remove some, or join them.")
        return dict(chosen[:MAX_FILES])

    def _report(self, where: str, message: str, hint: str = "") -> None:
        problem = Problem(printable(where), printable(message), printable(hint))
        if problem not in self.problems:
            self.problems.append(problem)

    def _matching(self, parts: Sequence[str]) -> Iterator[str]:
        """Yield the paths that match a pattern; a folder stands for the Python files in it."""
        may_be_folder = not any(_MAGIC & set(part) for part in parts)
        for path in self._walk(str(self._root), parts, 0):
            if may_be_folder and os.path.isdir(path):
                yield from self._walk(path, ["*.py"], 0)
            elif path.endswith(".py") and not os.path.basename(path).startswith("_"):
                yield path

    def _walk(self, folder: str, parts: Sequence[str], depth: int) -> Iterator[str]:
        if not parts:
            yield folder
            return
        if depth > _MAX_DEPTH:
            return
        first, rest = parts[0], parts[1:]
        if first == "**":
            yield from self._walk(folder, rest, depth)
            for name in self._names(folder):
                inner = os.path.join(folder, name)
                if os.path.isdir(inner) and not os.path.islink(inner):
                    yield from self._walk(inner, parts, depth + 1)
        elif not _MAGIC & set(first):
            inner = os.path.join(folder, first)
            self.looked[inner] = None
            if os.path.lexists(inner):
                yield from self._walk(inner, rest, depth + 1)
        else:
            for name in fnmatch.filter(self._names(folder), first):
                inner = os.path.join(folder, name)
                if not rest:
                    yield inner
                elif os.path.isdir(inner):
                    yield from self._walk(inner, rest, depth + 1)

    def _names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted. No folder is listed that others may have
        changed."""
        self.looked[folder] = None
        if not self._is_safe(folder):
            return []
        names: list[str] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._left -= 1
                    if self._left < 0:
                        raise _TooManyEntries
                    names.append(entry.name)
        except OSError:
            return []
        return sorted(names)

    def _counting(self, path: str) -> os.stat_result | None:
        """Return the status of a regular file in folders that only its owner may write; None for
        anything else."""
        status = self._status(path)
        is_file = status is not None and stat.S_ISREG(status.st_mode)
        return status if is_file and self._is_safe(os.path.dirname(path)) else None

    def _is_safe(self, folder: str) -> bool:
        """Whether a folder and all folders between it and the root are the user's own."""
        if folder not in self._folders:
            is_own = self._is_safe(os.path.dirname(folder)) and self._status(folder) is not None
            self._folders[folder] = is_own
        return self._folders[folder]

    def _status(self, path: str) -> os.stat_result | None:
        """Return the status of a file or folder; None, with a problem, where a link leads out or
        others may write."""
        try:
            status = os.lstat(path)
        except (OSError, ValueError):
            return None
        if stat.S_ISLNK(status.st_mode):
            real = os.path.realpath(path)
            if real.startswith(self._real + os.sep) and real != path:
                return self._status(real) if self._is_safe(os.path.dirname(real)) else None
            message = f"is a link that leads out of '{self._root.name}/', so it is ignored."
            self._report(path, message, "Copy what it leads to instead.")
            return None
        if fault := self._owners.fault(status, path):
            self._report(path, *fault)
            return None
        return status


class _Look(NamedTuple):
    """What a look at a pack file saw. `text` is None if it was not read.

    `stamp` is None if the file is gone, or so young that it may change unseen: the next look reads
    it again.
    """

    outline: PackOutline
    text: bytes | None = None
    stamp: Stamp | None = None


class _Loaded(NamedTuple):
    """The tools of an imported file: the outline of the text, and the modules, that were run."""

    outline: PackOutline
    specs: dict[str, ToolSpec]
    faults: dict[str, str]
    helpers: dict[Path, str]
    stamps: tuple[Stamp | None, ...]


class PackFile:
    """One Python file of tools. `module` is its module name if it is part of an installed
    package."""

    def __init__(
        self,
        path: Path,
        *,
        origin: Origin = "file",
        pack: str = "",
        module: str = "",
        cache: OutlineCache | None = None,
        require_trust: Callable[[Path], None] = lambda _path: None,
        owners: Owners | None = None,
        on_import: Callable[[], object] = lambda: None,
        stamp: Stamp | None = None,
    ) -> None:
        self.path = path
        self._on_import = on_import
        # Every call asks for the file's stamp. A Path would put its text together again each time.
        self._file = str(path)
        self._shown = printable(self._file)
        self._owners = owners
        self._require_trust = require_trust
        self._origin: Origin = origin
        # macOS may write an umlaut as two characters; Python reads every name in this form.
        self._stem = pack or unicodedata.normalize("NFKC", path.stem)
        self._module = module
        self._cache = cache
        self._code = PackCode(path, module)
        self._seen = _Look(PackOutline(self._stem, error="The file is gone."))
        self._loaded: _Loaded | None = None
        self._last_listed: tuple[PackOutline, _Loaded | None] = (self._seen.outline, None)
        self._fault = ""
        self.after_fork()
        forks.register(self)
        self.refresh(stamp)

    def after_fork(self) -> None:
        """Take locks of this process's own."""
        self._looking = threading.RLock()
        self._importing = threading.RLock()

    @property
    def pack(self) -> str:
        return self._seen.outline.pack

    def refresh(self, stamp: Stamp | None = None) -> bool:
        """Outline the file again if it changed. Returns whether it was changed or imported since it
        was listed.

        `stamp` is that of the file now, where the caller has just looked.
        """
        self._look(stamp)
        outline, loaded = self._last_listed
        return self._seen.outline is not outline or self._loaded is not loaded

    def tools(self) -> Iterator[ToolSpec]:
        outline, loaded = self._last_listed = (self._seen.outline, self._loaded)
        for tool in outline.tools:
            is_current = (
                loaded is not None and loaded.outline is outline and tool.name in loaded.specs
            )
            yield (
                loaded.specs[tool.name]
                if loaded is not None and is_current
                else self._written(tool)
            )

    def unreadable(self) -> Problem | None:
        """Return why the file gives no tools, or None."""
        error = self._seen.outline.error
        hint = "Its tools are not offered until it is fixed."
        return self._problem(error, hint) if error else None

    def problems(self) -> Iterator[Problem]:
        outline = self._seen.outline
        if (problem := self.unreadable()) is not None:
            yield problem
        if self._fault:
            yield self._problem(self._fault, "The next call of one of its tools reads it again.")
        if self._loaded is not None and self._loaded.outline is outline:
            for name, reason in self._loaded.faults.items():
                yield Problem(self._shown, f"'{name}' {reason}")
        for fault in outline.faults:
            yield Problem(f"{self._shown}:{fault.line}", fault.message, fault.hint)
        for tool in outline.tools:
            if not tool.documented:
                yield Problem(
                    f"{self._shown}:{tool.line}",
                    f"'{tool.name}' has no docstring.",
                    "Say what it does.",
                )

    def _problem(self, message: str, hint: str) -> Problem:
        return Problem(self._shown, message.rstrip(".") + ".", hint)

    def _written(self, tool: ToolOutline) -> ToolSpec:
        """Return the tool as its text describes it."""
        return ToolSpec(
            name=tool.name,
            description=tool.description,
            parameters=tool.parameters,
            function=FunctionFacts(positional=tool.positional),
            run=lambda args: self._load(tool.name).run(args),
            is_async=tool.is_async,
            returns=tool.returns,
            example=tool.example,
            tags=tool.tags,
            origin=self._origin,
            read_only=tool.read_only,
            timeout_s=tool.timeout_s,
            where=f"{self._shown}:{tool.line}",
            load=partial(self._load, tool.name),
            deps=tool.deps,
            identity=self._code.identity,
            resource=tool.resource,
            prompt=tool.prompt,
            guard=GuardFacts(tool.reads, tool.sends, self._code.has_network),
        )

    def _load(self, name: str) -> ToolSpec:
        """Return the tool as the file has it now; import the file if needed."""
        seen, loaded = self._seen, self._loaded
        # Nearly every call of a tool ends here.
        if (
            loaded is not None
            and name in loaded.specs
            and not loaded.helpers
            and loaded.outline is seen.outline
            and seen.stamp is not None
            and seen.stamp == stamp_of(self._file)
        ):
            return loaded.specs[name]
        self._look()
        loaded = self._loaded
        if loaded is None or not self._is_current(loaded):
            before = loaded
            with self._importing:
                loaded = self._loaded
                if loaded is None or not self._is_current(loaded):
                    loaded = self._loaded = self._import()
            # The import tells schemas that the text cannot tell: whoever lists the tools hears of
            # it.
            if loaded is not before:
                self._on_import()
        spec = loaded.specs.get(name)
        if spec is not None:
            return spec
        if name in loaded.faults:
            raise Unavailable(f"The tool '{name}' of '{self._shown}' {loaded.faults[name]}")
        raise ToolNotFound(f"The tool '{name}' is no longer in '{self._shown}'.")

    def _is_current(self, loaded: _Loaded) -> bool:
        """Whether what was imported is what the file, and the modules that it imports, hold now."""
        if loaded.outline is not self._seen.outline or not loaded.helpers:
            return loaded.outline is self._seen.outline
        stamps = tuple(map(stamp_of, loaded.helpers))
        is_quiet = stamps == loaded.stamps and not any(
            stamp is not None and is_young(stamp) for stamp in stamps
        )
        return is_quiet or self._code.helpers() == loaded.helpers

    def _look(self, stamp: Stamp | None = None) -> None:
        """Outline the file again if its text changed."""
        before, now = self._seen.stamp, stamp or stamp_of(self._file)
        if before is not None and now == before:
            return
        with self._looking:
            # Another thread may have looked meanwhile. An outline that is read twice would import
            # the file twice.
            if self._seen.stamp is not before:
                return
            outline, self._seen = self._seen.outline, self._outlined(now)
        if self._seen.outline is not outline:
            self._fault = ""
            if self._seen.outline.error:
                _log.error("%s: %s", self._shown, self._seen.outline.error)

    def _outlined(self, stamp: Stamp | None) -> _Look:
        """Return the outline of the file, and its text if it was read."""
        if stamp is None:
            return _Look(PackOutline(self._stem, error="The file is gone."))
        key, sure = f"{self._file}|{stamp}", None if is_young(stamp) else stamp
        if (
            self._cache is not None
            and sure is not None
            and (cached := self._cache.get(key)) is not None
        ):
            return _Look(cached, None, sure)
        try:
            text = self._read()
        except Unreadable as exc:
            return _Look(PackOutline(self._stem, error=f"The file {exc}"), None, sure)
        outline = self._seen.outline
        if text != self._seen.text:
            from onetool_ipy.sources.outline_reader import read_outline

            outline = read_outline(text, pack=self._stem)
        if self._cache is not None and sure is not None:
            self._cache.put(key, outline)
        return _Look(outline, text, sure)

    def _read(self) -> bytes:
        """Return the text of the file. Raises Unreadable if it is gone, too large, or not the
        user's."""
        content = read(self.path)
        if content is None:
            raise Unreadable("is gone.")
        if len(content.data) > _MAX_BYTES:
            raise Unreadable(
                f"has {len(content.data):,} bytes; a pack file has at most {_MAX_BYTES:,}."
            )
        if self._owners is not None and (fault := self._owners.fault(content.stat, self._shown)):
            raise Unreadable(f"{fault.message} {fault.hint}")
        return content.data

    def _import(self) -> _Loaded:
        """Run the file. `require_trust` raises Untrusted if the user has not approved it."""
        self._require_trust(self.path)
        look = self._seen
        outline = look.outline
        if outline.error:
            raise Unavailable(f"The pack file '{self._shown}' cannot be used: {outline.error}")
        outer = current.scope()
        inside = outer or current.Scope(current.toolbox())
        # Modules are hashed first: one that is edited during the import runs again at the next
        # call.
        helpers = self._code.helpers()
        stamps = tuple(map(stamp_of, helpers))
        if self._loaded is not None and self._loaded.helpers != helpers:
            self._code.forget()
        token = current.enter(inside.while_importing())
        try:
            module = self._import_installed() if self._module else self._run_file(look)
        except (Exception, SystemExit) as exc:
            self._fault = f"fails when it is imported: {type(exc).__name__}: {exc}"
            _log.error("%s fails when it is imported: %s", self._shown, type(exc).__name__)
            raise Unavailable(
                f"The pack file '{self._shown}' {self._fault}",
                hint="Fix the file; the next call reads it again.",
            ) from exc
        finally:
            current.leave(token)
        self._fault = ""
        return self._described(module, _Loaded(outline, {}, {}, helpers, stamps))

    def _run_file(self, look: _Look) -> types.ModuleType:
        """Run the file as a module of its own. Compiles it here, because cached bytecode may be
        older than an edit."""
        text = look.text if look.text is not None else self._read()
        key = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:8]
        module = types.ModuleType(f"onetool_pack_{look.outline.pack}_{key}")
        module.__file__ = str(self.path)
        before = sys.modules.get(module.__name__)
        sys.modules[module.__name__] = module
        try:
            exec(compile(text, str(self.path), "exec", dont_inherit=True), module.__dict__)
        except BaseException:
            if before is None:
                sys.modules.pop(module.__name__, None)
            else:
                sys.modules[module.__name__] = before
            raise
        return module

    def _import_installed(self) -> types.ModuleType:
        """Import the module by its own name; reload it if it was edited since."""
        import importlib

        self._require_own_module()
        module = importlib.import_module(self._module)
        return module if self._loaded is None else importlib.reload(module)

    def _require_own_module(self) -> None:
        """Refuse to import a module of the same name from elsewhere, such as the working
        directory."""
        from importlib.util import find_spec

        top = self._module.partition(".")[0]
        spec = None if top in sys.modules else find_spec(top)
        if spec is None or not spec.has_location or spec.origin is None:
            return
        origin, own = os.path.realpath(spec.origin), os.path.realpath(self.path)
        folder = os.path.dirname(origin) if os.path.basename(origin) == "__init__.py" else ""
        if own != origin and not (folder and own.startswith(folder + os.sep)):
            raise ImportError(
                f"'{top}' would be imported from '{printable(origin)}', which is not the installed"
                " pack"
            )

    def _described(self, module: types.ModuleType, loaded: _Loaded) -> _Loaded:
        # late: they are needed for a pack that is called, and not to list it
        from onetool_ipy.sdk.requirements import merge_deps
        from onetool_ipy.sources.functions import spec_of

        outline = loaded.outline
        for tool in outline.tools:
            fn = getattr(module, tool.function, None)
            if not callable(fn):
                loaded.faults[tool.name] = "is missing after the import, or is not a function."
                continue
            try:
                spec = spec_of(
                    fn, pack=outline.pack, origin=self._origin, where=f"{self._shown}:{tool.line}"
                )
            except InvalidTool as exc:
                loaded.faults[tool.name] = f"cannot be offered: {exc.message}"
                continue
            loaded.specs[tool.name] = spec.replace(
                name=tool.name,
                deps=merge_deps(tool.deps, spec.deps),
                load=partial(self._load, tool.name),
                identity=self._code.identity,
                guard=spec.guard._replace(has_network=self._code.has_network),
            )
        return loaded


class PackFiles:
    """The pack files of a project: every file that the patterns of `tools_dir` match, relative to
    `root`.

    `require_trust` is called before a file is run, and raises Untrusted if it must not run;
    `on_import` is called after it was run.
    """

    def __init__(
        self,
        root: Path,
        patterns: Sequence[str],
        *,
        cache: OutlineCache | None = None,
        require_trust: Callable[[Path], None] = lambda _path: None,
        on_import: Callable[[], object] = lambda: None,
    ) -> None:
        self._root = root
        self._on_import = on_import
        self._require_trust = require_trust
        self._patterns = tuple(patterns)
        self._cache = cache
        self._files: dict[str, PackFile] = {}
        self._listed: list[str] = []
        self._problems: list[Problem] = []
        self._looked: dict[str, None] = {}
        with collector_paused():
            self.refresh()

    def watched(self) -> list[str]:
        """Return the files and folders on which it depends what files and packs there are."""
        return [*self._looked, *self._files]

    def pack_names(self) -> list[str]:
        """Return the packs of these files, each once."""
        return list(dict.fromkeys(file.pack for file in self._files.values()))

    def shown(self) -> list[str]:
        """Return the files, relative to the folder of the configuration."""
        return [os.path.relpath(path, self._root) for path in self._files]

    def tools(self) -> Iterator[ToolSpec]:
        files = self._files
        self._listed = list(files)
        for file in files.values():
            yield from file.tools()

    def explain(self, tool: str) -> ToolNotFound | None:
        """Return the failure of a look-up of a tool whose pack file cannot be read; else None."""
        for file in self._files.values():
            problem = file.unreadable()
            if problem is not None and file.pack == tool.partition(".")[0]:
                return ToolNotFound(
                    f"No tool '{values.cut(tool, 80)}'. {problem.where}: {problem.message}",
                    hint="Correct the file; the next call reads it again.",
                )
        return None

    def problems(self) -> Iterator[Problem]:
        yield from self._problems
        for file in self._files.values():
            yield from file.problems()

    def refresh(self) -> bool:
        """Look for new, changed and removed files. Returns whether there are others than those
        listed."""
        search = PackFileSearch(self._root)
        stamps = search.files(self._patterns)
        self._problems, self._looked = search.problems, search.looked
        changed = list(stamps) != self._listed
        files: dict[str, PackFile] = {}
        owners = Owners(self._root)
        for path, stamp in stamps.items():
            file = self._files.get(path)
            if file is None:
                file = PackFile(
                    Path(path),
                    cache=self._cache,
                    require_trust=self._require_trust,
                    owners=owners,
                    on_import=self._on_import,
                    stamp=stamp,
                )
            elif file.refresh(stamp):
                changed = True
            files[path] = file
        self._files = files
        if self._cache is not None and self._cache.is_new:
            self._cache.save()
        return changed


class _Offer(NamedTuple):
    """One entry point: its pack and its file."""

    name: str
    module: str
    file: Path | None


class EntryPoints:
    """The packs of installed distributions. `on_import` is called after one was imported."""

    def __init__(self, on_import: Callable[[], object] = lambda: None) -> None:
        self._on_import = on_import
        self._files: list[PackFile] = []
        self._problems: list[Problem] = []
        self._places: tuple[tuple[str, Stamp | None], ...] | None = None
        self._offers: tuple[_Offer, ...] = ()
        self._listed: tuple[_Offer, ...] = ()
        self.refresh()

    def tools(self) -> Iterator[ToolSpec]:
        self._listed, files = self._offers, self._files
        for file in files:
            yield from file.tools()

    def problems(self) -> Iterator[Problem]:
        yield from self._problems
        for file in self._files:
            yield from file.problems()

    def refresh(self) -> bool:
        """Look for edited packs, and for new and removed ones if `sys.path` changed since they were
        listed."""
        # The folders of distributions, and when each last changed.
        places = tuple((place, stamp_of(place or ".")) for place in sys.path)
        if places == self._places:
            return self._refresh_files()
        self._places = places
        fault: list[Problem] = []
        try:
            offers = tuple(_offers()) if _any_offer() else ()
        except Exception as exc:  # noqa: BLE001 - the metadata of a foreign distribution may be broken in any way
            fault, offers = [Problem("entry points", f"{type(exc).__name__}: {exc}")], ()
        if offers == self._offers and not fault:
            return self._refresh_files()
        self._offers = offers
        self._files = [
            PackFile(
                offer.file,
                origin="entry_point",
                pack=offer.name,
                module=offer.module,
                on_import=self._on_import,
            )
            for offer in offers
            if offer.file is not None
        ]
        self._problems = fault + [
            Problem(
                f"entry point '{offer.name}'",
                f"No module '{offer.module}'.",
                "Is its distribution complete?",
            )
            for offer in offers
            if offer.file is None
        ]
        return self._refresh_files()

    def _refresh_files(self) -> bool:
        # A list, so that every file is refreshed.
        changed = [file.refresh() for file in self._files]
        return any(changed) or self._offers != self._listed


def _any_offer() -> bool:
    """Whether any distribution may offer a pack. False is certain, True is not."""
    for place in sys.path:
        try:
            with os.scandir(place or ".") as entries:
                folders = [entry.path for entry in entries if entry.name.endswith(_SUFFIXES)]
        except (OSError, ValueError):
            if os.path.isfile(place):
                return True  # an archive: importlib.metadata can look into it
            continue
        for folder in folders:
            try:
                with open(os.path.join(folder, "entry_points.txt"), "rb") as file:
                    if GROUP.encode() in file.read():
                        return True
            except OSError:
                continue
    return False


def _offers() -> Iterator[_Offer]:
    import importlib.metadata

    here = _real(".")
    for point in importlib.metadata.entry_points(group=GROUP):
        if _root(point) == here:
            continue
        module = point.value.partition(":")[0].strip()
        yield _Offer(point.name, module, _locate(point, module))


def _locate(point: EntryPoint, module: str) -> Path | None:
    """Return the file of an entry point's module without importing anything."""
    from importlib.util import find_spec

    if not all(part.isidentifier() for part in module.split(".")):
        return None
    inner = Path(*module.split("."))
    own, here = _root(point), _real(".")
    roots = [*([] if own is None else [own]), *map(Path, sys.path)]
    # Editable installs have their own finder, so the import system is asked for the top package,
    # too.
    with suppress(ImportError, ValueError):
        spec = find_spec(module.partition(".")[0])
        if spec is not None and spec.origin is not None:
            origin = Path(spec.origin)
            roots.append(origin.parent.parent if origin.name == "__init__.py" else origin.parent)
    for root in roots:
        if _real(str(root)) == here:
            continue
        for candidate in (root / inner.with_suffix(".py"), root / inner / "__init__.py"):
            if candidate.is_file():
                return candidate
    return None


def _root(point: EntryPoint) -> Path | None:
    """Return the folder that holds the entry point's distribution."""
    dist = getattr(point, "dist", None)
    return None if dist is None else _real(str(dist.locate_file("")))


def _real(folder: str) -> Path:
    return Path(os.path.realpath(folder))
