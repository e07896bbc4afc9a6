"""The built-in and the stored tools as one list of rows, the search over it, and pages of it.

Rows and index are made once for what the files hold and are kept until that changes, so that a
keystroke costs one search. Ranks are those of `ot.help` (exact > prefix > whole word > fuzzy);
equal ones are ordered by the last change.

A page token is a keyset: it holds the sort key of the last row that was shown, with a hash of the
store and the query that it belongs to. The next page is what comes behind that key, so a row that
is deleted or switched off meanwhile moves no other one. A token that was cut or issued for another
list is refused. It holds no secret.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidRequest
from onetool_ipy.base.search import Entry, Index
from onetool_ipy.bundles.builtins import (
    BUILTINS,
    SINCE,
    VERSION,
    BuiltIn,
    BuiltInSwitches,
    BuiltInTool,
)
from onetool_ipy.bundles.model import NO_ARGUMENTS, Bundle, GoTool, Tool
from onetool_ipy.bundles.store import BundleSnapshot, BundleStore
from onetool_ipy.core.tool import ToolSpec

DEFAULT_SIZE = 25
MAX_SIZE = 256

Row = TypeVar("Row")
Key = list[Any]
"""What rows are sorted by, as JSON; two keys of one list have the same types."""

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_BUILT_IN = [builtin.bundle_id for builtin in BUILTINS]
_TIERS = {"exact": 0, "prefix": 1, "word": 2, "fuzzy": 3}


def require_size(size: object) -> int:
    """The number of rows on a page: at least 1, at most 256."""
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        label = values.safe_repr(size, 40)
        raise InvalidRequest(f"pageSize: {label} is not a number from 1 to {MAX_SIZE}.")
    return min(size, MAX_SIZE)


def page_of(
    rows: Sequence[Row],
    *,
    size: object,
    token: object,
    query: Sequence[object],
    key: Callable[[Row], Key],
) -> tuple[list[Row], str | None]:
    """Return one page of the rows, and the token of the next page. `query` says which list it is.

    The rows are sorted by `key`, which no two of them share.
    """
    limit = require_size(size)
    if token is not None:
        last = _last_key(token, query)
        try:
            rows = [row for row in rows if key(row) > last]
        except TypeError:
            raise _foreign(token) from None
    return list(rows[:limit]), _token(key(rows[limit - 1]), query) if limit < len(rows) else None


def _token(key: Key, query: Sequence[object]) -> str:
    about = json.dumps([key, list(query)], default=str).encode()
    text = base64.urlsafe_b64encode(json.dumps(key).encode()).decode("ascii")
    return f"{text}.{hashlib.blake2b(about, digest_size=16).hexdigest()}"


def _last_key(token: object, query: Sequence[object]) -> Key:
    """The key in a token; raises InvalidRequest for a token of another list, or of an earlier
    version."""
    text = token.partition(".")[0] if isinstance(token, str) else ""
    try:
        key = json.loads(base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True))
    except (ValueError, RecursionError):
        raise _foreign(token) from None
    if not isinstance(key, list) or token != _token(key, query):
        raise _foreign(token)
    return key


def _foreign(token: object) -> InvalidRequest:
    hint = "Ask for the first page again, without a token."
    return InvalidRequest(
        f"pageToken: {values.safe_repr(token, 60)} does not belong to this list.", hint=hint
    )


def bundle_key(bundle: Bundle) -> Key:
    """What bundles are sorted by: built-in ones first in their order, then the oldest first."""
    if bundle.is_built_in:
        return [0, _BUILT_IN.index(bundle.bundle_id), bundle.bundle_id]
    return [1, _micros(bundle.created_at), bundle.bundle_id]


def _micros(moment: datetime.datetime) -> int:
    return (moment - _EPOCH) // datetime.timedelta(microseconds=1)


class CatalogRow(NamedTuple):
    """A tool with its bundle. `name` is the name of this version in the registry and the call log.

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

    @property
    def key(self) -> Key:
        """What tools are sorted by: the oldest first."""
        return [_micros(self.tool.created_at), self.tool.tool_id, self.bundle.bundle_id]


class SearchHit(NamedTuple):
    """A row that a search found, and what hits are sorted by: the best first, equal ones the newest
    first."""

    key: Key
    row: CatalogRow


@dataclass(frozen=True, kw_only=True, eq=False)
class _State:
    """Rows made for one state of the files, and their index."""

    snapshot: BundleSnapshot
    off: frozenset[str]
    bundles: list[Bundle]
    rows: list[CatalogRow]
    by_place: dict[tuple[str, str, str], CatalogRow]

    @cached_property
    def index(self) -> Index:
        """The index of the names, all versions of a slug as one entry."""
        by_name: dict[str, list[CatalogRow]] = {}
        for row in self.rows:
            by_name.setdefault(f"{row.bundle.slug}.{row.tool.slug}", []).append(row)
        entries = []
        for name, rows in by_name.items():
            tools = [row.tool for row in rows]
            words = dict.fromkeys(
                text for tool in tools for text in (tool.display_name, tool.description) if text
            )
            arguments = dict.fromkeys(
                arg for tool in tools for arg in tool.arg_schema.get("properties") or {}
            )
            tags = dict.fromkeys(tag for tool in tools for tag in tool.tags)
            entries.append(Entry(name, ". ".join(words), tuple(arguments), tuple(tags), rows))
        return Index(entries)


