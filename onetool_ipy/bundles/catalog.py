"""The built-in and the stored tools as one list of rows, the search over it, and pages of it.

Rows and index are made once for what the files hold and are kept until that changes, so that a keystroke costs one
search. Ranks are those of `ot.help` (exact > prefix > whole word > fuzzy); equal ones are ordered by the last change.

A page token says after which row the next page begins, so that rows added or removed shift nothing. It is signed with
the store and the query it belongs to: a token that was made up, cut, or issued for another list is refused. It holds
no secret.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from onetool_ipy.base import values
from onetool_ipy.base.errors import InvalidRequest
from onetool_ipy.base.search import Entry, Index
from onetool_ipy.bundles.builtins import BUILTINS, SINCE, VERSION, BuiltIn, BuiltInSwitches, BuiltInTool
from onetool_ipy.bundles.model import NO_ARGUMENTS, Bundle, GoTool, Tool
from onetool_ipy.bundles.store import BundleSnapshot, BundleStore
from onetool_ipy.core.tool import ToolSpec

DEFAULT_SIZE = 25
MAX_SIZE = 256
_MAX_TOKEN = 2000
_MAC_BYTES = 16
_AGAIN = "Ask for the first page again, without a token."

Key = tuple[Any, ...]
"""The sort key of a row: numbers and texts, different for every row."""

Row = TypeVar("Row")
_TIERS = {"exact": 0, "prefix": 1, "word": 2, "fuzzy": 3}


def require_size(size: object) -> int:
    """The number of rows on a page: at least 1, at most 256."""
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        label = values.safe_repr(size, 40)
        raise InvalidRequest(f"pageSize: {label} is not a number from 1 to {MAX_SIZE}.")
    return min(size, MAX_SIZE)


def page_of(
    rows: Sequence[Row], key: Callable[[Row], Key], *, size: object, token: object, query: Sequence[object], store: str
) -> tuple[list[Row], str | None]:
    """Return the rows after the token's row, and the token of the next page. `rows` are sorted by `key`."""
    limit = require_size(size)
    start = 0
    if token is not None:
        after = _opened(token, query, store)
        try:
            start = next((place for place, row in enumerate(rows) if key(row) > after), len(rows))
        except TypeError:
            raise InvalidRequest("pageToken: it belongs to another list.", hint=_AGAIN) from None
    chosen = list(rows[start : start + limit])
    more = start + limit < len(rows)
    return chosen, _token(key(chosen[-1]), query, store) if more and chosen else None


def _token(key: Key, query: Sequence[object], store: str) -> str:
    payload = json.dumps(list(key), separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(_mac(payload, query, store) + payload).decode().rstrip("=")


def _opened(token: object, query: Sequence[object], store: str) -> Key:
    try:
        if not isinstance(token, str) or not 0 < len(token) <= _MAX_TOKEN:
            raise ValueError("no token")
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        mac, payload = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        if mac != _mac(payload, query, store) or _token(tuple(json.loads(payload)), query, store) != token:
            raise ValueError("another list's")
        return tuple(json.loads(payload))
    except (ValueError, TypeError):
        label = values.safe_repr(token, 60)
        raise InvalidRequest(f"pageToken: {label} does not belong to this list.", hint=_AGAIN) from None


def _mac(payload: bytes, query: Sequence[object], store: str) -> bytes:
    about = json.dumps([store, list(query)], ensure_ascii=True, default=str).encode()
    return hashlib.blake2b(payload, digest_size=_MAC_BYTES, key=hashlib.sha256(about).digest()).digest()


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


class _State(NamedTuple):
    """Rows made for one state of the files."""

    snapshot: BundleSnapshot
    off: frozenset[str]
    bundles: list[Bundle]
    rows: list[CatalogRow]
    by_place: dict[tuple[str, str, str], CatalogRow]


class BundleCatalog:
    """Every live bundle and tool. `find` returns the real tool behind a built-in."""

    def __init__(self, store: BundleStore, switches: BuiltInSwitches, find: Callable[[str], ToolSpec | None]) -> None:
        self._store = store
        self._switches = switches
        self._find = find
        self._state: _State | None = None
        self._index: tuple[_State, Index] | None = None
        self._last_search: tuple[_State, str, list[tuple[Key, CatalogRow]]] | None = None

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
        """The tool of that bundle, slug and version."""
        return self._now().by_place.get((bundle_id, *pair))

    def search(self, text: str) -> list[tuple[Key, CatalogRow]]:
        """The rows that match, best first, each with its sort key; without any text all rows, the newest first."""
        state = self._now()
        cached = self._last_search
        if cached is not None and cached[0] is state and cached[1] == text:
            return cached[2]
        if text.strip():
            hits = self._indexed(state).search(text, limit=None)
            ranked = [((_TIERS[hit.tier], -hit.score, *_newest(row)), row) for hit in hits for row in hit.item.value]
        else:
            ranked = [(_newest(row), row) for row in state.rows]
        ranked.sort(key=lambda one: one[0])
        self._last_search = (state, text, ranked)
        return ranked

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
                plain_name, is_chosen = f"{lead}.{record.slug}", stored.chosen(record.slug) is record
                rows.append(CatalogRow(bundle, record, f"{plain_name}@{record.version}", plain_name, is_chosen))
        rows.sort(key=by_age)
        by_place = {(row.bundle.bundle_id, *row.tool.pair): row for row in rows}
        return _State(snapshot, off, bundles, rows, by_place)

    def _indexed(self, state: _State) -> Index:
        if self._index is None or self._index[0] is not state:
            by_name: dict[str, list[CatalogRow]] = {}
            for row in state.rows:
                by_name.setdefault(f"{row.bundle.slug}.{row.tool.slug}", []).append(row)
            entries = []
            # All versions of a slug are one entry.
            for name, rows in by_name.items():
                tools = [row.tool for row in rows]
                words = dict.fromkeys(text for tool in tools for text in (tool.display_name, tool.description) if text)
                arguments = dict.fromkeys(arg for tool in tools for arg in tool.arg_schema.get("properties") or {})
                tags = dict.fromkeys(tag for tool in tools for tag in tool.tags)
                entries.append(Entry(name, ". ".join(words), tuple(arguments), tuple(tags), rows))
            self._index = (state, Index(entries))
        return self._index[1]


def by_age(row: CatalogRow) -> Key:
    """The sort key of lists; it never changes."""
    return (row.tool.created_at.timestamp(), row.tool.tool_id)


def _newest(row: CatalogRow) -> Key:
    return (-row.tool.modified_at.timestamp(), row.tool.tool_id)


def _tool_record(
    builtin: BuiltIn, tool: BuiltInTool, off: frozenset[str], find: Callable[[str], ToolSpec | None]
) -> Tool:
    """The record of a built-in tool, with the description and the schema of the real one."""
    spec = find(tool.func)
    schema: dict[str, Any] = dict(NO_ARGUMENTS) if spec is None else spec.parameters
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
