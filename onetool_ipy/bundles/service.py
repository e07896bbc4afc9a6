"""Pages by keyset: a token says behind which row the next page begins, so that rows added or gone shift nothing. Pure.

A token holds the row's sort key and is signed over the store and the query it belongs to: one that was made up, cut, or
given out for another list is refused. It is no secret: there is nothing in it but what the page before it showed.

Catalog: the built-in and the stored tools as one list of rows, and the search over it.

Rows and index are made once for what the files hold and are kept until that changes, so that a keystroke costs a search
and no more. Ranks as `ot.help` does (exact > prefix > whole word > fuzzy), equal ones by when they were changed last.

Which parts of a definition cannot work: each is made ready alone, by the same code as the whole. Pure.

Only for what was refused already: a definition that can be called is never looked at here.

What is checked when a tool is PUT, beyond the form of its record: schemas, placeholders, names, size.

Raises InvalidRequest that names every field, or BodyTooLarge; nothing is stored that could not be called.

Records: look bundles and tools up by their ids, as they are now, and refuse what spec 002 refuses.

Each demand raises the RequestRefused that says why. Also completes a tool's record with what is not stored: whether it
can be called, how often it was.

Bundles: every verb of spec 002 as a method. REST, magics and the panel are thin over it.

Owns the rules of 002: what may be put where, what is refused inside a disabled bundle, what a built-in allows. Refusals
are RequestRefused with a code and a status; what is refused changes nothing. `invoke` is a call like any other: it goes
through the executor by the name of the very version, and gives a ToolResult.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import orjson

from onetool_ipy.base import values
from onetool_ipy.base.errors import (
    BodyTooLarge,
    Conflict,
    Forbidden,
    InvalidRequest,
    InvalidTool,
    NotFound,
    RequestRefused,
)
from onetool_ipy.base.garbage import set_aside
from onetool_ipy.base.search import Entry, Index
from onetool_ipy.bundles.builtins import BUILTINS, BuiltInSwitches, bundle_record, tool_record
from onetool_ipy.bundles.http.auth import Credentials, TokenRequest
from onetool_ipy.bundles.http.definition import HttpDefinition, OAuth2, RequestTemplate
from onetool_ipy.bundles.http.request import PreparedRequest
from onetool_ipy.bundles.ids import new_id as ids_new_id
from onetool_ipy.bundles.ids import require_id, require_slug, require_version
from onetool_ipy.bundles.model import Bundle, BundleBody, Page, Switch, Tool, ToolBody, WireModel, read
from onetool_ipy.bundles.problems import fault, together, with_others
from onetool_ipy.bundles.runners import Runners
from onetool_ipy.bundles.store import BundleSnapshot, BundleStore, StoredBundle
from onetool_ipy.core.tool import CallSource, ToolResult, ToolSpec
from onetool_ipy.schema.check import compile_schema
from onetool_ipy.schema.read import params

if TYPE_CHECKING:
    from onetool_ipy.bundles.http.runner import HttpRunner

__all__ = [
    "BUILT_IN",
    "DEFAULT_SIZE",
    "MAX_BYTES",
    "MAX_SIZE",
    "REAP_AFTER",
    "BundleCatalog",
    "Bundles",
    "CallTool",
    "CatalogRow",
    "Key",
    "RecordLookup",
    "ServiceDependencies",
    "by_age",
    "no_tool",
    "page_of",
    "refuse_built_in",
    "refuse_off",
    "require_callable",
    "require_size",
    "wrong_parts",
]

DEFAULT_SIZE = 25
MAX_SIZE = 256
_MAX_TOKEN = 2000
_MAC_BYTES = 16
_AGAIN = "Ask for the first page again, without a token."

Key = tuple[Any, ...]
"""What rows are sorted by: numbers and texts, different for every row."""

Row = TypeVar("Row")


def require_size(size: Any) -> int:
    """The number of rows to give: at least 1, at most 256 whatever is asked for."""
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        shown = values.safe_repr(size, 40)
        raise InvalidRequest(f"pageSize: {shown} is not a number from 1 to {MAX_SIZE}.")
    return min(size, MAX_SIZE)


def page_of(
    rows: Sequence[Row], key: Callable[[Row], Key], *, size: Any, token: Any, query: Sequence[Any], store: str
) -> tuple[list[Row], str | None]:
    """The rows behind the token's, and the token for what comes after; `rows` are sorted by `key`."""
    wanted = require_size(size)
    start = 0
    if token is not None:
        after = _opened(token, query, store)
        start = next((i for i, row in enumerate(rows) if _is_behind(key(row), after)), len(rows))
    chosen = list(rows[start : start + wanted])
    more = start + wanted < len(rows)
    return chosen, _token(key(chosen[-1]), query, store) if more and chosen else None


