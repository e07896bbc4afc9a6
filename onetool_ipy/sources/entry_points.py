"""Packs that installed distributions offer in the entry point group `onetool_ipy.packs`: name = module.

They are pack files too: outlined as text, and imported at first use by their own module name. A quick scan first checks
whether any distribution offers a pack, because `importlib.metadata` takes ten times as long.

The working directory is on `sys.path` in a kernel and under `python -m`. A distribution found there came with the
folder and was not installed by the user, so it does not count.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from onetool_ipy.core.tool import Problem, ToolSpec
from onetool_ipy.sources.outline import OutlineCache
from onetool_ipy.sources.pack_files import PackFile

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUP", "EntryPoints"]

GROUP = "onetool_ipy.packs"
_SUFFIXES = (".dist-info", ".egg-info")


class _Offer(NamedTuple):
    """One entry point: its pack and its file."""

    name: str
    module: str
    file: Path | None


class EntryPoints:
    """The packs of installed distributions."""

    def __init__(self, *, cache: OutlineCache | None = None) -> None:
        self._cache = cache
        self._files: list[PackFile] = []
        self._problems: list[Problem] = []
        self._places: tuple[tuple[str, int], ...] | None = None
        self._offers: tuple[_Offer, ...] = ()
        self.refresh()

    def tools(self) -> Iterator[ToolSpec]:
        for file in self._files:
            yield from file.tools()

    def problems(self) -> Iterator[Problem]:
        yield from self._problems
        for file in self._files:
            yield from file.problems()

    def refresh(self) -> bool:
        """Look for edited packs, and for new and removed ones if `sys.path` changed."""
        places = tuple(_places())
        if places == self._places:
            return self._refresh_files()
        self._places = places
        self._problems = []
        try:
            offers = tuple(_offers()) if _any_offer() else ()
        except Exception as exc:  # noqa: BLE001 - the metadata of a foreign distribution may be broken in any way
            self._problems.append(Problem("entry points", f"{type(exc).__name__}: {exc}"))
            offers = ()
        if offers == self._offers:
            return self._refresh_files()
        self._offers = offers
        self._files = [
            PackFile(offer.file, origin="entry_point", pack=offer.name, module=offer.module, cache=self._cache)
            for offer in offers
            if offer.file is not None
        ]
        self._problems += [
            Problem(f"entry point '{offer.name}'", f"No module '{offer.module}'.", "Is its distribution complete?")
            for offer in offers
            if offer.file is None
        ]
        if self._cache is not None:
            self._cache.save()
        return True

    def close(self) -> None:
        return None

    def _refresh_files(self) -> bool:
        changed = [file.refresh() for file in self._files]  # a list, so that every file is refreshed
        return any(changed)


def _places() -> Iterator[tuple[str, int]]:
    """Yield the folders of distributions, and when each last changed."""
    for place in sys.path:
        try:
            yield place, os.stat(place or ".").st_mtime_ns
        except (OSError, ValueError):
            continue


def _any_offer() -> bool:
    """Whether any distribution may offer a pack. False is certain, True is not."""
    for place in sys.path:
        try:
            with os.scandir(place or ".") as found:
                folders = [entry.path for entry in found if entry.name.endswith(_SUFFIXES)]
        except NotADirectoryError:
            return True  # an archive: importlib.metadata can look into it
        except (OSError, ValueError):
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
    if not all(part.isidentifier() for part in module.split(".")):
        return None
    inner = Path(*module.split("."))
    own, here = _root(point), _real(".")
    for root in [*([] if own is None else [own]), *map(Path, sys.path), *_linked(module)]:
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


def _linked(module: str) -> Iterator[Path]:
    """Yield the folder of the top package as the import system finds it: editable installs have their own finder."""
    from importlib.util import find_spec

    try:
        spec = find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        return
    if spec is not None and spec.origin is not None:
        origin = Path(spec.origin)
        yield origin.parent.parent if origin.name == "__init__.py" else origin.parent
