"""The built-in bundles: the five tools of 004 under fixed ids. Only their switches can be changed.

Their descriptions and schemas come from the real tools when a record is made. The switches are one
small file, `builtins.json`, in the store. Every call of a built-in tool reads them, so that costs
one `stat` of the file and loads no library.
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from onetool_ipy.base.errors import Conflict
from onetool_ipy.base.files import (
    Stamp,
    StoreError,
    is_young,
    read_object,
    stamp_from,
    stamp_of,
    write_whole,
)
from onetool_ipy.core.tool import Problem

VERSION = "1"
_FORMAT = 1
SINCE = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class BuiltInTool(NamedTuple):
    """A tool we ship: its id, its slug, and the name it has in the registry."""

    tool_id: str
    slug: str
    func: str


class BuiltIn(NamedTuple):
    """A bundle we ship."""

    bundle_id: str
    slug: str
    description: str
    tools: tuple[BuiltInTool, ...]


def _id(number: int) -> str:
    return f"019b7730-1000-7000-8000-{number:012x}"


BUILTINS: tuple[BuiltIn, ...] = (
    BuiltIn(_id(0x100), "time", "Current time.", (BuiltInTool(_id(0x101), "now", "time.now"),)),
    BuiltIn(
        _id(0x200), "tools", "Echo, for testing.", (BuiltInTool(_id(0x201), "echo", "tools.echo"),)
    ),
    BuiltIn(
        _id(0x300), "shell", "Working directory.", (BuiltInTool(_id(0x301), "pwd", "shell.pwd"),)
    ),
    BuiltIn(
        _id(0x400),
        "fs",
        "Files inside the allowed folders.",
        (
            BuiltInTool(_id(0x401), "list-dir", "fs.list_dir"),
            BuiltInTool(_id(0x402), "read-file", "fs.read_file"),
        ),
    ),
)


class _Read(NamedTuple):
    stamp: Stamp | None
    is_young: bool
    off: frozenset[str]
    problem: Problem | None = None


class BuiltInSwitches:
    """Which built-in bundles and tools are off, by id. The next call in every process sees a
    change.

    A damaged file turns nothing off, is a problem, and is never written.
    """

    def __init__(self, root: Path) -> None:
        self._path = root / "builtins.json"
        self._name = str(self._path)
        self._read = _Read(None, is_young=False, off=frozenset())
        self.reasons: Mapping[str, str] = {}

    def off(self) -> frozenset[str]:
        """The ids that are switched off."""
        before = self._read
        stamp = self._stamp()
        if stamp == before.stamp and not before.is_young:
            return before.off
        fresh = self._read = self._load(stamp)
        # Of each tool that is off: which switch it is, and how to turn it on.
        reasons = {}
        for bundle in BUILTINS:
            for tool in bundle.tools:
                if bundle.bundle_id in fresh.off:
                    reasons[tool.func] = bundle_off(bundle.slug)
                elif tool.tool_id in fresh.off:
                    reasons[tool.func] = tool_off(bundle.slug, tool.slug, VERSION)
        self.reasons = reasons
        return fresh.off

    def reason(self, func: str) -> str:
        """Say why a built-in tool cannot be called now, and how to change that; empty if it can."""
        self.off()
        return self.reasons.get(func, "")

    def problems(self) -> list[Problem]:
        self.off()
        return [] if self._read.problem is None else [self._read.problem]

    def switch(self, record_id: str, *, enabled: bool) -> None:
        """Turn a bundle or tool on or off. Needs the store's lock."""
        off = self.off()
        problem = self._read.problem
        if problem is not None:
            raise Conflict(f"'{self._path}' {problem.message}", hint=problem.hint)
        changed = off - {record_id} if enabled else off | {record_id}
        if changed == off:
            return
        text = json.dumps({"format": _FORMAT, "disabled": sorted(changed)}, indent=2)
        write_whole(self._path, text.encode() + b"\n", nofollow=True)

    def _stamp(self) -> Stamp | None:
        """The stamp of the file; of a link that leads nowhere its own."""
        try:
            return stamp_of(self._name) or stamp_from(os.lstat(self._name))
        except OSError:
            return None

    def _load(self, stamp: Stamp | None) -> _Read:
        if stamp is None:
            return _Read(None, is_young=False, off=frozenset())
        young = is_young(stamp)
        try:
            data = read_object(self._path)
            number, off = data["format"], frozenset(data["disabled"])
            is_newer = number > _FORMAT
        except StoreError as exc:
            return self._unread(stamp, f"is damaged: {exc.reason}.", is_newer=False)
        except (TypeError, KeyError):
            reason = "is damaged: it does not say which tools are off."
            return self._unread(stamp, reason, is_newer=False)
        if number != _FORMAT:
            return self._unread(
                stamp, f"has format {number!r}; this version knows {_FORMAT}.", is_newer=is_newer
            )
        return _Read(stamp, young, off)

    def _unread(self, stamp: Stamp, message: str, *, is_newer: bool) -> _Read:
        hint = "Update onetool-ipy." if is_newer else "Correct or delete the file."
        problem = Problem(self._name, message, f"Until then all built-in tools are on. {hint}")
        return _Read(stamp, is_young(stamp), frozenset(), problem)


def bundle_off(slug: str) -> str:
    """The reason why a tool cannot be called while its bundle is off."""
    return f"its bundle '{slug}' is off. Turn it on with: %tool bundle on {slug}"


def tool_off(bundle: str, slug: str, version: str) -> str:
    """The reason why a tool that is off cannot be called."""
    return f"version '{version}' is off. Turn it on with: %tool bundle on {bundle}.{slug}@{version}"
