"""Catalog: the built-in and the stored tools as one list of rows, and the search over it.

Rows and index are made once for what the files hold and are kept until that changes, so that a keystroke costs a search
and no more. Ranks as `ot.help` does (exact > prefix > whole word > fuzzy), equal ones by when they were changed last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from onetool_ipy.bundles.builtins import BUILTINS, Overlay, bundle_record, tool_record
from onetool_ipy.bundles.paging import Key
from onetool_ipy.bundles.snapshot import Held, Snapshot
from onetool_ipy.bundles.store import BundleStore
from onetool_ipy.core import match
from onetool_ipy.core.model import ToolSpec

if TYPE_CHECKING:
    from onetool_ipy.bundles.model import Bundle, Tool

__all__ = ["Catalog", "Row", "by_age"]

_TIERS = {"exact": 0, "prefix": 1, "word": 2, "fuzzy": 3}


class Row(NamedTuple):
    """A tool with its bundle. `name` is what calls of this very version are named in the registry and the log.

    `is_chosen` says that the slug alone, `plain_name`, stands for this version now.
    """

    bundle: Bundle
    tool: Tool
    name: str
    plain_name: str
    is_chosen: bool

    @property
    def is_on(self) -> bool:
        return self.bundle.is_enabled and self.tool.is_enabled


class _State(NamedTuple):
    """What was made for one state of the files."""

    snapshot: Snapshot
    off: frozenset[str]
    bundles: list[Bundle]
    rows: list[Row]
    by_place: dict[tuple[str, str, str], Row]


class Catalog:
    """Every live bundle and tool. `find` gives the real tool behind a built-in."""

    def __init__(self, store: BundleStore, overlay: Overlay, find: Callable[[str], ToolSpec | None]) -> None:
        self._store = store
        self._overlay = overlay
        self._find = find
        self._state: _State | None = None
        self._index: tuple[_State, match.Index] | None = None
        self._found: tuple[_State, str, list[tuple[Key, Row]]] | None = None

    def bundles(self) -> list[Bundle]:
        """The live bundles, built-in ones first, then the oldest first."""
        return self._now().bundles

    def rows(self) -> list[Row]:
        """The tools of all live bundles, the oldest first."""
        return self._now().rows

    def row(self, bundle_id: str, pair: tuple[str, str]) -> Row | None:
        """The tool of that bundle, slug and version."""
        return self._now().by_place.get((bundle_id, *pair))

    def search(self, text: str) -> list[tuple[Key, Row]]:
        """The rows that fit, best first, each with what it is ranked by; without any text all, the newest first."""
        state = self._now()
        known = self._found
        if known is not None and known[0] is state and known[1] == text:
            return known[2]
        if text.strip():
            hits = self._indexed(state).search(text, limit=None)
            ranked = [((_TIERS[hit.tier], -hit.score, *_newest(row)), row) for hit in hits for row in hit.item.value]
        else:
            ranked = [(_newest(row), row) for row in state.rows]
        ranked.sort(key=lambda one: one[0])
        self._found = (state, text, ranked)
        return ranked

    def _now(self) -> _State:
        snapshot, off = self._store.look(), self._overlay.off()
        state = self._state
        if state is None or state.snapshot is not snapshot or state.off != off:
            state = self._state = self._made(snapshot, off)
        return state

    def _made(self, snapshot: Snapshot, off: frozenset[str]) -> _State:
        bundles: list[Bundle] = []
        rows: list[Row] = []
        for builtin in BUILTINS:
            bundles.append(bundle_record(builtin, off))
            for tool in builtin.tools:
                record = tool_record(builtin, tool, off, self._find)
                rows.append(Row(bundles[-1], record, tool.func, tool.func, is_chosen=True))
        for held in snapshot.live():
            bundles.append(held.bundle)
            rows += _rows(held)
        rows.sort(key=lambda row: by_age(row.tool.created_at.timestamp(), row.tool.tool_id))
        by_place = {(row.bundle.bundle_id, *row.tool.pair): row for row in rows}
        return _State(snapshot, off, bundles, rows, by_place)

    def _indexed(self, state: _State) -> match.Index:
        if self._index is None or self._index[0] is not state:
            by_name: dict[str, list[Row]] = {}
            for row in state.rows:
                by_name.setdefault(f"{row.bundle.slug}.{row.tool.slug}", []).append(row)
            self._index = (state, match.Index(_entry(name, rows) for name, rows in by_name.items()))
        return self._index[1]


def _rows(held: Held) -> list[Row]:
    bundle = held.bundle
    lead = bundle.bundle_id if held.twin else bundle.slug  # the slug's calls are those of the older twin
    return [
        Row(
            bundle,
            tool,
            name=f"{lead}.{tool.slug}@{tool.version}",
            plain_name=f"{lead}.{tool.slug}",
            is_chosen=held.chosen(tool.slug) is tool,
        )
        for tool in held.tools.values()
    ]


def by_age(created: float, own_id: str) -> Key:
    """What lists are sorted by: neither of it ever changes."""
    return (created, own_id)


def _newest(row: Row) -> Key:
    return (-row.tool.modified_at.timestamp(), row.tool.tool_id)


def _entry(name: str, rows: list[Row]) -> match.Entry:
    """One entry for all versions of a slug."""
    tools = [row.tool for row in rows]
    words = dict.fromkeys(text for tool in tools for text in (tool.display_name, tool.description) if text)
    arguments = dict.fromkeys(arg for tool in tools for arg in tool.arg_schema.get("properties") or {})
    tags = dict.fromkeys(tag for tool in tools for tag in tool.tags)
    return match.Entry(name, ". ".join(words), tuple(arguments), tuple(tags), rows)
