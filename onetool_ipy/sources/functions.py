"""Python functions as tools: `@tool`, pack files, and packs that other distributions offer by entry point.

Pack files are outlined as text and imported at the first call of one of their tools; an edited file is read again by
its next call. A broken file is a Problem with its reason and stops nothing else.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onetool_ipy.core import describe, names
from onetool_ipy.core.decorate import Marks, marks_of
from onetool_ipy.core.errors import InvalidTool, ToolNotFound, Unavailable
from onetool_ipy.core.model import Origin, Problem, ToolSpec
from onetool_ipy.sources.outline import Outline, ToolOutline, read_outline
from onetool_ipy.sources.outline_cache import OutlineCache

__all__ = ["ENTRY_POINTS", "EntryPoints", "Functions", "PackFile", "PackFiles", "spec_of"]

ENTRY_POINTS = "onetool_ipy.packs"
_MAX_BYTES = 5_000_000


def spec_of(fn: Callable[..., Any], *, pack: str, origin: Origin, where: str = "") -> ToolSpec:
    """Describe a function as a tool of a pack, with what `@tool` says about it."""
    marks = marks_of(fn)
    return describe.from_function(fn, name=_full_name(fn, marks, pack), origin=origin, where=where, **marks.fields())


def _full_name(fn: Callable[..., Any], marks: Marks, pack: str) -> str:
    short = marks.name or getattr(fn, "__name__", "")
    return names.canonical(short, pack=marks.pack or pack)


class Functions:
    """Tools we ship: a fixed list of (pack, functions)."""

    def __init__(self, packs: Sequence[tuple[str, Sequence[Callable[..., Any]]]]) -> None:
        self._packs = packs

    def tools(self) -> Iterator[ToolSpec]:
        for pack, functions in self._packs:
            for fn in functions:
                yield spec_of(fn, pack=pack, origin="builtin")

    def problems(self) -> Iterable[Problem]:
        return ()

    def refresh(self) -> bool:
        return False

    def close(self) -> None:
        return None


class PackFile:
    """One Python file of tools: outlined as text, imported at first use, read again after an edit."""

    def __init__(
        self, path: Path, *, origin: Origin = "file", pack: str = "", cache: OutlineCache | None = None
    ) -> None:
        self.path = path
        self._origin: Origin = origin
        self._stem = pack or path.stem
        self._cache = cache
        self._stamp: tuple[int, int, int] | None = None
        self._outline = Outline(self._stem)
        self._loaded: dict[str, ToolSpec] = {}
        self._loaded_stamp: tuple[int, int, int] | None = None
        self._importing = threading.RLock()
        self.refresh()

    @property
    def pack(self) -> str:
        return self._outline.pack

    def refresh(self) -> bool:
        """Outline the file again if it changed."""
        stamp = self._stat()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        self._outline = self._read(stamp)
        return True

    def tools(self) -> Iterator[ToolSpec]:
        for tool in self._outline.tools:
            loaded = self._loaded.get(tool.name) if self._loaded_stamp == self._stamp else None
            yield loaded or self._sketch(tool)

    def problems(self) -> Iterator[Problem]:
        if self._outline.error:
            yield Problem(str(self.path), self._outline.error, "Fix the file; its other tools wait for it.")
        for tool in self._outline.tools:
            if not tool.documented:
                yield Problem(f"{self.path}:{tool.line}", f"'{tool.name}' has no docstring.", "Say what it does.")

    def _sketch(self, tool: ToolOutline) -> ToolSpec:
        return ToolSpec(
            name=tool.name,
            description=tool.description,
            parameters=tool.parameters,
            run=lambda args: self._live(tool.name).run(args),
            is_async=tool.is_async,
            returns=tool.returns,
            example=tool.example,
            tags=tool.tags,
            origin=self._origin,
            read_only=tool.read_only,
            timeout_s=tool.timeout_s,
            where=f"{self.path}:{tool.line}",
            live=lambda: self._live(tool.name),
        )

    def _live(self, name: str) -> ToolSpec:
        """The tool as the file has it now; imports it where that is needed."""
        if self._loaded_stamp is None or self._stat() != self._loaded_stamp:
            with self._importing:
                if self._loaded_stamp is None or self._stat() != self._loaded_stamp:
                    self._load()
        spec = self._loaded.get(name)
        if spec is None:
            raise ToolNotFound(f"The tool '{name}' is no longer in {self.path.name}.")
        return spec

    def _load(self) -> None:
        stamp = self._stat()
        self.refresh()
        if stamp is None:
            raise Unavailable(f"The file '{self.path}' is gone.")
        if self._outline.error:
            raise Unavailable(f"The pack file '{self.path}' cannot be used: {self._outline.error}")
        module = self._import()
        self._loaded = dict(self._specs(module))
        self._loaded_stamp = stamp

    def _import(self) -> types.ModuleType:
        """Run the file as a module of its own. Compiled here, since cached bytecode may be older than an edit."""
        key = hashlib.sha256(str(self.path).encode("utf-8", "surrogateescape")).hexdigest()[:8]
        module = types.ModuleType(f"onetool_pack_{self._outline.pack}_{key}")
        module.__file__ = str(self.path)
        before = sys.modules.get(module.__name__)
        sys.modules[module.__name__] = module
        try:
            code = compile(self.path.read_bytes(), str(self.path), "exec")
            exec(code, module.__dict__)
        except (Exception, SystemExit) as exc:
            if before is None:
                del sys.modules[module.__name__]
            else:
                sys.modules[module.__name__] = before
            raise Unavailable(
                f"The pack file '{self.path}' fails when it is imported: {type(exc).__name__}: {exc}",
                hint="Fix the file; the next call reads it again.",
            ) from exc
        return module

    def _specs(self, module: types.ModuleType) -> Iterator[tuple[str, ToolSpec]]:
        for tool in self._outline.tools:
            fn = getattr(module, tool.function, None)
            if not callable(fn):
                continue
            try:
                spec = spec_of(fn, pack=self._outline.pack, origin=self._origin, where=f"{self.path}:{tool.line}")
            except InvalidTool as exc:
                raise Unavailable(f"'{tool.name}' in '{self.path}': {exc.message}") from exc
            yield tool.name, spec.replace(name=tool.name, live=lambda name=tool.name: self._live(name))

    def _read(self, stamp: tuple[int, int, int] | None) -> Outline:
        key = f"{self.path}|{stamp}"
        known = self._cache.get(key) if self._cache is not None else None
        if isinstance(known, dict):
            return Outline.from_json(known)
        if stamp is None:
            return Outline(self._stem, error="The file is gone.")
        if stamp[1] > _MAX_BYTES:
            return Outline(
                self._stem, error=f"The file has {stamp[1]:,} bytes; a pack file has at most {_MAX_BYTES:,}."
            )
        try:
            text = self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            return Outline(self._stem, error=f"{type(exc).__name__}: {exc}")
        outline = read_outline(text, pack=self._stem, filename=str(self.path))
        if self._cache is not None:
            self._cache.put(key, outline.to_json())
        return outline

    def _stat(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return (found.st_mtime_ns, found.st_size, found.st_ino)


class PackFiles:
    """The pack files of a project: every file that the patterns of `tools_dir` find."""

    def __init__(self, root: Path | None, patterns: Sequence[str], *, cache: OutlineCache | None = None) -> None:
        self._root = root
        self._patterns = tuple(patterns)
        self._cache = cache
        self._files: dict[Path, PackFile] = {}
        self.refresh()

    def pack_names(self) -> list[str]:
        return list(dict.fromkeys(file.pack for file in self._files.values()))

    def tools(self) -> Iterator[ToolSpec]:
        for file in self._files.values():
            yield from file.tools()

    def problems(self) -> Iterator[Problem]:
        for file in self._files.values():
            yield from file.problems()

    def refresh(self) -> bool:
        found = list(self._found())
        changed = found != list(self._files)
        files = {}
        for path in found:
            known = self._files.get(path)
            if known is None:
                known = PackFile(path, cache=self._cache)
            else:
                changed = known.refresh() or changed
            files[path] = known
        self._files = files
        if self._cache is not None:
            self._cache.save()
        return changed

    def close(self) -> None:
        return None

    def _found(self) -> Iterator[Path]:
        if self._root is None:
            return
        for pattern in self._patterns:
            absolute = Path(pattern).expanduser()
            base, rest = (
                (Path(absolute.anchor), str(absolute.relative_to(absolute.anchor)))
                if absolute.is_absolute()
                else (self._root, pattern)
            )
            for path in sorted(base.glob(rest)):
                if path.suffix == ".py" and path.is_file() and not path.name.startswith("_"):
                    yield path


@dataclass(frozen=True, slots=True)
class _Offer:
    """One entry point: the pack it names and the file it leads to."""

    name: str
    module: str
    file: Path | None


class EntryPoints:
    """Packs that installed distributions offer in the group `onetool_ipy.packs`."""

    def __init__(self, *, cache: OutlineCache | None = None) -> None:
        self._cache = cache
        self._files: list[PackFile] = []
        self._problems: list[Problem] = []
        self._known: tuple[_Offer, ...] | None = None
        self.refresh()

    def tools(self) -> Iterator[ToolSpec]:
        for file in self._files:
            yield from file.tools()

    def problems(self) -> Iterator[Problem]:
        yield from self._problems
        for file in self._files:
            yield from file.problems()

    def refresh(self) -> bool:
        offers = tuple(_offers())
        if offers == self._known:
            return any([file.refresh() for file in self._files])
        self._known = offers
        self._files = [PackFile(o.file, origin="entry_point", pack=o.name, cache=self._cache) for o in offers if o.file]
        self._problems = [
            Problem(f"entry point '{o.name}'", f"No module '{o.module}'.", "Is its distribution installed whole?")
            for o in offers
            if o.file is None
        ]
        return True

    def close(self) -> None:
        return None


def _offers() -> Iterator[_Offer]:
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        yield _Offer(point.name, point.value, _locate(point))


def _locate(point: importlib.metadata.EntryPoint) -> Path | None:
    """The file of an entry point's module, without importing anything of it where its distribution lists it."""
    module = point.value.partition(":")[0].strip()
    parts = module.split(".")
    candidates = [Path(*parts).with_suffix(".py"), Path(*parts) / "__init__.py"]
    for root in [p for p in (_dist_root(point), *map(Path, sys.path)) if p is not None]:
        for candidate in candidates:
            if (root / candidate).is_file():
                return root / candidate
    return None


def _dist_root(point: importlib.metadata.EntryPoint) -> Path | None:
    dist = getattr(point, "dist", None)
    return Path(str(dist.locate_file(""))) if dist is not None else None