class BundleCatalog:
    """Every live bundle and tool. `find` returns the real tool behind a built-in."""

    def __init__(
        self, store: BundleStore, switches: BuiltInSwitches, find: Callable[[str], ToolSpec | None]
    ) -> None:
        self._store = store
        self._switches = switches
        self._find = find
        self._state: _State | None = None

    def bundles(self) -> list[Bundle]:
        """The live bundles, built-in ones first, then the oldest first."""
        return self._now().bundles

    def bundle(self, bundle_id: str) -> Bundle | None:
        """The live bundle of that id."""
        return next((bundle for bundle in self.bundles() if bundle.bundle_id == bundle_id), None)

    def rows(self) -> list[CatalogRow]:
        """The tools of all live bundles, the oldest first."""
        return self._now().rows

    def row(self, bundle_id: str, pair: tuple[str, str]) -> CatalogRow | None:
        """The tool of that bundle, slug and version. If its files are as they were, that costs a
        few system calls, however many tools there are."""
        state = self._state
        stored = None if state is None else state.snapshot.bundles.get(bundle_id)
        if state is None or stored is None:
            return self._now().by_place.get((bundle_id, *pair))
        snapshot = self._store.snapshot_for(stored.bundle.slug, pair[0])
        if snapshot is not state.snapshot or snapshot.of_slug(stored.bundle.slug) is not stored:
            state = self._now()
        return state.by_place.get((bundle_id, *pair))

    def search(self, text: str) -> list[SearchHit]:
        """The rows that match, best first, equal ones by their last change; without any text the
        newest first."""
        state = self._now()
        if not text.strip():
            hits = [((0, 0.0), row) for row in state.rows]
        else:
            # The score of an entry by itself: one that depends on other hits changes when those are
            # deleted.
            hits_of_index = state.index.search(text, limit=None)
            hits = [
                ((_TIERS[hit.tier], -hit.own), row)
                for hit in hits_of_index
                for row in hit.item.value
            ]
        pairs = [
            SearchHit([*rank, -_micros(row.tool.modified_at), *row.key[1:]], row)
            for rank, row in hits
        ]
        return sorted(pairs, key=lambda hit: hit.key)

    def _now(self) -> _State:
        snapshot, off = self._store.snapshot(), self._switches.off()
        state = self._state
        if state is None or state.snapshot is not snapshot or state.off != off:
            state = self._state = self._new_state(snapshot, off)
        return state

    def _new_state(self, snapshot: BundleSnapshot, off: frozenset[str]) -> _State:
        bundles: list[Bundle] = []
        rows: list[CatalogRow] = []
        for builtin in BUILTINS:
            bundles.append(
                Bundle(
                    bundle_id=builtin.bundle_id,
                    slug=builtin.slug,
                    display_name=builtin.slug,
                    description=builtin.description,
                    is_enabled=builtin.bundle_id not in off,
                    is_built_in=True,
                    created_at=SINCE,
                    modified_at=SINCE,
                )
            )
            for tool in builtin.tools:
                record = _tool_record(builtin, tool, off, self._find)
                rows.append(CatalogRow(bundles[-1], record, tool.func, tool.func, is_chosen=True))
        for stored in snapshot.live():
            bundle = stored.bundle
            bundles.append(bundle)
            # The calls by the slug are those of the older bundle.
            lead = bundle.bundle_id if stored.duplicate_of else bundle.slug
            for record in stored.tools.values():
                plain_name, is_chosen = (
                    f"{lead}.{record.slug}",
                    stored.chosen(record.slug) is record,
                )
                rows.append(
                    CatalogRow(
                        bundle, record, f"{plain_name}@{record.version}", plain_name, is_chosen
                    )
                )
        rows.sort(key=lambda row: row.key)
        by_place = {(row.bundle.bundle_id, *row.tool.pair): row for row in rows}
        return _State(snapshot=snapshot, off=off, bundles=bundles, rows=rows, by_place=by_place)


def _tool_record(
    builtin: BuiltIn, tool: BuiltInTool, off: frozenset[str], find: Callable[[str], ToolSpec | None]
) -> Tool:
    """The record of a built-in tool, with the description and the schema of the real one."""
    spec = find(tool.func)
    schema = dict(NO_ARGUMENTS) if spec is None else spec.parameters
    return Tool(
        tool_id=tool.tool_id,
        bundle_id=builtin.bundle_id,
        slug=tool.slug,
        version=VERSION,
        display_name=tool.slug,
        description="" if spec is None else spec.description,
        tags=[] if spec is None else list(spec.tags),
        type="go",
        arg_schema=schema,
        go_tool=GoTool(func=tool.func),
        is_enabled=tool.tool_id not in off,
        is_built_in=True,
        created_at=SINCE,
        modified_at=SINCE,
    )