def _is_behind(key: Key, after: Key) -> bool:
    try:
        return key > after
    except TypeError:
        raise InvalidRequest("pageToken: it is not of this list.", hint=_AGAIN) from None


def _token(key: Key, query: Sequence[Any], store: str) -> str:
    said = json.dumps(list(key), separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(_mac(said, query, store) + said).decode().rstrip("=")


def _opened(token: Any, query: Sequence[Any], store: str) -> Key:
    try:
        if not isinstance(token, str) or not 0 < len(token) <= _MAX_TOKEN:
            raise ValueError("no token")
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        mac, said = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        if mac != _mac(said, query, store) or _token(tuple(json.loads(said)), query, store) != token:
            raise ValueError("another list's")
        return tuple(json.loads(said))
    except (ValueError, TypeError):
        shown = values.safe_repr(token, 60)
        raise InvalidRequest(f"pageToken: {shown} is not one of this list.", hint=_AGAIN) from None


def _mac(said: bytes, query: Sequence[Any], store: str) -> bytes:
    about = json.dumps([store, list(query)], ensure_ascii=True, default=str).encode()
    return hashlib.blake2b(said, digest_size=_MAC_BYTES, key=hashlib.sha256(about).digest()).digest()


_TIERS = {"exact": 0, "prefix": 1, "word": 2, "fuzzy": 3}


class CatalogRow(NamedTuple):
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

    snapshot: BundleSnapshot
    off: frozenset[str]
    bundles: list[Bundle]
    rows: list[CatalogRow]
    by_place: dict[tuple[str, str, str], CatalogRow]


class BundleCatalog:
    """Every live bundle and tool. `find` gives the real tool behind a built-in."""

    def __init__(self, store: BundleStore, overlay: BuiltInSwitches, find: Callable[[str], ToolSpec | None]) -> None:
        self._store = store
        self._overlay = overlay
        self._find = find
        self._state: _State | None = None
        self._index: tuple[_State, Index] | None = None
        self._found: tuple[_State, str, list[tuple[Key, CatalogRow]]] | None = None

    def bundles(self) -> list[Bundle]:
        """The live bundles, built-in ones first, then the oldest first."""
        return self._now().bundles

    def rows(self) -> list[CatalogRow]:
        """The tools of all live bundles, the oldest first."""
        return self._now().rows

    def row(self, bundle_id: str, pair: tuple[str, str]) -> CatalogRow | None:
        """The tool of that bundle, slug and version."""
        return self._now().by_place.get((bundle_id, *pair))

    def search(self, text: str) -> list[tuple[Key, CatalogRow]]:
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

    def _made(self, snapshot: BundleSnapshot, off: frozenset[str]) -> _State:
        bundles: list[Bundle] = []
        rows: list[CatalogRow] = []
        for builtin in BUILTINS:
            bundles.append(bundle_record(builtin, off))
            for tool in builtin.tools:
                record = tool_record(builtin, tool, off, self._find)
                rows.append(CatalogRow(bundles[-1], record, tool.func, tool.func, is_chosen=True))
        for held in snapshot.live():
            bundles.append(held.bundle)
            rows += _rows(held)
        rows.sort(key=lambda row: by_age(row.tool.created_at.timestamp(), row.tool.tool_id))
        by_place = {(row.bundle.bundle_id, *row.tool.pair): row for row in rows}
        return _State(snapshot, off, bundles, rows, by_place)

    def _indexed(self, state: _State) -> Index:
        if self._index is None or self._index[0] is not state:
            by_name: dict[str, list[CatalogRow]] = {}
            for row in state.rows:
                by_name.setdefault(f"{row.bundle.slug}.{row.tool.slug}", []).append(row)
            self._index = (state, Index(_entry(name, rows) for name, rows in by_name.items()))
        return self._index[1]


def _rows(held: StoredBundle) -> list[CatalogRow]:
    bundle = held.bundle
    lead = bundle.bundle_id if held.twin else bundle.slug  # the slug's calls are those of the older twin
    return [
        CatalogRow(
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


def _newest(row: CatalogRow) -> Key:
    return (-row.tool.modified_at.timestamp(), row.tool.tool_id)


def _entry(name: str, rows: list[CatalogRow]) -> Entry:
    """One entry for all versions of a slug."""
    tools = [row.tool for row in rows]
    words = dict.fromkeys(text for tool in tools for text in (tool.display_name, tool.description) if text)
    arguments = dict.fromkeys(arg for tool in tools for arg in tool.arg_schema.get("properties") or {})
    tags = dict.fromkeys(tag for tool in tools for tag in tool.tags)
    return Entry(name, ". ".join(words), tuple(arguments), tuple(tags), rows)


_ANYWHERE = "http://localhost/"


def wrong_parts(http: HttpDefinition, arguments: Set[str]) -> Iterator[tuple[str, InvalidTool]]:
    """The JSON pointer of each part that cannot work, from the definition on, and why."""
    steps: set[str] = set()
    for number, (name, step) in enumerate(http.plan()):
        place = "/request" if http.request is not None else f"/steps/{number}/request"
        for part, make in _parts(step.request, arguments, frozenset(steps)).items():
            try:
                make()
            except InvalidTool as exc:
                yield f"{place}/{part}", exc
        steps.add(name)


def _parts(request: RequestTemplate, arguments: Set[str], steps: Set[str]) -> dict[str, Callable[[], object]]:
    bare = request.model_copy(update={"url_template": _ANYWHERE, "query": {}, "headers": {}, "body": None})
    kind = {name: value for name, value in request.headers.items() if name.lower() == "content-type"}
    alone: dict[str, dict[str, object]] = {
        "urlTemplate": {"url_template": request.url_template},
        "query": {"query": request.query},
        "headers": {"headers": request.headers},
        "body": {"body": request.body, "headers": kind},
    }

    def prepared(part: dict[str, object]) -> Callable[[], object]:
        return lambda: PreparedRequest(bare.model_copy(update=part), arguments, steps)

    def signed() -> object:
        auth = request.auth
        return TokenRequest(auth, arguments, steps) if isinstance(auth, OAuth2) else Credentials(auth, arguments, steps)

    return {**{name: prepared(part) for name, part in alone.items()}, "auth": signed}


MAX_BYTES = 1024 * 1024
"""The largest record, as JSON."""

_SHARED = "Arguments and secrets must not share a name; rename the argument."


def require_callable(body: ToolBody, name: str, *, runners: Runners, secrets: Collection[str]) -> None:
    """Make sure that a tool could be called as it is written."""
    size = _size(body.shared())
    if size > MAX_BYTES:
        said = f"The tool's record has {size:,} bytes; at most {MAX_BYTES:,} are kept."
        raise BodyTooLarge(said, details=[fault("", said)])
    both = sorted({param.name for param in params(body.arg_schema)} & set(secrets)) if secrets else []
    wrong = [_at("/argSchema", "argSchema", f"'{name}' is also the name of a secret.", _SHARED) for name in both]
    try:
        runners.draft(body, name)
        if body.http is None:
            compile_schema(body.arg_schema)
    except InvalidTool as exc:
        wrong += _reasons(body, exc)
    if wrong:
        raise together(wrong)


def _reasons(body: ToolBody, found: InvalidTool) -> list[InvalidRequest]:
    """Everything by which a tool cannot work: its schemas, else the parts of its request, else what was found."""
    schemas = {"argSchema": body.arg_schema, "outputSchema": body.output_schema}
    wrong = [_schema_fault(given, field) for field, given in schemas.items() if given is not None]
    if any(wrong):
        return [one for one in wrong if one is not None]
    parts = [("", found)]
    if body.http is not None:
        parts = list(wrong_parts(body.http, {param.name for param in params(body.arg_schema)})) or parts
    place = "/http" if body.http is not None else "/goTool"
    return [_at(place + part, body.type, exc.message, exc.hint) for part, exc in parts]


def _at(pointer: str, field: str, said: str, hint: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {said}", hint=hint, details=[fault(pointer, said, hint)])


def _size(record: dict[str, Any]) -> int:
    try:
        return len(orjson.dumps(record))
    except TypeError:  # a number of more than 64 bits
        return len(json.dumps(record, ensure_ascii=False).encode())


def _schema_fault(given: dict[str, Any] | bool, field: str) -> InvalidRequest | None:
    try:
        compile_schema(given if isinstance(given, dict) else {"not": {}} if given is False else {})
    except InvalidTool as exc:
        return _at(f"/{field}", field, exc.message, exc.hint)
    return None


REAP_AFTER = datetime.timedelta(days=2)
"""How long a deleted bundle stays before it is removed for good."""

BUILT_IN = frozenset(builtin.bundle_id for builtin in BUILTINS)


class CallTool(Protocol):
    """Run a call through the executor."""

    def __call__(self, tool: str, args: Any, *, source: CallSource, timeout: float | None) -> Any: ...


class ServiceDependencies(NamedTuple):
    """What the bundles need of their toolbox.

    `find` looks a tool up as it is known, `refresh` lets the registry look again. `taken` says what has a name already
    (`pack 'x'`), or nothing. `counts` is how often each tool was called, and when last.
    """

    find: Callable[[str], ToolSpec | None]
    refresh: Callable[[], object]
    taken: Callable[[str], str]
    secret_names: Callable[[], Collection[str]]
    counts: Callable[[], Mapping[str, tuple[int, datetime.datetime]]]
    call: CallTool
    acall: CallTool
    clock: Callable[[], datetime.datetime]


class RecordLookup:
    """The records of one store, with the built-in ones."""

    def __init__(self, store: BundleStore, overlay: BuiltInSwitches, around: ServiceDependencies) -> None:
        self.catalog = BundleCatalog(store, overlay, around.find)
        self._store = store
        self._around = around

    def held(self, snapshot: BundleSnapshot, bundle_id: str) -> StoredBundle:
        """The stored bundle of that id; NotFound where there is none, or where it was deleted."""
        found = snapshot.bundles.get(bundle_id)
        if found is None or found.bundle.soft_deleted_at is not None:
            raise self.no_bundle(bundle_id)
        return found

    def opened(self, snapshot: BundleSnapshot, bundle_id: str) -> StoredBundle:
        """`held`, for a change of what is in it; Forbidden while it is off."""
        found = self.held(snapshot, bundle_id)
        refuse_off(found.bundle)
        return found

    def bundle(self, bundle_id: str) -> Bundle:
        """The bundle of that id, built-in or stored."""
        found = next((bundle for bundle in self.catalog.bundles() if bundle.bundle_id == bundle_id), None)
        if found is None:
            raise self.no_bundle(bundle_id)
        return found

    def row(self, bundle_id: str, pair: tuple[str, str]) -> CatalogRow | None:
        """The tool of that slug and version, or None."""
        return self.catalog.row(bundle_id, pair)

    def rows_of(self, bundle_id: str) -> dict[tuple[str, str], CatalogRow]:
        """The tools of a bundle by slug and version."""
        return {row.tool.pair: row for row in self.catalog.rows() if row.bundle.bundle_id == bundle_id}

    def no_bundle(self, bundle_id: str) -> RequestRefused:
        """Why there is no bundle of that id."""
        try:
            self._store.require_sound(bundle_id)
        except Conflict as exc:
            return exc
        return NotFound(f"There is no bundle '{bundle_id}'.", hint="See all with box.bundles.list_bundles().")

    def fresh_bundle(self, bundle_id: str, body: BundleBody, before: Bundle | None) -> Bundle:
        """What a PUT makes of a bundle."""
        now = self._around.clock().astimezone(datetime.UTC)
        return Bundle(
            bundle_id=bundle_id,
            slug=body.slug,
            display_name=body.display_name,
            description=body.description,
            is_enabled=body.is_enabled,
            created_at=now if before is None else before.created_at,
            modified_at=now if before is None else max(now, before.created_at),
        )

    def fresh_tool(self, bundle_id: str, pair: tuple[str, str], body: ToolBody) -> Tool:
        """What a PUT makes of a tool."""
        from onetool_ipy.bundles.ids import new_id

        now = self._around.clock().astimezone(datetime.UTC)
        fields: dict[str, Any] = {name: getattr(body, name) for name in ToolBody.model_fields}
        fields |= {"display_name": body.display_name or pair[0], "tool_id": new_id(), "bundle_id": bundle_id}
        origin = body.output_schema_from or "author"
        fields["output_schema_from"] = None if body.output_schema is None else origin
        return Tool(**fields, slug=pair[0], version=pair[1], created_at=now, modified_at=now)

    def shown(self, rows: Iterable[CatalogRow]) -> list[Tool]:
        """The records as they are given out: with whether they can be called, and how often they were."""
        rows = list(rows)
        if any(row.tool.go_tool is not None and not row.tool.is_built_in for row in rows):
            self._around.refresh()
        counts = self._around.counts()
        return [row.tool.model_copy(update=self._computed(row, counts)) for row in rows]

    def reap(self, snapshot: BundleSnapshot) -> list[str]:
        """Remove what was deleted long enough ago and is still empty; only while the store is being written."""
        gone = []
        for bundle_id, held in snapshot.bundles.items():
            if self.is_due(held) and self._store.is_bare(bundle_id):
                self._store.remove_bundle(bundle_id)
                gone.append(bundle_id)
        return gone

    def is_due(self, held: StoredBundle) -> bool:
        """Whether a bundle was deleted long enough ago to be removed."""
        deleted = held.bundle.soft_deleted_at
        return deleted is not None and self._around.clock() - deleted >= REAP_AFTER

    def _computed(self, row: CatalogRow, counts: Mapping[str, tuple[int, datetime.datetime]]) -> dict[str, Any]:
        """A version counts its own calls, and while its slug stands for it those by the slug alone."""
        names = [row.name, *([row.plain_name] if row.is_chosen else [])]
        found = [counts[name] for name in dict.fromkeys(names) if name in counts]
        last = max((at for _, at in found), default=None)
        reason = self._reason(row)
        return {
            "call_count": sum(count for count, _ in found),
            "last_called_at": last,
            "available": reason is None,
            "reason": reason,
        }

    def _reason(self, row: CatalogRow) -> str | None:
        """Why a local function cannot be called now."""
        go = row.tool.go_tool
        if go is None or row.tool.is_built_in:
            return None
        spec = self._around.find(go.func)
        if spec is None:
            return f"There is no function '{go.func}' now. The tool comes back with it."
        return f"'{go.func}' is switched off: {spec.disabled}" if spec.disabled else None


def refuse_built_in(bundle_id: str) -> None:
    """Nothing of a built-in bundle can be changed but its switches."""
    if bundle_id in BUILT_IN:
        raise Forbidden("Built-in bundles are read-only; they can only be turned on and off.")


def refuse_off(bundle: Bundle) -> None:
    """Nothing in a bundle that is off can be changed."""
    if not bundle.is_enabled:
        raise Forbidden(f"The bundle '{bundle.slug}' is off.", hint=f"Turn it on with: %tool bundle on {bundle.slug}")


def no_tool(pair: tuple[str, str]) -> NotFound:
    """There is no such version of such a tool."""
    return NotFound(f"There is no version '{pair[1]}' of a tool '{pair[0]}' in this bundle.")


class Bundles:
    """The bundles of a project. Records go out as `Bundle` and `Tool`, lists as a `Page`."""

    def __init__(
        self, store: BundleStore, overlay: BuiltInSwitches, runners: Runners, around: ServiceDependencies
    ) -> None:
        self._store = store
        self._overlay = overlay
        self._runners = runners
        self._around = around
        self._records = RecordLookup(store, overlay, around)
        self._place = str(store.root)

    def new_id(self) -> str:
        """A new UUIDv7."""
        return ids_new_id()

    # Bundles

    def put_bundle(
        self,
        id: str,  # noqa: A002 - contract 15
        *,
        slug: str,
        display_name: str,
        description: str = "",
        enabled: bool = True,
    ) -> Bundle:
        """Create a bundle, or replace what it says; `was_created` of the answer tells which."""
        bundle_id = require_id(id)
        given = {"slug": slug, "displayName": display_name, "description": description, "isEnabled": enabled}
        body = read(BundleBody, given)
        refuse_built_in(bundle_id)
        taken = self._around.taken(body.slug)
        if taken:
            raise Conflict(f"The slug '{body.slug}' is the name of the {taken}.", hint="Choose another slug.")
        with self._store.writing() as snapshot:
            self._records.reap(snapshot)
            known = snapshot.bundles.get(bundle_id)
            if known is None:
                self._store.require_sound(bundle_id)
            elif known.bundle.soft_deleted_at is not None:
                raise Conflict(f"The bundle '{bundle_id}' was deleted.", hint="Make a new one under a new id.")
            other = snapshot.of_slug(body.slug)
            if other is not None and other.bundle.bundle_id != bundle_id:
                raise Conflict(f"The slug '{body.slug}' is that of the bundle '{other.bundle.bundle_id}'.")
            made = self._records.fresh_bundle(bundle_id, body, None if known is None else known.bundle)
            self._store.save_bundle(made)
        self._around.refresh()
        return made.created() if known is None else made

    def patch_bundle(self, id: str, *, enabled: bool) -> Bundle:  # noqa: A002 - contract 15
        """Turn a bundle on or off, with all tools in it."""
        bundle_id, switch = require_id(id), read(Switch, {"isEnabled": enabled})
        with self._store.writing() as snapshot:
            if bundle_id in BUILT_IN:
                self._overlay.switch(bundle_id, enabled=switch.is_enabled)
            else:
                bundle = self._records.held(snapshot, bundle_id).bundle
                if bundle.is_enabled is not switch.is_enabled:
                    self._store.save_bundle(bundle.model_copy(update={"is_enabled": switch.is_enabled}))
        self._around.refresh()
        return self.get_bundle(bundle_id)

    def delete_bundle(self, id: str) -> Bundle:  # noqa: A002 - contract 15
        """Mark an empty bundle as deleted; it is removed for good after two days."""
        bundle_id = require_id(id)
        refuse_built_in(bundle_id)
        with self._store.writing() as snapshot:
            self._records.reap(snapshot)
            held = self._records.held(snapshot, bundle_id)
            if not self._store.is_bare(bundle_id):
                count = len(held.tools)
                said = f"holds {count} tool{'' if count == 1 else 's'}" if count else "holds files that are no tools"
                raise Conflict(f"The bundle '{held.bundle.slug}' {said}.", hint="Delete them first.")
            gone = held.bundle.model_copy(update={"soft_deleted_at": self._around.clock().astimezone(datetime.UTC)})
            self._store.save_bundle(gone)
        self._around.refresh()
        return gone

    def get_bundle(self, id: str) -> Bundle:  # noqa: A002 - as the others
        """One bundle, also a disabled one."""
        return self._records.bundle(require_id(id))

    def named(self, slug: str) -> Bundle | None:
        """The bundle of that slug, or None."""
        return next((bundle for bundle in self._records.catalog.bundles() if bundle.slug == slug), None)

    def list_bundles(
        self,
        *,
        ids: Iterable[str] | None = None,
        include_disabled: bool = False,
        page_size: int = DEFAULT_SIZE,
        page_token: str | None = None,
    ) -> Page:
        """The bundles, built-in ones first, then the oldest first."""
        wanted = _ids(ids)
        rows = [
            bundle
            for bundle in self._records.catalog.bundles()
            if (wanted is None or bundle.bundle_id in wanted) and (bundle.is_enabled or include_disabled)
        ]
        rows.sort(key=_bundle_key)
        query = ["bundles", sorted(wanted) if wanted is not None else None, bool(include_disabled)]
        items, more = page_of(rows, _bundle_key, size=page_size, token=page_token, query=query, store=self._place)
        return Page(items=items, next_page_token=more)

    def reap(self) -> list[str]:
        """Remove for good what was deleted two days ago and is still empty; gives the ids. Other writes do it too."""
        if not any(self._records.is_due(held) for held in self._store.look().bundles.values()):
            return []
        with self._store.writing() as snapshot:
            return self._records.reap(snapshot)

    # Tools

    def put_tool(self, bundle_id: str, slug: str, version: str, record: Mapping[str, Any]) -> Tool:
        """Create a tool. Another one of the same slug and version is a conflict, and stays as it is."""
        return self.put_tools(bundle_id, [(slug, version, record)])[0]

    def put_tools(self, bundle_id: str, tools: Sequence[tuple[str, str, Mapping[str, Any]]]) -> list[Tool]:
        """Create several tools of a bundle at once: where one of them is refused, none is made."""
        own = require_id(bundle_id)
        refuse_built_in(own)
        with set_aside():
            bodies = [self._checked(*tool) for tool in tools]
        with self._store.writing() as snapshot:
            held = self._records.opened(snapshot, own)
            taken = {*held.tools, *held.claimed}
            for pair, _ in bodies:
                if pair in taken:
                    raise Conflict(
                        f"The bundle '{held.bundle.slug}' has version '{pair[1]}' of '{pair[0]}' already.",
                        hint="Give it another version, or delete that one first.",
                    )
                taken.add(pair)
            made = [self._records.fresh_tool(own, pair, body) for pair, body in bodies]
            self._store.save_tools(own, made)
        self._around.refresh()
        rows = self._records.rows_of(own)
        return self._records.shown(rows[tool.pair] for tool in made if tool.pair in rows)

    def get_tool(self, bundle_id: str, slug: str, version: str) -> Tool:
        """One tool, also of a disabled bundle."""
        own, pair = _place(bundle_id, slug, version)
        row = self._records.row(own, pair)
        if row is None:
            self._records.bundle(own)
            raise no_tool(pair)
        return self._records.shown([row])[0]

    def patch_tool(self, bundle_id: str, slug: str, version: str, *, enabled: bool) -> Tool:
        """Turn one version of a tool on or off."""
        switch = read(Switch, {"isEnabled": enabled})
        own, pair = _place(bundle_id, slug, version)
        with self._store.writing() as snapshot:
            if own in BUILT_IN:
                row = self._records.row(own, pair)
                if row is None:
                    raise no_tool(pair)
                refuse_off(row.bundle)
                self._overlay.switch(row.tool.tool_id, enabled=switch.is_enabled)
            else:
                held = self._records.opened(snapshot, own)
                tool = held.tools.get(pair)
                if tool is None:
                    raise no_tool(pair)
                if tool.is_enabled is not switch.is_enabled:
                    self._store.save_tools(own, [tool.model_copy(update={"is_enabled": switch.is_enabled})])
        self._around.refresh()
        return self.get_tool(own, *pair)

    def delete_tool(self, bundle_id: str, slug: str, version: str) -> None:
        """Delete a tool for good, also one of a disabled bundle."""
        own, pair = _place(bundle_id, slug, version)
        refuse_built_in(own)
        with self._store.writing() as snapshot:
            tool = self._records.held(snapshot, own).tools.get(pair)
            if tool is None:
                raise no_tool(pair)
            self._store.remove_tool(tool)
        self._around.refresh()

    def list_tools(
        self,
        *,
        tags: Iterable[str] | None = None,
        bundle_ids: Iterable[str] | None = None,
        include_disabled: bool = False,
        page_size: int = DEFAULT_SIZE,
        page_token: str | None = None,
    ) -> Page:
        """The tools of all bundles, the oldest first; with `tags` those that have one of them."""
        wanted, words = _ids(bundle_ids), _texts(tags, "tags")
        rows = [
            row
            for row in self._records.catalog.rows()
            if (row.is_on or include_disabled)
            and (wanted is None or row.bundle.bundle_id in wanted)
            and (words is None or not words.isdisjoint(row.tool.tags))
        ]
        query = [
            "tools",
            *(sorted(one) if one is not None else None for one in (words, wanted)),
            bool(include_disabled),
        ]
        items, more = page_of(rows, _tool_key, size=page_size, token=page_token, query=query, store=self._place)
        return Page(items=self._records.shown(items), next_page_token=more)

    def search(
        self,
        q: str,
        *,
        include_disabled: bool = False,
        page_size: int = DEFAULT_SIZE,
        page_token: str | None = None,
    ) -> Page:
        """The tools that fit what was typed, best first; equal ones by when they were changed last."""
        if not isinstance(q, str):
            raise InvalidRequest(f"q: {values.safe_repr(q, 80)} is not text.")
        found = [one for one in self._records.catalog.search(q) if one[1].is_on or include_disabled]
        query = ["search", q, bool(include_disabled)]
        items, more = page_of(
            found, lambda one: one[0], size=page_size, token=page_token, query=query, store=self._place
        )
        return Page(items=self._records.shown([row for _, row in items]), next_page_token=more)

    # Calls

    def invoke(
        self,
        bundle_id: str,
        slug: str,
        version: str,
        args: Mapping[str, Any] | None = None,
        *,
        source: CallSource = "python",
        timeout: float | None = None,
    ) -> ToolResult:
        """Call one version of a tool. Its failure is data in the result, also that there is no such tool."""
        name = self._call_name(bundle_id, slug, version)
        result: ToolResult = self._around.call(name, {} if args is None else args, source=source, timeout=timeout)
        return result

    async def ainvoke(
        self,
        bundle_id: str,
        slug: str,
        version: str,
        args: Mapping[str, Any] | None = None,
        *,
        source: CallSource = "python",
        timeout: float | None = None,
    ) -> ToolResult:
        """`invoke` without blocking the event loop."""
        name = self._call_name(bundle_id, slug, version)
        result: ToolResult = await self._around.acall(
            name, {} if args is None else args, source=source, timeout=timeout
        )
        return result

    def draft(self, record: Mapping[str, Any] | WireModel, *, name: str = "draft") -> HttpRunner:
        """An HTTP tool that is not stored, ready to be tried out; refused as `put_tool` would refuse it."""
        from onetool_ipy.bundles.http.runner import HttpRunner

        made = self._runners.draft(self._checked("draft", "1", _unlabelled(record))[1], name)
        if not isinstance(made, HttpRunner):
            raise InvalidRequest("type: only HTTP tools can be tried out without being stored.")
        return made

    def preview(self, bundle_id: str, slug: str, version: str, args: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What an HTTP tool would send, masked; nothing is sent."""
        from onetool_ipy.bundles.http.runner import HttpRunner

        own, pair = _place(bundle_id, slug, version)
        row = self._records.row(own, pair)
        if row is None:
            self._records.bundle(own)
            raise no_tool(pair)
        made = self._runners.of(row.tool, row.name)
        if not isinstance(made, HttpRunner):
            raise InvalidRequest(f"'{row.name}' is a local function; it sends nothing.")
        return made.preview(args)

    def _checked(self, slug: str, version: str, record: Any) -> tuple[tuple[str, str], ToolBody]:
        """The body of a PUT, if it could be called as it is written."""
        try:
            pair = (require_slug(slug), require_version(version))
            body = read(ToolBody, record, own=pair)
        except InvalidRequest as exc:
            checks = (
                lambda: require_slug(slug),
                lambda: require_version(version),
                lambda: read(ToolBody, _unlabelled(record), own=(slug, version)),
            )
            raise with_others(exc, checks) from None
        require_callable(body, f"{pair[0]}@{pair[1]}", runners=self._runners, secrets=self._around.secret_names())
        return pair, body

    def _call_name(self, bundle_id: str, slug: str, version: str) -> str:
        """What the executor calls this version; a name that nothing has where there is no such version."""
        own, pair = _place(bundle_id, slug, version)
        row = self._records.row(own, pair)
        return row.name if row is not None else f"{own}.{pair[0]}@{pair[1]}"


def _place(bundle_id: Any, slug: Any, version: Any) -> tuple[str, tuple[str, str]]:
    return require_id(bundle_id), (require_slug(slug), require_version(version))


def _unlabelled(record: Any) -> Any:
    """A tool's record without the slug and the version that may stand in it."""
    if not isinstance(record, Mapping | WireModel):
        return record
    return {key: record[key] for key in record.keys() if key not in ("slug", "version")}  # noqa: SIM118 - records too


def _bundle_key(bundle: Bundle) -> Key:
    return by_age(bundle.created_at.timestamp(), bundle.bundle_id)


def _tool_key(row: CatalogRow) -> Key:
    return by_age(row.tool.created_at.timestamp(), row.tool.tool_id)


def _ids(given: Iterable[str] | None) -> set[str] | None:
    found = _texts(given, "bundleIDs")
    return None if found is None else {require_id(one, "bundleIDs") for one in found}


def _texts(given: Iterable[str] | None, field: str) -> set[str] | None:
    if given is None:
        return None
    listed = [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    if not all(isinstance(one, str) for one in listed):
        raise InvalidRequest(f"{field}: {values.safe_repr(listed, 80)} is not a list of texts.")
    return set(listed)
